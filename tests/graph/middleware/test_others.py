"""With LangChain's other middleware, structured output, tools that write state, questions, and switched models."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import BaseModel

from langgraph_compaction.graph import SettingsError
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts, usage
from tests.graph.harness import (
    BEFORE,
    SUMMARY,
    Drive,
    filler,
    full,
    ledger,
    request_tokens,
    rounds,
    said,
    values,
    verdicts,
)
from tests.graph.middleware.agents import agent
from tests.invariants import check_request

CALM = usage(AIMessage("done"), 100)


class Answer(BaseModel):
    """An answer in numbers."""

    n: int


@tool
def look(n: int) -> str:
    """Look at so many words."""
    return filler(n, "seen")


class Changes(AgentMiddleware[Any, Any]):
    """Another middleware, which changes the request."""

    def __init__(self, change: Callable[[ModelRequest[Any]], ModelRequest[Any]]) -> None:
        super().__init__()
        self.change = change

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Change it."""
        return handler(self.change(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Change it, asynchronously."""
        return await handler(self.change(request))


async def test_a_person_approves_a_call_over_the_trigger(go: Drive) -> None:
    """Nothing is compacted while the call is open; the result is in the request that follows."""
    others = [HumanInTheLoopMiddleware(interrupt_on={"look": True})]
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 60})), 900), CALM])
    graph = agent(model, tools=[look], others=others)
    given = [*rounds(4), HumanMessage("go", id="q")]
    waiting = await go.invoke(graph, {"messages": given})
    assert waiting["__interrupt__"]
    assert verdicts(graph) == []
    await go.invoke(graph, Command(resume={"decisions": [{"type": "approve"}]}))
    assert verdicts(graph) == ["committed"]
    assert "seen59" in texts(model.received[-1])
    check_request(model.received[-1])


@pytest.mark.parametrize("place", ["others", "behind"])
async def test_langchains_summarizer_is_refused_beside_ours(go: Drive, place: str) -> None:
    """It would remove messages that nothing has stored; the first call says so, before it can."""
    model = ScriptedModel(replies=["ok"])
    theirs = SummarizationMiddleware(model, trigger=("messages", 2), keep=("messages", 1))
    graph = agent(model, **{place: [theirs]})
    with pytest.raises(SettingsError, match=r"LangChain's SummarizationMiddleware .* beside CompactionMiddleware"):
        await go.invoke(graph, {"messages": rounds(4)})
    assert len(values(graph)["messages"]) == len(rounds(4))
    assert model.received == []


@pytest.mark.parametrize("strategy", [None, ToolStrategy, ProviderStrategy])
async def test_structured_output(go: Drive, strategy: Any) -> None:
    """It is there after a compaction in the same call, and its schema is counted."""
    told = '{"n": 3}' if strategy is ProviderStrategy else calls(("Answer", {"n": 3}))
    model = ScriptedModel(replies=[told])
    graph = agent(model, response_format=strategy(Answer) if strategy else Answer)
    state = await go.invoke(graph, full())
    assert state["structured_response"] == Answer(n=3)
    assert verdicts(graph) == ["committed"]
    assert ledger(graph)[0].tokens_before > request_tokens(full()["messages"])
    await go.invoke(graph, said("again"))
    check_request(model.received[-1])


async def test_a_person_is_asked_before_a_compaction(go: Drive) -> None:
    """Before the model is called, and after its answer, which is not paid for twice."""
    for accepts in (True, False):
        model = ScriptedModel(replies=[CALM])
        graph = agent(model, require_confirmation=True, hooks=BEFORE)
        asked = await go.invoke(graph, full())
        assert asked["__interrupt__"][0].value["question"] == "Compact the conversation?"
        assert model.received == []
        await go.invoke(graph, Command(resume=accepts))
        assert verdicts(graph) == (["committed"] if accepts else ["declined"])
        assert len(model.received) == 1
    model = ScriptedModel(replies=[usage(AIMessage(filler(100), id="the-answer"), 790, 100)])
    graph = agent(model, require_confirmation=True)
    asked = await go.invoke(graph, {"messages": rounds(6)[:-1]})
    assert asked["__interrupt__"]
    assert asked["messages"][-1].id == "the-answer"
    await go.invoke(graph, Command(resume=True))
    assert verdicts(graph) == ["committed"]
    assert len(model.received) == 1
    with pytest.raises(SettingsError, match="require_confirmation"):
        await go.invoke(agent(require_confirmation=True, checkpointer=None), full(), {})


@pytest.mark.parametrize("place", ["others", "behind"])
async def test_the_window_follows_the_model_of_the_call(go: Drive, place: str) -> None:
    """A smaller one, chosen by middleware before ours or behind it, compacts before it is called; so a fallback."""
    large, small = ScriptedModel(replies=["ok"], profile_window=10_000), ScriptedModel(profile_window=500)
    small.name_ = "small"
    switch = {"to": large}
    router = [Changes(lambda r: r.override(tools=[]).override(model=switch["to"]))]
    graph = agent(large, **{place: router}, context_window=None)
    await go.invoke(graph, {"messages": rounds(8)[:-1]})
    assert verdicts(graph) == []
    switch["to"] = small
    await go.invoke(graph, said("and now?"))
    assert verdicts(graph) == ["committed"]
    assert request_tokens(small.received[0]) <= 500
    broken = ScriptedModel(replies=[RuntimeError("down")], profile_window=10_000)
    graph = agent(broken, **{place: [ModelFallbackMiddleware(small)]}, context_window=None)
    await go.invoke(graph, said("hello"))
    assert len(broken.received) == 1
    await go.invoke(graph, {"messages": rounds(8)[:-1]})
    assert verdicts(graph) == ["committed"]
    assert request_tokens(small.received[-1]) <= 500
    assert len(small.received) == 3


async def test_prompt_and_tools_of_the_call_are_counted(go: Drive) -> None:
    """A prompt that other middleware adds makes the same conversation too large."""
    prompt = SystemMessage(filler(250))
    for others, expected in (([], []), ([Changes(lambda r: r.override(system_message=prompt))], ["committed"])):
        model = ScriptedModel(replies=[CALM])
        graph = agent(model, others=others)
        await go.invoke(graph, {"messages": rounds(6)[:-1]})
        assert verdicts(graph) == expected
        assert request_tokens(model.received[0]) <= 1_000
        assert (model.received[0][0] == prompt) == bool(others)


async def test_what_others_add_to_one_request_is_sent_and_not_kept(go: Drive) -> None:
    """Before and behind the conversation, compacted or not; what they leave out is left out."""
    first, last = HumanMessage("about me"), HumanMessage("be brief")
    others = [Changes(lambda r: r.override(messages=[first, *r.messages[1:], last]))]
    for given in (rounds(2), rounds(8)):
        model = ScriptedModel(replies=[CALM])
        graph = agent(model, others=others)
        await go.invoke(graph, {"messages": [*given, HumanMessage("and now?", id="q")]})
        sent = [message.text for message in model.received[0]]
        assert (sent[0], *sent[-2:]) == ("about me", "and now?", "be brief")
        assert given[0].text not in sent
        assert not {"about me", "be brief"} & {message.text for message in values(graph)["messages"]}


async def test_what_a_compaction_clipped_stays_so_in_an_edited_request(go: Drive) -> None:
    """Other middleware that hands on copies of the messages does not bring back what was too large."""
    others = [Changes(lambda r: r.override(messages=[message.model_copy() for message in r.messages]))]
    model = ScriptedModel(replies=[calls(("look", {"n": 3_000})), CALM])
    graph = agent(model, tools=[look], others=others)
    await go.invoke(graph, said("go", "q"))
    assert verdicts(graph) == ["committed"]
    assert request_tokens(model.received[-1]) <= 1_000
    assert "TRUNCATED" in texts(model.received[-1])


async def test_what_is_due_after_the_answer_is_done_after_a_restart(go: Drive) -> None:
    """The agent that goes on need not be the one that answered."""
    first = agent(ScriptedModel(replies=[usage(AIMessage(filler(100), id="the-answer"), 790, 100)]))
    await go.invoke(first, {"messages": rounds(6)[:-1]}, interrupt_after=["model"])
    assert verdicts(first) == []
    second = agent(ScriptedModel(), ScriptedModel(replies=[SUMMARY]), checkpointer=first.checkpointer)
    await go.invoke(second, None)
    assert verdicts(second) == ["committed"]
    assert values(second)["messages"][-1].id == "the-answer"
