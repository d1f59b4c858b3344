"""Conversations with the real clients of strict providers, of which no request is refused.

What the providers bind to the history goes out of a request after a compaction, and only that: the tests also look at
how much of the thinking, citations and images is still sent.
"""

import asyncio
from itertools import product
from random import Random
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import SecretStr

from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    create_compacting_agent,
    create_compaction_graph,
)
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes import compact_messages, view
from tests.full import examples, part
from tests.replay.strict_server import StrictServer, strict_server
from tests.settings import settings as of_flat_names

WINDOW, TURNS, STEPS = 2_500, 2, 7
PROMPT = "You audit containers. Look up each one with the tool."
THREAD = RunnableConfig(configurable={"thread_id": "1"}, recursion_limit=200)
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


@tool
def lookup(container: str) -> str:
    """Say where a container is."""
    return f"Container {container}, sealed with SEAL{container[4:]}: " + f"row {container[-2:]} at the quay; " * 40


def claude(strict: StrictServer, *, stream: bool, name: str, **options: Any) -> Any:
    """Anthropic's client."""
    options |= {"base_url": strict.base_url, "streaming": stream, "max_tokens": 2_000, "max_retries": 0}
    return ChatAnthropic(model_name=name, api_key=SecretStr("none"), **options)


def openai(strict: StrictServer, *, stream: bool, **options: Any) -> Any:
    """OpenAI's client."""
    options |= {"base_url": f"{strict.base_url}/v1", "streaming": stream, "stream_usage": True, "max_retries": 0}
    return ChatOpenAI(model="gpt-5.2", api_key=SecretStr("none"), **options)


ENABLED = {"type": "enabled", "budget_tokens": 1_024}
PROVIDERS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "claude that checks the history": (claude, {"thinks": "each", "cites": True}, {"name": "claude-opus-5-5"}),
    "claude that thinks once a turn": (
        claude,
        {"thinks": "turn", "cites": True},
        {"name": "claude-sonnet-4-6", "thinking": ENABLED},
    ),
    "claude that thinks at each step": (
        claude,
        {"thinks": "each"},
        {"name": "claude-sonnet-4-6", "thinking": ENABLED},
    ),
    "claude that compacts": (
        claude,
        {"compacts": 1_400},
        {"name": "claude-opus-5-5", "betas": ["compact-2026-01-12"]},
    ),
    "responses that compact": (openai, {"compacts": 1_400}, {"use_responses_api": True, "store": False}),
    "responses": (openai, {"thinks": "each"}, {"use_responses_api": True, "store": False}),
    "responses of a stored conversation": (openai, {}, {"use_responses_api": True, "use_previous_response_id": True}),
    "chat completions": (openai, {}, {"use_responses_api": False}),
}


def summarizer(model: Any, settings: CompactionSettings) -> Any:
    """Who writes the summaries."""
    return "digest" if settings.preset == "faithful" else model


def agent(model: Any, settings: CompactionSettings, saver: Any) -> Any:
    """Our agent."""
    return create_compacting_agent(
        model,
        [lookup],
        system_prompt=PROMPT,
        settings=settings,
        checkpointer=saver,
        summarizer=summarizer(model, settings),
    )


def middleware(model: Any, settings: CompactionSettings, saver: Any) -> Any:
    """LangChain's agent with the middleware."""
    ours = CompactionMiddleware(settings=settings, summarizer=summarizer(model, settings))
    return create_agent(model, [lookup], system_prompt=PROMPT, middleware=[ours], checkpointer=saver)


def graph(model: Any, settings: CompactionSettings, saver: Any) -> Any:
    """A graph of one's own, which calls the model with the view."""
    compaction = create_compaction_graph(
        settings=settings, summarizer=summarizer(model, settings), system_prompt=PROMPT, tools=[lookup]
    )
    bound = model.bind_tools([lookup])

    def request(state: CompactionState) -> Any:
        return [SystemMessage(PROMPT), *view(state)]

    async def acall(state: CompactionState) -> Any:
        return {"messages": [await bound.ainvoke(request(state))]}

    builder = StateGraph(CompactionState)
    builder.add_node("compact", compaction)
    builder.add_node("model", RunnableLambda(lambda state: {"messages": [bound.invoke(request(state))]}, acall))
    builder.add_node("tools", ToolNode([lookup]))
    builder.add_edge(START, "compact").add_edge("compact", "model").add_edge("tools", "compact")
    builder.add_conditional_edges("model", tools_condition)
    return builder.compile(checkpointer=saver)


