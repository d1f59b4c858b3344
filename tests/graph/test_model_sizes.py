"""Trigger and limit of real model objects, and what a graph does at them: nothing is sent to a provider."""

from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.graph.build_dependencies import dependencies_of
from langgraph_compaction.nodes.config.policies import PRESETS
from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes
from tests.fakes import claude, gpt, sized_as
from tests.graph.harness import CONFIG, Drive, agent, rounds, verdicts
from tests.graph.middleware.agents import agent as middleware_agent

WAYS = ["compact", "drop_oldest", "new_thread", "raise"]


def sizes(model: Any, preset: str = "selective", ratio: float | None = None, **chosen: Any) -> Sizes:
    """The sizes of an agent with this model, no prompt and no tools."""
    given = chosen | {"preset": preset} | ({} if ratio is None else {"trigger_ratio": ratio})
    graph = create_compacting_agent(model, settings=CompactionSettings.model_validate(given))
    found: Sizes = graph.nodes["model"].bound.dependencies.sizes()
    return found


@pytest.mark.parametrize(
    ("model", "preset", "ratio", "trigger", "limit"),
    [
        (gpt("gpt-4o"), "selective", 0.9, 115_200, 121_600),
        (gpt("gpt-4o"), "layered_defence", None, 115_201, 121_600),
        (gpt("gpt-4o"), "selective", None, 102_400, 115_200),
        (gpt("gpt-4o"), "recent_rounds", None, 64_000, 80_000),
        (claude(), "recent_rounds", None, 64_000, 80_000),
        (gpt("gpt-5"), "recent_rounds", None, 64_000, 80_000),
        (gpt("gpt-4o"), "progressive", None, 96_001, 112_000),
        (gpt("gpt-4o"), "faithful", None, 123_904, 123_904),
        (gpt("gpt-4o", max_tokens=16_384), "selective", None, 89_292, 111_616),
        (gpt("gpt-5"), "selective", None, 217_600, 272_000),
        (gpt("gpt-5"), "layered_defence", None, 244_801, 272_000),
        (claude(), "selective", None, 108_800, 136_000),
        (claude(), "layered_defence", None, 122_401, 136_000),
        (claude(), "progressive", None, 102_001, 136_000),
        (claude(), "selective", 0.99, 132_000, 136_000),
        (claude(max_tokens=8_192), "selective", None, 160_000, 191_808),
        (claude().bind(max_tokens=8_192), "selective", None, 160_000, 191_808),
        (gpt("gpt-4o").bind(max_completion_tokens=32_768).with_retry(), "selective", None, 76_185, 95_232),
        (
            gpt("gpt-4o", max_tokens=4_096).bind(max_tokens=1_000).bind(max_tokens=16_384),
            "selective",
            None,
            89_292,
            111_616,
        ),
        (gpt("gpt-4o", max_tokens=16_384).bind(max_tokens=None), "selective", None, 102_400, 115_200),
        (gpt("gpt-4o", max_tokens=-1), "selective", None, 102_400, 115_200),
        (gpt("gpt-4o").with_fallbacks([claude()]), "selective", None, 51_200, 64_000),
        (gpt("gpt-4.1").with_fallbacks([claude().bind(max_tokens=8_192)]), "selective", None, 160_000, 191_808),
        (claude().with_fallbacks([gpt("gpt-4o")]).bind(max_tokens=4_096), "selective", None, 102_400, 123_904),
    ],
)
def test_the_sizes_of_real_models(model: Any, preset: str, ratio: float | None, trigger: int, limit: int) -> None:
    """As the profile and `max_tokens` of the object say, or of the outermost binding that names it.

    With fallbacks, the smallest window and the largest answer hold.
    """
    found = sizes(model, preset, ratio)
    assert (found.trigger, found.limit) == (trigger, limit)


REAL = pytest.mark.parametrize("model", [gpt("gpt-4o"), gpt("gpt-5"), claude()], ids=["gpt-4o", "gpt-5", "claude"])


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "faithful"])
@pytest.mark.parametrize("window", [None, 1_000, 60_000, 100_000])
@REAL
def test_every_preset_has_a_soft_zone_with_every_model(preset: str, window: int | None, model: Any) -> None:
    """2 % of the window at least, in the model's own window and in a smaller one."""
    found = sizes(model, preset, context_window=window) if window else sizes(model, preset)
    assert found.limit - found.trigger >= found.window // 50


@pytest.mark.parametrize(
    ("window", "trigger", "limit"),
    [(1_000, 800, 1_000), (60_000, 48_000, 60_000), (80_000, 64_000, 80_000), (100_000, 80_000, 100_000)],
)
@REAL
def test_a_window_in_the_settings_is_used_whole(model: Any, window: int, trigger: int, limit: int) -> None:
    """The answer has its room above it, in the rest of the model's own window, so every model has the same sizes."""
    found = sizes(model, context_window=window)
    assert (found.trigger, found.limit, found.window) == (trigger, limit, window)


