"""Helpers that compact a list in tests, and check the invariants of every result."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AnyMessage

from langgraph_compaction.nodes import (
    CompactionResult,
    CompactionSettings,
    acompact_messages,
    compact_messages,
    render,
)
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import (
    TokenCounter,
    media_of,
    tiktoken_counter,
    total,
)
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Selector
from tests.histories import numbered
from tests.invariants import check_request, check_transition

COUNTER = tiktoken_counter()
LONG = " one" * 100

Compact = Callable[..., CompactionResult]


def compact_async(messages: Sequence[AnyMessage], **options: Any) -> CompactionResult:
    """Compact on an event loop."""
    found = asyncio.run(acompact_messages(messages, **options))
    assert isinstance(found, CompactionResult)
    return found


both = pytest.mark.parametrize(
    "compact",
    [partial(compact_messages, return_result=True), partial(compact_async, return_result=True)],
    ids=["sync", "async"],
)


def count(messages: Sequence[AnyMessage]) -> int:
    """Return the tokens of the request that a list renders to."""
    return total(COUNTER, render(messages))


NOTICE = 100
"""Tokens that the shortest summary takes, frame and all, with the line that tells of a step which left."""

SHORTENED = 36
"""Tokens of an input that is cut as short as it can be."""


def least(
    messages: Sequence[AnyMessage], settings: CompactionSettings, counter: TokenCounter, *, steps: bool = False
) -> int:
    """Return the tokens of what must stay, cut as short as it can be; with `steps`, unread steps stay too."""
    selector = Selector(Transcript(messages), settings, Meter(counter, 0))
    stay = selector.untouchable - selector.yielding_input - (frozenset() if steps else selector.steps)
    drop = frozenset(range(len(messages))) - stay
    clip = selector.tight_clip(stay, drop, 0, texts=True)
    for index in selector.shortened_input:
        shortest = SHORTENED + sum(one.tokens for one in media_of(messages[index]))
        return selector.tokens(drop, clip) - max(0, counter.message(messages[index]) - shortest)
    return selector.tokens(drop, clip)


def must_yield(
    messages: Sequence[AnyMessage], max_tokens: int, settings: CompactionSettings, counter: TokenCounter
) -> bool:
    """Whether an unanswered input may be shortened or leave: the settings say so, and it does not fit whole."""
    if settings.long_input == "keep":
        return False
    whole = settings.model_copy(update={"long_input": "keep"})
    is_read = bool(Selector(Transcript(messages), settings, Meter(counter, 0)).yielding_input)
    ceiling = min(max_tokens, total(counter, render(messages)) - 1)
    return least(messages, whole, counter, steps=is_read) > ceiling - NOTICE


def compacted(messages: Sequence[AnyMessage], max_tokens: int, **options: Any) -> CompactionResult:
    """Compact, and check the invariants of every compaction."""
    before = numbered(messages)
    found = compact_messages(before, max_tokens=max_tokens, return_result=True, **options)
    settings = options.get("settings") or CompactionSettings()
    may_leave = must_yield(before, max_tokens, settings, COUNTER)
    check_transition(before, found.new_messages, count=count, ceiling=max_tokens, input_may_leave=may_leave)
    check_request(render(found.new_messages))
    return found
