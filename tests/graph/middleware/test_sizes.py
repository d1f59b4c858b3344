"""LangChain's `trigger` and `keep`, and what they come to here."""

import inspect
from typing import Any

import pytest
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import HumanMessage

from langgraph_compaction.graph import CompactionSettings, SettingsError
from langgraph_compaction.graph.context_size import kept_by, sizes_in, with_sizes
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes, sizes_of
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, WORDS, Drive, rounds, said, values, verdicts
from tests.graph.middleware.agents import agent
from tests.invariants import is_summary

WINDOW = 100_000


def settings_of(trigger: Any = None, keep: Any = None, **given: Any) -> CompactionSettings:
    """The settings that the arguments mean for a model of this window."""
    sizes = sizes_in(trigger, "trigger"), sizes_in(keep, "keep")
    return with_sizes(CompactionSettings(**given), *sizes, window=WINDOW)


def sizes(trigger: Any, *, fixed: int = 0) -> Sizes:
    """The sizes of a call under such a trigger."""
    return sizes_of(settings_of(trigger), window=WINDOW, fixed=fixed)


@pytest.mark.parametrize(
    ("trigger", "tokens", "aim"),
    [
        (None, 80_000, 45_000),
        (("fraction", 0.8), 80_000, 45_000),
        (("fraction", 0.3), 30_000, 16_406),
        (("tokens", 4_000), 4_000, 2_000),
        (("tokens", 95_000), 93_904, 47_952),
        (("tokens", 500_000), 93_904, 47_952),
        ([("tokens", 60_000), ("fraction", 0.4)], 40_000, 21_875),
        ([("messages", 50), {"tokens": 70_000}], 70_000, 43_750),
        (("messages", 50), 87_500, 43_750),
    ],
)
def test_a_trigger_in_tokens(trigger: Any, tokens: int, aim: int) -> None:
    """As LangChain means it, however low; a compaction goes clearly below it; 2 % below the limit is the most."""
    found = sizes(trigger)
    assert (found.trigger, found.aim, found.raised) == (tokens, aim, False)


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (("messages", 20), ("recent_messages", 20)),
        (("tokens", 3_000), ("recent_tokens", 3_000)),
        (("fraction", 0.3), ("recent_tokens", 30_000)),
        (None, ("tool_blocks", None)),
    ],
)
def test_what_is_kept_is_a_strategy(keep: Any, expected: tuple[str, int | None]) -> None:
    """Without it the strategies of the policy stand."""
    name, most = expected
    assert settings_of(keep=keep).policy.strategies == (name,)
    found: Any = kept_by(sizes_in(keep, "keep"), WINDOW)
    assert {one: strategy.keywords for one, strategy in found.items()} == ({name: {"most": most}} if most else {})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"trigger": {"tokens": 4_000, "messages": 10}}, "a list where any one is enough, or a function of your own"),
        ({"trigger": ("turns", 3)}, r'give \("fraction", 0.8\)'),
        ({"trigger": ("tokens", 0)}, "above 0"),
        ({"trigger": ("fraction", 1.5)}, "at most 1"),
        ({"trigger": 4_000}, "is no size"),
        ({"keep": ("messages", -1)}, "keep=.* is no size"),
        ({"keep": [("messages", 5), ("tokens", 5)]}, "keep takes one size"),
        (
            {"trigger": ("tokens", 9), "settings": CompactionSettings(trigger_ratio=0.7)},
            "trigger= and settings.trigger",
        ),
        (
            {"keep": ("tokens", 9), "settings": CompactionSettings(strategies=("full",))},
            "keep= and the policy's strat",
        ),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_to_use(arguments: dict[str, Any], says: str) -> None:
    """At build time."""
    with pytest.raises(SettingsError, match=says):
        CompactionMiddleware(**arguments)


def test_every_argument_of_theirs_is_understood_or_refused() -> None:
    """No code that names them ends in a `TypeError`."""
    theirs = set(inspect.signature(SummarizationMiddleware.__init__).parameters) - {"deprecated_kwargs"}
    assert theirs <= set(inspect.signature(CompactionMiddleware.__init__).parameters)


@pytest.mark.parametrize(("place", "words"), [("{messages}", []), ("{conversation}", ["for a nurse"])])
async def test_a_prompt_is_a_string_with_a_place_for_the_messages(go: Drive, place: str, words: list[str]) -> None:
    """As LangChain writes it, or as we do; the model is sent one message with it."""
    summarizer = ScriptedModel(replies=["The user said what there is to say."])
    prompt = " ".join(["Sum up", place, *words])
    graph = agent(None, summarizer, trigger=("messages", 10), keep=("messages", 4), summary_prompt=prompt)
    await go.invoke(graph, {"messages": [*rounds(6, 40), HumanMessage("short", id="early")]})
    (asked,) = summarizer.received[0]
    assert asked.text.startswith("Sum up <conversation>\n<message role=")
    assert all(word in asked.text for word in words)
    assert verdicts(graph)[0] == "committed"


async def test_a_trigger_in_messages_with_messages_kept(go: Drive) -> None:
    """At ten messages all but the newest four of them become a summary; the input stays beside them."""
    graph = agent(trigger=("messages", 10), keep=("messages", 4), facts_beside_summary=False)
    given = [*rounds(4, 40), HumanMessage("short", id="early")]
    await go.invoke(graph, {"messages": given})
    assert verdicts(graph) == []
    before = values(graph)["messages"]
    assert len(before) == 10
    await go.invoke(graph, said("more", "more"))
    assert verdicts(graph) == ["committed"]
    summary, *kept, _ = values(graph)["messages"]
    assert is_summary(summary)
    assert [message.id for message in kept] == [*(message.id for message in before[-4:]), "more"]


async def test_what_is_kept_is_a_share_of_the_models_own_window(go: Drive) -> None:
    """The settings contain no window. The input is kept in addition to this share."""
    graph = agent(ScriptedModel(profile_window=1_000), context_window=None, keep=("fraction", 0.3))
    await go.invoke(graph, {"messages": rounds(8)[:-1]}, CONFIG)
    assert verdicts(graph) == ["committed"]
    _, *kept, _, _ = values(graph)["messages"]
    assert 250 <= sum(map(WORDS.message, kept)) <= 300


async def test_the_window_of_the_model_given_serves_one_without_a_profile(go: Drive) -> None:
    """Fractions are of the window of this call's model, else of the one that writes the summaries."""
    writer = ScriptedModel(replies=["<summary>told by the writer</summary>"], profile_window=1_000)
    for model in (ScriptedModel(), ScriptedModel(profile_window=1_000)):
        graph = agent(model, writer, context_window=None, trigger=("fraction", 0.5), model_argument=writer)
        await go.invoke(graph, {"messages": rounds(6)[:-1]}, {"configurable": {"thread_id": "1"}})
        assert verdicts(graph, "1") == ["committed"]
    graph = agent(ScriptedModel(), context_window=None)
    with pytest.raises(SettingsError, match="context_window"):
        await go.invoke(graph, said("hello"), CONFIG)
