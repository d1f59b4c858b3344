"""Show text from users and tools as quoted data: on one line, without tags, within a length limit."""

from collections.abc import Iterator
from functools import cache

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, MULTILINE, Pattern, escape

ELLIPSIS = "…"

_FENCES = ("```", "~~~")
_LONGEST_FENCE = 20
"""Number of marks of a fence that are read; the block ends at as many of the same marks."""
_QUOTED_LINE = Pattern(r"^[^\S\n]*+>[^\n]*+", MULTILINE)
_UNPRINTABLE = Pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text on one line of at most `limit` characters, without control characters and without a `<`.

    Headings and list items start a line, and tags start with `<`. A text without line breaks and `<` can therefore
    not be mistaken for a heading, a list item or a tag. The limit counts characters before each `<` becomes `&lt;`.
    """
    if limit is not None:
        text = text[: 4 * limit]  # bounds the work on a huge text: below, only white space shortens it
    printable = text if text.isprintable() else _UNPRINTABLE.sub(" ", text)
    flat = " ".join(printable.split())
    clipped = flat if limit is None else clip(flat, limit)
    return clipped.replace("<", "&lt;")


def clip(text: str, limit: int) -> str:
    """Return the text cut to at most `limit` characters, at the end of a word where possible, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: max(0, limit - 1)]
    cut = head.rfind(" ")
    return (head[:cut] if cut > limit // 2 else head) + ELLIPSIS


def quoted(line: str) -> str:
    """Return a line in double quotes, with double quotes inside the line replaced by single quotes."""
    return '"' + line.replace('"', "'") + '"'


def quoted_if_spaced(line: str) -> str:
    """Return a name or value, in quotes if it contains a space, so that its end is visible."""
    return quoted(line) if " " in line else line


def without_quotations(text: str) -> str:
    """Return the text without fenced code and without lines quoted by `>`: the author's own words."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _QUOTED_LINE.sub("\n", "\n".join(part for is_code, part in split_code(lines) if not is_code))


def split_code(text: str) -> Iterator[tuple[bool, str]]:
    """Yield `(is_code, part)` for the parts of a text: plain text, and between two plain texts a fenced code block.

    A block without an end encloses the rest of the text.
    """
    at, places = 0, {mark: text.find(mark) for mark in _FENCES}
    while True:
        for mark, place in places.items():
            if 0 <= place < at:
                places[mark] = text.find(mark, at)
        start = min((place for place in places.values() if place >= 0), default=-1)
        if start < 0:
            break
        marks = text[start : start + _LONGEST_FENCE]
        fence = marks[: len(marks) - len(marks.lstrip(marks[0]))]
        closing = text.find(fence, start + len(fence))
        end = len(text) if closing < 0 else closing + len(fence)
        yield False, text[at:start]
        yield True, text[start:end]
        at = end
    yield False, text[at:]


def between_tags(
    text: str, name: str, *, tags_of: str | None = None, ignore_case: bool = False, to_end: bool = False
) -> list[str]:
    """Return the texts between each `<name>` and the next `</name>`, in order.

    A last `<name>` without `</name>` is ignored; with `to_end` it encloses the rest of the text. `tags_of` is a
    text of the same length that holds only the tags that count.
    """
    found, begin = list[str](), -1
    for tag in _tag(name, IGNORE_CASE if ignore_case else 0).finditer(text if tags_of is None else tags_of):
        if not tag[1] and begin < 0:
            begin = tag.end()
        elif tag[1] and begin >= 0:
            found.append(text[begin : tag.start()])
            begin = -1
    return [*found, text[begin:]] if to_end and begin >= 0 else found


@cache
def _tag(name: str, flags: int) -> Pattern:
    return Pattern(f"<(/?){escape(name)}>", flags)
