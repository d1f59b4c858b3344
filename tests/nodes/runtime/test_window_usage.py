"""What fills the window: the parts of a request, and the bar of them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.digest.digest import BESIDE_SUMMARY, digest
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage, bars, legend, window_usage
from langgraph_compaction.nodes.summary.summary_message import SummaryParts
from langgraph_compaction.nodes.testing import calls
from tests.graph.harness import WORDS, filler

SIZES = sizes_of(CompactionSettings(context_window=1_000, output_reserve=100), window=1_000, fixed=0)
WISH = "Always answer in French."
LEFT: list[AnyMessage] = [
    HumanMessage(WISH, id="wish"),
    calls(("read", {})),
    ToolMessage("PORT=8080 in config.toml", name="read", tool_call_id="call-1", id="config"),
]
FACTS = digest(LEFT, budget=100, counter=WORDS, sections=BESIDE_SUMMARY, words_first=50)
MESSAGES: list[AnyMessage] = [
    SystemMessage(filler(10), id="system"),
    SummaryParts(pins=["ship to Oslo"], facts=FACTS).message(filler(30), "f" * 16),
    HumanMessage(filler(20), id="pinned"),
    HumanMessage(filler(40), id="asked"),
    calls(("read", {}), start=1),
    ToolMessage(filler(50), tool_call_id="call-1", id="result"),
    AIMessage(filler(60), id="answer"),
]


def measured(tokens: int, **options: Any) -> WindowUsage:
    """The usage of a window of 1,000 tokens, of which 100 are the reserve."""
    fixed: Any = {"system prompt": 5, "tools": 7}
    return window_usage(MESSAGES, SIZES, tokens=tokens, counter=WORDS, fixed=fixed, pins={"pinned"}, **options)


def counted() -> int:
    """The tokens of the request by the counter."""
    return 12 + sum(map(WORDS.message, MESSAGES))


def test_each_token_belongs_to_one_part() -> None:
    """Pins and the user's own words count apart from the summary whose message shows them."""
    parts, said = measured(counted()).parts, {message.id: WORDS.message(message) for message in MESSAGES}
    assert WISH in FACTS.text
    assert "8080" in FACTS.text
    assert parts["own words"] == WORDS.text(WISH)
    assert parts["pins"] == said["pinned"] + WORDS.text("ship to Oslo")
    assert parts["summary"] == WORDS.message(MESSAGES[1]) - WORDS.text(WISH) - WORDS.text("ship to Oslo")
    assert (parts["system prompt"], parts["tools"]) == (5 + said["system"], 7)
    assert (parts["user"], parts["tool results"]) == (said["asked"], said["result"])
    assert parts["assistant"] == WORDS.message(MESSAGES[4]) + said["answer"]
    assert (parts["free"], parts["reserve"]) == (900 - counted(), 100)


@pytest.mark.parametrize("tokens", [counted(), 1, 601, 900, 950, 1_000, 1_234])
@pytest.mark.parametrize("summary", [0, 77])
def test_the_parts_sum_to_the_window(tokens: int, summary: int) -> None:
    """Also where the provider counts otherwise, and over the limit; a request that is larger than it fills all."""
    usage = measured(tokens, summary=summary)
    assert sum(usage.parts.values()) == max(1_000, tokens)
    assert sum(count for name, count in usage.parts.items() if name not in {"free", "reserve"}) == tokens
    assert all(usage.parts.values())
    assert (usage.parts.get("summary", 0) > measured(tokens).parts.get("summary", 0)) == (summary > 0 and tokens > 1)


@pytest.mark.parametrize(("tokens", "mark"), [(counted(), True), (890, False), (1_234, False)])
def test_a_bar_shows_the_parts_and_the_trigger(tokens: int, mark: bool) -> None:
    """As many signs as it is wide; each part of the legend has its figures."""
    usage = measured(tokens)
    drawn, other = bars([usage, measured(900)], 100)
    assert (len(drawn), len(other)) == (100, 100 * 1_000 // max(tokens, 1_000)), "on one scale"
    assert drawn.find("|") == (usage.trigger // 10 if mark else -1)
    lines = list(legend([usage, measured(900)]))
    assert [line[0] for line in lines][: len(usage.parts) - 2] == list("PT!WSUAR")[: len(usage.parts) - 2]
    assert any(line.endswith("->       100  reserve") for line in lines)
    assert next(legend([usage], "zh")).endswith("  系统提示")
