"""Helpers that compact a list in tests, and check the invariants of every result."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AnyMessage

from langgraph_compaction.nodes import CompactionResult, acompact_messages, compact_messages, render
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
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


def compacted(messages: Sequence[AnyMessage], max_tokens: int, **options: Any) -> CompactionResult:
    """Compact, and check the invariants of every compaction."""
    before = numbered(messages)
    found = compact_messages(before, max_tokens=max_tokens, return_result=True, **options)
    may_leave = options.get("preset") == "faithful"
    check_transition(before, found.new_messages, count=count, ceiling=max_tokens, input_may_leave=may_leave)
    check_request(render(found.new_messages))
    return found
