"""A summary is asked for behind the agent's own request, which the provider then reads from its prompt cache."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.summary.prompt_cache import with_cache_markers
from tests.fakes import claude, gpt
from tests.graph.cli.provider import Provider, provider
from tests.graph.harness import Drive, ledger
from tests.graph.test_who_summarizes import BUILDS, SUMMARY, Build, asks_for_summary, look, ours, talk, writes

SETTINGS = CompactionSettings(context_window=32_000)
CACHED = {"cache_control": {"type": "ephemeral"}}
CALL = {"name": "look", "arguments": '{"place": "Bremen"}'}


@pytest.fixture
def script() -> Iterator[Provider]:
    """Serve a model that writes summaries."""
    with provider(answer=writes(SUMMARY)) as found:
        yield found


@BUILDS
async def test_the_agents_model_is_asked_behind_its_own_request(go: Drive, build: Build, script: Provider) -> None:
    """With the same tools and messages, and one message at the end that names the last message to be summarized."""
    graph, script.counted = build(script, SETTINGS), 20_000
    await go.invoke(graph, talk(20_000))
    await go.invoke(graph, {"messages": [HumanMessage("And" + " then" * 6_000)]})
    earlier, asked, answered = script.requests
    assert [asks_for_summary(request) for request in script.requests] == [False, True, False]
    assert asked["tools"] == answered["tools"] == earlier["tools"]
    count = len(earlier["messages"])
    assert asked["messages"][:count] == earlier["messages"]
    assert len(asked["messages"]) == count + 3  # the answer, the new question, and the request
    said = asked["messages"][-1]["content"]
    assert said.count("Day") == 1
    assert 'begins: "Day 24: wind' in said
    assert [(row.verdict, row.summary_calls) for row in ledger(graph)] == [("committed", 1)]


@pytest.mark.parametrize("reply", [CALL, "I will look at Bremen now, where the crew of MSKU4007 waits.", 400])
async def test_a_model_that_goes_on_with_its_work_is_shown_the_conversation(go: Drive, reply: Any) -> None:
    """It calls a tool, answers, or the provider refuses the request: the next one is without tools."""

    def answer(request: Mapping[str, Any]) -> Any:
        if not asks_for_summary(request):
            return "All is calm."
        return reply if "tools" in request else SUMMARY

    with provider(answer=answer) as script:
        graph: Any = create_compacting_agent(
            anthropic(script), [look], settings=SETTINGS, checkpointer=InMemorySaver()
        )
        await go.invoke(graph, talk(26_000))
    first, second = [request for request in script.requests if asks_for_summary(request)]
    assert "tools" in first
    assert "tools" not in second
    assert "Day 0: sea sea" in str(second["messages"][-1]["content"])
    assert [(row.verdict, row.summary_calls) for row in ledger(graph)] == [("committed", 2)]


@pytest.mark.parametrize(
    "options", [{"redact": str.upper}, {"summarizer": "openai:gpt-4o-mini"}], ids=["redacted", "another model"]
)
async def test_the_conversation_is_shown_where_the_request_is_not_the_agents(
    go: Drive, options: dict[str, Any], script: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redaction changes what the summarizer reads, and another model has another cache."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", script.base_url)
    await go.invoke(ours(script, SETTINGS, **options), talk(26_000))
    (asked,) = [request for request in script.requests if asks_for_summary(request)]
    assert "tools" not in asked
    assert len(asked["messages"]) <= 2


async def test_the_conversation_is_shown_where_messages_begin_alike(go: Drive, script: Provider) -> None:
    """A model that is told to summarize up to one of them could stop at an earlier one."""
    given = talk(26_000)["messages"]
    alike = [m.model_copy(update={"content": m.text.partition(":")[2]}) if m.type == "ai" else m for m in given]
    await go.invoke(ours(script, SETTINGS), {"messages": alike})
    (asked,) = [request for request in script.requests if asks_for_summary(request)]
    assert "tools" not in asked
    assert "Day 0: sea" in asked["messages"][-1]["content"]


REQUEST: list[AnyMessage] = [SystemMessage("Be exact."), HumanMessage("Hello.")]


def test_claude_is_told_to_cache_the_prompt_and_the_whole_request() -> None:
    """The given messages do not change."""
    sent, options = with_cache_markers(claude().bind_tools([look]), REQUEST)
    assert options == CACHED
    assert sent[0].content == [{"type": "text", "text": "Be exact.", **CACHED}]
    assert sent[1:] == REQUEST[1:]
    assert REQUEST[0].content == "Be exact."


MARKED: list[AnyMessage] = [HumanMessage([{"type": "text", "text": "Hello.", **CACHED}])]


@pytest.mark.parametrize(
    ("model", "request_"),
    [
        (gpt("gpt-4o"), REQUEST),
        (claude().with_fallbacks([gpt("gpt-4o")]), REQUEST),
        (claude(model_kwargs=CACHED), REQUEST),
        (claude().bind(**CACHED), REQUEST),
        (
            claude().bind_tools([{"type": "web_search_20250305", "name": "web_search", **CACHED}]),
            REQUEST,
        ),
        (claude(), MARKED),
    ],
)
def test_nothing_is_added_for_others_and_beside_markers_of_the_application(model: Any, request_: Any) -> None:
    """Claude's API refuses more than four markers, and other APIs the argument."""
    assert with_cache_markers(model, request_) == (request_, {})