@pytest.mark.parametrize(
    ("model", "window", "trigger", "limit"),
    [
        (claude(), 136_000, 108_800, 136_000),
        (claude(), 150_000, 108_800, 136_000),
        (claude(), 200_000, 108_800, 136_000),
        (claude(), 500_000, 108_800, 136_000),
        (gpt("gpt-4o"), 120_000, 96_000, 115_200),
        (gpt("gpt-4o"), 1_000_000, 102_400, 115_200),
        (gpt("gpt-5"), 271_000, 216_800, 271_000),
        (gpt("a-model-without-profile", max_tokens=4_096), 32_000, 22_323, 27_904),
    ],
)
def test_the_reserve_is_taken_from_the_models_own_window(model: Any, window: int, trigger: int, limit: int) -> None:
    """A window in the settings gives up only what the answer needs beyond the tokens above it.

    It does not enlarge the model's window, but stands for one that is not known.
    """
    found = sizes(model, context_window=window)
    assert (found.trigger, found.limit) == (trigger, limit)


def test_a_reserve_in_the_settings_is_taken_from_the_window_in_the_settings() -> None:
    """For a server that accepts less than the model's profile says."""
    assert sizes(claude(), context_window=80_000, output_reserve=8_000).limit == 72_000


def test_a_window_larger_than_the_models_own_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """With what to do; the window of a preset is none that a person chose."""
    given = [(claude(), {"context_window": 1_000_000}), (gpt("gpt-4"), {"preset": "recent_rounds"})]
    for model, chosen in given:
        settings = CompactionSettings(**chosen)
        dependencies_of(create_compacting_agent(model, settings=settings)).sizes()
    told = [record.getMessage() for record in caplog.records if "context_window" in record.getMessage()]
    assert len(told) == 1
    assert "context_window is 1000000, but the model accepts 200000" in told[0]
    assert "max_input_tokens" in told[0]


class ShortAnswers(AgentMiddleware[Any, Any, Any]):
    """Limits the answer of each call, by the request's settings."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Bind a smaller `max_tokens`."""
        return handler(request.override(model_settings={"max_tokens": 8_192}))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Bind a smaller `max_tokens`."""
        return await handler(request.override(model_settings={"max_tokens": 8_192}))


async def test_the_settings_of_a_request_count_in_the_middleware(go: Drive) -> None:
    """Before the call and after the answer; they stand over `max_tokens` of the model."""
    for others, limit in (((), 136_000), ((ShortAnswers(),), 191_808)):
        graph = middleware_agent(
            sized_as(claude()),
            others=others,
            token_counter=HUNDREDS,
            context_window=None,
            output_reserve=None,
            require_confirmation=True,
        )
        await go.invoke(graph, {"messages": [HumanMessage("hello")]}, CONFIG)
        of_the_answer = dependencies_of(graph).sizes()
        assert of_the_answer is not None
        assert of_the_answer.limit == limit
        await go.invoke(graph, talk(195_000), CONFIG)
        (asked,) = graph.get_state(CONFIG).interrupts
        assert asked.value["limit"] == limit


HUNDREDS = TokenCounter("hundreds", lambda text: 100 * len(text.split()))
"""A word is a hundred tokens: a window is full of few words."""


def talk(tokens: int) -> dict[str, Any]:
    """A conversation of about so many tokens, by the hundred, that ends with a question."""
    return {"messages": [*rounds(10, tokens // 2_000), HumanMessage("and now?", id="question")]}


@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "faithful"])
async def test_a_person_is_asked_with_the_default_max_tokens_of_claude(go: Drive, build: Any, preset: str) -> None:
    """Between trigger and limit whether to compact, over the limit how to go on; 136,000 tokens are the limit.

    In every preset: `faithful` alone has nothing between the two.
    """
    given: dict[str, Any] = {
        "context_window": None,
        "output_reserve": None,
        "require_confirmation": True,
        "preset": preset,
    }
    given |= {"token_counter": HUNDREDS, "summarizer": "digest"}
    for tokens, answers in ((133_000, ["approve", "reject"]), (140_000, WAYS)):
        graph = build(sized_as(claude()), **given)
        await go.invoke(graph, talk(tokens), CONFIG)
        (asked,) = graph.get_state(CONFIG).interrupts
        assert [answer for answer in asked.value["answers"] if isinstance(answer, str)] == answers
        assert (asked.value["max_tokens"], asked.value["limit"]) == (200_000, 136_000)
        assert verdicts(graph) == []
        await go.invoke(graph, Command(resume=answers[0]), CONFIG)
        assert verdicts(graph) == ["committed"]
