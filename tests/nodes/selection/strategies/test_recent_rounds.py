"""The newest rounds stay whole, with their tool blocks; all before them becomes a summary."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes import CompactionResult
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategy_chain import choose
from tests.fakes import chars
from tests.histories import applied, asks, histories, numbered, pinned, result, text_rounds, tool_blocks, user
from tests.nodes.selection.strategies.selecting import ANYTHING, WORDS

LITERAL: dict[str, Any] = {"recent_rounds_as": "message_pairs", "recent_rounds_keep": 3}


def selector(messages: Sequence[AnyMessage], **chosen: Any) -> Selector:
    """Return the selector of a conversation under this preset."""
    settings = CompactionSettings.model_validate({"preset": "recent_rounds", **chosen})
    return Selector(Transcript(numbered(messages)), settings, Meter(WORDS, 0))


def selected(messages: Sequence[AnyMessage], demand: Demand = ANYTHING, **chosen: Any) -> Selection:
    """Return what the preset's strategy comes to."""
    found = choose(selector(messages, **chosen), demand)
    assert found is not None
    return found


def up_to(ceiling: int) -> Demand:
    """Return the demand for so many tokens at most, all of which may be used."""
    return replace(ANYTHING, ceiling=ceiling, aim=ceiling)


def worked(rounds: int, blocks: int = 2) -> list[AnyMessage]:
    """Return so many rounds of a question, tool blocks and an answer."""
    return [
        message
        for n in range(rounds)
        for message in (user(f"question {n}"), *tool_blocks(blocks), AIMessage(f"answer {n}"))
    ]


def test_two_rounds_are_kept_by_default() -> None:
    """With every tool block in them."""
    assert selected(worked(5)).drop == frozenset(range(18))
    assert CompactionSettings(preset="recent_rounds").recent_rounds_keep == 2


@pytest.mark.parametrize(("keep", "dropped"), [(1, 24), (3, 12), (4, 6), (5, 0), (9, 0)])
def test_another_number_of_rounds(keep: int, dropped: int) -> None:
    """All of them, where there are no more."""
    found = selected(worked(5), recent_rounds_keep=keep)
    assert found.drop == frozenset(range(dropped))
    assert found.floor == min(keep, 5)


def test_the_current_input_stands_behind_the_rounds() -> None:
    """The system prompt before them; an input that is unanswered is none of the rounds, nor is what it began."""
    messages = [SystemMessage("system"), *text_rounds(5), user("now?")]
    assert selected(messages).drop == frozenset(range(1, 7))
    messages = [SystemMessage("system"), *text_rounds(5), user("now?"), *tool_blocks(4)]
    assert selected(messages).drop == frozenset(range(1, 7))


@pytest.mark.parametrize(("ceiling", "kept"), [(1_000, 2), (225, 2), (224, 1), (115, 1), (114, 0)])
def test_fewer_rounds_are_kept_while_they_do_not_fit(ceiling: int, kept: int) -> None:
    """One at last, and then the current input alone."""
    messages = [*text_rounds(4, say="q " * 50, reply="a " * 50), user("now?")]
    found = selected(messages, up_to(ceiling))
    assert found.drop == frozenset(range(8 - 2 * kept))
    assert found.tokens <= ceiling


def test_of_a_round_that_is_too_large_less_is_kept() -> None:
    """Fewer of its blocks, then shorter fields; a question that waits stays to the last."""
    messages = [user("now?"), *tool_blocks(9, content="word " * 100)]
    assert selected(messages, up_to(700)).drop == frozenset(range(1, 9))
    found = selected(messages, up_to(60))
    assert 0 not in found.drop
    assert found.tokens <= 60


@pytest.mark.parametrize("messages", [text_rounds(2), text_rounds(1), [user("now?")]])
def test_no_more_than_the_rounds_that_stay_are_nothing_to_compact(messages: list[AnyMessage]) -> None:
    """The original made a summary of them all."""
    assert selected(messages).drop == frozenset()
    assert selected(messages, **LITERAL).drop == frozenset()


def test_two_messages_are_a_round_where_that_is_wanted() -> None:
    """As the original counted: the newest six messages of twenty are three rounds."""
    found = selected(text_rounds(10), **LITERAL)
    assert found.drop == frozenset(range(14))
    assert selected([*text_rounds(10), user("now?")], **LITERAL).drop == frozenset(range(14))


@pytest.mark.parametrize(("ceiling", "kept"), [(330, 6), (329, 4), (220, 4), (219, 2)])
def test_pairs_of_messages_that_do_not_fit_leave_as_pairs(ceiling: int, kept: int) -> None:
    """If the newest six messages do not fit, the strategy keeps four of them, even if five of them would fit."""
    messages = text_rounds(5, say="q " * 50, reply="a " * 50)
    assert selected(messages, up_to(ceiling), **LITERAL).drop == frozenset(range(10 - kept))


def test_even_so_no_block_is_broken() -> None:
    """A result at the edge brings its call along."""
    messages = [*text_rounds(4), user("go"), asks("a", "b"), result("a"), result("b"), *text_rounds(2)]
    assert selected(messages, **LITERAL).drop == frozenset(range(9))


def test_the_golden_figures_of_the_original() -> None:
    """Ten rounds of 500 tokens become seven messages of 180: 64 % saved."""
    counter = chars(2)
    messages = numbered(
        [kind("x" * 42) for _ in range(10) for kind in (HumanMessage, AIMessage)],
    )
    assert total(counter, messages) == 500
    found = selected(messages, **LITERAL)
    summary = HumanMessage("s" * 52)
    after = [summary, *applied(messages, found.drop, {})]
    assert (len(after), total(counter, after)) == (7, 180)
    told = CompactionResult(
        new_messages=after,
        summary="s",
        original_token_count=500,
        new_token_count=180,
        compacted_rounds=7,
        compacted_messages=14,
    )
    assert told.saved_ratio == pytest.approx(0.64)


def test_pins_stay() -> None:
    """Wherever they stand."""
    assert 0 not in selected([pinned("never push"), *text_rounds(6)]).drop


@given(histories())
def test_any_history_keeps_what_must_stay_and_whole_blocks(messages: list[AnyMessage]) -> None:
    """In both ways of counting."""
    for options in ({}, LITERAL):
        made = selector(messages, **options)
        found = choose(made, ANYTHING)
        assert found is not None
        assert not found.drop & made.untouchable
        assert all(len(found.drop & {*block.indexes}) in (0, len(block.indexes)) for block in made.view.blocks)
