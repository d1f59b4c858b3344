"""The first strategy that applies, in the order of the task; and what follows while it is not enough."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.strategy_settings import TaskType
from langgraph_compaction.nodes.selection.selector import Choice, Demand, Selector
from langgraph_compaction.nodes.selection.strategies import adaptive as module
from tests.histories import asks, numbered, result
from tests.nodes.selection.strategies.selecting import ANYTHING, choices, selector, taken, talk

TASKS: tuple[TaskType, ...] = ("code", "analysis", "conversation", "mixed", "unknown")
NAMES = {"s": "sliding_window", "i": "importance", "k": "key_events", "n": "incremental"}


def order(preset: str, task: TaskType) -> str:
    """Return the order of a task, a letter for each strategy."""
    short = {name: letter for letter, name in NAMES.items()}
    orders = CompactionSettings.model_validate({"preset": preset}).adaptive_orders
    return "".join(short[name] for name in orders.of(task))


def test_the_orders_of_the_text() -> None:
    """Sliding window first, whatever the task."""
    assert [order("progressive", task) for task in TASKS] == ["skn", "sin", "sin", "sni", "sin"]


def test_mixed_and_unknown() -> None:
    """In all presets alike."""
    for preset in ("progressive", "progressive_chart", "progressive_pseudocode"):
        assert [order(preset, task) for task in ("mixed", "unknown")] == ["sni", "sin"]


def test_the_orders_of_the_flow_chart() -> None:
    """Each task has one strategy of its own."""
    assert [order("progressive_chart", task) for task in TASKS[:3]] == ["k", "i", "s"]


def test_the_orders_where_adaptive_is_not_enough_or_fails() -> None:
    """Those of the text, of the flow chart and of the pseudo code."""
    short = {name: letter for letter, name in NAMES.items()}
    for preset, later, fallback in (
        ("progressive", "si", "sikn"),
        ("progressive_chart", "", "ikns"),
        ("progressive_pseudocode", "is", "ikns"),
    ):
        settings = CompactionSettings.model_validate({"preset": preset})
        assert "".join(short[name] for name in settings.adaptive_then) == later
        assert settings.strategies[0] == "adaptive"
        assert "".join(short[name] for name in settings.strategies[1:]) == fallback


def applying(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Let only these strategies apply, each dropping the first message that it sees; return who is asked."""
    asked: list[str] = []

    def strategy(name: str) -> Any:
        def choose(seen: Selector, _: Demand) -> Sequence[Choice]:
            asked.append(name)
            return [Choice(drop=frozenset(seen.non_system[:1]), summarize=True)] if name in names else []

        return choose

    monkeypatch.setattr(module, "PROGRESSIVE", {name: strategy(name) for name in NAMES.values()})
    return asked


@pytest.mark.parametrize(
    ("applies", "asked"),
    [("sikn", ["s"]), ("kn", ["s", "k"]), ("n", ["s", "k", "n"]), ("i", ["s", "k", "n"])],
)
def test_the_first_that_applies_is_taken(monkeypatch: pytest.MonkeyPatch, applies: str, asked: list[str]) -> None:
    """No further one is asked; where none of the order applies, there is no choice."""
    names = applying(monkeypatch, *(NAMES[letter] for letter in applies))
    found = choices("adaptive", talk(4), adaptive_task_type="code")
    assert names == [NAMES[letter] for letter in asked]
    taken_one = asked[-1] in applies
    assert [choice.name for choice in found] == ([names[-1]] if taken_one else [])


