"""Requests as the OpenAI chat JSON that would be sent, so that other programs can count their tokens."""

from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages

from langgraph_compaction.nodes.conversation.bound_history import REASONING_BLOCKS


def to_openai(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return the messages of a request as `ChatOpenAI` would send them.

    Text stays text, and lists stay lists of parts. Arguments are JSON text, not escaped to ASCII; arguments that are
    no JSON are sent as they are. Neither `additional_kwargs` nor the ids of messages are sent.
    """
    return [sent for message in messages for sent in _sent(message)]


def _sent(message: BaseMessage) -> list[dict[str, Any]]:
    said = message.model_copy(update={"content": _said(message.content)})
    text_format: Literal["string", "block"] = "string" if isinstance(said.content, str) else "block"
    sent: list[dict[str, Any]] = convert_to_openai_messages([said], text_format=text_format)
    first = sent[0]
    first.pop("refusal", None)
    if isinstance(message, ToolMessage):
        first.pop("name", None)
    if isinstance(message, AIMessage):
        broken = [_broken(dict(call)) for call in message.invalid_tool_calls]
        if broken:
            first["tool_calls"] = [*first.get("tool_calls", []), *broken]
        if first.get("tool_calls"):
            first["content"] = first["content"] or None
    return sent


def _said(content: str | list[str | dict[Any, Any]]) -> str | list[str | dict[Any, Any]]:
    if isinstance(content, str):
        return content
    # the chat API does not accept the reasoning of a model
    return [part for part in content if isinstance(part, str) or part.get("type") not in REASONING_BLOCKS] or ""


def _broken(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["args"]}
    return {"type": "function", "id": call["id"], "function": function}
