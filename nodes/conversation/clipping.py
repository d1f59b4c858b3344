"""Shorten (clip) the fields of a tool block. Arguments remain a dict; results and texts keep their beginning."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_compaction.checkpoint.errors import MessageError
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.checkpoint.patterns import Match, Pattern

from ..text.nested_texts import map_texts, nested_texts
from ..text.quoting import ELLIPSIS
from .message_marks import marks, with_mark
from .tokens import CALL_BLOCKS, TokenCounter, arguments_json, joined_texts, media_of

M = TypeVar("M", bound=BaseMessage)

_MARKER = Pattern(r"\n\[TRUNCATED original~(\d{1,15}) tokens\](?:\n\[recall: [0-9a-f]{12}\])?\Z")
_MARKER_CHARS = 100
"""Number of characters at the end of a text in which a marker is searched."""
_HANDLE = 12
_HANDLE_LINE = Pattern(r"\n\[recall: [0-9a-f]{12}\]\Z")
_RAW_CALLS = frozenset({"tool_calls", "function_call"})
_CALL_FIELDS = {kind: CALL_BLOCKS[kind] for kind in ("tool_use", "tool_call", "function_call")}
"""Types of the content blocks in which some providers repeat a tool call, with the keys of its id and arguments. The
arguments there are clipped together with those in `tool_calls`, else the request would still contain them whole."""

_SENTENCE_END = Pattern(r"[.!?;](?=\s)|[。！？；]|(?=\n)")
_MIN_SHARE = 0.5
"""A text is cut at the end of a sentence only if this share of the allowed length is kept; else it is cut at the
limit."""


def without_clip_marker(text: str) -> str:
    """Return a clipped text without the marker lines at its end."""
    return text[: _end(_MARKER, text)]


def _at_end(line: Pattern, text: str) -> Match | None:
    return line.search(text, max(0, len(text) - _MARKER_CHARS))


def _end(line: Pattern, text: str) -> int:
    found = _at_end(line, text)
    return found.start() if found else len(text)


def clipped_text(text: str, keep: int, counter: TokenCounter, *, ends: bool = False) -> str:
    """Return a text's first `keep` tokens and a marker line with the original size.

    With `ends`, half of the tokens are kept of the text's beginning, and as many characters of its end. The marker
    of a text that was clipped before keeps the size that the text had before its first clip.
    """
    earlier = _at_end(_MARKER, text)
    original = int(earlier[1]) if earlier else counter.text(text)
    body = text[: earlier.start()] if earlier else text
    kept = both_ends(body, keep, counter) if ends else counter.head(body, keep)
    return f"{kept}\n[TRUNCATED original~{original} tokens]"


def both_ends(text: str, keep: int, counter: TokenCounter) -> str:
    """Return the beginning of a text, which has half of `keep` tokens, and as many characters of its end."""
    head = counter.head(text, max(1, keep // 2))
    tail = text[max(len(head), len(text) - len(head)) :]
    return f"{head}\n{ELLIPSIS}\n{tail}"


def clip_result(
    message: ToolMessage,
    *,
    threshold: int,
    keep: int,
    counter: TokenCounter,
    recall: bool = False,
    ends: bool = False,
    keep_media: bool = False,
) -> ToolMessage:
    """Return the result with its text cut to `keep` tokens if it has more than `threshold` tokens, else unchanged.

    Media count towards the threshold, and clipping removes them and adds a line with their number; with `keep_media`
    they do not count and stay. With `recall` a last line names the handle, the hash by which the tool `recall`
    returns the original. With `ends` the text's beginning and end stay, else its beginning.
    """
    media, text = [] if keep_media else media_of(message), joined_texts(message)
    size = counter.text(text)
    if size + sum(one.tokens for one in media) <= threshold:
        return message
    short = clipped_text(text, keep, counter, ends=ends) if size > threshold else text
    content = f"[{len(media)} media blocks are in the archive]\n{short}" if media else short
    clipped = _shortened(message, {"content": _with_text(message.content, short) if keep_media else content})
    return with_recall_handle(clipped) if recall else clipped


def with_clipped_text(message: M, text: str, counter: TokenCounter, *, recall: bool = False) -> M:
    """Return the message with `text` in place of its text, followed by the marker lines of a clipped text.

    The media blocks of a result are removed, those of other messages stay.
    """
    whole = joined_texts(message)
    earlier = _at_end(_MARKER, whole)
    original = int(earlier[1]) if earlier else counter.text(whole)
    short = f"{text}\n[TRUNCATED original~{original} tokens]"
    content = short if isinstance(message, ToolMessage) else _with_text(message.content, short)
    clipped = _shortened(message, {"content": content})
    return with_recall_handle(clipped) if recall else clipped


def clip_text(
    message: AIMessage, *, threshold: int, keep: int, counter: TokenCounter, recall: bool = False
) -> AIMessage:
    """Return the message with its text cut to `keep` tokens if it has more than `threshold` tokens, else unchanged.

    Only text blocks are cut: providers sign reasoning blocks and refuse changed ones. With `recall` a last line names
    the handle, the hash by which the tool `recall` returns the original.
    """
    text = message.text
    if counter.text(text) <= threshold:
        return message
    clipped = _shortened(message, {"content": _with_text(message.content, clipped_text(text, keep, counter))})
    return with_recall_handle(clipped) if recall else clipped


def _with_text(content: Any, text: str) -> Any:
    """Return the content with `text` in place of its first text block and without its other text blocks."""
    if isinstance(content, str):
        return text
    texts = [index for index, block in enumerate(content) if _is_text(block)]
    return [
        {"type": "text", "text": text} if index in texts[:1] else block
        for index, block in enumerate(content)
        if index not in texts[1:]
    ]


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"


def with_recall_handle(message: M) -> M:
    """Return a clipped message with a last line that names the original's handle, if its mark contains one."""
    name = marks(message).get("handle")
    if name is None:
        return message
    text = f"{message.text[: _end(_HANDLE_LINE, message.text)]}\n{recall_line(str(name))}"
    return message.model_copy(update={"content": _with_text(message.content, text)})


