"""Checks the states of one conversation after every step against the invariants of `docs/architecture.md`."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction import archive
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, LedgerRow
from langgraph_compaction.checkpoint.messages.message_codec import (
    dumps,
)
from langgraph_compaction.nodes.conversation.message_marks import answers_for_model
from langgraph_compaction.nodes.state import conversation, messages_in_view
from tests.invariants import as_said, check_transition, is_summary

State = dict[str, Any]
COMMITTED = {"committed", "degraded_deterministic"}
NO_DRAFT = {"refused", "declined", "deferred_cooldown", "noop"}
"""Verdicts of attempts that were never opened."""
MOST_BYTES = 2_048
_SERDE = JsonPlusSerializer()


class Watcher:
    """Receives the state after every step of a `Player`; `defects` names the step and the broken invariant."""

    def __init__(self, records: CompactionRecords, thread: str, count: Callable[[Sequence[AnyMessage]], int]) -> None:
        self.records = records
        self.thread = thread
        self.count = count
        self.overhead = 0
        """Tokens of the tool schemas."""
        self.input_may_leave = False
        """Whether the setting `long_input` lets an unanswered input be shortened, or leave once the model read it."""
        self.state: State = {"messages": []}
        self.defects: list[str] = []
        self.steps = 0
        self.closed: list[dict[str, Any]] = []
        """The `last` entry of every closed attempt, in order."""
        self._said: list[AnyMessage] = []
        self._moved = 0
        self._cut = False
        self._known: dict[str, bytes] = {}
        """Every message in its first form, in the order in which they came."""
        self._order: dict[str, int] = {}
        self._opened: list[AnyMessage] = []
        self._view = b""
        """The view when the last draft was opened."""
        self._committed: list[str] = []

    def __call__(self, state: State) -> None:
        """Check the state after a step: that of the conversation, and that of its view."""
        self._check_whole(state)
        newest = (state.get("compaction_view") or {}).get("newest")
        self._cut = newest not in {None, *(message.id for message in self._said)}
        state = {**state, "messages": messages_in_view(state)}
        before, self.state = self.state, state
        self.steps += 1
        for check in (self._always, self._transition, self._draft):
            try:
                check(before, state)
            except AssertionError as error:
                step = _channel(before).get("step", "start")
                self.defects.append(f"step {self.steps}, {step}: {str(error).splitlines()[0]}")

    def _check_whole(self, state: State) -> None:
        """Check that the conversation only grows: what was said before this step stands unchanged before the rest.

        The replay itself takes the graph's answer to a refused message out again.
        """
        said, before = conversation(state), self._said
        if before and answers_for_model(before[-1]):
            before = before[:-1]
        moved = (state.get("compaction_view") or {}).get("moved", 0)
        if moved > self._moved:  # hidden messages have left the state, where the settings say so
            there = {message.id for message in said}
            kept = [message for message in before if message.id in there]
            if len(before) - len(kept) != moved - self._moved:
                self.defects.append(f"step {self.steps}: other messages have left the state than the view says")
            before, self._moved = kept, moved
        for old, new in zip_longest(before, said[: len(before)]):
            if new is not old and (new is None or dumps(new) != dumps(old)):
                self.defects.append(f"step {self.steps}: {old.id} is no longer what was said")
        self._said = said

    def _always(self, before: State, state: State) -> None:
        """Check order, system messages, the one summary, the unanswered message, and small channels."""
        messages = state["messages"]
        for message in messages:
            if message.id not in self._known:
                self._known[message.id] = dumps(message)
                self._order[message.id] = len(self._order)
        places = [self._order[message.id] for message in messages if not is_summary(message)]
        assert places == sorted(places), "the order has changed"
        assert sum(map(is_summary, messages)) <= 1, "there is more than one summary"
        system = [m for m in messages if isinstance(m, SystemMessage)]
        assert [dumps(m) for m in system] == [self._known[m.id or ""] for m in system], "a system message has changed"
        there = {message.id for message in messages}
        lost = [m for m in before["messages"] if isinstance(m, SystemMessage) and m.id not in there]
        assert not lost, "a system message is gone"
        small = {key: value for key, value in _channel(state).items() if key != "draft"}
        assert len(json.dumps(small)) < MOST_BYTES, "the channel has grown"

    def _transition(self, before: State, state: State) -> None:
        epochs = _channel(before).get("epoch", 0), _channel(state).get("epoch", 0)
        if epochs[0] == epochs[1]:
            self._untouched(before["messages"], state["messages"])
        else:
            assert epochs[1] == epochs[0] + 1, "an epoch was left out"
            self._check_commit(before, state)

    def _untouched(self, before: list[AnyMessage], now: list[AnyMessage]) -> None:
        """Without a commit the view only grows; a line stands in place of a refused message, which is archived."""
        if before and answers_for_model(before[-1]):
            before = before[:-1]
        names = [message.id for message in before]
        assert [message.id for message in now[: len(before)]] == names, "messages are gone without a commit"
        marks = [
            new.additional_kwargs.get("compaction", {}) for old, new in zip(before, now, strict=False) if new != old
        ]
        # the history before other answers may have changed, or the message by which it is told was deleted
        refused = self._cut or any(mark.get("refused") for mark in marks)
        for old, new in zip(before, now, strict=False):
            if new is not old and new != old and not (refused and as_said(new) == as_said(old)):
                mark = new.additional_kwargs.get("compaction", {})
                assert mark.get("refused"), f"{old.id} has changed without a commit"
                kept = self.records.recall(self.thread, mark["handle"])
                assert kept is not None, "the refused message is not in the archive"
                assert dumps(kept) == dumps(self.stored(old)), "the archive holds another message"

    def stored(self, message: AnyMessage) -> AnyMessage:
        """Return a message in the form that the database must hold."""
        return message

    def _draft(self, before: State, state: State) -> None:
        """Check that SQL has the snapshot while a draft is open, and that a rollback leaves the view before."""
        was, now = _channel(before).get("draft"), _channel(state).get("draft")
        if now and not was:
            self._opened, self._view = list(state["messages"]), viewed(state)
            assert self._snapshot(now) == list(map(dumps, self._opened)), "the snapshot is another conversation"
        if was and not now:
            last = _channel(state)["last"]
            self.closed.append(last)
            if last["verdict"] not in COMMITTED:
                assert viewed(state) == self._view, "after the rollback stands another view"
                left = state["messages"][: len(self._opened)]
                assert list(map(dumps, left)) == self._snapshot(was), "the rollback is not the snapshot"

    def _snapshot(self, draft: dict[str, Any]) -> list[bytes]:
        key = AttemptKey(self.thread, "", draft["base_fingerprint"], draft["level"], draft["attempt"])
        return list(map(dumps, self.records.snapshot(key) or []))

    def _check_commit(self, before: State, state: State) -> None:
        draft, last, channel = _channel(before)["draft"], _channel(state)["last"], _channel(before)
        old, new = before["messages"], state["messages"]
        assert last["verdict"] in COMMITTED, f"committed as {last['verdict']}"
        check_transition(old, new, count=self.count, input_may_leave=self.input_may_leave)
        scale = channel["calibration"]["recorded"]
        assert math.ceil(scale * (self.overhead + self.count(new))) <= draft["ceiling"], "over the ceiling"
        assert [m.id for m in old] != self._committed, "compacted again with nothing new"
        self._committed = [message.id for message in new]
        _check_floor(old, new, last["floor"])
        check_place(old, new)
        self._check_archived(last["id"], old, new)

    def _check_archived(self, compaction: str, old: list[AnyMessage], new: list[AnyMessage]) -> None:
        there = {message.id: message for message in new}
        left = {dumps(m) for m in old if m.id not in there or as_said(there[m.id]) != as_said(m)}
        with self.records.database.read() as conn:
            thread = self.records.store.threads.find(conn, self.thread, lock=False)
            assert thread is not None, "the thread is not known"
            runs = archive.of_thread(conn, thread).get(compaction, ())
            kept = set(map(dumps, self.records.store.get(conn, thread, runs)))
        assert left <= kept, f"{len(left - kept)} messages left without being archived"

    def check_ledger(self, rows: Sequence[LedgerRow]) -> list[str]:
        """Return the differences of the ledger from the states."""
        attempts = [row for row in rows if row.verdict not in NO_DRAFT]
        told = [(row.verdict, row.strategy, row.tokens_before) for row in attempts]
        seen = [(last["verdict"], last["strategy"], last["tokens_before"]) for last in self.closed]
        found = [] if told == seen else [f"the ledger tells {told}, the states {seen}"]
        for row, last in zip(attempts, self.closed, strict=False):
            if row.verdict in COMMITTED and (row.floor, row.tokens_after) != (last["floor"], last["tokens_after"]):
                found.append(f"attempt {row.id}: floor {row.floor}, {row.tokens_after} tokens, the state {last}")
        return found + [f"attempt {row.id} is still open" for row in rows if row.verdict is None]


def viewed(state: State) -> bytes:
    """Return the channel `compaction_view` as a checkpoint stores it."""
    return _SERDE.dumps_typed(state.get("compaction_view"))[1]


def _check_floor(old: list[AnyMessage], new: list[AnyMessage], floor: int) -> None:
    """Check that messages without calls in the last `floor` rounds are verbatim."""
    starts = [i for i, m in enumerate(old) if isinstance(m, HumanMessage) and not _is_meta(m)]
    if not floor or not starts:
        return
    left = {message.id: message for message in new}
    for message in old[starts[-floor:][0] :]:
        calls = isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls)
        dialogue = message.type in ("human", "ai") and not calls
        if dialogue and not is_summary(message):
            stays = message.id in left and as_said(left[message.id]) == as_said(message)
            assert stays, f"{message.id} stood in the last {floor} rounds"


def check_place(old: list[AnyMessage], new: list[AnyMessage]) -> None:
    """Check that a summary is at the place of the first message that it replaces, or of the first shortened block."""
    before, after = {message.id for message in old}, {message.id: message for message in new}
    summary = next((place for place, message in enumerate(new) if message.id not in before), None)
    first = next((place for place, message in enumerate(old) if message.id not in after), None)
    if first is None:
        first = next((n for n, m in enumerate(old) if m.id not in after or as_said(after[m.id]) != as_said(m)), None)
        first = _called_at(old, first)
    assert summary is None or summary == first, f"the summary stands at {summary}, not at {first}"


def _called_at(old: list[AnyMessage], place: int | None) -> int | None:
    """Return the place of the call that a result answers: the newest unanswered one with its id; else the place."""
    waiting: defaultdict[str | None, list[int]] = defaultdict(list)
    for at, message in enumerate(old[: (place or 0) + 1]):
        if isinstance(message, AIMessage):
            for call in (*message.tool_calls, *message.invalid_tool_calls):
                waiting[call["id"]].append(at)
        elif isinstance(message, ToolMessage):
            calls = waiting[message.tool_call_id]
            called = calls.pop() if calls else at
            if at == place:
                return called
    return place


def _is_meta(message: AnyMessage) -> bool:
    return is_summary(message) or bool(message.additional_kwargs.get("compaction", {}).get("is_meta"))


def _channel(state: State) -> dict[str, Any]:
    channel: dict[str, Any] = state.get("compaction") or {}
    return channel
