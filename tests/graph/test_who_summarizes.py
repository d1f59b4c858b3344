"""Who writes summaries: the agent's own model by default, at the sizes of a real model, asked over HTTP."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.graph.build_dependencies import dependencies_of
from langgraph_compaction.graph.echo_model import EchoModel
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.config.policies import PRESETS, Preset
from langgraph_compaction.nodes.runtime.dependencies import given_summarizer
from langgraph_compaction.nodes.summary.summarizers import RunnableSummarizer
from langgraph_compaction.nodes.testing import ScriptedModel
from tests.fakes import claude, clock_of
from tests.graph.cli.provider import Provider, provider
from tests.graph.harness import CONFIG, Clock, Drive, frozen, ledger, said, standing, values, verdicts
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


async def test_the_model_summarizes_what_progressive_lets_go(go: Drive, script: Provider) -> None:
    """At 20,000 of 128,000 tokens, where a person asks for a compaction."""
    graph = ours(script, CompactionSettings(preset="progressive"))
    await go.invoke(graph, talk(20_000))
    assert not ledger(graph)
    await go.invoke(graph, {"messages": [], "compaction_request": {}})
    (row,) = ledger(graph)
    assert row.verdict == "committed"
    assert row.strategy.startswith("progressive")
    assert row.strategy.endswith("+model")
    (summary,) = [message for message in values(graph)["messages"] if is_summary(message)]
    assert WRITTEN in summary.text


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


async def test_tools_that_the_application_bound_to_a_fallback_are_not_sent(go: Drive, script: Provider) -> None:
    """The fallback writes the summary where the first model fails."""
    failing = ScriptedModel(replies=[ConnectionError("down")])
    model = failing.with_fallbacks([gpt(script).bind_tools([look])])
    settings = CompactionSettings(context_window=128_000)
    graph: Any = create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver())
    await go.invoke(graph, talk(108_000))
    (asked,) = [request for request in script.requests if asks_for_summary(request)]
    assert "tools" not in asked
    assert [row.strategy for row in ledger(graph)] == ["selective+model"]


async def test_a_stand_in_writes_no_summary(go: Drive) -> None:
    """The echo model repeats what it hears, so the digest writes."""
    settings = CompactionSettings(context_window=8_000)
    graph: Any = create_compacting_agent(EchoModel(), settings=settings, checkpointer=InMemorySaver())
    await go.invoke(graph, talk(7_000))
    assert [row.strategy for row in ledger(graph)] == ["selective+digest"]


@BUILDS
async def test_an_empty_reply_changes_nothing(go: Drive, build: Build) -> None:
    """Three calls, a rollback, and the conversation byte for byte; the digest follows at the next attempt."""
    with provider(answer=writes("")) as script:
        script.counted = 110_000
        graph = build(script, CompactionSettings(hooks=("pre_model",)))
        given = talk(108_000)
        await go.invoke(graph, given)
        assert sum(map(asks_for_summary, script.requests)) == 3
        assert verdicts(graph) == ["rejected_empty"]
        assert frozen(values(graph)["messages"][: len(given["messages"])]) == frozen(given["messages"])
        await go.invoke(graph, said("Still there?"))
        assert verdicts(graph)[-1] == "degraded_deterministic"


@BUILDS
async def test_a_models_summary_or_nothing(go: Drive, build: Build) -> None:
    """In the soft zone every attempt asks the model, none the digest, and two failures start the cool-down."""
    reply, clock = [""], Clock()
    with provider(answer=lambda request: reply[0] if asks_for_summary(request) else "All is calm.") as script:
        script.counted = 110_000
        with clock_of(clock):
            graph = build(script, CompactionSettings(on_summary_failure="nothing", hooks=("pre_model",)))
        given = talk(108_000)
        await go.invoke(graph, given)
        await go.invoke(graph, said("Still there?"))
        assert verdicts(graph) == ["rejected_empty"] * 2
        assert {row.strategy for row in ledger(graph)} == {"selective+model"}
        assert standing(graph)["cooldown_until"] == clock.time + 8
        await go.invoke(graph, said("And now?"))
        assert verdicts(graph)[-1] == "deferred_cooldown"
        messages = values(graph)["messages"]
        assert frozen(messages[: len(given["messages"])]) == frozen(given["messages"])
        clock.time += 9
        reply[0] = SUMMARY
        await go.invoke(graph, said("Try again."))
        assert verdicts(graph)[-1] == "committed"


async def test_nothing_also_after_a_persons_request(go: Drive) -> None:
    """A request on unchanged messages asks the model each time, as an attempt of its own."""
    with provider(answer=writes("")) as script:
        graph = ours(script, CompactionSettings(on_summary_failure="nothing"))
        await go.invoke(graph, talk(20_000))
        before = frozen(values(graph)["messages"])
        for _ in range(2):
            await go.invoke(graph, {"messages": [], "compaction_request": {}})
        assert verdicts(graph) == ["rejected_empty"] * 2
        assert len({row.compaction_id for row in ledger(graph)}) == 2
        assert frozen(values(graph)["messages"]) == before


@BUILDS
async def test_over_the_limit_the_digest_follows(go: Drive, build: Build) -> None:
    """A request that cannot be sent takes the levels one after another, whatever the setting says."""
    with provider(answer=writes("")) as script:
        graph = build(script, CompactionSettings(on_summary_failure="nothing"))
        await go.invoke(graph, talk(125_000))
        assert verdicts(graph)[-1] == "degraded_deterministic"
        assert values(graph)["messages"][-1].text.strip() == "All is calm."


async def test_an_open_draft_of_another_chain_is_closed(go: Drive) -> None:
    """A run that goes on with other settings begins anew, and no summary is written by the wrong level."""
    model = ScriptedModel(replies=[SUMMARY, "ok"], profile_window=128_000)
    graph: Any = create_compacting_agent(model, settings=CompactionSettings(), checkpointer=InMemorySaver())
    await go.invoke(graph, talk(108_000), interrupt_before=["summarize"])
    await go.invoke(graph, None, context={"preset": "faithful", "recall": "none"})
    assert [(row.verdict, row.strategy) for row in ledger(graph)] == [("recovered", "selective+model")]
    assert len(model.received) == 1


async def test_an_unknown_error_is_asked_twice_more(go: Drive) -> None:
    """An exception that names no kind may pass; one of a wrong key does not."""
    for error, calls in ((ValueError("odd"), 3), (ValueError("The API key is invalid: api key invalid"), 1)):
        summarizer = ScriptedModel(replies=[error])
        graph: Any = create_compacting_agent(
            ScriptedModel(replies=["ok"]),
            settings=CompactionSettings(context_window=128_000),
            summarizer=summarizer,
            checkpointer=InMemorySaver(),
        )
        await go.invoke(graph, talk(108_000), cast("RunnableConfig", CONFIG))
        assert len(summarizer.received) == calls


@pytest.mark.parametrize(("window", "calls"), [(None, 2), (40_000, 4), (1_000_000, 1)])
async def test_a_summarizer_reads_as_much_as_its_own_window_holds(go: Drive, window: int | None, calls: int) -> None:
    """Three quarters of it in one call; without a profile, three quarters of the agent's."""
    summarizer = ScriptedModel(replies=[SUMMARY], profile_window=window)
    graph: Any = create_compacting_agent(
        ScriptedModel(replies=["ok"]),
        settings=CompactionSettings(context_window=128_000),
        summarizer=summarizer,
        checkpointer=InMemorySaver(),
    )
    await go.invoke(graph, talk(170_000), cast("RunnableConfig", CONFIG))
    assert verdicts(graph) == ["committed"]
    assert len(summarizer.received) == calls
    assert "in at most 6400 tokens" in summarizer.received[0][-1].text  # a twentieth of the agent's window


def test_a_summarizer_keeps_room_for_its_answer() -> None:
    """The tokens of a model's answer come out of the window that its profile names."""
    summarizer = given_summarizer(claude())
    assert isinstance(summarizer, RunnableSummarizer)
    assert summarizer.max_input_tokens == 200_000 - 64_000