def recall_line(*names: str) -> str:
    """Return the line that names these handles, each by its first 12 characters, which the tool `recall` accepts."""
    return f"[recall: {', '.join(name[:_HANDLE] for name in names)}]"


def clip_calls(message: AIMessage, *, threshold: int, keep: int, counter: TokenCounter) -> AIMessage:
    """Return the message with the arguments of each call cut to about `keep` tokens if they exceed `threshold`."""
    calls = [_clip_call(dict(call), threshold, keep, counter) for call in message.tool_calls]
    broken = [_clip_broken(dict(call), threshold, keep, counter) for call in message.invalid_tool_calls]
    if calls == message.tool_calls and broken == message.invalid_tool_calls:
        return message
    content = _with_arguments(message.content, calls)
    return _shortened(message, {"tool_calls": calls, "invalid_tool_calls": broken, "content": content})


def _shortened(message: M, update: Mapping[str, Any]) -> M:
    """Return a copy with the fields of `update` and, in its mark, the handle of the original in the archive.

    The provider's own copy of the calls in `additional_kwargs` is removed, because it would still be whole.
    """
    mark = {**marks(message), "clipped": True}
    if "handle" not in mark:
        with suppress(MessageError):  # a message that cannot be stored is not archived and has no handle
            mark["handle"] = handle(message)
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key not in _RAW_CALLS}
    return with_mark(message.model_copy(update={**update, "additional_kwargs": kwargs}), mark)


def _clip_broken(call: dict[str, Any], threshold: int, keep: int, counter: TokenCounter) -> dict[str, Any]:
    """Return a malformed call, whose arguments are a text or `None`, with its arguments clipped if too long."""
    text = call["args"] or ""
    return {**call, "args": clipped_text(text, keep, counter)} if counter.text(text) > threshold else call


def _clip_call(call: dict[str, Any], threshold: int, keep: int, counter: TokenCounter) -> dict[str, Any]:
    arguments: dict[str, Any] = call["args"]
    if _size(arguments, counter) <= threshold:
        return call
    share = even_share([counter.text(leaf) for leaf in nested_texts(arguments)], keep)

    def shorten(leaf: str) -> str:
        return leaf if counter.text(leaf) <= share else clipped_text(leaf, share, counter)

    short = map_texts(arguments, shorten)
    if _size(short, counter) > threshold:  # the size is in numbers, keys or nesting, not in texts
        short = {"clipped": clipped_text(arguments_json(arguments), keep, counter)}
    return {**call, "args": short}


def _size(arguments: Mapping[str, Any], counter: TokenCounter) -> int:
    return counter.text(arguments_json(arguments))


def even_share(sizes: Collection[int], keep: int) -> int:
    """Return the size to which texts of these `sizes` are cut, so that they have about `keep` tokens together.

    It is the largest such size: shorter texts stay whole, and the tokens that they do not use go to the longer ones.
    """
    left, share = keep, 0
    for position, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - position)
        if size > share:
            break
        left -= size
    return max(1, share)


def _with_arguments(content: Any, calls: Sequence[dict[str, Any]]) -> Any:
    """Return the content with the clipped arguments in the blocks that repeat a call, paired by id and by order."""
    if isinstance(content, str):
        return content
    left = list(calls)
    return [_call_block(block, left) for block in content]


def _call_block(block: Any, left: list[dict[str, Any]]) -> Any:
    if not isinstance(block, dict) or block.get("type") not in _CALL_FIELDS:
        return block
    call_id, arguments = _CALL_FIELDS[block["type"]]
    call = next((call for call in left if call["id"] == block.get(call_id)), None)
    if call is None:
        return block
    left.remove(call)
    as_text = isinstance(block.get(arguments), str)
    return {**block, arguments: arguments_json(call["args"]) if as_text else call["args"]}


def clip_at_sentence_end(
    text: str, *, counter: TokenCounter, tokens: int | None = None, characters: int | None = None
) -> str:
    """Return the text cut to at most `tokens` tokens and `characters` characters, at a sentence's end if possible."""
    head = text if characters is None else text[:characters]
    head = head if tokens is None else counter.head(head, tokens)
    if len(head) == len(text):
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text[: len(head) + 1]) if found.end() <= len(head)]
    return head[: ends[-1] if ends and ends[-1] >= len(head) * _MIN_SHARE else len(head)].rstrip()
