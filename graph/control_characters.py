"""Escape characters of untrusted text that control a terminal or change the order in which text is displayed."""

import json
from typing import Any, Final

from langgraph_compaction.checkpoint.patterns import Match, Pattern

_FORBIDDEN: Final = Pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed: escape sequences begin with one
    "\u2028\u2029"  # line and paragraph separator
    "\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides and isolates
    "\ud800-\udfff]"  # lone surrogates, which no encoding can write
)


def visible(text: str) -> str:
    r"""Return the text with each harmful character escaped, as `\x1b` or `\u202e`; line feeds stay."""
    return _FORBIDDEN.sub(_escape, text.replace("\r\n", "\n"))


def in_line(text: str) -> str:
    r"""Return the text on one line: as `visible`, with line feeds and tabs escaped too, as `\n` and `\t`."""
    return visible(text.replace("\r\n", "\n")).replace("\n", "\\n").replace("\t", "\\t")


def json_line(value: Any) -> str:
    r"""Return a value as one line of JSON, with harmful characters in JSON's own escapes, as `\u001b`."""
    return _FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _escape(found: Match) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - below it two hexadecimal digits are enough
