"""Scenarios of users and observers: questions, streaming, interrupts, pins, broken log handlers and streams."""

import logging
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.types import Command, interrupt

from langgraph_compaction.nodes.runtime.node_context import NodeContext
from langgraph_compaction.nodes.testing import StreamingModel, calls, failing_records, usage
from tests.faults.stage import Stage, scenario
from tests.graph.harness import CONFIG, SUMMARY, Drive, filler, full, rounds, steps
from tests.invariants import is_summary

SHORT = usage(AIMessage("done", id="the-answer"), 100)


@tool
def ask() -> str:
    """Ask the user."""
    return f"they said {interrupt('which one?')}"


@scenario("F12", "a compaction at nearly every turn")
async def too_often(go: Drive) -> None:
    """After three compactions within six calls the next one waits, unless the request is over the limit."""
    stage = Stage(go, options={"facts_beside_summary": False})
    spoken = [HumanMessage(filler(300, f"t{n}-"), id=f"u{n}") for n in range(7)]
    for message in spoken:
        await stage.turn({"messages": [message]})
    stage.check(["committed"] * 3 + ["deferred_cooldown", "committed"], said=spoken, holds=[spoken[-1].text])
    assert stage.ledger[3].reason == "frequency"
    assert stage.ledger[3].tokens_before <= 1_000 < stage.ledger[4].tokens_before
    assert len(stage.summarizer.received) == 4
    assert len(stage.told("PreCompactEvent")) == 6, "what is put off is told before and after the answer"
    assert len(stage.model.received) == 7


@scenario("F18", "the summarizer's tokens stream to the user")
async def ghost(go: Drive) -> None:
    """Only the answer is streamed, and the summary in the view is marked as a summary."""
    stage = Stage(go, [SHORT], options={"summarizer": StreamingModel(replies=["<summary>a ghost walks</summary>"])})
    stage.model = StreamingModel(replies=["here you are"])
    stage.open()
    chunks = await go.stream(stage.graph, full(), stream_mode=["messages", *("updates", "custom")])
    stage.chunks = [chunk for chunk in chunks if chunk[0] != "messages"]
    shown = [chunk[1][0].text for chunk in chunks if chunk[0] == "messages"]
    assert "".join(shown) == "here you are"
    stage.check(["committed"], said=full()["messages"], holds=["a ghost walks"])
    (update,) = [chunk[1]["commit"] for chunk in chunks if chunk[0] == "updates" and "commit" in chunk[1]]
    assert "messages" not in update
    assert is_summary(update["compaction_view"]["summary"])


@scenario("F23", "an interrupt waits at the cut")
async def waiting(go: Drive) -> None:
    """Nothing is compacted while a tool waits for a person; its result is in the request after the resume."""
    stage = Stage(go, [usage(calls(("ask", {})), 900), SHORT], options={"tools": [ask]})
    given = [*rounds(4), HumanMessage("go", id="q")]
    await stage.turn({"messages": given})
    assert stage.graph.get_state(CONFIG).next == ("tools",)
    stage.check([], said=given)
    assert "commit" in steps(await stage.turn(Command(resume="the left one")))
    stage.check(["committed"], said=given, holds=["go", "they said the left one"])


@scenario("F24", "a rule or a system message is summarized away")
async def rules(go: Drive) -> None:
    """Through three compactions a system message, a pinned message and a `<Pin>` are sent word for word."""
    rule = SystemMessage("Never   delete\nwithout asking.", id="rule")
    pin = HumanMessage(f"<Pin>Seat 14C and no other</Pin> {filler(40)}", id="pin")
    mark = {"compaction": {"pinned": True}}
    marked = HumanMessage("My account is  DE-4711.", id="marked", additional_kwargs=mark)
    stage = Stage(go, [SHORT])
    for turn in range(3):
        begin = [] if turn else [rule, pin, marked]
        await stage.turn({"messages": [*begin, *rounds(8, tag=f"t{turn}"), HumanMessage("now?", id=f"q{turn}")]})
        assert rule in stage.sent
        assert marked in stage.sent
    stage.check(["committed"] * 3, said=[rule, pin, marked], holds=["Seat 14C and no other"])
    assert "pin" not in {message.id for message in stage.messages}


class Failing(logging.Handler):
    """A log handler that raises instead of writing."""

    def emit(self, record: logging.LogRecord) -> None:
        """Fail."""
        raise OSError(record.levelname)


def raising(*_: Any) -> None:
    """Raise, as a stream does whose reader is gone."""
    raise OSError("the sink is gone")


@scenario("F26", "the ledger, the event sink or a log handler raises")
async def onlookers(go: Drive) -> None:
    """Broken observers change nothing: commits are kept, failures are rolled back, turns are answered."""
    for reply, verdict in ((SUMMARY, "committed"), ("", "rejected_empty")):
        stage = Stage(go, [SHORT], [reply])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NodeContext, "writer", property(lambda _: raising))
            await stage.turn(full())
        stage.check([verdict], said=full()["messages"], holds=["and now?"], told=[])
        stage = Stage(go, [SHORT], [reply])
        log, handler = logging.getLogger("langgraph_compaction"), Failing()
        log.addHandler(handler)
        await stage.turn(full())
        log.removeHandler(handler)
        stage.check([verdict], said=full()["messages"], holds=["and now?"])
        stage = Stage(go, [SHORT], [reply])
        faults = [failing_records(stage.graph, name, times=None) for name in ("close", "note", "abandon_open")]
        await stage.turn(full())
        assert any(fault.calls for fault in faults)
        stage.check([verdict if reply else None], said=full()["messages"], holds=["and now?"], told=[verdict])
