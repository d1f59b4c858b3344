from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import DatabaseError
from langgraph_compaction.graph import (
    CompactionError,
    CompactionSettings,
    CompactionThread,
    SettingsError,
    UnknownWindowError,
    create_compacting_agent,
    create_compaction_graph,
)
from langgraph_compaction.graph.middleware import CompactionMiddleware
from tests.fakes import ScriptedModel
from tests.graph.harness import Drive, agent, said, values

KNOWN = CompactionSettings(context_window=1_000)


def built(model: Any = None, **options: Any) -> Any:
    """Build an agent from exactly these."""
    return create_compacting_agent(model or ScriptedModel(), **options)


BUILDS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an unknown window": (built, UnknownWindowError, r"known for (?!a graph).*context_window"),
    "no settings for a graph without a model": (
        lambda: create_compaction_graph(settings=CompactionSettings()),
        UnknownWindowError,
        r"known for a model before its first call: .*context_window",
    ),
    "a reserve larger than the window": (
        lambda: built(settings=CompactionSettings(context_window=100, output_reserve=200)),
        SettingsError,
        "output_reserve",
    ),
    "a summarizer that is none": (lambda: built(settings=KNOWN, summarizer=42), SettingsError, "42"),
    "an unknown summarizer": (lambda: built(settings=KNOWN, summarizer="magic"), SettingsError, "digest"),
    "a counter that is none": (lambda: built(settings=KNOWN, token_counter=42), SettingsError, "trim_messages"),
    "settings that are a dict": (
        lambda: built(settings={"context_window": 1_000}),
        SettingsError,
        r"give settings=CompactionSettings\(",
    ),
    "a checkpointer that is a URL": (
        lambda: built(settings=KNOWN, checkpointer="postgresql://user:secret@host/x"),
        SettingsError,
        r"give checkpointer=SQLAlchemySaver\(url\)",
    ),
    "a model that is none": (lambda: built(42, settings=KNOWN), SettingsError, "chat model"),
    "a name of no model": (lambda: built("gpt", settings=KNOWN), SettingsError, "names no chat model"),
    "an unknown provider": (lambda: built("nobody:gpt-4o", settings=KNOWN), SettingsError, "names no chat model"),
    "an unknown kind of database": (lambda: built(settings=KNOWN, database="nosql://x"), DatabaseError, "nosql"),
    "an unreadable URL": (lambda: built(settings=KNOWN, database="not a url"), DatabaseError, "no database URL"),
    "a server that does not answer": (
        lambda: built(settings=KNOWN, database="postgresql://user:secret@127.0.0.1:1/x"),
        DatabaseError,
        "127.0.0.1",
    ),
}


@pytest.mark.parametrize("case", BUILDS)
def test_what_cannot_work_is_refused_when_the_graph_is_built(case: str) -> None:
    """Each is a clear error before any turn, and none of them shows a password."""
    build, kind, named = BUILDS[case]
    with pytest.raises(kind, match=named) as caught:
        build()
    assert "secret" not in str(caught.value)
    assert issubclass(kind, CompactionError | DatabaseError)


def test_a_config_without_a_thread_is_named() -> None:
    """What every operation on a thread needs, in the form in which LangGraph wants it."""
    with pytest.raises(SettingsError, match=r'give \{"configurable": \{"thread_id"'):
        CompactionThread(agent(), {}).history()
    assert CompactionThread(agent(), {"thread_id": "beside"}).history() == []


WRONG: list[Any] = [{}, {"configurable": {}}, {"configurable": {"checkpoint_id": "1"}}, "1", {"configurable": "1"}]
"""Configs that name no thread."""
SAY_THREAD = r'give \{"configurable": \{"thread_id": "1"\}\}'


def threadless(model: ScriptedModel) -> tuple[Any, Any]:
    """Return our agent and LangChain's with the middleware, both with a checkpointer."""
    plain = create_agent(model, middleware=[CompactionMiddleware(settings=KNOWN)], checkpointer=InMemorySaver())
    return agent(model), plain


@pytest.mark.parametrize("config", WRONG, ids=str)
def test_every_call_needs_a_thread_if_there_is_a_checkpointer(config: Any) -> None:
    """The error says what to write, and the model is not called."""
    graph, plain = threadless(model := ScriptedModel())
    for call in (
        lambda: graph.invoke(said("hello"), config),
        lambda: list(graph.stream(said("hello"), config)),
        lambda: graph.get_state(config),
        lambda: list(graph.get_state_history(config)),
        lambda: graph.update_state(config, {}),
        *(
            method
            for thread in (CompactionThread(graph, config), CompactionThread(plain, config))
            for method in (thread.history, thread.pins, thread.undo, thread.compact)
        ),
    ):
        with pytest.raises(SettingsError, match=SAY_THREAD):
            call()
    assert model.received == []


def test_only_a_checkpointer_needs_a_thread() -> None:
    """A run that keeps nothing works without one, and so does a graph whose own config names the thread."""
    assert built(settings=KNOWN).invoke(said("hello"))["messages"]
    bound = agent().with_config(configurable={"thread_id": "bound"})
    bound.invoke(said("hello"))
    assert len(bound.get_state({"configurable": {}}).values["messages"]) == 2


async def test_a_run_inside_a_run_takes_its_thread(go: Drive) -> None:
    """A node that calls the agent without a config is on the thread of its own run, as LangGraph lets it be."""
    inner = agent()

    def call(state: Any) -> Any:
        return {"messages": inner.invoke({"messages": state["messages"]})["messages"]}

    async def acall(state: Any) -> Any:
        return {"messages": (await inner.ainvoke({"messages": state["messages"]}))["messages"]}

    outer = StateGraph(MessagesState).add_node("call", RunnableLambda(call, acall)).add_edge(START, "call")
    result = await go.invoke(outer.compile(checkpointer=InMemorySaver()), said("hello"))
    assert result["messages"][-1].text == "ok"


@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}]])
async def test_empty_answers_break_nothing(go: Drive, content: Any) -> None:
    """A model that says nothing ends its turn; the empty message is not sent back to it."""
    model = ScriptedModel(replies=[AIMessage(content), "better"])
    graph = agent(model)
    await go.invoke(graph, said("hello"))
    await go.invoke(graph, {"messages": [HumanMessage("well?")]})
    assert values(graph)["messages"][-1].text == "better"


def test_a_prompt_that_fills_the_window_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Where prompt and tools leave little room the trigger is taken of the room, and the builder says so."""
    settings = CompactionSettings(context_window=1_000, output_reserve=0)
    prompt = "word " * 800
    with caplog.at_level("WARNING", logger="langgraph_compaction"):
        create_compacting_agent(ScriptedModel(), system_prompt=prompt, settings=settings)
        create_compacting_agent(ScriptedModel(), system_prompt="short", settings=settings)
    (told,) = caplog.records
    assert "trigger_ratio" in told.getMessage()
