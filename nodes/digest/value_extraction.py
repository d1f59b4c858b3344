"""Find the values in a conversation: JSON values with their keys, identifiers in prose with the words around them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint.text_cache import cached_by_text

from ..conversation.clipping import without_clip_marker
from ..conversation.message_marks import is_real_user
from ..conversation.tokens import encoded_json, joined_texts
from ..conversation.transcript import Transcript
from ..text.identifiers import identifiers, identifiers_with_digit, is_capitalized_word, spans
from ..text.quoting import one_line, quoted, quoted_if_spaced

Source = Literal["user", "assistant", "call", "result"]

LONGEST_VALUE = 64
"""Maximum number of characters of a JSON string that is extracted whole; of a longer string only the identifiers are
extracted, as from prose."""

_KEY = 48
"""Maximum number of characters of a key or a path."""

_SNIPPET, _BEFORE, _AFTER = 90, 28, 14
"""Maximum number of characters from a quotation's start to the end of its last identifier, and the number of
characters that a quotation shows before its first and after its last identifier."""

_KEY_CHARS_READ = 4 * _KEY
"""Number of characters of a key that are read. The limit bounds the memory, because each value under the key repeats
the key."""

_MAX_DEPTH = 13
"""How many levels of nested JSON are read."""

_NAME, _AMOUNT, _WORD = 0.4, 0.25, 0.15
"""Worth of a value without an identifier if the value is a name, a number, or any other word."""


@dataclass(frozen=True, slots=True)
class ExtractedValue:
    """One occurrence of a value in the conversation: where it is, and which identifiers it contains."""

    source: Source
    at: int
    """Position of the value's message; a call's arguments have the position of the call's result."""
    value: str
    path: str = ""
    """Keys from the outermost JSON object to the innermost list around the value, joined by dots; for a quotation,
    who said it."""
    row: str = ""
    """Indexes of the list elements on the path, joined by dots."""
    key: str = ""
    """Keys from the innermost list (or the outermost object) to the value, joined by dots."""
    marks: tuple[str, ...] = ()
    """Identifiers in the value or its key; if there are none, a single text of key and value. Two occurrences with
    the same mark count as mentions of the same thing."""
    plain: float = 0.0
    """Worth of a value without identifiers; 0 if it has identifiers, because then their worth counts."""
    siblings: int = 1
    """Number of values in the same text, result or call's arguments, this value included."""

    @property
    def is_prose(self) -> bool:
        """Whether this is a quotation from prose, not a value with a key."""
        return not self.key and self.value.startswith('"')


def extract_values(messages: Sequence[AnyMessage], start: int = 0) -> Iterator[ExtractedValue]:
    """Yield every JSON value and every quotation with an identifier, in order.

    `start` is the number of messages that earlier digests covered: the position of the first message.
    """
    view = Transcript(messages)
    for index, message in enumerate(messages):
        at = start + index
        if isinstance(message, ToolMessage):
            yield from _with_siblings(_arguments(view, index, at))
            yield from _with_siblings(_result(message, at))
        elif isinstance(message, AIMessage):
            yield from _with_siblings(_prose(message.text, "assistant", at, "assistant"))
            yield from _with_siblings(_unanswered(view, index, at))
        elif not isinstance(message, SystemMessage):
            label = "user" if is_real_user(message) else "meta"
            yield from _with_siblings(_prose(message.text, "user", at, label))


def _with_siblings(found: Iterator[ExtractedValue]) -> Iterator[ExtractedValue]:
    group = list(found)
    held = sum(max(1, len(occurrence.marks)) for occurrence in group)
    return (replace(occurrence, siblings=held) for occurrence in group)


def _arguments(view: Transcript, index: int, at: int) -> Iterator[ExtractedValue]:
    """Yield the values in the arguments of the call that is answered by the result at `index`."""
    if block := view.block_of.get(index):
        yield from _call_arguments(view, block.start, block.position_of[index], at)


