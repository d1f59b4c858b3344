"""The scenarios of PEERS §1 put to LangChain's agent with the middleware, by their own plays."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_compaction.graph import ContextExhaustedError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import Fault, StreamingModel
from tests.faults import conversations, models, requests, stage, threads
from tests.faults.models import CALM
from tests.faults.stage import SCENARIOS, Stage
from tests.graph.harness import Drive, events, frozen, full, rounds, said, values
from tests.graph.middleware.agents import agent
from tests.invariants import is_summary
from tests.replay.watcher import COMMITTED

MODULES = (conversations, models, requests, stage, threads)


def steps(chunks: Sequence[Any]) -> list[str]:
    """Names of the nodes that ran: the compaction's own, which run inside the agent's, by what they told."""
    return list(_steps(chunks))


def _steps(chunks: Sequence[Any]) -> Iterator[str]:
    for chunk in chunks:
        for event in events([chunk], "CompactionEvent"):
            yield "commit" if event["verdict"] in COMMITTED else "rollback"
        if chunk[0] == "updates":
            yield from (name for name in chunk[1] if "." not in name)


def failing_records(graph: Any, method: str, **how: Any) -> Fault:
    """A fault in the middleware's records."""
    return Fault(records_of(graph), method, **how)


@pytest.fixture(autouse=True)
def with_the_middleware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the plays build, read and break LangChain's agent."""
    for module in MODULES:
        for replacement in (agent, steps, failing_records):
            if hasattr(module, replacement.__name__):
                monkeypatch.setattr(module, replacement.__name__, replacement)


OTHERWISE = {
    "F9": "a model's node that raises leaves no update: the compaction is done again on resume, and told again",
    "F10": "the same: what a turn that ended in an error had tried is not known to the next one",
    "F14": "fewer steps, and so fewer writes of the saver that can fail",
    "F18": "the summary is written to the state by the agent's model node, not by `commit`",
}
"""What plays of our graph expect that LangChain's agent does otherwise: each has its own test below."""


@pytest.mark.parametrize("number", [number for number in SCENARIOS if number not in OTHERWISE])
async def test_a_known_failure(go: Drive, number: str) -> None:
    """As with our own graph."""
    await SCENARIOS[number].play(go)


async def test_f9_the_model_fails_after_a_compaction_and_the_host_resumes(go: Drive) -> None:
    """The resumed run sends the same compacted request, and the summary that was paid for is found again."""
    played, given = Stage(go, [RuntimeError("down"), CALM]), full()
    with pytest.raises(RuntimeError, match="down"):
        await played.turn(given)
    await played.turn(None)
    first, second = played.model.received
    assert frozen(first) == frozen(second)
    assert played.messages[-1].text == "answered"
    assert len(played.summarizer.received) == 1
    played.check(["committed"], said=given["messages"], holds=["and now?"], told=["committed"])


async def test_f10_no_rung_is_tried_twice_in_a_turn(go: Drive) -> None:
    """Where every archive write fails it is an error and nothing is sent; once they work, the thread goes on."""
    played = Stage(go)
    given = [*rounds(12), HumanMessage("and now?", id="q")]
    with failing_records(played.graph, "commit", times=None), pytest.raises(ContextExhaustedError):
        await played.turn({"messages": given})
    tried = [row.strategy for row in played.ledger]
    assert len(tried) == len(set(tried)) > 2
    assert played.model.received == []
    assert played.messages == given
    await played.turn(None)
    assert len(played.summarizer.received) == 1
    told = [row.verdict for row in played.ledger]
    assert sorted(map(str, told)) == ["committed", *["failed_permanent"] * (len(tried) - 1)]
    played.check([str(verdict) for verdict in told], said=given, holds=["and now?"], told=["committed"])


async def test_f14_a_write_of_the_saver_fails(go: Drive) -> None:
    """Whichever it is the run goes on: an answer, one commit, one bill, nothing lost."""
    died = 0
    for method, nth in product(("put", "put_writes"), range(1, 6)):
        played, given = Stage(go, [CALM]), full()
        with Fault(played.saver, method, nth=nth) as fault:
            try:
                await played.turn(given, durability="sync")
            except OSError:
                died += 1
        played.open()
        if fault.calls >= nth:
            await played.turn(None if values(played.graph) else given)
        await played.turn(said("and then?", "then"))
        assert len(played.summarizer.received) == 1, (method, nth)
        assert [row.verdict for row in played.ledger] == ["committed"], (method, nth)
        told = [event["verdict"] for event in played.told("CompactionEvent")]
        played.check(["committed"], said=given["messages"], holds=["and now?", "and then?"], told=told)
    assert died >= 4


async def test_f18_no_ghosts_in_the_stream(go: Drive) -> None:
    """Only the answer streams, and what the state is given as a summary says that it is one."""
    played = Stage(go, options={"summarizer": StreamingModel(replies=["<summary>a ghost walks</summary>"])})
    played.model = StreamingModel(replies=["here you are"])
    played.open()
    chunks = await go.stream(played.graph, full(), stream_mode=["messages", "updates", "custom"])
    played.chunks = [chunk for chunk in chunks if chunk[0] != "messages"]
    assert "".join(chunk[1][0].text for chunk in chunks if chunk[0] == "messages") == "here you are"
    played.check(["committed"], said=full()["messages"], holds=["a ghost walks"])
    assert len([message for message in played.messages if is_summary(message)]) == 1


def test_what_is_otherwise_has_a_test_of_its_own() -> None:
    """Nothing is left out."""
    own = {name.split("_")[1].upper() for name in globals() if name.startswith("test_f")}
    assert own == set(OTHERWISE)
