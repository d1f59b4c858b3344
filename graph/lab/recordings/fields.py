"""Checked access to the fields of a recorded message; each error names the place and the expected form."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from langchain_core.messages import ToolCall
from langchain_core.messages.tool import tool_call

from langgraph_compaction.nodes.conversation.request import RAW_ARGUMENTS

from .recording import RecordingError


class Record(NamedTuple):
    """One JSON value of a file, and a description of its place in the file."""

    where: str
    value: Any


def numbered(values: Iterable[Any], where: str, noun: str) -> list[Record]:
    """Return each value with its place: `where, noun 1`, `where, noun 2` and so on."""
    return [Record(f"{where}, {noun} {number}", value) for number, value in enumerate(values, 1)]


def mapping(value: Any, where: str, what: str) -> dict[str, Any]:
    """Return the JSON object `value`; raise a `RecordingError` that names it `what` if it is not an object."""
    if not isinstance(value, dict):
        raise RecordingError(f"{where}: {what} is {kind(value)}; expected a JSON object")
    return value


def sequence(value: Any, where: str, what: str) -> list[Any]:
    """Return the JSON list `value`, empty for null; raise a `RecordingError` naming it `what` if it is no list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordingError(f"{where}: {what} is {kind(value)}; expected a list")
    return value


def text(value: Any, where: str, what: str) -> str:
    """Return the non-empty string `value`; raise a `RecordingError` that names it `what` if it is missing."""
    if not isinstance(value, str) or not value:
        raise RecordingError(f"{where}: no {what}; expected a non-empty string, found {kind(value)}")
    return value


def name(value: Any, where: str, what: str) -> str | None:
    """Return the string or null `value`; raise a `RecordingError` that names it `what` if it is neither."""
    if value is not None and not isinstance(value, str):
        raise RecordingError(f"{where}: {what} is {kind(value)}; expected a string")
    return value


def tokens(usage: Any, keys: Iterable[str], where: str) -> int:
    """Return the sum of the counts that a usage record has under these keys; absent counts are zero."""
    counts = [mapping(usage or {}, where, "usage").get(key) or 0 for key in keys]
    for count in counts:
        if not isinstance(count, int):
            raise RecordingError(f"{where}: {kind(count)} in usage; expected a number of tokens")
    return sum(counts)


def content(value: Any, where: str) -> str | list[str | dict[Any, Any]]:
    """Return message content as text or a list of parts; null is the empty text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise RecordingError(f"{where}: content is {kind(value)}; expected text, a list of parts, or null")
    for part in value:
        if not isinstance(part, str):
            _check_part(part, where)
    return value


def _check_part(part: Any, where: str) -> None:
    part = mapping(part, where, "a part of the content")
    what = text(part.get("type"), where, "type in a part of the content")
    if what == "text" and not isinstance(part.get("text"), str):
        raise RecordingError(f"{where}: a text part without text; found {kind(part.get('text'))}")


def arguments(value: Any) -> dict[str, Any]:
    """Return a call's arguments, given as an object or as JSON text; anything else is kept under `RAW_ARGUMENTS`.

    LangChain's `invalid_tool_calls` would keep the text too, but no tool node runs invalid calls, they lose their
    place among the calls of the message, and a provider that parses arguments refuses the request. With
    `RAW_ARGUMENTS` the call is answered like any other, and survives being written to OpenAI JSON and read again.
    """
    if isinstance(value, dict):
        return value
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return {RAW_ARGUMENTS: json.dumps(value, ensure_ascii=False)}
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return {RAW_ARGUMENTS: value}
    return parsed if isinstance(parsed, dict) else {RAW_ARGUMENTS: value}


def call(entry: Any, where: str) -> ToolCall:
    """Return a tool call from `{"id", "function": {"name", "arguments"}}` or from `{"id", "name", "args"}`."""
    entry = mapping(entry, where, "a tool call")
    function = mapping(entry.get("function") or entry, where, "a tool call's function")
    return tool_call(
        id=text(entry.get("id"), where, "id in a tool call"),
        name=text(function.get("name"), where, "name in a tool call"),
        args=arguments(function.get("arguments", function.get("args"))),
    )


def calls(value: Any, where: str) -> list[ToolCall]:
    """Return all tool calls of one message with their recorded ids, also ids that an earlier message used."""
    return [call(entry, where) for entry in sequence(value, where, "tool_calls")]


def schemas(value: Any, where: str) -> list[dict[str, Any]]:
    """Return the tool schemas of a conversation."""
    return [mapping(tool, where, "a tool schema") for tool in sequence(value, where, "tools")]


def kind(value: Any) -> str:
    """Return the kind of a JSON value in words, for an error message."""
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:6]))}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return "text" if value else "empty text"
    return "null" if value is None else "a truth value" if isinstance(value, bool) else "a number"
