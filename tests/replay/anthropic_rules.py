"""What Anthropic's messages API refuses, as its reference says it, judged from the payload alone.

Strict: turns have to alternate, though the API itself would take two of one role for one.
Each defect is a rule and, behind a colon, where it is broken.
"""

import re
from collections.abc import Iterator
from typing import Any

CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")

_FIELDS = {
    "text": {"type", "text", "citations", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_NEEDED = {
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id"},
}
_SAID_BY = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
    "result": {"text", "image", "document"},
}


def anthropic_defects(payload: dict[str, Any]) -> list[str]:
    """Return the reasons why the API would refuse this payload."""
    messages = payload["messages"]
    found = [
        f"bad function name: the tool {t['name']!r}"
        for t in payload.get("tools") or ()
        if not NAME.fullmatch(t["name"])
    ]
    found += [f"{defect}: system" for defect in _system(payload.get("system"))]
    if not messages or messages[0]["role"] != "user":
        found.append("the first message is not the user's: message 0")
    for place, message in enumerate(messages):
        if message.keys() != {"role", "content"}:
            found.append(f"unknown field: message {place}")
        if message["role"] not in ("user", "assistant"):
            found.append(f"unknown role: message {place}")
            continue
        if place and message["role"] == messages[place - 1]["role"]:
            found.append(f"roles do not alternate: message {place}")
        found += [f"{defect}: message {place}" for defect in _content(message["content"], message["role"])]
    return [*found, *_ending(messages), *_pairs(messages)]


def _system(system: Any) -> Iterator[str]:
    if system is not None and not system:
        yield "empty content"
    yield from _blocks(_as_blocks(system or []), {"text"})


def _content(content: Any, role: str) -> Iterator[str]:
    if not content:
        yield "empty content"
    blocks = _as_blocks(content)
    yield from _blocks(blocks, _SAID_BY[role])
    kinds = [block.get("type") for block in blocks]
    if "tool_result" in kinds and "tool_result" in kinds[kinds.count("tool_result") :]:
        yield "results do not come first"
    if role == "assistant" and kinds and kinds[-1] in ("thinking", "redacted_thinking"):
        yield "a turn that ends in thought"
    for block in blocks:
        if block.get("type") == "tool_result" and block.get("content"):
            yield from _blocks(_as_blocks(block["content"]), _SAID_BY["result"])


def _as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []


def _blocks(blocks: list[dict[str, Any]], known: set[str]) -> Iterator[str]:
    for block in blocks:
        kind = block.get("type")
        if kind not in known:
            yield "unknown block"
            continue
        if block.keys() - _FIELDS[kind]:
            yield "unknown field"
        if _NEEDED.get(kind, set()) - block.keys():
            yield "missing field"
        elif kind == "text" and not block["text"].strip():
            yield "blank text"
        elif kind == "tool_use":
            yield from _call(block)


def _call(block: dict[str, Any]) -> Iterator[str]:
    if not isinstance(block["id"], str) or not CALL_ID.fullmatch(block["id"]):
        yield "bad call id"
    if not NAME.fullmatch(block["name"]):
        yield "bad function name"
    if not isinstance(block["input"], dict):
        yield "arguments are no object"


def _ending(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Check that the text of a last assistant message, which the model continues, does not end in white space."""
    if messages and messages[-1]["role"] == "assistant":
        last = _as_blocks(messages[-1]["content"])[-1:]
        if last and last[0].get("type") == "text" and last[0]["text"] != last[0]["text"].rstrip():
            yield f"trailing white space: message {len(messages) - 1}"


def _pairs(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Check that each call is answered once in the next message, and that each result has its call before it."""
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate([*messages, {"role": "end", "content": []}]):
        blocks = _as_blocks(message["content"])
        for block in blocks:
            if block.get("type") != "tool_result":
                continue
            if block.get("tool_use_id") in waiting:
                waiting.remove(block["tool_use_id"])
            else:
                yield f"result without a call: message {place}"
        yield from (f"call without a result: before message {place}" for _ in waiting)
        waiting = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        yield from (
            f"call id used twice: message {place}" for n, i in enumerate(waiting) if i in seen or i in waiting[:n]
        )
        seen.update(waiting)