def anthropic(script: Provider) -> ChatAnthropic:
    """A real model object of Anthropic's, which asks the scripted server."""
    return claude("claude-opus-5-5", base_url=script.base_url.removesuffix("/v1"), max_retries=0)


@pytest.mark.parametrize("others", [[], ["before"], ["behind"]])
async def test_the_middleware_tells_claude_beside_langchains_own(
    go: Drive, others: list[str], script: Provider
) -> None:
    """The markers are at most four with those of `AnthropicPromptCachingMiddleware`."""
    own = CompactionMiddleware(settings=CompactionSettings(context_window=32_000))
    cache = AnthropicPromptCachingMiddleware()
    middleware = [*([cache] if "before" in others else []), own, *([cache] if "behind" in others else [])]
    graph: Any = create_agent(anthropic(script), [look], system_prompt="Be exact.", middleware=middleware)
    await go.invoke(graph, {"messages": [HumanMessage("Hello.")]})
    (sent,) = script.requests
    assert sent["cache_control"]["type"] == "ephemeral"
    assert sent["system"][0]["cache_control"]["type"] == "ephemeral"
    assert str(sent).count("cache_control") <= 4


async def test_our_agent_tells_claude(go: Drive, script: Provider) -> None:
    """At the defaults."""
    graph: Any = create_compacting_agent(
        anthropic(script), [look], system_prompt="Be exact.", settings=SETTINGS, checkpointer=InMemorySaver()
    )
    await go.invoke(graph, {"messages": [HumanMessage("Hello.")]})
    assert script.requests[0]["cache_control"] == CACHED["cache_control"]


class Router(AgentMiddleware[Any, Any, Any]):
    """Chooses another model for a call."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the handler with the other model."""
        return handler(request.override(model=self._model))


def test_another_providers_model_is_not_told(script: Provider) -> None:
    """Middleware behind ours chooses it."""
    other = Router(gpt("gpt-4o", base_url=script.base_url, max_retries=0))
    own = CompactionMiddleware(settings=SETTINGS)
    graph: Any = create_agent(claude(), [look], system_prompt="Be exact.", middleware=[own, other])
    graph.invoke({"messages": [HumanMessage("Hello.")]})
    (sent,) = script.requests
    assert "cache_control" not in str(sent)
    assert sent["messages"][0]["content"] == "Be exact."
