"""What watches the replays sees what it is there to see."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.graph.lab.replay.recorded_model import Playback
from tests.invariants import is_summary
from tests.replay.plays import TAU_BENCH, Case, limit, play, recordings
from tests.replay.watcher import COMMITTED, State, check_place
from tests.replay.wire import Wire

CASE = Case(TAU_BENCH, 2, 25, "-failing")
"""A conversation with commits, rollbacks and a system message."""

SUMMARY = {"compaction": {"kind": "compaction_summary", "is_meta": True}}


def _without(state: State, place: int) -> State:
    return {**state, "messages": state["messages"][:place] + state["messages"][place + 1 :]}


def _instead(state: State, place: int, message: Any) -> State:
    return {**state, "messages": [*state["messages"][:place], message, *state["messages"][place:][1:]]}


def _told(state: State, **last: Any) -> State:
    return {**state, "compaction": {**state["compaction"], "last": {**state["compaction"]["last"], **last}}}


def _drafted(state: State, **draft: Any) -> State:
    return {**state, "compaction": {**state["compaction"], "draft": {**state["compaction"]["draft"], **draft}}}


def _newest_user(state: State) -> int:
    return max(i for i, m in enumerate(state["messages"]) if isinstance(m, HumanMessage) and not m.additional_kwargs)


def _longer(state: State) -> State:
    """The state with a result that grew."""
    place = next(i for i, message in enumerate(state["messages"]) if message.type == "tool")
    return _instead(state, place, state["messages"][place].model_copy(update={"content": "x " * 9_999}))


def _at(step: str, then: Callable[[State], State], *, once: bool = True) -> Callable[[State], State]:
    """Tamper with what the watcher is shown: where a draft opens, an attempt is closed, or the model has answered."""
    done: list[State] = []
    open_draft: list[bool] = [False]

    def tamper(state: State) -> State:
        channel = state.get("compaction") or {}
        was, open_draft[0] = open_draft[0], bool(channel.get("draft"))
        closed = was and not open_draft[0]
        committed = closed and channel["last"]["verdict"] in COMMITTED
        now = {
            "draft": open_draft[0] and not was,
            "open draft": open_draft[0],
            "commit": committed,
            "rollback": closed and not committed,
            "answer": isinstance(state["messages"][-1], AIMessage) and len(state["messages"]) > 4,
        }
        if (done and once) or not now[step]:
            return state
        done.append(state)
        return then(deepcopy(state))

    return tamper


TAMPERINGS: dict[str, tuple[Callable[[State], State], str]] = {
    "a lost message": (_at("answer", lambda s: _without(s, 2)), "gone without a commit"),
    "a changed message": (
        _at("answer", lambda s: _instead(s, 1, HumanMessage("x", id=s["messages"][1].id))),
        "has changed",
    ),
    "another order": (
        _at("commit", lambda s: {**s, "messages": [*s["messages"][:-2], *s["messages"][:-3:-1]]}),
        "order has changed",
    ),
    "a lost system message": (_at("commit", lambda s: _without(s, 0)), "system message is gone"),
    "a changed system message": (
        _at("commit", lambda s: _instead(s, 0, s["messages"][0].model_copy(update={"content": "x"}))),
        "system message has changed",
    ),
    "a second summary": (
        _at(
            "commit",
            lambda s: {
                **s,
                "messages": [*s["messages"], *(HumanMessage("x", id=i, additional_kwargs=SUMMARY) for i in "ab")],
            },
        ),
        "more than one summary",
    ),
    "a summary at the end": (
        _at("commit", lambda s: {**s, "messages": sorted(s["messages"], key=is_summary)}, once=False),
        "the summary stands at",
    ),
    "a lost question": (_at("commit", lambda s: _without(s, _newest_user(s))), "was protected"),
    "no fewer tokens": (_at("commit", _longer), "not fewer tokens"),
    "a floor that was not held": (
        _at("commit", lambda s: _told(s, floor=12), once=False),
        "stood in the last 12 rounds",
    ),
    "an empty archive": (_at("commit", lambda s: _told(s, id="nowhere")), "without being archived"),
    "a ceiling not held": (
        _at("open draft", lambda s: _drafted(s, ceiling=1), once=False),
        "over the ceiling",
    ),
    "no snapshot": (_at("draft", lambda s: _without(s, 1)), "snapshot is another conversation"),
    "a rollback to something else": (_at("rollback", lambda s: _without(s, 1)), "rollback is not the snapshot"),
    "an epoch too many": (
        _at("answer", lambda s: {**s, "compaction": {**s["compaction"], "epoch": 7}}),
        "epoch was left out",
    ),
    "large channels": (_at("answer", lambda s: {**s, "memory": {"goal": "x" * 9_999}}), "channels have grown"),
    "a ledger of its own": (_at("rollback", lambda s: _told(s, strategy="another")), "the ledger tells"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_the_watcher_sees(name: str) -> None:
    """A state that breaks one promise, shown to the watcher in place of the real one, is found out."""
    tamper, expected = TAMPERINGS[name]
    with Database.open() as database:
        database.setup()
        found = play(CASE, database, tamper).defects()
    assert any(expected in defect for defect in found), found


def test_the_watcher_is_content_with_what_is_real() -> None:
    """The same conversation as it is has no defects."""
    with Database.open() as database:
        database.setup()
        assert play(CASE, database).defects() == []


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REQUESTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "too large": (lambda sent: sent["messages"][-1].update(content="x " * 9_999), "limit"),
    "another limit": (lambda sent: sent.update(limit=1), "said to be 1"),
    "a call without a result": (
        lambda sent: sent["messages"].append({"role": "assistant", "content": None, "tool_calls": [CALL]}),
        "has no result",
    ),
    "an empty answer": (
        lambda sent: sent["messages"].append({"role": "assistant", "content": ""}),
        "empty_assistant",
    ),
    "no question": (lambda sent: sent["messages"].pop(), "newest user message"),
    "no user at all": (lambda sent: sent["messages"].pop(), "no user message"),
    "another question": (lambda sent: sent["messages"][-1].update(content="x"), "newest user message"),
    "no system message": (lambda sent: sent["messages"].pop(0), "system messages"),
    "tools of its own": (lambda sent: sent.update(tools=[{"type": "function"}]), "the tools"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_wire_sees(name: str) -> None:
    """A request with one defect is found out, and without it is not."""
    spoil, expected = REQUESTS[name]
    recording = recordings(TAU_BENCH)[0]
    wire = Wire(recording, limit(recording, 25))
    wire.playback = Playback(recording)
    wire.playback.inputs()
    sent = {"limit": wire.limit, "tools": [], "messages": _as_sent(wire)}
    wire(sent)
    assert wire.defects == []
    spoil(sent)
    wire(sent)
    assert any(expected in defect for defect in wire.defects), wire.defects


def _as_sent(wire: Wire) -> list[dict[str, Any]]:
    """The first request of the recording."""
    roles = {"system": "system", "human": "user"}
    return [{"role": roles[m.type], "content": m.content} for m in wire.recording.messages[:2]]


def test_what_cannot_be_sent_is_counted_once_an_input() -> None:
    """Of this recording every input fits under a quarter, and none under the system prompt alone."""
    recording = recordings(TAU_BENCH)[0]
    turns = sum(message.type == "human" for message in recording.messages)
    assert Wire(recording, limit(recording, 25)).unavoidable() == 0
    assert Wire(recording, limit(recording, 0)).unavoidable() == turns


@pytest.mark.parametrize("call", [True, False], ids=["call first", "call elsewhere"])
def test_a_summary_stands_before_the_call_of_the_shortened_result(call: bool) -> None:
    """A result that answers the first message of two with a call of the same id belongs to that message."""
    calls = [{"name": "read", "args": {}, "id": "a"}]
    old: list[AnyMessage] = [
        AIMessage("", id="0", tool_calls=calls),
        AIMessage("", id="1", tool_calls=calls),
        ToolMessage("short", tool_call_id="a", id="2"),
        HumanMessage("Go on.", id="3"),
        ToolMessage("long", tool_call_id="a", id="4"),
    ]
    new: list[AnyMessage] = [*old[:-1], ToolMessage("clipped", tool_call_id="a", id="4")]
    new.insert(0 if call else 3, HumanMessage("summary", id="s", additional_kwargs=SUMMARY))
    with nullcontext() if call else pytest.raises(AssertionError, match="stands at 3, not at 0"):
        check_place(old, new)
