"""`importance`: score each message; keep the important ones verbatim and summarize the others."""

from collections.abc import Iterator, Mapping
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage

from ...config.policies import ProgressivePolicy
from ...conversation.message_marks import is_real_user, is_summary
from ..selector import Choice, Demand, Selector
from .keywords import CALLING, DONE, EMPHASIS, FAILURE, KEYWORDS, Words, searchable_text

MIN_MESSAGES = 10
"""Smallest number of messages of a conversation to which the strategy applies."""
KEEP_LOW = 5
"""Number of the newest messages of a low score that stay."""
MAX_SCORE = 10.0
"""The highest score."""

USER, ASSISTANT, SYSTEM, TOOL = 5.0, 2.0, 1.0, 2.0
KEYWORD = 0.5
"""Points for each different keyword."""
FEATURES: Mapping[Words, float] = {CALLING: 2.0, FAILURE: 2.0, DONE: 1.5, EMPHASIS: 3.0}
"""Points for a message that contains at least one of these words."""
SHORT, TOO_SHORT = 50, 0.5
"""Number of characters below which a message loses points, and the number of points that it loses."""


def importance(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep messages with a score of `importance_score_threshold` or more, and the newest of the other messages."""
    least, scores = selector.settings.of(ProgressivePolicy).importance_score_threshold, _scores(selector)
    low = [index for index, points in scores.items() if points < least]
    yield from drop_unimportant(selector, low, keep=KEEP_LOW)


def drop_unimportant(selector: Selector, others: list[int], *, keep: int) -> Iterator[Choice]:
    """Yield the choice that drops earlier summaries and all messages in `others` except the newest `keep`.

    Yield nothing for a short conversation, or if no message would be dropped.
    """
    messages = selector.view.messages
    own = [index for index in others if not is_summary(messages[index])]
    drop = frozenset(own[: max(0, len(own) - keep)])
    if len(selector.non_system) >= MIN_MESSAGES and drop:
        yield Choice(drop=drop | {i for i in selector.non_system if is_summary(messages[i])}, summarize=True)


def _scores(selector: Selector) -> dict[int, float]:
    """Map the index of each message, except system messages, to its score; a tool block has its highest score."""
    view = selector.view
    own = {index: score(view.messages[index]) for index in selector.non_system}
    best = {block.start: max(own[index] for index in block.indexes) for block in view.blocks}
    return {
        index: best[block.start] if (block := view.block_of.get(index)) else points for index, points in own.items()
    }


def score(message: AnyMessage) -> float:
    """Return the importance of a message, from 0 to 10."""
    text = searchable_text(message)
    points = _base(message) + KEYWORD * KEYWORDS.count(text)
    points += sum(worth for words, worth in FEATURES.items() if words.within(text))
    points -= TOO_SHORT if len(message.text) < SHORT else 0
    return min(MAX_SCORE, max(0.0, points))


def _base(message: AnyMessage) -> float:
    """Return the points for the message's author; 0 for a meta message."""
    if is_real_user(message):
        return USER
    roles: Mapping[type, float] = {AIMessage: ASSISTANT, SystemMessage: SYSTEM, ToolMessage: TOOL}
    return roles.get(cast("type", type(message)), 0.0)
