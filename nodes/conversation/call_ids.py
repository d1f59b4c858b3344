"""Call ids as every provider takes them: not too long, and none twice in a request.

Their characters are left alone: some models read the tool's name from an id, and the package of the one provider
that refuses some characters mends them itself.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, InvalidToolCall, ToolCall, ToolMessage

from .tokens import arguments_json
from .transcript import all_calls, calls_of

LONGEST = 40
"""Characters that a call id may have."""

_STEM = 32
"""Characters of an id that are never replaced by a number; ids that begin alike are numbered together."""

_RAW_CALLS = "tool_calls"
CALL_BLOCKS: Mapping[str, tuple[str, str]] = {
    "tool_use": ("id", "input"),
    "tool_call": ("id", "args"),
    "invalid_tool_call": ("id", "args"),
    "function_call": ("call_id", "arguments"),
    "custom_tool_call": ("call_id", "input"),
}
"""Blocks of content that hold a call once more: where its id and its arguments stand."""


def distinct(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A healed request in which no call id stands twice; messages whose ids are in order are the very same.

    The first call of an id keeps it. What stands before a call decides, so that the request of a conversation
    that goes on begins as it did before.
    """
    ids = _Ids()
    answered: deque[str] = deque()
    sent: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage) and answered:
            sent.append(_answering(message, answered.popleft()))
            continue
        answered = deque(ids.give(call_id) for call_id, _ in calls_of(message))
        sent.append(_renamed(message, answered) if isinstance(message, AIMessage) else message)
    return sent


class _Ids:
    """Gives each call of a request an id of its own."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last: dict[str, int] = {}

    def give(self, wanted: str | None) -> str:
        """The id that is wanted, if it can be had; else the nearest one that is free."""
        base = (wanted or "call")[:LONGEST]
        found, stem = base, base[:_STEM]
        while found in self._given:
            number = self._last[stem] = self._last.get(stem, 1) + 1
            suffix = f"-{number}"
            found = base[: LONGEST - len(suffix)] + suffix
        self._given.add(found)
        return found


def _answering(message: ToolMessage, call_id: str) -> ToolMessage:
    same = message.tool_call_id == call_id
    return message if same else message.model_copy(update={"tool_call_id": call_id})


def _renamed(message: AIMessage, ids: Sequence[str]) -> AIMessage:
    if [call["id"] for call in message.tool_calls] == list(ids):
        return message
    calls = [cast("ToolCall", {**call, "id": name}) for call, name in zip(message.tool_calls, ids, strict=True)]
    return with_calls(message, calls)


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """The message with these calls in place of its own, one for one, in its content too; itself where all is so.

    A block of content that holds a call which the message does not make is left out, and so is a raw copy of
    calls that are others now: nothing answers them.
    """
    own = all_calls(message)
    changes = list(zip(own, calls, strict=True))
    content = message.content
    if not isinstance(content, str):
        content = [kept for block in content if (kept := _block(block, changes)) is not None]
    raw = message.additional_kwargs
    if content == message.content and list(calls) == list(own) and (own or _RAW_CALLS not in raw):
        return message
    kwargs = {key: value for key, value in raw.items() if key != _RAW_CALLS}
    update = {"content": content, "tool_calls": list(calls), "invalid_tool_calls": [], "additional_kwargs": kwargs}
    return message.model_copy(update=update)


def _block(
    block: str | dict[str, Any], changes: list[tuple[ToolCall | InvalidToolCall, ToolCall]]
) -> str | dict[str, Any] | None:
    """The block as its call now is, found by the id it had; `None` where the message makes no such call."""
    if not isinstance(block, dict):
        return block
    call_id, arguments = CALL_BLOCKS.get(block.get("type") or "", ("", ""))
    if call_id not in block:
        return block
    change = next((change for change in changes if change[0].get("id") == block[call_id]), None)
    if change is None:
        return None
    changes.remove(change)
    was, call = change
    if was["args"] is call["args"]:
        return {**block, call_id: call["id"]}
    if arguments == "args":
        return {**call, "type": "tool_call"}
    said = arguments_json(call["args"]) if arguments == "arguments" else call["args"]
    return {**block, call_id: call["id"], "name": call["name"], arguments: said}
