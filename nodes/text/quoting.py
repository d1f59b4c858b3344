"""Show text from users and tools as quoted data: on one line, without tags, within a length limit."""

import re

ELLIPSIS = "…"

_QUOTED_CODE = re.compile(r"(`{3,20}|~{3,20}).*?(?:\1|\Z)", re.DOTALL)
"""A fenced code block. The pattern bounds the length of the fence, because the fence is compared with the text at
every later position."""
_LINE_END = re.compile(r"\r\n?")
_QUOTED_LINE = re.compile(r"^[^\S\n]*+>.*$", re.MULTILINE)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def one_line(text: str, limit: int | None = None) -> str:
    """Return the text on one line of at most `limit` characters, without control characters and without a `<`.

    Headings and list items start a line, and tags start with `<`. A text without line breaks and `<` can therefore
    not be mistaken for a heading, a list item or a tag. The limit counts characters before each `<` becomes `&lt;`.
    """
    if limit is not None:
        text = text[: 4 * limit]  # bounds the work on a huge text: below, only white space shortens it
    flat = " ".join(_UNPRINTABLE.sub(" ", text).split())
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
    return _QUOTED_LINE.sub("\n", _QUOTED_CODE.sub("\n", _LINE_END.sub("\n", text)))


def between_tags(text: str, name: str, *, ignore_case: bool = False, to_end: bool = False) -> list[str]:
    """Return the texts between each `<name>` and the next `</name>`, in order.

    A last `<name>` without `</name>` is ignored; with `to_end` it encloses the rest of the text.
    """
    found, begin = list[str](), -1
    for tag in re.finditer(f"<(/?){re.escape(name)}>", text, re.IGNORECASE if ignore_case else 0):
        if not tag[1] and begin < 0:
            begin = tag.end()
        elif tag[1] and begin >= 0:
            found.append(text[begin : tag.start()])
            begin = -1
    return [*found, text[begin:]] if to_end and begin >= 0 else found
