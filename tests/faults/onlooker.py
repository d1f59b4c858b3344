"""Checks the states of one thread after every node, with concurrent writers and broken records."""

from collections.abc import Callable, Collection
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint import (
    CompactionRecords,
)
from langgraph_compaction.checkpoint.messages.message_codec import (
    dumps,
)
from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.conversation.item_types import without_pin_mark
from langgraph_compaction.nodes.conversation.message_marks import is_pinned
from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.state import conversation, messages_in_view
from tests.graph.harness import WORDS
from tests.invariants import check_transition
from tests.replay.watcher import COMMITTED, State, Watcher, viewed


class Onlooker(Watcher):
    """A `Watcher` that knows pins, and the changes that another writer may make."""

    def __init__(
        self,
        records: CompactionRecords,
        thread: str,
        pins: Collection[str],
        overhead: int,
        stored: Callable[[AnyMessage], AnyMessage],
    ) -> None:
        super().__init__(records, thread, lambda messages: total(WORDS, render(messages)))
        self.given_pins, self.overhead, self._stored = pins, overhead, stored
        self.committed = self.rolled_back = 0

    @property
    def pins(self) -> Collection[str]:
        """Ids of the messages that are pinned without a mark: those of the case that had room."""
        pins: Collection[str] | None = (self.state.get("compaction") or {}).get("pins")
        return self.given_pins if pins is None else pins

    @property
    def seen(self) -> set[str]:
        """Ids of all messages since the last change of another writer."""
        return set(self._known)

    def stored(self, message: AnyMessage) -> AnyMessage:
        """Return a message in the form that the database must hold: redacted, if the case asks for it."""
        return self._stored(message)

    def accept(self, state: State) -> None:
        """Accept the state that another writer left, or that a run left whose checkpoints could not be saved."""
        self._known, self._order, self._committed = {}, {}, []
        self._said, self._moved = conversation(state), (state.get("compaction_view") or {}).get("moved", 0)
        self.state, self._view = {**state, "messages": messages_in_view(state)}, viewed(state)
        self._always(self.state, self.state)

    def _always(self, before: State, state: State) -> None:
        channel = {**(state.get("compaction") or {}), "goal": ""}  # three hundred characters of it, in any script
        super()._always(before, {**state, "compaction": channel})

    def _untouched(self, before: list[AnyMessage], now: list[AnyMessage]) -> None:
        """A pinned message for whose pin there is no room loses its mark."""
        was = [_unpinned(old, new) for old, new in zip(before, now, strict=False)] + before[len(now) :]
        super()._untouched(was, now)

    def _draft(self, before: State, state: State) -> None:
        was, now = _draft_of(before), _draft_of(state)
        if now and not was:
            self._view = viewed(state)
            assert now["failure"] or self._snapshot(now) == self._dumps(state["messages"]), "another snapshot"
        if _rolls_back(before, state):
            self.rolled_back += 1
            assert viewed(state) == self._view, "after the rollback stands another view"

    def _dumps(self, messages: list[AnyMessage]) -> list[bytes]:
        """Return the messages in the form that the database may hold."""
        return [dumps(self.stored(message)) for message in messages]

    def _check_archived(self, compaction: str, old: list[AnyMessage], new: list[AnyMessage]) -> None:
        super()._check_archived(compaction, list(map(self.stored, old)), list(map(self.stored, new)))

    def _check_commit(self, before: State, state: State) -> None:
        self.committed += 1
        if before["compaction"]["draft"]["trigger"] in ("manual", "overflow"):
            self._committed = []  # a wish, or the provider's refusal, asks for less than the size alone does
        known = {"recorded": 1.0, **(before["compaction"].get("calibration") or {})}
        known["recorded"] = known.get("scripted", 1.0)
        super()._check_commit({**before, "compaction": {**before["compaction"], "calibration": known}}, state)
        check_transition(before["messages"], state["messages"], pins=self.pins, input_may_leave=self.input_may_leave)


def _unpinned(old: AnyMessage, new: AnyMessage) -> AnyMessage:
    """Return the message as it stands now if it has only lost the mark of a pin, else as it was."""
    return new if is_pinned(old) and without_pin_mark(old) == new else old


def _draft_of(state: State) -> dict[str, Any] | None:
    return (state.get("compaction") or {}).get("draft")


def _rolls_back(before: State, state: State) -> bool:
    """Whether a draft that was open before this step has ended in it without a commit."""
    closed = _draft_of(before) and not _draft_of(state)
    return bool(closed) and state["compaction"]["last"]["verdict"] not in COMMITTED
