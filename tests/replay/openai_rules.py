"""What OpenAI's two APIs refuse, as their reference says it, judged from the payload alone.

Strict: what one compatible server or another refuses (arguments that are no JSON, an id used twice) counts too.
Each defect is a rule and, behind a colon, where it is broken.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHAT_ID, RESPONSES_ID = 40, 64
"""Maximum characters of a call id."""

_CHAT_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}
_CHAT_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}
_ITEM_FIELDS = {
    "message": {"type", "role", "content", "id", "phase", "status"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
    "compaction": {"type", "id", "encrypted_content"},
    "reasoning": {"type", "id", "summary", "encrypted_content", "content", "status"},
}
_RESPONSES_PARTS = {"assistant": {"output_text", "refusal"}}
_INPUT_PARTS = {"input_text", "input_image", "input_file"}
_TEXTS = {"text", "input_text", "output_text"}


def chat_defects(payload: dict[str, Any]) -> list[str]:
    """Return the reasons why chat completions would refuse this payload."""
    messages = payload["messages"]
    found = [*_tool_names(tool["function"]["name"] for tool in payload.get("tools") or ())]
    if not any(message["role"] == "user" for message in messages):
        found.append("no user message: the request")
    for place, message in enumerate(messages):
        found += [f"{defect}: message {place}" for defect in _chat_message(message)]
    return [*found, *_chat_pairs(messages)]


def _chat_message(message: dict[str, Any]) -> Iterator[str]:
    role, content, calls = message["role"], message.get("content"), message.get("tool_calls")
    if role not in _CHAT_FIELDS:
        yield "unknown role"
        return
    if message.keys() - _CHAT_FIELDS[role]:
        yield "unknown field"
    if "name" in message and not NAME.fullmatch(message["name"]):
        yield "bad name"
    if calls is not None and not calls:
        yield "empty list of calls"
    for call in calls or ():
        yield from _chat_call(call)
    if (
        not (calls or message.get("refusal") or message.get("audio"))
        and not content
        and (role != "tool" or content != "")
    ):
        yield "empty content"
    yield from _parts(content, _CHAT_PARTS.get(role, {"text"}), blank=role == "user")


def _chat_call(call: dict[str, Any]) -> Iterator[str]:
    if call.keys() != {"type", "id", "function"} or call["function"].keys() != {"name", "arguments"}:
        yield "unknown field"
    if call["type"] != "function":
        yield "unknown type of call"
    yield from _call(call["id"], call["function"]["name"], call["function"]["arguments"], CHAT_ID)


def _call(call_id: Any, name: Any, arguments: Any, longest: int) -> Iterator[str]:
    if not isinstance(call_id, str) or not 0 < len(call_id) <= longest:
        yield "bad call id"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield "bad function name"
    if not _is_json_object(arguments):
        yield "arguments are no JSON"


def _is_json_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _parts(content: Any, known: set[str], *, blank: bool) -> Iterator[str]:
    """Return the parts of a content; checks that no text is blank where blanks are refused."""
    if isinstance(content, str):
        if blank and not content.strip():
            yield "blank text"
        return
    for part in content or ():
        if part.get("type") not in known:
            yield "unknown part"
        elif part["type"] in _TEXTS and not part["text"].strip():
            yield "blank text"


def _chat_pairs(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Check that each call is answered once, before any other message, and that each result has its call there."""
    seen: set[str] = set()
    waiting: dict[str, int] = {}
    for place, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            if not waiting.get(message["tool_call_id"]):
                yield f"result without a call: message {place}"
            else:
                waiting[message["tool_call_id"]] -= 1
            continue
        yield from (f"call without a result: before message {place}" for left in waiting.values() if left)
        waiting = {}
        for call in message.get("tool_calls") or ():
            if call["id"] in seen:
                yield f"call id used twice: message {place}"
            seen.add(call["id"])
            waiting[call["id"]] = 1


def responses_defects(payload: dict[str, Any]) -> list[str]:
    """Return the reasons why the Responses API would refuse this payload."""
    items = payload["input"]
    found = [*_tool_names(tool["name"] for tool in payload.get("tools") or ())]
    if not any(item.get("role") == "user" or item.get("type") == "compaction" for item in items):
        found.append("no user message: the request")
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else {}
        found += [f"{defect}: item {place}" for defect in _item(item, following)]
    return [*found, *_item_pairs(items)]


def _item(item: dict[str, Any], following: dict[str, Any]) -> Iterator[str]:
    kind = item.get("type")
    if kind not in _ITEM_FIELDS:
        yield "unknown item"
        return
    if item.keys() - _ITEM_FIELDS[kind]:
        yield "unknown field"
    if kind == "message":
        if item["role"] not in {"user", "assistant", "system", "developer"}:
            yield "unknown role"
        if not item["content"]:
            yield "empty content"
        yield from _parts(item["content"], _RESPONSES_PARTS.get(item["role"], _INPUT_PARTS), blank=True)
    elif kind == "function_call":
        yield from _call(item["call_id"], item["name"], item["arguments"], RESPONSES_ID)
    elif kind == "function_call_output":
        yield from _parts(item["output"], _INPUT_PARTS, blank=False)
    elif kind == "compaction":
        return
    elif following.get("type") != "function_call" and following.get("role") != "assistant":
        yield "reasoning without what followed it"


def _item_pairs(items: list[dict[str, Any]]) -> Iterator[str]:
    """Check that each call has one output before the next message, and each output its call before it."""
    seen: set[str] = set()
    waiting: set[str] = set()
    for place, item in enumerate([*items, {"type": "message"}]):
        call_id = item.get("call_id")
        if item["type"] == "function_call":
            if call_id in seen:
                yield f"call id used twice: item {place}"
            seen.add(call_id)
            waiting.add(call_id)
        elif item["type"] == "function_call_output":
            if call_id not in waiting:
                yield f"result without a call: item {place}"
            waiting.discard(call_id)
        elif item["type"] == "message":
            yield from (f"call without a result: before item {place}" for _ in waiting)
            waiting = set()


def _tool_names(names: Iterable[str]) -> Iterator[str]:
    yield from (f"bad function name: the tool {name!r}" for name in names if not NAME.fullmatch(name))
