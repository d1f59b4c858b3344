"""Who writes summaries: the agent's own model by default, at the sizes of a real model, asked over HTTP."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.graph.build_dependencies import dependencies_of
from langgraph_compaction.graph.library_model import LibraryModel
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.config.policies import PRESETS, Preset
from tests.graph.cli.provider import Provider, provider
from tests.graph.harness import Drive, ended, ledger, values
from tests.invariants import is_summary

WRITTEN = (
    "The crew lashed container MSKU4007 again and asked for calm weather; the harbor master at Bremen must be told."
)
SUMMARY = f"<summary>{WRITTEN}</summary>"
BOTH: list[Any] = ["messages", "custom"]


def look(place: str) -> str:
    """Look at a place."""
    return place


def gpt(script: Provider) -> ChatOpenAI:
    """A real model object, which asks the scripted server."""
    return ChatOpenAI(
        model="gpt-4o", api_key=SecretStr("none"), base_url=script.base_url, max_retries=0, stream_usage=True
    )


def ours(script: Provider, settings: CompactionSettings, **options: Any) -> Any:
    """Our agent, without a summarizer of its own."""
    given = {"checkpointer": InMemorySaver(), **options}
    return create_compacting_agent(gpt(script), [look], settings=settings, **given)


def langchain(script: Provider, settings: CompactionSettings, **options: Any) -> Any:
    """LangChain's agent with the middleware, which is told no model."""
    saver = options.pop("checkpointer", None) or InMemorySaver()
    middleware = CompactionMiddleware(settings=settings, **options)
    return create_agent(gpt(script), [look], middleware=[middleware], checkpointer=saver)


Build = Callable[..., Any]
BUILDS = pytest.mark.parametrize("build", [ours, langchain])


def talk(tokens: int, rounds: int = 40) -> dict[str, Any]:
    """The input that adopts a conversation of about so many tokens and asks something."""
    words = tokens // (2 * rounds)
    messages: list[AnyMessage] = []
    for n in range(rounds):
        messages += [
            HumanMessage(f"Day {n}:" + " sea" * words, id=f"user-{n}"),
            AIMessage(f"Day {n}:" + " wind" * words, id=f"answer-{n}"),
        ]
    return {"messages": [*messages, HumanMessage("And now?", id="question")]}


def asks_for_summary(request: Mapping[str, Any]) -> bool:
    """Whether a request asks for a summary."""
    return "<conversation>" in str(request["messages"][-1]["content"])


def writes(summary: Any) -> Callable[[dict[str, Any]], Any]:
    """The replies of a server: this to a request for a summary, else an answer."""
    return lambda request: summary if asks_for_summary(request) else "All is calm."


@pytest.fixture
def script() -> Iterator[Provider]:
    """Serve a model that writes summaries."""
    with provider(answer=writes(SUMMARY)) as found:
        yield found


@BUILDS
async def test_the_agents_own_model_writes_the_summary(
    go: Drive, build: Build, script: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    """Without tools and without streaming into the answer; its tokens are in the event and in the ledger."""
    graph = build(script, CompactionSettings())
    with caplog.at_level(logging.INFO):
        chunks = await go.stream(graph, talk(108_000), stream_mode=BOTH)
    (asked, *more) = [request for request in script.requests if asks_for_summary(request)]
    assert not more
    assert "tools" not in asked
    assert "tools" in script.requests[-1]
    (summary,) = [message for message in values(graph)["messages"] if is_summary(message)]
    assert WRITTEN in summary.text
    (row,) = ledger(graph)
    assert (row.verdict, row.strategy) == ("committed", "selective+model")
    assert (row.summary_calls, row.summary_input_tokens, row.summary_output_tokens) == (1, 20, 3)
    (event,) = [event for mode, event in chunks if mode == "custom" and event["event"] == "CompactionEvent"]
    assert event["summary_input_tokens"] == 20
    streamed = "".join(message.text for mode, (message, _) in _messages(chunks) if mode == "messages")
    assert "MSKU4007" not in streamed
    assert "执行 LLM Summary" in caplog.text


def _messages(chunks: list[Any]) -> list[tuple[str, Any]]:
    return [chunk for chunk in chunks if chunk[0] == "messages"]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_setting_says_who_writes(preset: Preset, script: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the model writes summaries in every preset but `faithful`; the builder's argument overrides that."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    chosen = CompactionSettings(preset=preset)
    first = "digest" if preset == "faithful" else "model"
    for given, name in ((None, first), ("digest", "digest"), ("model", "model"), ("openai:gpt-4o-mini", "model")):
        found = dependencies_of(ours(script, chosen, summarizer=given))
        assert found.fallback_chain(found.settings)[0].name == name


async def test_a_function_that_chooses_the_model_chooses_who_writes(go: Drive, script: Provider) -> None:
    """The model of this call writes, and without the agent's tools."""
    graph: Any = create_compacting_agent(
        lambda _state, _runtime: gpt(script), [look], settings=CompactionSettings(), checkpointer=InMemorySaver()
    )
    await go.invoke(graph, talk(108_000))
    (asked,) = [request for request in script.requests if asks_for_summary(request)]
    assert "tools" not in asked
    assert [row.strategy for row in ledger(graph)] == ["selective+model"]


async def test_tools_that_the_application_bound_are_not_sent(go: Drive, script: Provider) -> None:
    """Its other bindings are."""
    bound = gpt(script).bind_tools([look]).bind(user="captain")
    settings = CompactionSettings(context_window=128_000)
    graph: Any = create_compacting_agent(bound, settings=settings, checkpointer=InMemorySaver())
    await go.invoke(graph, talk(108_000))
    (asked,) = [request for request in script.requests if asks_for_summary(request)]
    assert "tools" not in asked
    assert asked["user"] == "captain"


async def test_a_stand_in_writes_no_summary(go: Drive) -> None:
    """Without tools the scripted model repeats what it hears, so the digest writes."""
    settings = CompactionSettings(context_window=8_000)
    graph: Any = create_compacting_agent(LibraryModel(), settings=settings, checkpointer=InMemorySaver())
    await go.invoke(graph, talk(7_000))
    assert [row.strategy for row in ledger(graph)] == ["selective+digest"]


@BUILDS
@pytest.mark.parametrize("ahead", [False, True])
async def test_a_model_that_the_run_names_writes_the_summary(
    go: Drive, build: Build, script: Provider, monkeypatch: pytest.MonkeyPatch, *, ahead: bool
) -> None:
    """`init_chat_model` without a model reads the run's config at each call."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", script.base_url)
    monkeypatch.setattr(f"{__name__}.gpt", lambda _: init_chat_model(configurable_fields=("model", "model_provider")))
    graph = build(script, CompactionSettings(context_window=32_000, summary_ahead=ahead))
    named = {"thread_id": "1", "model": "gpt-4o", "model_provider": "openai"}
    script.counted = 20_000
    for given in (talk(20_000), {"messages": [HumanMessage("And" + " then" * 6_000)]}):
        await go.invoke(graph, given, {"configurable": named})
        await ended()
    assert {row.verdict for row in ledger(graph)} <= {"committed", "prepared"}
    assert sum(map(asks_for_summary, script.requests)) == 1
