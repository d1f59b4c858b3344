"""Detect text that cannot be a summary: tool calls, quoted transcripts, code, data, error pages, repetition."""

import json
import zlib
from typing import Any

from langgraph_compaction.checkpoint.patterns import DOT_ALL, IGNORE_CASE, MULTILINE, Anchored, Pattern

_FENCE = "```"
_LANGUAGE = Anchored(r"```[ \t]*+(\w*+)")
_PROSE = frozenset({"", "md", "markdown", "text", "txt"})

_CALL = Pattern(
    r"^[ \t]*+(?:<\|?(?:tool_?calls?|function_?calls?|tool_use|invoke)\w*+(?:[\s>]|\|>)"
    r"|<function=|\[TOOL_CALLS\]|Action Input:)",
    IGNORE_CASE | MULTILINE,
)
_CALLED = Anchored(r"[\w.]++\(")
_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input"})

_QUOTATION = Pattern(
    r"^[ \t]*+(?:</?(?:message|conversation|earlier_record)\b[^>\n]{0,80}>"
    r"|<\|(?:im_start|user|assistant|start_header_id)\|>)",
    MULTILINE,
)
_TURN = Anchored(
    r"[\s*#\[]*+(?:(user|human|customer|用户|客户)|assistant|ai|agent|bot|system|tool|助手|客服|系统|工具)[\s*\]]*+"
    r"(?:\([^)\n]{0,40}+\)[\s*]*+)?+[:：]",
    IGNORE_CASE,
)
_TURNS = 3

_PAGE = Anchored(r"(?:<!doctype|<html|<\?xml|<head|<body)\b", IGNORE_CASE)
_ERROR = Anchored(
    r"(?:(?:api |http |server )?(?:error|exception|错误|异常)\s*+[:：].{0,120}"
    r"(?:\b[45]\d\d\b|retry|rate limit|overload|time[d ]?-?out|重试|超时|频繁|繁忙)"
    r"|(?:\d{3} )?(?:internal server error|service unavailable|bad gateway|gateway time-?out|too many requests"
    r"|request timed out|upstream connect error|connection (?:reset|refused))).{0,120}",
    IGNORE_CASE | DOT_ALL,
)
_CODE = Anchored(
    r"\s*+(?:import |from \S{1,200}+ import|(?:async )?def |class |return\b|const |let |var |function |public "
    r"|private |#include|package |@\w++$|//|/\*|else:|try:|print\(|</?\w++>"
    r'|File "[^"\n]*+", line \d|at [\w.$/<>]++\(|Traceback \(most|Caused by: |[\w.]{1,80}(?:Error|Exception)\b'
    r"|\$ |diff --git |@@ |[+-]{3} [ab]/)|.{0,40}\b(?:INFO|WARN|WARNING|ERROR|DEBUG)\b"
)
_BLOCK = Anchored(r"\s*+(?:with|for|if|elif|while|except)\b")
"""The beginning of a line of Python that a colon ends."""

_WINDOW = 400
_LOOP = 0.2
"""A text whose compressed size is less than this share of its size is repetitive (prose: over 0.5, a list: over
0.25)."""


def is_call(text: str) -> bool:
    """Whether the text is or contains a tool call, as JSON or in the notation of a model."""
    value = _parsed(text)
    first = value[0] if isinstance(value, list) and value else value
    named = isinstance(first, dict) and "name" in first and not _ARGUMENTS.isdisjoint(first)
    bare = text.strip()
    whole = bare.endswith(")") and "\n" not in bare and _CALLED.match(bare)
    return named or bool(whole or _CALL.search(text))


def is_transcript(text: str) -> bool:
    """Whether the text repeats a conversation, in the tags that quote messages or as a list of labeled turns."""
    lines = [line for line in text.splitlines() if line.strip()]
    turns = [turn for line in lines if (turn := _TURN.match(line))]
    both = len({bool(turn[1]) for turn in turns}) > 1
    return bool(_QUOTATION.search(text)) or (both and len(turns) >= _TURNS and len(turns) * 2 >= len(lines))


def is_data(text: str) -> bool:
    """Whether the text is only code, JSON, an HTML page, an error message or a traceback."""
    if _PAGE.match(text.lstrip()) or _ERROR.fullmatch(text) or isinstance(_parsed(text), dict | list):
        return True
    fenced = _fenced(text)
    if fenced and fenced[0].lower() not in _PROSE and _FENCE not in fenced[1]:
        return True
    lines = [line for line in _unfenced(text).splitlines() if line.strip()]
    code = [line for line in lines if _is_code(line)]
    return len(code) > 1 and sum(map(len, code)) * 5 >= sum(map(len, lines)) * 3


def is_repetitive(text: str) -> bool:
    """Whether the whole text, or any window of 400 characters in it, repeats itself."""
    starts = {*range(0, len(text) - _WINDOW, _WINDOW), max(0, len(text) - _WINDOW)}
    return any(map(_is_loop, (text, *(text[start : start + _WINDOW] for start in starts))))


def _is_loop(text: str) -> bool:
    written = text.encode(errors="replace")
    return len(zlib.compress(written)) < _LOOP * len(written)


def _is_code(line: str) -> bool:
    bare = line.rstrip()
    if bare.endswith((";", "{", "}")) or _CODE.match(line):
        return True
    return line.endswith(":") and bool(_BLOCK.match(line))


def _fenced(text: str) -> tuple[str, str] | None:
    """Return the language and the content of a text that is one fenced block, else `None`."""
    bare = text.strip()
    opening, _, rest = bare.partition("\n")
    content, newline, closing = rest.rpartition("\n")
    language = _LANGUAGE.match(opening)
    return (language[1], content) if language and newline and closing.strip(" \t") == _FENCE else None


def _unfenced(text: str) -> str:
    fenced = _fenced(text)
    return fenced[1] if fenced else text


def _parsed(text: str) -> Any:
    bare = _unfenced(text).strip()
    if not bare.startswith(("{", "[")):
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        return None