def asked(turn: int) -> Any:
    """The input of a turn, every second one with a picture."""
    text = f"Turn {turn}. {'Look at this. ' if turn % 2 else ''}Look up the next containers."
    picture = [{"type": "image_url", "image_url": {"url": PIXEL}}] if turn % 2 else []
    return {"messages": [HumanMessage([{"type": "text", "text": text}, *picture])]}


def drive(built: Any, form: str = "sync", turns: range = range(TURNS)) -> None:
    """Have a conversation, in one of three forms."""

    async def talk() -> None:
        for turn in turns:
            await built.ainvoke(asked(turn), THREAD)

    if form == "async":
        asyncio.run(talk())
        return
    for turn in turns:
        if form == "stream":
            list(built.stream(asked(turn), THREAD, stream_mode="messages"))
        else:
            built.invoke(asked(turn), THREAD)


def commits(built: Any) -> int:
    """How many compactions were committed."""
    return sum(
        row.verdict in ("committed", "degraded_deterministic") for row in CompactionThread(built, THREAD).history()
    )


def sized(preset: Any, **options: Any) -> CompactionSettings:
    """Settings for a small window."""
    return CompactionSettings(preset=preset, context_window=WINDOW, output_reserve=0, **options)


DOORS = {"agent": agent, "middleware": middleware, "graph": graph}
PRESETS = ("selective", "faithful", "progressive")
CASES = list(product(PROVIDERS, PRESETS, DOORS, ("sync", "async", "stream")))


@pytest.mark.parametrize(("name", "preset", "door", "form"), part(CASES, 16))
def test_no_request_is_refused(name: str, preset: str, door: str, form: str) -> None:
    """And what is not bound to the history is sent as before."""
    client, plays, options = PROVIDERS[name]
    with strict_server(STEPS, **plays) as strict:
        built = DOORS[door](client(strict, stream=form == "stream", **options), sized(preset), InMemorySaver())
        drive(built, form)
        assert strict.refused == []
        assert strict.unread == 0
        assert len(strict.requests) == TURNS * STEPS
        assert commits(built) or strict.compactions
        if client is claude and plays.get("thinks"):
            checks_history = options["name"] == "claude-opus-5-5"
            assert strict.share("thinking") > 0.3 if checks_history else strict.share("thinking") == 1
            assert strict.share("image") == 1
        if plays.get("cites"):
            assert all(strict.sent[kind] == strict.could[kind] for kind in ("citations", "web_search_tool_result"))


CHECKS_HISTORY, ONCE_A_TURN, STORED = (
    PROVIDERS[name]
    for name in (
        "claude that checks the history",
        "claude that thinks once a turn",
        "responses of a stored conversation",
    )
)


@pytest.mark.parametrize(
    ("provider", "without"),
    [
        (ONCE_A_TURN, {"name": "claude-sonnet-4-6"}),
        (CHECKS_HISTORY, {"name": "claude-sonnet-4-6", "thinking": ENABLED}),
        (STORED, {"use_responses_api": True}),
    ],
)
@pytest.mark.parametrize(("first", "door"), part([*product((True, False), DOORS)], 6))
def test_a_feature_is_switched_on_or_off(provider: Any, without: dict[str, Any], first: bool, door: str) -> None:
    """Between two turns, with compactions before and after; one of them is a change of the model."""
    client, plays, options = provider
    saver = InMemorySaver()
    with strict_server(STEPS, **plays) as strict:
        for begin, chosen in ((0, options if first else without), (2, without if first else options)):
            built = DOORS[door](client(strict, stream=False, **chosen), sized("selective"), saver)
            drive(built, turns=range(begin, begin + 2))
            assert commits(built)
        assert strict.refused == []


BETAS = ["compact-2026-01-12"]
FAMILIES: list[tuple[Any, list[dict[str, Any]]]] = [
    (
        claude,
        [
            {"name": "claude-opus-5-5", "betas": BETAS},
            {"name": "claude-sonnet-4-6", "betas": BETAS},
            {"name": "claude-sonnet-4-6", "betas": BETAS, "thinking": ENABLED},
        ],
    ),
    (
        openai,
        [
            {"use_responses_api": True},
            {"use_responses_api": True, "store": False},
            {"use_responses_api": True, "use_previous_response_id": True},
        ],
    ),
]


