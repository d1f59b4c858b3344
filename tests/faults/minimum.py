"""The least that a request can hold: reckoned from the messages alone, without our own policies."""

import re
from collections.abc import Collection, Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.conversation.tokens import total
from tests.graph.harness import WORDS
from tests.invariants import is_pinned, pairs, unanswered

SLACK = 60
"""Tokens that a summary, its frame and the pinned words take at least."""
STEP_LINE = 45
"""Tokens of the line that tells of a step which left."""


def least(messages: Sequence[AnyMessage], pins: Collection[str]) -> int:
    """Words of the least request of this conversation, summary included, without prompt and tools."""
    stay = sorted(must_stay(messages, pins))
    return total(WORDS, render([messages[index] for index in stay])) + SLACK + STEP_LINE


def pinned_words(messages: Sequence[AnyMessage]) -> set[str]:
    """The words that `<Pin>` keeps, where a person said so."""
    return set(re.findall(r"KEEP-\w+", " ".join(m.text for m in messages if isinstance(m, HumanMessage))))


def must_stay(messages: Sequence[AnyMessage], pins: Collection[str]) -> set[int]:
    """Indexes of what no compaction may take: more than that by the part that it could clip.

    A step whose results the model waits for, or whose calls were interrupted, may leave where nothing else fits; one
    with an open call may not (`waits`).
    """
    newest = unanswered(messages)
    stay = {i for i, m in enumerate(messages) if isinstance(m, SystemMessage) or is_pinned(m, pins) or i == newest}
    for start, results in pairs(messages)[0]:
        block = {start, *(index for index in results if index is not None)}
        if block & stay:
            stay |= block
    return stay


def waits(messages: Sequence[AnyMessage]) -> bool:
    """Whether a call at the very end has no result: nothing is compacted then."""
    last = max((index for index, message in enumerate(messages) if message.type != "tool"), default=-1)
    return any(start == last and None in results for start, results in pairs(messages)[0])
