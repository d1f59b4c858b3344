"""The smallest possible request, computed from the messages alone, without the code under test."""

import re
from collections.abc import Collection, Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.conversation.tokens import total
from tests.graph.harness import WORDS
from tests.invariants import is_pinned, pairs, unanswered

SLACK = 60
"""Minimum tokens of a summary with its frame and the pinned words."""
STEP_LINE = 45
"""Tokens of the line that replaces a removed step."""


def least(messages: Sequence[AnyMessage], pins: Collection[str]) -> int:
    """Words of the smallest request, summary included, without system prompt and tools."""
    stay = sorted(must_stay(messages, pins))
    return total(WORDS, render([messages[index] for index in stay])) + SLACK + STEP_LINE


def pinned_words(messages: Sequence[AnyMessage]) -> set[str]:
    """The words that `<Pin>` keeps in messages of a person."""
    return set(re.findall(r"KEEP-\w+", " ".join(m.text for m in messages if isinstance(m, HumanMessage))))


def must_stay(messages: Sequence[AnyMessage], pins: Collection[str]) -> set[int]:
    """Return the indexes of messages that no compaction may remove; it may still clip some of them.

    A step whose results the model has not seen, or whose calls were interrupted, may leave if nothing else fits; a
    step with an open call may not (`waits`).
    """
    newest = unanswered(messages)
    stay = {i for i, m in enumerate(messages) if isinstance(m, SystemMessage) or is_pinned(m, pins) or i == newest}
    for start, results in pairs(messages)[0]:
        block = {start, *(index for index in results if index is not None)}
        if block & stay:
            stay |= block
    return stay


def waits(messages: Sequence[AnyMessage]) -> bool:
    """Whether the last call has no result, so that nothing is compacted."""
    last = max((index for index, message in enumerate(messages) if message.type != "tool"), default=-1)
    return any(start == last and None in results for start, results in pairs(messages)[0])