@pytest.mark.parametrize("seed", range(examples(12, full=1_000)))
def test_features_are_switched_at_random(seed: int) -> None:
    """Thinking, stored conversations, citations, the provider's own compaction, and who compacts beside it."""
    drawn = Random(seed)  # noqa: S311 - not a secret
    client, variants = drawn.choice(FAMILIES)
    thinks = "each" if client is claude else drawn.choice(("", "each"))
    plays: dict[str, Any] = {"thinks": thinks, "cites": drawn.choice((True, False))}
    door, saver = drawn.choice(list(DOORS)), InMemorySaver()
    with strict_server(STEPS, **plays) as strict:
        for turn in range(4):
            strict.compacts = drawn.choice((0, 1_400))
            form, settings = drawn.choice(("sync", "async", "stream")), sized(drawn.choice(PRESETS))
            built = DOORS[door](client(strict, stream=form == "stream", **drawn.choice(variants)), settings, saver)
            drive(built, form, range(turn, turn + 1))
        assert strict.refused == []
        assert strict.unread == 0


@pytest.mark.parametrize("provider", part([CHECKS_HISTORY, STORED], 2))
@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_a_conversation_goes_on_after_an_undo(provider: Any, door: str) -> None:
    """What was said between compaction and undo is bound to the compacted history."""
    client, plays, options = provider
    with strict_server(STEPS, **plays) as strict:
        settings = CompactionSettings(context_window=100_000)
        built = DOORS[door](client(strict, stream=False, **options), settings, InMemorySaver())
        drive(built, turns=range(1))
        thread = CompactionThread(built, THREAD)
        thread.compact(full=True)
        drive(built, turns=range(1, 2))
        thread.undo()
        drive(built, turns=range(2, 3))
        assert strict.refused == []


@pytest.mark.parametrize("door", part([*DOORS], 2))
def test_a_compaction_reaches_a_model_that_stores_the_conversation(door: str) -> None:
    """What it reads stays within the window."""
    client, plays, options = STORED
    with strict_server(2 * STEPS, **plays) as strict:
        built = DOORS[door](client(strict, stream=False, **options), sized("selective"), InMemorySaver())
        drive(built)
        assert strict.largest < WINDOW
        assert sum("previous_response_id" in request for request in strict.requests) > len(strict.requests) / 2


@pytest.mark.parametrize(("preset", "door"), part([*product(PRESETS, DOORS)], 4))
def test_a_long_turn_keeps_its_thinking(door: str, preset: str) -> None:
    """Of which only the first step has any; no summary stands between it and the other steps."""
    client, plays, options = ONCE_A_TURN
    with strict_server(3 * STEPS, **plays) as strict:
        built = DOORS[door](client(strict, stream=False, **options), sized(preset), InMemorySaver())
        drive(built, turns=range(1))
        assert strict.refused == []
        assert commits(built)
        assert strict.share("thinking") == 1


@pytest.mark.parametrize("door", ["agent", "middleware"])
def test_an_answer_to_a_quotation_of_the_archive_is_not_bound_to_it(door: str) -> None:
    """The next request holds the answer, but not the quotation."""
    client, plays, options = CHECKS_HISTORY
    with strict_server(STEPS, **plays) as strict:
        settings = of_flat_names(context_window=100_000, recall="automatic", facts_beside_summary=False)
        built = DOORS[door](client(strict, stream=False, **options), settings, InMemorySaver())
        built.invoke({"messages": "The wifi password of the harbor office is tulip-77."}, THREAD)
        drive(built, turns=range(1))
        CompactionThread(built, THREAD).compact(full=True)
        built.invoke({"messages": "What was the wifi password at the harbor again?"}, THREAD)
        drive(built, turns=range(1, 2))
        assert strict.refused == []
        assert any("<archive>" in str(request) for request in strict.requests)


@pytest.mark.parametrize("provider", [CHECKS_HISTORY, STORED])
def test_a_compacted_list_is_sent_as_it_is(provider: Any) -> None:
    """`compact_messages` returns a request, so it leaves out what the request must not hold."""
    client, plays, options = provider
    with strict_server(STEPS, **plays) as strict:
        model = client(strict, stream=False, **options).bind_tools([lookup])
        settings = CompactionSettings(context_window=100_000)
        built = create_compacting_agent(model, [lookup], settings=settings, checkpointer=InMemorySaver())
        drive(built, turns=range(2))
        given = built.get_state(THREAD).values["messages"]
        kept = compact_messages([*given, HumanMessage("And now?")], max_tokens=1_500)
        model.invoke(kept)
        assert strict.refused == []
        assert "previous_response_id" not in strict.requests[-1]
