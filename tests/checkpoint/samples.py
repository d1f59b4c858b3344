"""Messages of every kind, conversations to keep, and a clock."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome, SummaryRecord
from langgraph_compaction.checkpoint.compaction.ledger import Opening
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint_all,
)
from langgraph_compaction.checkpoint.usage import Usage

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

EVERY_KIND: dict[str, BaseMessage] = {
    "system": SystemMessage("You are helpful.\n" * 3, id="s"),
    "human": HumanMessage("Grüße, 世界 \U0001f600 \0 end", id="h", name="Ada"),
    "empty": HumanMessage("", id="e"),
    "marked": HumanMessage("pinned", id="p", additional_kwargs={"compaction": {"pinned": True, "handle": "ab"}}),
    "image": HumanMessage(
        [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        ],
        id="i",
    ),
    "ai": AIMessage("plain", id="a", response_metadata={"model_name": "m", "logprobs": [-0.25, 1e-300]}),
    "calls": AIMessage(
        [{"type": "thinking", "thinking": "hm", "signature": "x=="}, {"type": "text", "text": "I look"}],
        id="c",
        tool_calls=[{"name": "read", "args": {"path": "a.py", "lines": [1, 2.5, None]}, "id": "call_1"}],
        invalid_tool_calls=[
            {
                "name": "read",
                "args": "{broken",
                "id": "call_2",
                "error": "no JSON",
                "type": "invalid_tool_call",
            }
        ],
        usage_metadata={
            "input_tokens": 7,
            "output_tokens": 3,
            "total_tokens": 10,
            "input_token_details": {"cache_read": 2},
        },
    ),
    "tool": ToolMessage(
        "42", id="t", tool_call_id="call_1", name="read", artifact={"rows": [1, 2], "raw": b"\x00\xff"}
    ),
    "values": ToolMessage(
        "failed",
        id="v",
        tool_call_id="call_3",
        status="error",
        artifact=[datetime(2026, 11, 21, tzinfo=UTC), UUID(int=5), Decimal("1.10"), {"one"}, 2**63],
    ),
    "chat": ChatMessage("as critic", role="critic", id="x"),
    "function": FunctionMessage("old form", name="f", id="f"),
    "chunk": AIMessageChunk("half", id="k"),
    "remove": RemoveMessage(id="r"),
}


COMMITTED = Outcome(
    verdict="committed",
    now=20.0,
    reason="success",
    detail="as planned",
    strategy="selective+digest",
    tokens_after=400,
    blocks_kept=5,
    blocks_dropped=3,
    calls_clipped=1,
    results_clipped=2,
    floor=12,
    seen={"m0": "full", "m1": "cut(1 of 2)"},
    summary="What happened: 世界 \U0001f600",
    model="gpt-4o",
    usage=Usage(calls=2, input_tokens=900, cache_read_tokens=512, output_tokens=80, reasoning_tokens=7, cost=0.0025),
    duration_s=1.25,
)
SUMMARY = SummaryRecord(
    "ab" * 16,
    "a \0 summary \ud800",
    "gpt-4o",
    Usage(calls=1, input_tokens=900, cache_write_tokens=300, output_tokens=80, cost=None),
)


def talk(count: int, *, start: int = 0) -> list[BaseMessage]:
    """Return messages number `start` to `start + count`, user and assistant in turn, with ids m0, m1 ..."""
    kinds: tuple[type[BaseMessage], ...] = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"message number {n}", id=f"m{n}") for n in range(start, start + count)]


def key_of(thread_id: str, messages: list[BaseMessage], *, level: int = 0, namespace: str = "") -> AttemptKey:
    """Return the key of an attempt on these messages."""
    return AttemptKey(thread_id, namespace, fingerprint_all(messages), level, 0)


def opening(**changes: Any) -> Opening:
    """Return what is known of an attempt before it begins."""
    usual = Opening(
        parent_id=None,
        checkpoint_id="1f0c",
        epoch=0,
        trigger="tokens",
        strategy="selective",
        tokens_before=1000,
        counter="tiktoken:o200k_base",
    )
    return usual | changes


def begin(records: CompactionRecords, thread_id: str, count: int = 5, **changes: object) -> AttemptKey:
    """Begin an attempt on that many messages at time 10."""
    key = key_of(thread_id, talk(count))
    records.begin(key, talk(count), now=10.0, **opening(**changes))
    return key


class Clock:
    """A wall clock, in seconds, that stands until it is set."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.time
