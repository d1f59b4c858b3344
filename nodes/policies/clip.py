"""Shorten the fields of a tool block: arguments stay a dict, results keep their beginning (S0.12-S0.15, B3)."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_compaction.checkpoint.codec import handle

from .tokens import TokenCounter, media_blocks, texts_of
from .transcript import MARK, marks

M = TypeVar("M", bound=BaseMessage)


def clipped_text(text: str, keep: int, counter: TokenCounter) -> str:
    """The first `keep` tokens of a text, and a line with its original size (S0.14)."""
    return f"{counter.head(text, keep)}\n[TRUNCATED original~{counter.text(text)} tokens]"


def clip_result(message: ToolMessage, *, threshold: int, keep: int, counter: TokenCounter) -> ToolMessage:
    """The result with its text cut to `keep` tokens where it holds more than `threshold`, else itself.

    Media blocks stay, unless they alone pass the threshold: then a line says how many there were.
    """
    media = media_blocks(message)
    text = "\n".join(texts_of(message))
    size = counter.message(message)
    if counter.text(text) <= threshold and (not media or size <= threshold):
        return message
    short = clipped_text(text, keep, counter) if counter.text(text) > threshold else text
    content: Any = short
    if media:
        content = f"{short}\n[{media} media blocks are in the archive]"
    return _shortened(message, {"content": content})


def clip_calls(message: AIMessage, *, threshold: int, keep: int, counter: TokenCounter) -> AIMessage:
    """The message with the arguments of each call over `threshold` tokens cut to about `keep`, else itself."""
    clipped = [_clip_call(dict(call), threshold, keep, counter) for call in message.tool_calls]
    if clipped == message.tool_calls:
        return message
    raw = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    short = message.model_copy(update={"tool_calls": clipped, "additional_kwargs": raw})
    short.content = _with_inputs(message.content, {call["id"]: call["args"] for call in clipped})
    return _shortened(short, {}, original=message)


def _shortened(message: M, update: Mapping[str, Any], original: BaseMessage | None = None) -> M:
    mark = {**marks(message), "clipped": True, "handle": handle(original or message)}
    kwargs = {**message.additional_kwargs, MARK: mark}
    return message.model_copy(update={**update, "additional_kwargs": kwargs})


def _clip_call(call: dict[str, Any], threshold: int, keep: int, counter: TokenCounter) -> dict[str, Any]:
    arguments: dict[str, Any] = call["args"]
    if _size(arguments, counter) <= threshold:
        return call
    level = _level([counter.text(leaf) for leaf in _leaves(arguments)], keep)

    def shorten(leaf: str) -> str:
        return leaf if counter.text(leaf) <= level else clipped_text(leaf, level, counter)

    short = _mapped(arguments, shorten)
    if _size(short, counter) > threshold:  # the bulk is not in text: numbers, keys, nesting
        short = {"clipped": clipped_text(json.dumps(arguments, ensure_ascii=False), keep, counter)}
    return {**call, "args": short}


def _size(arguments: Mapping[str, Any], counter: TokenCounter) -> int:
    return counter.text(json.dumps(arguments, ensure_ascii=False))


def _level(sizes: list[int], keep: int) -> int:
    """The largest size at which cutting every larger leaf to it leaves at most `keep` tokens in all."""
    left, level = keep, 0
    for position, size in enumerate(sorted(sizes)):
        level = left // (len(sizes) - position)
        if size > level:
            return max(1, level)
        left -= size
    return max(1, level)


def _leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return []


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value


def _with_inputs(content: Any, arguments: Mapping[str | None, Any]) -> Any:
    if isinstance(content, str):
        return content
    return [
        {**block, "input": arguments[block["id"]]}
        if isinstance(block, dict) and block.get("type") == "tool_use" and block.get("id") in arguments
        else block
        for block in content
    ]
