"""Sessions of the pi coding agent: JSON lines whose `message` entries are the conversation."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from .fields import Record, call, content, mapping, name, sequence, text, tokens
from .recording import RecordingError, Said

_COUNTED = ("input", "cacheRead", "cacheWrite", "output")


def recognizes(value: Any) -> bool:
    """Whether a JSON value is the header or a message of a pi session."""
    if not isinstance(value, dict) or "role" in value:
        return False
    return value.get("type") == "session" or (
        value.get("type") == "message" and isinstance(value.get("message"), dict)
    )


def read(records: Sequence[Record]) -> list[Said]:
    """Read the message entries in order; aborted empty turns and unanswered calls are kept."""
    entries = [(where, mapping(value, where, "an entry")) for where, value in records]
    return [
        _said(mapping(entry.get("message"), where, "an entry's message"), where)
        for where, entry in entries
        if entry.get("type") == "message"
    ]


def _said(value: dict[str, Any], where: str) -> Said:
    return Said(_message(value, where), tokens(value.get("usage"), _COUNTED, where))


def _message(value: dict[str, Any], where: str) -> BaseMessage:
    body, tool_calls = _body(value.get("content"), where)
    match value.get("role"):
        case "user":
            return HumanMessage(body)
        case "assistant":
            return AIMessage(body, tool_calls=tool_calls)
        case "toolResult":
            call_id = text(value.get("toolCallId"), where, "toolCallId in a toolResult")
            status = "error" if value.get("isError") else "success"
            tool = name(value.get("toolName"), where, "toolName")
            return ToolMessage(body, tool_call_id=call_id, name=tool, status=status)
        case None:
            raise RecordingError(f"{where}: a message without role; expected user, assistant or toolResult")
        case role:
            raise RecordingError(f"{where}: role {role!r}; expected user, assistant or toolResult")


def _body(value: Any, where: str) -> tuple[str | list[str | dict[Any, Any]], list[ToolCall]]:
    """Return the content and the calls; a single text block becomes plain text, and no block the empty text."""
    if isinstance(value, str):
        return value, []
    parts: list[Any] = []
    tool_calls: list[ToolCall] = []
    for block in sequence(value, where, "content"):
        block = mapping(block, where, "a content block")  # noqa: PLW2901 - narrowed, but the same object as before
        if block.get("type") == "toolCall":
            tool_calls.append(call(block, where))
        else:
            parts.append(_part(block, where))
    if len(parts) == 1 and parts[0].get("type") == "text":
        return str(parts[0]["text"]), tool_calls
    return content(parts or "", where), tool_calls


def _part(block: dict[str, Any], where: str) -> dict[str, Any]:
    match block.get("type"):
        case "text":
            return {"type": "text", "text": block.get("text") or ""}
        case "thinking":
            signature = {"signature": block["thinkingSignature"]} if block.get("thinkingSignature") else {}
            return {"type": "thinking", "thinking": block.get("thinking") or "", **signature}
        case "image":
            return {"type": "image", "base64": block.get("data"), "mime_type": block.get("mimeType")}
        case other:
            raise RecordingError(
                f"{where}: a content block of type {other!r}; expected text, thinking, toolCall or image",
            )
