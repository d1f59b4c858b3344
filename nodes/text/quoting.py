"""Foreign text as quoted data: one line, no tag, no heading, never longer than said."""

import re

ELLIPSIS = "…"

_QUOTED_CODE = re.compile(r"(`{3,20}|~{3,20}).*?(?:\1|\Z)", re.DOTALL)
"""A fence and what it holds; the fence's length is bounded, since it is compared at each character that follows."""
_LINE_END = re.compile(r"\r\n?")
_QUOTED_LINE = re.compile(r"^[^\S\n]*+>.*$", re.MULTILINE)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def one_line(text: str, limit: int | None = None) -> str:
    """The text on one line of at most `limit` characters, without control characters and without a `<`.

    A line of ours begins with a heading or a dash, and a tag begins with `<`: what has neither a line break
    nor a `<` can be taken for neither.
    """
    if limit is not None:
        text = text[: 4 * limit]  # escaping never shortens by more than white space; a huge text costs nothing
    flat = " ".join(_UNPRINTABLE.sub(" ", text).split())
    clipped = flat if limit is None else clip(flat, limit)
    return clipped.replace("<", "&lt;")


def clip(text: str, limit: int) -> str:
    """The text, or its beginning up to a word's end and an ellipsis: at most `limit` characters."""
    if len(text) <= limit:
        return text
    head = text[: max(0, limit - 1)]
    cut = head.rfind(" ")
    return (head[:cut] if cut > limit // 2 else head) + ELLIPSIS


def quoted(line: str) -> str:
    """A line between double quotes, with none inside."""
    return '"' + line.replace('"', "'") + '"'


def worded(line: str) -> str:
    """A name or a value as it is where it is one word, else quoted: where it ends must be plain to see."""
    return quoted(line) if " " in line else line


def without_quotations(text: str) -> str:
    """What someone says in their own words: without code fences and quoted lines."""
    return _QUOTED_LINE.sub("\n", _QUOTED_CODE.sub("\n", _LINE_END.sub("\n", text)))


def between_tags(text: str, name: str, *, ignore_case: bool = False) -> list[str]:
    """The texts between `<name>` and the next `</name>`, in order; a tag that is never closed holds nothing."""
    found, begin = list[str](), -1
    for tag in re.finditer(f"<(/?){re.escape(name)}>", text, re.IGNORECASE if ignore_case else 0):
        if not tag[1] and begin < 0:
            begin = tag.end()
        elif tag[1] and begin >= 0:
            found.append(text[begin : tag.start()])
            begin = -1
    return found
