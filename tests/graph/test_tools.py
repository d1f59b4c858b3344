from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_compaction.graph import ContextExhaustedError
from tests.fakes import ScriptedModel, calls, gpt
from tests.graph.cli.provider import provider
from tests.graph.harness import Drive, agent, filler, ledger, rounds, said, steps, values, verdicts
from tests.graph.middleware import agents
from tests.invariants import check_request
from tests.replay.payloads import refused


@tool
def read(words: int) -> str:
    """Read so many words."""
    return filler(words, "read")


@tool
def fail() -> str:
    """Fail."""
    raise OSError("the disk is gone")


@tool(return_direct=True)
def final(text: str) -> str:
    """Give the user this, without another call of the model."""
    return f"final: {text}"


TOOLS = [read, fail, final]


def working(*replies: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    """An agent with tools, and its model."""
    model = ScriptedModel(replies=list(replies))
    return agent(model, tools=TOOLS, **options), model


def in_langchain(*replies: Any) -> tuple[Any, ScriptedModel]:
    """LangChain's agent with the middleware and the same tools, and its model."""
    model = ScriptedModel(replies=list(replies))
    return agents.agent(model, tools=[read]), model


def results(messages: Sequence[BaseMessage]) -> list[str]:
    """Texts of the results among messages."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


async def test_a_raising_tool_ends_neither_the_turn_nor_its_siblings(go: Drive) -> None:
    """The model is told, and the sibling's result is there, from one run."""
    graph, model = working(calls(("fail", {}), ("read", {"words": 2})), "sorry")
    await go.invoke(graph, said("go"))
    broken, fine = results(model.received[1])
    assert "the disk is gone" in broken
    assert fine == "read0 read1"
    assert values(graph)["messages"][-1].text == "sorry"


@pytest.mark.parametrize("chosen", [False, True])
async def test_what_is_bound_to_a_model_stays_beside_the_tools(go: Drive, chosen: bool) -> None:
    """Arguments, retries and fallbacks stay, also of a model that a function chooses; tools bound before do not."""
    with provider(503, 503, "ok") as script:
        real = gpt("gpt-4o", base_url=script.base_url, max_retries=0)
        bound = real.bind_tools([fail]).bind(temperature=0.3, stop=["END"])
        model = bound.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).with_fallbacks([bound])
        graph = agent((lambda _state, _runtime: model) if chosen else model, tools=[read])
        await go.invoke(graph, said("go"))
        for request in script.requests:
            assert (request["temperature"], request["stop"]) == (0.3, ["END"])
            assert [tool["function"]["name"] for tool in request["tools"]] == ["read"]
        assert len(script.requests) == 3


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([("final", {"text": "a"})], 1),
        ([("final", {"text": "a"}), ("final", {"text": "b"})], 1),
        ([("final", {"text": "a"}), ("read", {"words": 1})], 2),
    ],
)
async def test_tools_that_return_directly_end_the_turn(go: Drive, made: list[Any], expected: int) -> None:
    """The model is called again only where another tool wants it; the next turn goes on as ever."""
    graph, model = working(calls(*made), "done")
    await go.invoke(graph, said("go"))
    assert len(model.received) == expected
    await go.invoke(graph, said("more"))
    assert len(model.received) == expected + 1
    assert len(results(model.received[-1])) == len(made)


@pytest.mark.parametrize("turns", [0, 12])
@pytest.mark.parametrize("asks", [True, False])
async def test_another_result_of_a_call_reaches_the_model(go: Drive, *, asks: bool, turns: int) -> None:
    """In its place, as a user message that names the call; also after the call has left the view."""
    made = calls(("export", {}))
    made.id = "calls"
    pending = ToolMessage("pending", tool_call_id="call-1", name="export", id="first")
    graph, model = working("noted")
    await go.invoke(graph, {"messages": [HumanMessage("go"), made, pending]})
    for turn in range(turns):
        await go.invoke(graph, said(filler(100, f"turn{turn}-")))
    done = ToolMessage("done: MANIFEST-9921", tool_call_id="call-1", name="export", id="second")
    await go.invoke(graph, {"messages": [done, *([HumanMessage("ready?")] if asks else [])]})
    sent = model.received[-1]
    check_request(sent)
    assert not refused(sent)
    (heard,) = [message for message in sent if "MANIFEST-9921" in message.text]
    assert (heard.type, heard.text) == (
        "human",
        "[another result of the tool call call-1 of export]\ndone: MANIFEST-9921",
    )
    assert sent.index(heard) == len(sent) - 1 - asks


async def test_nothing_is_compacted_while_a_result_is_missing(go: Drive) -> None:
    """Results that a client sends one by one: over the limit the request is not sent, and the last one frees it."""
    made = calls(("theirs", {}), ("theirs", {}))
    made.id = "calls"
    one, two = (ToolMessage(filler(300), tool_call_id=f"call-{n}", id=f"r{n}") for n in (1, 2))
    graph, model = working("done", tool_blocks_keep_unread=False)
    with pytest.raises(ContextExhaustedError, match="waits for its result"):
        await go.invoke(graph, {"messages": [*rounds(7), HumanMessage("go"), made, one]})
    assert ledger(graph) == []
    await go.invoke(graph, {"messages": [two]})
    assert verdicts(graph)[0] == "committed"
    assert [message.type for message in model.received[0]][-3:] == ["ai", "tool", "tool"]


async def test_a_model_that_repeats_its_message_id_neither_loops_nor_overwrites(go: Drive) -> None:
    """Each answer stands under an id of its own, behind the question it answers."""
    same = AIMessage("again", id="always-the-same")
    graph, model = working(same)
    for turn in range(3):
        await go.invoke(graph, said(f"turn {turn}"))
    held = values(graph)["messages"]
    assert len(model.received) == 3
    assert [message.type for message in held] == ["human", "ai"] * 3
    assert len({message.id for message in held}) == 6


@pytest.mark.parametrize("build", [working, in_langchain], ids=["ours", "create_agent"])
async def test_calls_without_ids_run(go: Drive, build: Any) -> None:
    """Each call is given an id of its own, and its result is found by it."""
    unnamed = [{"name": "read", "args": {"words": words}, "id": None} for words in (1, 2)]
    graph, model = build(AIMessage("", tool_calls=unnamed), "done")
    state = await go.invoke(graph, said("go"))
    asked = [call["id"] for call in state["messages"][1].tool_calls]
    assert results(model.received[1]) == ["read0", "read0 read1"]
    assert [message.tool_call_id for message in state["messages"][2:4]] == asked
    assert len({*asked}) == 2
    assert all(asked)


async def test_a_malformed_call_is_answered_in_the_next_request(go: Drive) -> None:
    """It runs no tool and ends the turn; the next request answers it, as providers want."""
    broken = {"name": "read", "args": "{words: ", "id": "bad", "error": None, "type": "invalid_tool_call"}
    graph, model = working(AIMessage("", invalid_tool_calls=[broken]), "fine")
    await go.invoke(graph, said("go"))
    assert steps(await go.stream(graph, said("well?"))) == ["token_check", "model"]
    assert [message.type for message in model.received[1]] == ["human", "ai", "tool", "human"]
    assert model.received[1][2].tool_call_id == "bad"
