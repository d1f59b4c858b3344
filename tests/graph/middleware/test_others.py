"""With LangChain's other middleware, structured output, tools that write state, questions, and switched models."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, Overwrite, interrupt
from pydantic import BaseModel

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import (
    CompactionThread,
    ContextExhaustedError,
    MessageRefusedError,
    SettingsError,
    middleware,
)
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts, usage
from tests.graph.harness import (
    CONFIG,
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
from tests.invariants import check_request, is_summary

CALM = usage(AIMessage("done"), 100)


class Answer(BaseModel):
    """An answer in numbers."""

    n: int


@tool
def look(n: int) -> str:
    """Look at so many words."""
    return filler(n, "seen")


@tool
def ask() -> str:
    """Ask the user."""
    return f"they said {interrupt('which one?')}"


@tool
def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write to the state, as tools of a supervisor do."""
    return Command(update={"messages": [ToolMessage(f"noted {text}", tool_call_id=tool_call_id)]})


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
    check_request(model.received[-1])  # type: ignore[arg-type] # any messages


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


async def test_todos_and_edited_contexts(go: Drive) -> None:
    """The prompt of one is counted, what the other hides from a request stays hidden."""
    others = [TodoListMiddleware(), ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=400, keep=1)])]
    plan = calls(("write_todos", {"todos": [{"content": "x", "status": "pending"}]}), start=3)
    replies = [calls(("look", {"n": 500})), calls(("look", {"n": 500}), start=2), plan, CALM]
    model = ScriptedModel(replies=replies)
    graph = agent(model, tools=[look], others=others, context_window=4_000)
    state = await go.invoke(graph, said("go", "q"))
    assert [todo["content"] for todo in state["todos"]] == ["x"]
    shown = [message.text for message in model.received[-1] if isinstance(message, ToolMessage)]
    assert shown[:2] == ["[cleared]", "[cleared]"]
    assert verdicts(graph) == []
    assert state["messages"][2].text == filler(500, "seen"), "the state keeps what happened"


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
    check_request(model.received[-1])  # type: ignore[arg-type] # any messages


async def test_structured_output_that_is_wrong_is_asked_again(go: Drive) -> None:
    """The error stands in the state, once."""
    model = ScriptedModel(replies=[calls(("Answer", {"n": "many"})), calls(("Answer", {"n": 3}), start=2)])
    graph = agent(model, response_format=Answer)
    state = await go.invoke(graph, full())
    assert state["structured_response"] == Answer(n=3)
    assert [message.type for message in state["messages"][-4:]] == ["ai", "tool", "ai", "tool"]
    assert len(model.received) == 2


async def test_tools_that_return_commands_and_tools_that_ask(go: Drive) -> None:
    """Both results are in the state; over the trigger the compaction comes after they are all in."""
    model = ScriptedModel(replies=[usage(calls(("note", {"text": "it"}), ("ask", {})), 900), CALM])
    graph = agent(model, tools=[note, ask])
    await go.invoke(graph, {"messages": [*rounds(4), HumanMessage("go", id="q")]})
    assert verdicts(graph) == []
    await go.invoke(graph, Command(resume="left"))
    assert verdicts(graph) == ["committed"]
    results = [message.text for message in model.received[-1] if isinstance(message, ToolMessage)]
    assert results == ["noted it", "they said left"]


async def test_a_person_is_asked_before_a_compaction(go: Drive) -> None:
    """Before the model is called, and after its answer, which is not paid for twice."""
    for accepts in (True, False):
        model = ScriptedModel(replies=[CALM])
        graph = agent(model, require_confirmation=True)
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


