"""Where values stand in a conversation: each with its keys, or with the words around it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage

from ..conversation.clipping import without_marker
from ..conversation.message_marks import is_real_user
from ..conversation.tokens import texts_of
from ..conversation.transcript import Transcript
from ..text.identifiers import identifiers, is_shouted, numbered, spans
from ..text.quoting import one_line, quoted, worded

Source = Literal["user", "assistant", "call", "result"]

_VALUE = 64
"""Characters of a value that is not yet prose."""

_KEY = 48
"""Characters of a key or a path."""

_SNIPPET, _BEFORE, _AFTER = 90, 28, 14
"""Characters of a quotation, and of the words before and after its identifiers."""

_LONGEST_NAME = 4 * _KEY
"""Characters of a key that are read: each value below it repeats them."""

_DEEPEST = 12
"""Levels of nested JSON that are read."""

_NAME, _AMOUNT, _WORD = 0.4, 0.25, 0.15
"""Worth of a value that is no identifier: somebody's name, a number, a word."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One value at one place."""

    source: Source
    at: int
    """Position of the message; what a call was given stands with its result."""
    value: str
    path: str = ""
    """Dotted keys up to the last list; or who said it."""
    row: str = ""
    """Which element of the lists on the path."""
    key: str = ""
    """Dotted keys after the last list."""
    marks: tuple[str, ...] = ()
    """Identifiers in the value or its key; for a plain value, the value with its key."""
    plain: float = 0.0
    """Worth of a plain value; 0 where there are identifiers."""
    siblings: int = 1
    """Values that its message holds."""

    @property
    def is_prose(self) -> bool:
        """Whether this is a quotation and no value with a key."""
        return not self.key and self.value.startswith('"')


def sightings(messages: Sequence[AnyMessage], start: int = 0) -> Iterator[Sighting]:
    """Every value, and every quotation with an identifier, in order. `start`: position of the first message."""
    view = Transcript(messages)
    for index, message in enumerate(messages):
        at = start + index
        if isinstance(message, ToolMessage):
            yield from _together(_arguments(view, index, at))
            yield from _together(_result(message, at))
        elif isinstance(message, AIMessage):
            yield from _together(_prose(message.text, "assistant", at, "assistant"))
            yield from _together(_unanswered(view, index, at))
        elif not isinstance(message, SystemMessage):
            label = "user" if is_real_user(message) else "meta"
            yield from _together(_prose(message.text, "user", at, label))


def _together(found: Iterator[Sighting]) -> Iterator[Sighting]:
    group = list(found)
    held = sum(max(1, len(sighting.marks)) for sighting in group)
    return (replace(sighting, siblings=held) for sighting in group)


def _arguments(view: Transcript, index: int, at: int) -> Iterator[Sighting]:
    """What the call that this result answers was given."""
    if block := view.block_of.get(index):
        yield from _given(view, block.start, block.position_of[index], at)


def _unanswered(view: Transcript, index: int, at: int) -> Iterator[Sighting]:
    if block := view.block_of.get(index):
        for position, result in enumerate(block.results):
            if result is None:
                yield from _given(view, index, position, at)


def _given(view: Transcript, index: int, position: int, at: int) -> Iterator[Sighting]:
    calls = cast("AIMessage", view.messages[index]).tool_calls
    if position < len(calls):  # the malformed calls follow, and their arguments are no JSON
        yield from _json(calls[position]["args"], "call", at)


def _result(message: ToolMessage, at: int) -> Iterator[Sighting]:
    text = "\n".join(texts_of(message))
    value = parsed(text)
    if isinstance(value, (dict, list)):
        yield from _json(value, "result", at)
    else:
        yield from _prose(text, "result", at, worded(one_line(message.name or "tool", _KEY)))


def parsed(text: str) -> Any:
    """The JSON object or list that a text is, else `None`."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: Any, source: Source, at: int) -> Iterator[Sighting]:
    for path, row, key, leaf in leaves(value):
        where = Sighting(source, at, "", worded(one_line(path, _KEY)), row, worded(one_line(key, _KEY)))
        if isinstance(leaf, str) and (len(leaf) > _VALUE or "\n" in leaf):
            label = where.path + ("." if path and key else "") + where.key
            written = "assistant" if source == "call" else source
            yield from _prose(leaf, written, at, label, row)
        elif (text := one_line(_shown(leaf))) and leaf is not None:
            shown = worded(text)
            if marks := (*identifiers(text), *numbered(key)):
                yield replace(where, value=shown, marks=marks)
            else:
                plain = _plain(where.key, leaf)
                yield replace(where, value=shown, plain=plain, marks=(f"{where.key} {text}",))


def leaves(
    value: Any, path: str = "", row: str = "", key: str = "", depth: int = 0
) -> Iterator[tuple[str, str, str, Any]]:
    """`(path, row, key, scalar)` of each scalar. A key that is an identifier names a row, as an index does."""
    if depth > _DEEPEST or not isinstance(value, (dict, list)):
        yield path, row, key, value
        return
    inner = _dotted(path, key)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, inner, _dotted(row, str(index)), "", depth + 1)
        return
    for given, item in cast("dict[str, Any]", value).items():
        name = given[:_LONGEST_NAME]
        if isinstance(item, (dict, list)) and numbered(name):
            yield inner, _dotted(row, name), "", name
            yield from leaves(item, inner, _dotted(row, name), "", depth + 1)
        else:
            yield from leaves(item, path, row, _dotted(key, name), depth + 1)


def _dotted(left: str, right: str) -> str:
    return f"{left}.{right}" if left and right else left or right


def _shown(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf, ensure_ascii=False, default=str)[:_VALUE]


def _plain(key: str, leaf: Any) -> float:
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        return _AMOUNT
    return _NAME if key.lower().endswith("name") else _WORD


def _prose(text: str, source: Source, at: int, label: str, row: str = "") -> Iterator[Sighting]:
    """A quotation around each group of identifiers that stand close together."""
    for line in without_marker(text).splitlines():
        for start, end, marks in _groups(line):
            snippet = one_line(line[start:end])
            yield Sighting(source, at, quoted(snippet), label, row, marks=marks)


def _groups(line: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    start, end, marks = 0, 0, list[str]()
    for left, right, mark in spans(line):
        if is_shouted(line, left, right):
            continue
        if marks and right - start > _SNIPPET:
            yield start, _word_end(line, end + _AFTER, end), tuple(marks)
            marks = []
        if not marks:
            start = _word_start(line, left - _BEFORE, left)
        end = right
        marks.append(mark)
    if marks:
        yield start, _word_end(line, end + _AFTER, end), tuple(marks)


def _word_start(line: str, at: int, most: int) -> int:
    if at <= 0:
        return 0
    space = line.find(" ", at, most)
    return most if space < 0 else space + 1


def _word_end(line: str, at: int, least: int) -> int:
    if at >= len(line):
        return len(line)
    space = line.rfind(" ", least, at)
    return least if space < 0 else space
