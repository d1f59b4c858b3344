"""One message as every provider takes it: no blank text, no empty turn, no call whose arguments are not JSON."""

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage

from .call_ids import with_calls
from .transcript import calls_of, marks

BLANK = "[an empty message]"
"""Stands in the request where a user message says nothing."""

NAMELESS = "unknown"
"""Stands in the request where a malformed call names no tool."""

RAW_ARGUMENTS = "__raw__"
"""The one argument under which a malformed call carries the text that is no JSON."""

THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Blocks of content that a model said to itself."""


def sendable(message: AnyMessage) -> AnyMessage | None:
    """The message, a mended copy where a provider would refuse it, or `None` where there is nothing to send.

    It does not depend on the messages around it. Assistant turns that say and call nothing, or that broke off
    while the model was still thinking, are not sent; nor is a person's command to us.
    """
    if not isinstance(message, AIMessage | HumanMessage | ToolMessage):
        return message
    if marks(message).get("command"):
        return None
    if isinstance(message, AIMessage):
        message = with_calls(message, [*message.tool_calls, *map(_well_formed, message.invalid_tool_calls)])
    said = _said(message.content)
    if isinstance(message, AIMessage) and not calls_of(message) and not any(map(_is_no_thought, said)):
        return None
    if isinstance(message, HumanMessage):
        said = said or BLANK
    return message if said == message.content else message.model_copy(update={"content": said})


def _well_formed(call: InvalidToolCall) -> ToolCall:
    arguments: dict[str, Any] = {RAW_ARGUMENTS: call["args"]} if call["args"] else {}
    return ToolCall(name=call["name"] or NAMELESS, args=arguments, id=call["id"], type="tool_call")


def _said(content: str | list[str | dict[Any, Any]]) -> str | list[str | dict[Any, Any]]:
    """The content without its blank texts; nothing is the empty text."""
    if isinstance(content, str):
        return "" if content.isspace() else content
    return [block for block in content if not _is_blank(block)] or ""


def _is_blank(block: str | dict[str, Any]) -> bool:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
    return isinstance(text, str) and not text.strip()


def _is_no_thought(block: str | dict[str, Any]) -> bool:
    return isinstance(block, str) or block.get("type") not in THOUGHTS
