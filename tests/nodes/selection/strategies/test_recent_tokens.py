"""So many tokens of the newest messages stay; all before them becomes a summary."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategy_chain import choose
from tests.histories import asks, histories, numbered, result, text_rounds, user
from tests.nodes.selection.strategies.selecting import ANYTHING, WORDS
from tests.settings import settings

HUNDRED = "w " * 96
"""Makes a message of a hundred tokens."""


def selector(messages: Sequence[AnyMessage], **chosen: Any) -> Selector:
    """Return the selector of a conversation under this preset."""
    chosen_settings = settings(**{"preset": "reserve_tokens", **chosen})
    return Selector(Transcript(numbered(messages)), chosen_settings, Meter(WORDS, 0))


def selected(messages: Sequence[AnyMessage], demand: Demand = ANYTHING, **chosen: Any) -> Selection:
    """Return what the preset's strategy comes to."""
    found = choose(selector(messages, **chosen), demand)
    assert found is not None
    return found


def hundreds(count: int) -> list[AnyMessage]:
    """Return so many rounds of two hundred tokens."""
    return [message for _ in range(count) for message in (user(HUNDRED), AIMessage(HUNDRED))]


@pytest.mark.parametrize(("keep", "kept"), [(1, 1), (100, 1), (101, 2), (200, 2), (201, 3), (1_000, 10), (9_999, 20)])
def test_the_cut_is_where_so_many_tokens_are_reached(keep: int, kept: int) -> None:
    """At a user message or within a turn, at an assistant's."""
    found = selected(hundreds(10), recent_tokens_keep=keep)
    assert found.drop == frozenset(range(20 - kept))
    assert found.floor == kept // 2


def test_twenty_thousand_are_kept_by_default() -> None:
    """As the original does."""
    assert selected(hundreds(200)).drop == frozenset(range(200))


def test_a_result_never_begins_what_stays() -> None:
    """The cut moves behind it; a block whose result would stay leaves whole or not at all."""
    messages = [*hundreds(2), user("go"), asks("a"), result("a", HUNDRED), AIMessage(HUNDRED), *hundreds(1)]
    found = selected(messages, recent_tokens_keep=350)
    assert found.drop == frozenset(range(7))
    assert not isinstance(numbered(messages)[7], ToolMessage)


def test_in_a_small_window_the_aim_is_what_is_kept() -> None:
    """The system prompt and the summary taken off: half of the room, where the target ratio is a half."""
    small = replace(ANYTHING, before=2_000, ceiling=999, aim=505, summary=50)
    found = selected([SystemMessage("system"), *hundreds(10)], small)
    assert found.drop == frozenset(range(1, 16))
    assert found.tokens + small.summary <= small.aim + 100


def test_less_is_kept_where_one_large_message_takes_the_room() -> None:
    """A half, a quarter, and then what must stay."""
    large = replace(ANYTHING, before=3_000, ceiling=600, aim=500, summary=50)
    messages = [*text_rounds(3), user("w " * 900), *text_rounds(3)]
    found = selected(messages, large)
    assert found.drop == frozenset(range(7))
    waiting = [*text_rounds(3), user("now?"), asks("a"), result("a", "w " * 900)]
    found = selected(waiting, large, tool_blocks_keep_unread=False)
    assert found.drop == frozenset(range(6))
    assert set(found.clip) == {8}


@given(histories())
def test_any_history_keeps_what_must_stay_and_begins_with_no_result(messages: list[AnyMessage]) -> None:
    """Whatever is kept of it."""
    made = selector(messages, recent_tokens_keep=200)
    found = choose(made, ANYTHING)
    assert found is not None
    assert not found.drop & made.untouchable
    left = [i for i in range(len(messages)) if i not in found.drop and i not in made.untouchable]
    assert not left or left[0] in made.view.orphans or not isinstance(messages[left[0]], ToolMessage)
