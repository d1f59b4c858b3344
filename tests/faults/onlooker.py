"""Checks the states of one thread after every node, with concurrent writers and broken records."""

from collections.abc import Callable, Collection
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint import (
    CompactionRecords,
)
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.checkpoint.messages.message_codec import (
    dumps,
)
from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.conversation.item_types import without_pin_mark
from langgraph_compaction.nodes.conversation.message_marks import is_pinned
from langgraph_compaction.nodes.conversation.tokens import total
from tests.faults.cases import EDITED
from tests.graph.harness import WORDS
from tests.invariants import check_transition
from tests.replay.watcher import COMMITTED, State, Watcher


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
        self._given_pins, self.overhead, self._stored = pins, overhead, stored
        self.committed = self.rolled_back = 0
        self._written = False
        """Whether another writer has written since the draft was opened."""
        self._draft_opened = ""
        """The id of the draft whose messages `_opened` holds."""

    @property
    def pins(self) -> Collection[str]:
        """Ids of the messages that are pinned without a mark: those of the case that had room."""
        pins: Collection[str] | None = (self.state.get("memory") or {}).get("pins")
        return self._given_pins if pins is None else pins

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
        if (left := _draft_of(state)) and left["snapshot_id"] != self._draft_opened:
            key = AttemptKey(self.thread, "", left["base_fingerprint"], left["level"], left["attempt"])
            self._opened, self._draft_opened = list(self.records.snapshot(key) or []), left["snapshot_id"]
        self.state, self._written = state, True
        self._always(state, state)

    def _always(self, before: State, state: State) -> None:
        if self._restores(before, state):
            self._known, self._order = {}, {}
        said = {**(state.get("memory") or {}), "goal": ""}  # three hundred characters of it, in any script
        super()._always(before, {**state, "memory": said})

    def _untouched(self, before: list[AnyMessage], now: list[AnyMessage]) -> None:
        """A message with marks of ours that another writer has rewritten loses them, as forged ones do.

        So does a pinned message for whose pin there is no room.
        """
        was = [_unpinned(old, new) for old, new in zip(before, now, strict=False)] + before[len(now) :]
        super()._untouched(list(map(_unmarked, was)), list(map(_unmarked, now)))

    def _restores(self, before: State, state: State) -> bool:
        """Whether a rollback in this step undoes a change of another writer."""
        return _closes(before, state) == "rolled back" and self._written and before["messages"] != state["messages"]

    def _transition(self, before: State, state: State) -> None:
        was, now = before["messages"], state["messages"]
        if self._restores(before, state):
            names = {message.id for message in self._opened}
            opened = list(map(self.stored, self._opened))
            assert now[: len(self._opened)] == opened, "the rollback has not restored the snapshot"
            assert [m for m in now if m.id not in names] == [m for m in was if m.id not in names], "arrivals are lost"
            return
        super()._transition(before, state)

    def _draft(self, before: State, state: State) -> None:
        was, now = _draft_of(before), _draft_of(state)
        if now and not was:
            self._opened, self._written = list(state["messages"]), False
            self._draft_opened = now["snapshot_id"]
            assert now["failure"] or self._snapshot(now) == self._dumps(self._opened), "another snapshot"
        closed = _closes(before, state)
        if closed == "rolled back":
            self.rolled_back += 1
            kept = self._snapshot(was or {}) or self._dumps(before["messages"])  # where it was never begun
            assert self._dumps(state["messages"][: len(kept)]) == kept, "the rollback is not the snapshot"

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


def _unmarked(message: AnyMessage) -> AnyMessage:
    return message.model_copy(update={"additional_kwargs": {}}) if message.content == EDITED else message


def _unpinned(old: AnyMessage, new: AnyMessage) -> AnyMessage:
    """Return the message as it stands now if it has only lost the mark of a pin, else as it was."""
    return new if is_pinned(old) and without_pin_mark(old) == new else old


def _draft_of(state: State) -> dict[str, Any] | None:
    return (state.get("compaction") or {}).get("draft")


def _closes(before: State, state: State) -> str | None:
    """How a draft ended in this step: "committed", "rolled back" or "stale"."""
    if not _draft_of(before) or _draft_of(state):
        return None
    verdict = state["compaction"]["last"]["verdict"]
    return "committed" if verdict in COMMITTED else "stale" if verdict == "stale" else "rolled back"


def messages_of(state: State) -> list[AnyMessage]:
    """Return the messages of a state."""
    found: list[AnyMessage] = state.get("messages") or []
    return found
