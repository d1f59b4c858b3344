"""Scenarios of threads, processes and checkpoints: failing writes, crashes, forks."""

from itertools import product
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import Fault, texts, usage
from tests.fakes import copying
from tests.faults.stage import NEEDLE, Stage, scenario
from tests.graph.harness import CONFIG, THREAD, Drive, frozen, full, rounds, said
from tests.invariants import is_summary

SHORT = usage(AIMessage("done"), 100)
PUTS = 9
"""Upper bound of the writes of either kind in a turn with a compaction."""


@scenario("F13", "durability is exit, and what was evicted is in no checkpoint")
async def at_exit(go: Drive) -> None:
    """One checkpoint is written, and removed messages are in snapshot and archive byte for byte."""
    stage, given = Stage(go, [SHORT]), full()
    await stage.turn(given, durability="exit")
    assert len(list(stage.saver.list(CONFIG))) == 1
    stage.check(["committed"], said=given["messages"], holds=["and now?"])
    key = AttemptKey(THREAD, "", stage.ledger[0].base_fingerprint, 0, 0)
    assert frozen(records_of(stage.graph).snapshot(key) or []) == frozen(given["messages"])


@scenario("F14", "the process dies between two steps")
async def killed(go: Drive) -> None:
    """Whichever write of the saver fails, the run goes on: an answer, one commit, one bill, nothing lost.

    The kills of whole processes are in `tests/kill`.
    """
    died = 0
    for method, nth in product(("put", "put_writes"), range(2, PUTS, 2)):
        stage, given = Stage(go, [SHORT]), full()
        with Fault(stage.saver, method, nth=nth) as fault:
            try:
                await stage.turn(given, durability="sync")
            except OSError:
                died += 1
        stage.open()
        if fault.calls >= nth:
            await stage.turn(None)
        await stage.turn(said("and then?", "then"))
        assert len(stage.summarizer.received) == 1, (method, nth)
        assert [row.verdict for row in stage.ledger].count("committed") == 1, (method, nth)
        told = [event["verdict"] for event in stage.told("CompactionEvent")]
        assert told in ([], ["committed"]), "the stream of the run that died is lost; nothing is told twice"
        stage.check(["committed"], said=given["messages"], holds=["and now?", "and then?"], told=told)
    assert died >= 5
    await killed_when_paid(go)


class KilledError(BaseException):
    """Simulates the end of the process."""


async def killed_when_paid(go: Drive) -> None:
    """If the process dies after the summary was recorded and before the state, the model is not called again."""
    stage, given = Stage(go, [SHORT]), full()
    records = records_of(stage.graph)
    write = records.record_summary

    def write_and_die(*args: Any) -> None:
        write(*args)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "record_summary", write_and_die)
        with pytest.raises(KilledError):
            await stage.turn(given, durability="sync")
    stage.open()
    await stage.turn(None)
    assert len(stage.summarizer.received) == 1
    stage.check(["committed"], said=given["messages"], holds=["and now?", "what was said before"])


@scenario("F15", "two users, a fork, a deleted message, a restart")
async def apart(go: Drive) -> None:
    """No run reads the summary of another, no question is lost, and summarized messages are found by id."""
    stage = Stage(go, [SHORT], [copying(NEEDLE)])
    for number in (1, 2):
        given = [HumanMessage(f"NEEDLE-{number}", id=f"n{number}"), *rounds(8), HumanMessage("now?", id="q")]
        await go.invoke(stage.graph, {"messages": given}, {"configurable": {"thread_id": f"user-{number}"}})
        assert f"NEEDLE-{number}" in texts(stage.sent)
        assert f"NEEDLE-{3 - number}" not in texts(stage.sent)
    stage = Stage(go, [SHORT], [copying(NEEDLE)], {"checkpointer": None})
    for number in (1, 2):
        given = [HumanMessage(f"NEEDLE-{number}", id=f"n{number}"), *rounds(8), HumanMessage("now?", id="q")]
        await go.invoke(stage.graph, {"messages": given}, {})
        assert f"NEEDLE-{3 - number}" not in texts(stage.sent)
    await forked(go)


async def forked(go: Drive) -> None:
    """A fork from before the compaction, a deletion and a restart, on one thread."""
    stage, given = Stage(go, [SHORT], [copying(NEEDLE)]), full()
    await stage.turn(said("NEEDLE-7", "first"))
    early: Any = stage.graph.get_state(CONFIG).config
    await stage.turn(given)
    assert any(map(is_summary, stage.sent))
    await go.invoke(stage.graph, said("another way", "other"), early)
    assert [message.text for message in stage.sent] == ["NEEDLE-7", "done", "another way"]
    stage.graph.update_state(CONFIG, {"messages": [RemoveMessage(id="other")]})
    stage.open()
    later = [*rounds(8, tag="later"), HumanMessage("the next question", id="next")]
    await stage.turn({"messages": later})
    stage.check(["committed", "committed"], said=later, holds=["NEEDLE-7", "the next question"])
    assert "another way" not in texts(stage.sent)
