"""OpenAI chat messages: `{"role", "content", "tool_calls", "tool_call_id", "name"}`."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from .fields import Record, calls, content, mapping, name, text
from .recording import RecordingError, Said

ROLES = "system, developer, user, assistant or tool"


def recognizes(value: Any) -> bool:
    """Whether a JSON value is an OpenAI chat message."""
    return isinstance(value, dict) and "role" in value


def read(records: Sequence[Record]) -> list[Said]:
    """Read OpenAI chat messages one by one."""
    return [Said(message(value, where)) for where, value in records]


def message(value: Any, where: str) -> BaseMessage:
    """Return an OpenAI chat message as a LangChain message."""
    value = mapping(value, where, "a message")
    body = content(value.get("content"), where)
    called = name(value.get("name"), where, "name")
    match value.get("role"):
        case "system":
            return SystemMessage(body, name=called)
        case "developer":
            return SystemMessage(body, name=called, additional_kwargs={"__openai_role__": "developer"})
        case "user":
            return HumanMessage(body, name=called)
        case "assistant":
            said = body or content(value.get("refusal"), where)
            return AIMessage(said, name=called, tool_calls=calls(value.get("tool_calls"), where))
        case "tool":
            call_id = text(value.get("tool_call_id"), where, "tool_call_id in a tool message")
            return ToolMessage(body, tool_call_id=call_id, name=called)
        case None:
            raise RecordingError(f"{where}: a message without role; expected {ROLES}")
        case role:
            raise RecordingError(f"{where}: role {role!r}; expected {ROLES}")
