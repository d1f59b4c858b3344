"""The preset `recent_rounds`: the newest rounds and a short summary of all before them (S4)."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import compaction_count, create_compacting_agent
from langgraph_compaction.nodes import CompactionSettings, compact_messages
from langgraph_compaction.nodes.config.loading import load_settings
from langgraph_compaction.nodes.config.policies import PRESETS, RecentRounds
from langgraph_compaction.nodes.config.prompts import PROMPTS
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.errors import UnknownWindowError
from langgraph_compaction.nodes.runtime.dependencies import window_of
from tests.fakes import ScriptedModel
from tests.graph.harness import Drive, agent, filler, ledger, rounds, said, values, verdicts
from tests.histories import numbered, text_rounds

TOLD = "The user asked for a chart, and the assistant drew it."


@tool
def read() -> str:
    """Read."""
    return "read"


def keeping(*replies: Any, told: str = TOLD, **options: Any) -> Any:
    """Build the small agent under this preset; nobody is asked."""
    given = {"preset": "recent_rounds", "require_confirmation": False, **options}
    return agent(ScriptedModel(replies=list(replies) or ["answer"]), ScriptedModel(replies=[told]), **given)


@pytest.mark.parametrize(("window", "threshold"), [(80_000, 64_000), (128_000, 64_000), (1_000, 800), (999, 799)])
def test_four_fifths_fire(window: int, threshold: int) -> None:
    """Rounded down; of a larger window, 80,000 tokens are used."""
    settings = CompactionSettings(preset="recent_rounds", output_reserve=0)
    assert sizes_of(settings, window=window, fixed=0).trigger == threshold


@pytest.mark.parametrize(("words", "compacted"), [(788, False), (789, True)])
async def test_the_threshold_itself_fires(go: Drive, words: int, *, compacted: bool) -> None:
    """Below it there is nothing to do; the new input is not counted yet."""
    history = [HumanMessage(filler(words), id="h"), AIMessage("so it is", id="a")]
    graph = keeping()
    await go.invoke(graph, {"messages": [*history, HumanMessage("now?", id="now")]})
    assert bool(ledger(graph)) == compacted


def test_eighty_thousand_are_the_window_where_none_is_known() -> None:
    """What the settings say stands above it, and so does a smaller window of a model; other presets do not guess."""
    settings = CompactionSettings(preset="recent_rounds")
    assert window_of(settings, ScriptedModel()) == 80_000
    assert window_of(settings, ScriptedModel(profile_window=32_000)) == 32_000
    assert window_of(CompactionSettings(preset="recent_rounds", context_window=5_000), None) == 5_000
    with pytest.raises(UnknownWindowError):
        window_of(CompactionSettings(), ScriptedModel())


def test_the_figures_of_the_design() -> None:
    """Its YAML block, field by field."""
    chosen = CompactionSettings(preset="recent_rounds")
    assert (chosen.trigger_ratio, chosen.of(RecentRounds).keep_recent_rounds, chosen.summary_max_length) == (
        *(0.8, 2, 1_000),
    )
    assert chosen.prompt == PROMPTS["brief", "en"]


def test_a_person_is_asked_unless_the_settings_say_otherwise() -> None:
    """In this preset alone."""
    assert [name for name in PRESETS if CompactionSettings(preset=name).require_confirmation] == ["recent_rounds"]


def test_the_agent_has_a_compactor_of_its_summarizer_and_window() -> None:
    """Every node works with them; the configuration's tokens stand above the model's own."""
    settings = load_settings("context_compaction: {max_context_tokens: 5000}", preset="recent_rounds")
    summarizer = ScriptedModel(replies=[TOLD])
    graph: Any = create_compacting_agent(
        ScriptedModel(profile_window=32_000),
        settings=settings,
        summarizer=summarizer,
        checkpointer=InMemorySaver(),
    )
    dependencies = graph.nodes["token_check"].bound.dependencies
    assert dependencies.fallback_chain(settings)[0].summarizer.runnable is summarizer
    assert dependencies.sizes().window == 5_000


async def test_what_the_model_is_sent_afterwards(go: Drive) -> None:
    """System, tools, summary, two rounds, the current input, in that order."""
    graph = keeping(tools=[read], system_prompt="rules")
    history = rounds(8)
    await go.invoke(graph, {"messages": [*history, HumanMessage("now?", id="now")]})
    model = graph.nodes["model"].bound.dependencies.model
    system, summary, *kept, now = model.received[-1]
    assert (system.text, now.text) == ("rules", "now?")
    assert isinstance(system, SystemMessage)
    assert f"<summary>\n{TOLD}\n</summary>" in summary.text
    assert [message.text for message in kept] == [message.text for message in history[-4:]]
    assert [bound.name for bound in model.bound_tools] == ["read"]


async def test_the_history_before_the_rounds_is_summarized(go: Drive) -> None:
    """All of it, and nothing of what stays."""
    graph = keeping()
    await go.invoke(graph, {"messages": [*rounds(8), HumanMessage("now?", id="now")]})
    (asked,) = graph.nodes["model"].bound.dependencies.summarizer.runnable.received
    assert [f"ru{n}-0" in asked[-1].text for n in range(8)] == [True] * 6 + [False] * 2
    assert " 500 characters" in asked[-1].text


def _word(number: int) -> str:
    """A word that is like no other."""
    return "".join(chr(ord("a") + number * 7_919 // 26**place % 26) for place in range(5))


@pytest.mark.parametrize("options", [{}, {"language": "zh"}, {"summary_max_tokens": 20, "summary_max_length": None}])
async def test_a_summary_that_is_too_long_is_cut(go: Drive, options: dict[str, Any]) -> None:
    """At the end of a sentence; the attempt does not fail for it."""
    told = "The user asked for charts. " + " ".join(
        f"{_word(n)} {_word(n + 200)} {_word(n + 400)}." for n in range(80)
    )
    graph = keeping(told=told, **options)
    await go.invoke(graph, {"messages": [*rounds(8), HumanMessage("now?", id="now")]})
    (row,) = ledger(graph)
    text = values(graph)["messages"][0].text.partition("<summary>\n")[2].partition("\n</summary>")[0]
    assert row.verdict == "committed"
    assert told.startswith(text)
    assert text.endswith(".")
    assert (900 < len(text) <= 1_000) if "summary_max_tokens" not in options else (14 <= len(text.split()) <= 20)


async def test_rounds_that_do_not_fit_are_fewer(go: Drive) -> None:
    """Compacting again keeps less history, until the request is below the threshold."""
    graph, history = keeping(), rounds(2, words=220)
    await go.invoke(graph, {"messages": [*history, HumanMessage("now?", id="now")]})
    left = values(graph)["messages"]
    assert [message.id for message in left[1:4]] == [*(message.id for message in history[2:]), "now"]
    assert verdicts(graph) == ["committed"]


def test_compact_logic() -> None:
    """A hundred messages become fewer, of fewer tokens; rounds and messages are counted apart."""
    messages = numbered(text_rounds(50, say="question " * 20, reply="answer " * 20))
    found = compact_messages(messages, max_tokens=900, preset="recent_rounds", return_result=True)
    assert found.new_token_count < found.original_token_count
    assert len(found.new_messages) < len(messages)
    assert (found.compacted_rounds, found.compacted_messages) == (48, 96)
    assert found.summary
    assert is_summary(found.new_messages[0])
    assert found.saved_ratio == 1 - found.new_token_count / found.original_token_count
    assert found.original_token_count == sum(map(tiktoken_counter().message, messages))


async def test_session_auto_compact(go: Drive) -> None:
    """A window of a thousand, fifty prompts: the state tells how often it was compacted."""
    graph = keeping(filler(40, "a"))
    for n in range(50):
        await go.invoke(graph, said(f"prompt {n} {filler(20)}"))
    state = values(graph)
    assert compaction_count(state) > 0
    assert compaction_count(state) == verdicts(graph).count("committed")
    assert sum(map(is_summary, state["messages"])) == 1


def test_a_long_session_becomes_a_short_one() -> None:
    """The design's example: seventy thousand tokens come to a seventh."""
    messages = numbered(text_rounds(110, say="question " * 130, reply="answer " * 450))
    found = compact_messages(
        messages,
        max_tokens=64_000,
        preset="recent_rounds",
        summarizer=ScriptedModel(replies=[TOLD]),
        return_result=True,
    )
    assert found.original_token_count > 63_000
    assert found.new_token_count < 10_000