async def test_the_window_of_the_newest_calls_is_known_after_the_answer(
    go: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that fills the window is compacted, also if only one call is remembered."""
    monkeypatch.setattr(middleware, "REMEMBERED", 1)
    answer = usage(AIMessage(filler(100)), 790, 100)
    graph = agent(ScriptedModel(replies=[answer], profile_window=1_000), context_window=None)
    await go.invoke(graph, {"messages": rounds(6)[:-1]})
    assert verdicts(graph) == ["committed"]


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


class Bare(AgentMiddleware[Any, Any]):
    """A middleware that removes the ids of the messages in the state."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002 - as the base class has it
        """Take them."""
        return {"messages": Overwrite([m.model_copy(update={"id": None}) for m in state["messages"]])}


async def test_what_others_leave_out_is_left_out_though_the_state_keeps_no_ids(go: Drive) -> None:
    """This also holds in the next model call, while the changes of the compaction are not yet in the state."""
    others = [Bare(), Changes(lambda r: r.override(messages=[m for m in r.messages if m.text != "be loud"]))]
    model = ScriptedModel(replies=[usage(calls(("look", {"n": 3})), 100), CALM])
    graph = agent(model, tools=[look], others=others)
    await go.invoke(graph, {"messages": [*rounds(8), HumanMessage("be loud"), HumanMessage("and now?")]})
    assert verdicts(graph) == ["committed"]
    for request in model.received:
        spoken = [message.text for message in request]
        assert "and now?" in spoken
        assert "be loud" not in spoken


@pytest.mark.parametrize("first", [[], [Bare()]], ids=["with ids", "without ids"])
async def test_what_a_compaction_clipped_stays_so_in_an_edited_request(go: Drive, first: list[Any]) -> None:
    """Other middleware that hands on copies of the messages does not bring back what was too large."""
    others = [*first, Changes(lambda r: r.override(messages=[message.model_copy() for message in r.messages]))]
    model = ScriptedModel(replies=[calls(("look", {"n": 3_000})), CALM])
    graph = agent(model, tools=[look], others=others)
    await go.invoke(graph, said("go", "q"))
    assert verdicts(graph) == ["committed"]
    assert request_tokens(model.received[-1]) <= 1_000
    assert "TRUNCATED" in texts(model.received[-1])


class Rewrites(Changes):
    """Another middleware, which rewrites the answer."""

    def __init__(self) -> None:
        super().__init__(lambda request: request)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Rewrite it."""
        return self._written(handler(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Rewrite it, asynchronously."""
        return self._written(await handler(request))

    def _written(self, response: ModelResponse[Any]) -> ModelResponse[Any]:
        (answer,) = response.result
        return ModelResponse(result=[answer.model_copy(update={"content": f"{answer.text}, rewritten"})])


async def test_an_answer_rewritten_behind_the_middleware_is_kept(go: Drive) -> None:
    """In calls that compact, too."""
    graph = agent(ScriptedModel(replies=["done"]), behind=[Rewrites()])
    assert (await go.invoke(graph, full()))["messages"][-1].text == "done, rewritten"
    assert verdicts(graph) == ["committed"]
    assert (await go.invoke(graph, said("more")))["messages"][-1].text == "done, rewritten"


async def test_an_overflow_is_compacted_and_sent_once_more(go: Drive) -> None:
    """Inside a retry of other middleware; the second refusal is an error."""
    model = ScriptedModel(replies=[ContextOverflowError("prompt is too long"), CALM])
    graph = agent(model, others=[ModelRetryMiddleware(max_retries=0, on_failure="error")])
    await go.invoke(graph, {"messages": rounds(6)[:-1]})
    assert verdicts(graph) == ["committed"]
    first, second = model.received
    assert request_tokens(second) < request_tokens(first)
    graph = agent(ScriptedModel(replies=[ContextOverflowError("prompt is too long")]))
    with pytest.raises(ContextExhaustedError, match="again after a compaction"):
        await go.invoke(graph, {"messages": rounds(6)[:-1]})


async def test_a_message_over_the_limit_is_refused(go: Drive) -> None:
    """The agent says so where the model would answer, tools run none, and the next turn is answered."""
    model = ScriptedModel(replies=["done"])
    graph = agent(model, tools=[look])
    state = await go.invoke(graph, said(filler(1_200), "large"))
    assert [message.type for message in state["messages"]] == ["human", "ai"]
    assert all("was not sent to the model" in message.text for message in state["messages"])
    assert isinstance(state["messages"][-1], AIMessage)
    assert model.received == []
    assert (await go.invoke(graph, said("hi")))["messages"][-1].text == "done"
    assert CompactionThread(graph, CONFIG).transcript()[0].text == filler(1_200)
    with pytest.raises(MessageRefusedError):
        await go.invoke(agent(on_refusal="raise"), said(filler(1_200)))


async def test_a_person_compacts_and_pins(go: Drive) -> None:
    """`CompactionThread` and `records_of` take the agent; the model is not called."""
    model = ScriptedModel(replies=[CALM])
    graph = agent(model)
    given = [*rounds(6, 20), HumanMessage("and now?", id="q")]
    await go.invoke(graph, {"messages": given})
    CompactionThread(graph, CONFIG).pin(message_id="r-user-1")
    CompactionThread(graph, CONFIG).compact(focus="seats")
    assert verdicts(graph) == ["committed"]
    assert len(model.received) == 1
    assert is_summary(values(graph)["messages"][0])
    assert "r-user-1" in {message.id for message in values(graph)["messages"]}
    assert [message.id for message in CompactionThread(graph, CONFIG).transcript()][: len(given)] == [
        message.id for message in given
    ]
    await go.invoke(graph, said("go on"))
    assert len(model.received) == 2


async def test_a_compaction_is_shown_and_undone(go: Drive) -> None:
    """Every message stands where it stood, none is compacted again until it is released."""
    graph = agent(ScriptedModel(profile_window=1_000), context_window=None)
    given = full()["messages"]
    await go.invoke(graph, {"messages": given})
    (row,) = CompactionThread(graph, CONFIG).history()
    assert len(CompactionThread(graph, CONFIG).show(row.compaction_id).began_with) == len(given)
    CompactionThread(graph, CONFIG).undo()
    assert values(graph)["messages"][:-1] == given
    await go.invoke(graph, said("go on"))
    assert verdicts(graph).count("committed") == 1
    assert values(graph)["messages"][: len(given)] == given
    CompactionThread(graph, CONFIG).release()
    seen = CompactionThread(graph, CONFIG).preview()
    assert seen.tokens_after_about < seen.tokens_before
    await go.invoke(graph, said("and on"))
    assert is_summary(values(graph)["messages"][0])
    assert graph.get_state(CompactionThread(graph, CONFIG).branch_from(row.compaction_id)).values["messages"] == given


def test_snapshots_stand_beside_the_threads(tmp_path: Any) -> None:
    """In the database of our saver; another durable saver needs one."""
    saver = SQLAlchemySaver(f"sqlite:///{tmp_path}/threads.db")
    saver.setup()
    graph = agent(checkpointer=saver)
    graph.invoke(full(), CONFIG)
    assert records_of(graph).database is saver.database
    assert verdicts(graph) == ["committed"]
    with SqliteSaver.from_conn_string(f"{tmp_path}/foreign.db") as foreign:
        graph = agent(checkpointer=foreign)
        with pytest.raises(SettingsError, match="database="):
            graph.invoke(full(), CONFIG)
        graph = agent(checkpointer=foreign, database="memory")
        graph.invoke(full(), CONFIG)
        assert verdicts(graph) == ["committed"]


async def test_what_is_due_after_the_answer_is_done_after_a_restart(go: Drive) -> None:
    """The agent that goes on need not be the one that answered."""
    first = agent(ScriptedModel(replies=[usage(AIMessage(filler(100), id="the-answer"), 790, 100)]))
    await go.invoke(first, {"messages": rounds(6)[:-1]}, interrupt_after=["model"])
    assert verdicts(first) == []
    second = agent(ScriptedModel(), ScriptedModel(replies=[SUMMARY]), checkpointer=first.checkpointer)
    await go.invoke(second, None)
    assert verdicts(second) == ["committed"]
    assert values(second)["messages"][-1].id == "the-answer"
