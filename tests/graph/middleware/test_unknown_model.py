"""What the middleware does where it has not seen the newest answer, or where its model is not known yet."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.graph import CompactionThread, OverLimitError, UnknownWindowError
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.testing import calls
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, WORDS, Drive, filler, full, request_tokens, said, standing, values, verdicts

WINDOW = 1_200
"""Window in the profile of the model. The settings do not name one, as for any chat model."""


@tool
def look(at: int) -> str:
    """Return a long text."""
    return filler(300, f"seen{at}-")


def assistant(model: Any, *before: Any, behind: Sequence[Any] = (), **options: Any) -> Any:
    """Build an agent whose window is known from the model's profile alone."""
    ours = {key: options.pop(key) for key in ("settings", "database") if key in options}
    middleware = CompactionMiddleware(summarizer="digest", token_counter=WORDS, **ours)
    options.setdefault("checkpointer", InMemorySaver())
    return create_agent(model, [look], middleware=[*before, middleware, *behind], **options)


async def test_a_limit_of_calls_ends_the_run_after_a_compaction(go: Drive) -> None:
    """The last message is another middleware's, which no call of ours has answered."""
    replies = [calls(("look", {"at": number}), start=number) for number in range(9)]
    graph = assistant(ScriptedModel(replies=replies, profile_window=WINDOW), ModelCallLimitMiddleware(run_limit=4))
    result = await go.invoke(graph, {"messages": [*full()["messages"][:-1], HumanMessage("go")]})
    assert "Model call limits exceeded" in result["messages"][-1].text
    assert "committed" in verdicts(graph)
    assert len(values(graph)["messages"]) < len(full()["messages"]) < len(result["messages"])


async def test_a_model_without_a_window_is_named(go: Drive) -> None:
    """The error tells which model's window is not known, and which setting gives it."""
    graph = assistant(ScriptedModel(replies=["noted"]))
    with pytest.raises(UnknownWindowError, match=r"no context window is known for scripted: .*context_window"):
        await go.invoke(graph, said("hello"))


async def test_an_agent_built_anew_knows_the_window_of_its_threads(go: Drive) -> None:
    """Before its first call, an undo still heeds the limit, and a person can preview and compact."""
    shared: dict[str, Any] = {"checkpointer": InMemorySaver(), "database": Database.open("memory")}
    first = assistant(ScriptedModel(replies=["noted"], profile_window=WINDOW), **shared)
    await go.invoke(first, full(filler(400)))
    assert verdicts(first) == ["committed"]
    anew = assistant(ScriptedModel(replies=["noted"], profile_window=WINDOW), **shared)
    with pytest.raises(OverLimitError):
        CompactionThread(anew, CONFIG).undo()
    assert CompactionThread(anew, CONFIG).preview().tokens_before > 0
    CompactionThread(anew, CONFIG).undo(force=True)
    await go.invoke(anew, {"messages": [], "compaction_request": {}})
    assert verdicts(anew) == ["committed", "undone", "committed"]


@pytest.mark.parametrize("own", [{"google_search": {}}, {"type": "web_search"}, {"cachePoint": {"type": "default"}}])
async def test_a_providers_own_tool_is_passed_on(go: Drive, own: dict[str, Any]) -> None:
    """A dictionary in a form that only the provider's package reads."""
    model = ScriptedModel(replies=["found"], profile_window=WINDOW)
    middleware = CompactionMiddleware(summarizer="digest", token_counter=WORDS)
    graph = create_agent(model, [own], middleware=[middleware], checkpointer=InMemorySaver())
    await go.invoke(graph, said("hello"))
    assert values(graph)["messages"][-1].text == "found"
    assert model.bound_tools == [own]


class Context(AgentMiddleware[Any, Any, Any]):
    """Adds a text to each request, before the question."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the model with the text."""
        return handler(self._with_text(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """The same, asynchronously."""
        return await handler(self._with_text(request))

    @staticmethod
    def _with_text(request: Any) -> Any:
        *before, question = request.messages
        return request.override(messages=[*before, HumanMessage(filler(300, "context")), question])


async def test_messages_that_others_add_to_each_request_are_counted(go: Drive) -> None:
    """No request is over the limit, and the text stays before the question."""
    model = ScriptedModel(replies=["noted"], profile_window=WINDOW)
    graph = assistant(model, Context())
    for number in range(12):
        await go.invoke(graph, said(filler(60, f"question{number}-")))
    limit = standing(graph)["sizes"]["limit"]
    assert [request[-2].text.startswith("context0") for request in model.received] == [True] * 12
    assert max(request_tokens(request) for request in model.received) <= limit
    assert "committed" in verdicts(graph)
