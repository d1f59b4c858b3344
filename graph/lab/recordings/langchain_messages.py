"""LangChain message JSON, read as plain data: classes that a file names are never imported.

There are three forms: `{"type": "human", "data": {...}}` of `messages_to_dict`, the constructor form
`{"lc": 1, "id": [..., "HumanMessage"], "kwargs": {...}}` of `dumpd`, and `{"type": "human", "content": ...}`
of `model_dump`.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from .fields import Record, calls, content, mapping, name, sequence, text, tokens
from .recording import RecordingError, Said

_CLASSES = {"HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool"}
_ROLES = {"user": "human", "assistant": "ai", "system": "system"}
_RESENT = {"tool_calls", "function_call"}  # the provider's own form of LangChain's tool_calls


def recognizes(value: Any) -> bool:
    """Whether a JSON value is a LangChain message in one of the three forms."""
    if not isinstance(value, dict) or "role" in value:
        return False
    typed = isinstance(value.get("type"), str)
    return "lc" in value or (typed and ("data" in value or "content" in value))


def read(records: Sequence[Record]) -> list[Said]:
    """Read LangChain messages one by one; move the provider's token counts from the message into `Said`."""
    return [_said(value, where) for where, value in records]


def _said(value: Any, where: str) -> Said:
    what, data = _unwrapped(mapping(value, where, "a message"), where)
    used = tokens(data.get("usage_metadata"), ("input_tokens", "output_tokens"), where)
    return Said(_message(what, data, where), used)


def _unwrapped(value: dict[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    if "lc" in value:
        named = sequence(value.get("id"), where, "the constructor's id")
        last = str(named[-1]).removesuffix("Chunk") if named else ""
        return _CLASSES.get(last, last), mapping(value.get("kwargs"), where, "the constructor's kwargs")
    kind = str(value.get("type")).removesuffix("MessageChunk").lower()
    return kind, mapping(value["data"], where, "a message's data") if "data" in value else value


def _message(kind: str, data: dict[str, Any], where: str) -> BaseMessage:
    if kind == "chat":
        kind = _ROLES.get(str(data.get("role")), f"chat with role {data.get('role')}")
    given = mapping(data.get("additional_kwargs") or {}, where, "additional_kwargs")
    common: dict[str, Any] = {
        "content": content(data.get("content"), where),
        "id": name(data.get("id"), where, "id"),
        "name": name(data.get("name"), where, "name"),
        "additional_kwargs": {key: value for key, value in given.items() if key not in _RESENT},
    }
    match kind:
        case "human":
            return HumanMessage(**common)
        case "system":
            return SystemMessage(**common)
        case "ai":
            return AIMessage(**common, tool_calls=_tool_calls(data, given, where))
        case "tool":
            call_id = text(data.get("tool_call_id"), where, "tool_call_id in a tool message")
            status = "error" if data.get("status") == "error" else "success"
            return ToolMessage(**common, tool_call_id=call_id, status=status)
        case _:
            raise RecordingError(f"{where}: a message of type {kind!r}; expected human, ai, system or tool")


def _tool_calls(data: dict[str, Any], given: dict[str, Any], where: str) -> list[ToolCall]:
    parsed = calls(data.get("tool_calls"), where) + calls(data.get("invalid_tool_calls"), where)
    return parsed or calls(given.get("tool_calls"), where)
