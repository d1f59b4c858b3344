"""`importance`: what matters stays word for word, the rest becomes a summary."""

from collections.abc import Iterator, Mapping
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage

from ...config.settings import CompactionSettings
from ...conversation.message_marks import is_real_user, is_summary
from ..selector import Choice, Demand, Selector
from .keywords import CALLING, DONE, KEYWORDS, TROUBLE, WEIGHTY, Words, said

FEWEST = 10
"""Messages under which nothing is chosen among them."""
MOST = 10.0
"""The highest score."""

USER, ASSISTANT, SYSTEM = 5.0, 2.0, 1.0
KEYWORD = 0.5
"""Points of each different keyword."""
FEATURES: Mapping[Words, float] = {CALLING: 2.0, TROUBLE: 2.0, DONE: 1.5, WEIGHTY: 3.0}
"""Points of a message that has one of these words."""
SHORT, TOO_SHORT = 50, 0.5
"""Characters under which a message loses points, and how many."""


def importance(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep what scores `importance_score_threshold` or more, and the newest of the others."""
    settings = selector.settings
    scores = _scores(selector)
    low = [index for index, points in scores.items() if points < settings.importance_score_threshold]
    yield from leaving(selector, low, keep=settings.importance_keep_low)


def leaving(selector: Selector, others: list[int], *, keep: int) -> Iterator[Choice]:
    """The choice that drops all of these but the newest `keep`; earlier summaries are absorbed with them.

    None in a short conversation, or where nothing leaves.
    """
    messages = selector.view.messages
    own = [index for index in others if not is_summary(messages[index])]
    drop = frozenset(own[: max(0, len(own) - keep)])
    if len(selector.spoken) >= FEWEST and drop:
        yield Choice(drop=drop | {i for i in selector.spoken if is_summary(messages[i])}, summarize=True)


def _scores(selector: Selector) -> dict[int, float]:
    """By index the score of each message but system messages; all of a tool block have the best score in it."""
    view = selector.view
    own = {index: score(view.messages[index], selector.settings) for index in selector.spoken}
    best = {block.start: max(own[index] for index in block.indexes) for block in view.blocks}
    return {
        index: best[block.start] if (block := view.block_of.get(index)) else points for index, points in own.items()
    }


def score(message: AnyMessage, settings: CompactionSettings) -> float:
    """How much a message matters, from 0 to 10."""
    text, languages = said(message), settings.keyword_languages
    points = _base(message, settings) + KEYWORD * KEYWORDS.count(text, languages)
    points += sum(worth for words, worth in FEATURES.items() if words.within(text, languages))
    points -= TOO_SHORT if len(message.text) < SHORT else 0
    return min(MOST, max(0.0, points))


def _base(message: AnyMessage, settings: CompactionSettings) -> float:
    """What a message starts from by its author; a meta message is nobody's."""
    if is_real_user(message):
        return USER
    roles: Mapping[type, float] = {
        AIMessage: ASSISTANT,
        SystemMessage: SYSTEM,
        ToolMessage: settings.importance_tool_base_score,
    }
    return roles.get(cast("type", type(message)), 0.0)