def _unanswered(view: Transcript, index: int, at: int) -> Iterator[ExtractedValue]:
    if block := view.block_of.get(index):
        for position, result in enumerate(block.results):
            if result is None:
                yield from _call_arguments(view, index, position, at)


def _call_arguments(view: Transcript, index: int, position: int, at: int) -> Iterator[ExtractedValue]:
    calls = cast("AIMessage", view.messages[index]).tool_calls
    if position < len(calls):  # later positions are malformed calls, whose arguments are not JSON
        yield from _json(calls[position]["args"], "call", at)


def _result(message: ToolMessage, at: int) -> Iterator[ExtractedValue]:
    text = joined_texts(message)
    value = parsed(text)
    if isinstance(value, (dict, list)):
        yield from _json(value, "result", at)
    else:
        yield from _prose(text, "result", at, quoted_if_spaced(one_line(message.name or "tool", _KEY)))


def parsed(text: str) -> Any:
    """Return the text parsed as a JSON object or list, else `None`."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: Any, source: Source, at: int) -> Iterator[ExtractedValue]:
    for path, row, key, leaf in scalars(value):
        where = ExtractedValue(
            source, at, "", quoted_if_spaced(one_line(path, _KEY)), row, quoted_if_spaced(one_line(key, _KEY))
        )
        if isinstance(leaf, str) and (len(leaf) > LONGEST_VALUE or "\n" in leaf):
            label = where.path + ("." if path and key else "") + where.key
            written = "assistant" if source == "call" else source
            yield from _prose(leaf, written, at, label, row)
        elif (text := one_line(_shown(leaf))) and leaf is not None:
            shown = quoted_if_spaced(text)
            if marks := (*identifiers(text), *identifiers_with_digit(key)):
                yield replace(where, value=shown, marks=marks)
            else:
                plain = _plain(where.key, leaf)
                yield replace(where, value=shown, plain=plain, marks=(f"{where.key} {text}",))


def scalars(
    value: Any, path: str = "", row: str = "", key: str = "", depth: int = 0
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield `(path, row, key, scalar)` for each scalar inside a JSON value.

    A key that is itself an identifier, as in `{"INV-7": {...}}`, is treated like the index of a list, because such an
    object lists things by their ids.
    """
    if depth >= _MAX_DEPTH or not isinstance(value, (dict, list)):
        yield path, row, key, value
        return
    inner = _dotted(path, key)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from scalars(item, inner, _dotted(row, str(index)), "", depth + 1)
        return
    for given, item in cast("dict[str, Any]", value).items():
        name = given[:_KEY_CHARS_READ]
        if isinstance(item, (dict, list)) and identifiers_with_digit(name):
            yield inner, _dotted(row, name), "", name
            yield from scalars(item, inner, _dotted(row, name), "", depth + 1)
        else:
            yield from scalars(item, path, row, _dotted(key, name), depth + 1)


def _dotted(left: str, right: str) -> str:
    return f"{left}.{right}" if left and right else left or right


def _shown(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else encoded_json(leaf)[:LONGEST_VALUE]


def _plain(key: str, leaf: Any) -> float:
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        return _AMOUNT
    return _NAME if key.lower().endswith("name") else _WORD


def _prose(text: str, source: Source, at: int, label: str, row: str = "") -> Iterator[ExtractedValue]:
    """Yield a quotation for each group of identifiers that are close together in a line."""
    return (ExtractedValue(source, at, value, label, row, marks=marks) for value, marks in _quotations(text))


@cached_by_text
def _quotations(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return a quotation for each group of identifiers that are close together, with these identifiers."""
    return tuple(
        (quoted(one_line(line[start:end])), marks)
        for line in filter(None, without_clip_marker(text).splitlines())
        for start, end, marks in _groups(line)
    )


def _groups(line: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    start, end, marks = 0, 0, list[str]()
    for left, right, mark in spans(line):
        if is_capitalized_word(line, left, right):
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