def test_one_that_takes_nothing_away_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it names must stay: the next one is asked."""
    names = applying(monkeypatch, *NAMES.values())
    assert choices("adaptive", [HumanMessage("the question")], adaptive_task_type="code") == []
    assert names == ["sliding_window", "key_events", "incremental"]


def test_the_task_is_told_from_the_conversation_or_set() -> None:
    """Code begins with key events in the flow chart, analysis with importance."""
    chart: dict[str, Any] = {"preset": "progressive_chart"}
    talking = [m for _ in range(12) for m in (asks("a"), result("a"), AIMessage("well"))]
    code = [m for m in talk(12) if not isinstance(m, HumanMessage)]
    edits: list[AnyMessage] = [
        m.model_copy(update={"tool_calls": [{**call, "name": "edit"} for call in m.tool_calls]})
        if isinstance(m, AIMessage) and m.tool_calls
        else m
        for m in talking
    ]
    assert [choice.name for choice in choices("adaptive", [*edits, *code], **chart)] == ["key_events"]
    assert [choice.name for choice in choices("adaptive", talk(40), **chart)] == ["sliding_window"]
    assert [choice.name for choice in choices("adaptive", talk(40), **chart, adaptive_task_type="analysis")] == [
        "importance"
    ]


def demand(ceiling: int) -> Demand:
    """Return a demand of so many words."""
    return Demand(before=10**6, ceiling=ceiling, aim=ceiling, summary=20)


def wordy(count: int, *, said: int, answered: int) -> list[AnyMessage]:
    """Return a talk of so many words a message."""
    return numbered(
        [
            (HumanMessage if n % 2 == 0 else AIMessage)("word " * (said if n % 2 == 0 else answered))
            for n in range(count)
        ]
    )


def test_the_next_one_is_tried_while_the_result_is_short() -> None:
    """Forty messages of ten words: the window leaves 126 tokens, and a summary of 20 belongs to them."""
    messages = wordy(40, said=10, answered=10)
    assert taken(messages, demand(126 + 20)).name == "sliding_window"
    assert taken(messages, demand(126 + 19)).name == "full"


def test_after_adaptive_only_window_and_importance_are_tried() -> None:
    """Each on what was left: thirty key events and five others, then nine of these."""
    messages = wordy(60, said=10, answered=10)
    code: dict[str, Any] = {"adaptive_orders": {"code": ("key_events",)}, "adaptive_task_type": "code"}
    after_events = 30 * 14 + 5 * 14
    assert taken(messages, demand(after_events + 20), **code).name == "key_events"
    found = taken(messages, demand(after_events + 19), **code)
    assert (found.name, found.summarize, found.tokens) == ("key_events>sliding_window", True, 126)
    assert taken(messages, demand(126 + 19), **code).name == "full"
    more: dict[str, Any] = {"strategies": ("adaptive", "incremental"), "incremental_summary_chunk_size": 5}
    assert taken(messages, demand(after_events + 19), **code, **more, adaptive_then=()).name == "full"
    chart: dict[str, Any] = {"preset": "progressive_chart", "adaptive_task_type": "code"}
    assert taken(messages, demand(after_events + 20), **chart).name == "key_events"
    assert taken(messages, demand(after_events + 19), **chart).name == "full"


def test_where_adaptive_fails_all_four_are_tried_and_then_the_whole_is_summarized() -> None:
    """A long row of answers is no case for chunks; importance keeps five of them, key events too."""
    messages = [*talk(2)[1:], *numbered([AIMessage("I looked " + "about " * 30) for _ in range(14)])]
    only: dict[str, Any] = {"adaptive_orders": {"unknown": ("incremental",)}, "adaptive_task_type": "unknown"}
    plenty = selector(messages, **only)
    before = plenty.tokens(frozenset(), {})
    assert taken(messages, demand(before - 1), **only).name == "importance"
    kept = before - 6 - 9 * 36
    assert taken(messages, demand(kept + 20), **only).name == "importance"
    last = taken(messages, demand(kept + 19), **only)
    assert (last.name, last.summarize, len(last.drop)) == ("full", True, 16)
    keys = taken(messages, demand(before - 1), **only, importance_score_threshold=0)
    assert keys.name == "key_events"


def test_where_the_whole_is_asked_for_no_strategy_is() -> None:
    """As after 200 turns."""
    full = Demand(before=10**9, ceiling=10**9, aim=10**9, summary=0, summarize_all=True)
    found = taken(talk(40), full)
    assert (found.name, len(found.drop)) == ("full", 40)
    assert taken(talk(40), ANYTHING).name == "sliding_window"


def test_what_came_before_stays_summarized() -> None:
    """A strategy that would leave without a summary does not undo the wish of the one before it."""
    messages = wordy(40, said=10, answered=10)
    rule: dict[str, Any] = {"type_rules": {"assistant_message": {"action": "drop"}}}
    found = taken(messages, demand(126 + 19), strategies=("sliding_window", "typed_rules"), **rule)
    assert (found.name, found.summarize) == ("sliding_window>typed_rules", True)
    alone = taken(messages, demand(10**5), strategies=("typed_rules",), **rule)
    assert alone.summarize is False
