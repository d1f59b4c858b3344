"""What Anthropic's messages API refuses, as its reference says it, judged from the payload alone.

Strict: turns have to alternate, though the API itself would take two of one role for one.
Each defect is a rule and, behind a colon, where it is broken.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import dropwhile
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
    "server_tool_use": {"type", "id", "name", "input", "cache_control"},
    "web_search_tool_result": {"type", "tool_use_id", "content", "cache_control"},
    "compaction": {"type", "content", "encrypted_content", "signature", "tool_changes", "cache_control", "index"},
}
_THOUGHTS = ("thinking", "redacted_thinking")
_NEEDED = {
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id"},
}
_SAID_BY = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", "server_tool_use", "web_search_tool_result", "compaction", *_THOUGHTS},
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
    opening = _as_blocks(messages[0]["content"]) if messages else []
    if not messages or (messages[0]["role"] != "user" and "compaction" not in [one.get("type") for one in opening]):
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
    return [*found, *_ending(messages), *_pairs(messages), *_turn(payload), *_bound(payload)]


def signature(payload: dict[str, Any], said: list[dict[str, Any]]) -> str:
    """Return a signature of what comes next, after this request and the blocks `said` in answer to it.

    A newer Claude model signs its thinking so: with the system prompt, the tools and everything before it.
    """
    return _signature(payload, [*_spoken(payload["messages"]), *(("assistant", block) for block in said)])


def _signature(payload: dict[str, Any], before: list[tuple[str, dict[str, Any]]]) -> str:
    compacted = [at for at, (_, block) in enumerate(before) if block["type"] == "compaction"]
    from_there = before[max(compacted, default=0) :]  # the API reads nothing before its own compaction
    read = [
        (role, {key: block[key] for key in block if block[key] is not None and key != "index"})
        for role, block in from_there
    ]
    known = json.dumps([payload.get("system"), payload.get("tools"), read], sort_keys=True)
    return f"{_BINDS}{hashlib.sha256(known.encode()).hexdigest()}"


_BINDS = "bound-"
"""Beginning of a signature that is checked; those of other tests and recordings are not."""


def _spoken(messages: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(message["role"], block) for message in messages for block in _as_blocks(message["content"])]


def _bound(payload: dict[str, Any]) -> Iterator[str]:
    """Check that nothing before a signed thought has changed."""
    spoken = _spoken(payload["messages"])
    for place, (_, block) in enumerate(spoken):
        signed = str(block.get("signature") or block.get("data")) if block.get("type") in _THOUGHTS else ""
        if signed.startswith(_BINDS) and signed != _signature(payload, spoken[:place]):
            yield f"thinking bound to a different conversation: block {place}"


def _turn(payload: dict[str, Any]) -> Iterator[str]:
    """Check that an unfinished turn begins with thinking if `thinking` is `enabled`."""
    spoken = _spoken(payload["messages"])
    if (payload.get("thinking") or {}).get("type") != "enabled" or not spoken or spoken[-1][0] != "user":
        return
    said = [n for n, (role, block) in enumerate(spoken) if role == "user" and block.get("type") != "tool_result"]
    ours = max(said, default=0)
    passed = dropwhile(lambda one: one[0] == "user" or one[1].get("type") == "compaction", spoken[ours:])
    first = next(passed, None)
    if first and first[1].get("type") not in _THOUGHTS:
        yield f"a turn without its thinking: block {ours + 1}"


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
    if role == "assistant" and kinds and kinds[-1] in _THOUGHTS:
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
