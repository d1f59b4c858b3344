"""The model's own wish to compact: words of its answer that are taken out before the answer is kept."""

import re
from typing import Any

from langchain_core.messages import AIMessage


def unmarked(answer: AIMessage, marker: str) -> AIMessage | None:
    """The answer without the marker, and without blocks that held nothing else; `None` where it does not say it.

    Only text counts, outside code and quotations. Calls and other blocks stay as they are.
    """
    pattern, given = _pattern(marker), answer.content
    if isinstance(given, str):
        said = _said(given, pattern)
        return None if said is None else answer.model_copy(update={"content": said})
    heard, blocks = False, list[str | dict[str, Any]]()
    for block in given:
        text = block if isinstance(block, str) else block.get("text") if block.get("type") == "text" else None
        said = _said(text, pattern) if isinstance(text, str) else None
        heard = heard or said is not None
        if said is None:
            blocks.append(block)
        elif said:
            blocks.append(said if isinstance(block, str) else {**block, "text": said})
    return answer.model_copy(update={"content": blocks}) if heard else None


def _pattern(marker: str) -> re.Pattern[str]:
    """What is kept in a group of that name (fenced and inline code, quoted lines, the marker in quotes), or it."""
    words = re.escape(marker)
    return re.compile(
        rf"(?P<kept>(?P<fence>`{{3,20}}|~{{3,20}})(?s:.*?)(?:(?P=fence)|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*"
        rf"|[\"'“‘«]{words}[\"'”’»])|{words}",
        re.MULTILINE,
    )


def _said(text: str, pattern: re.Pattern[str]) -> str | None:
    """The text without the marker; `None` where it is not said."""
    if all(found["kept"] is not None for found in pattern.finditer(text)):
        return None
    return pattern.sub(lambda found: found["kept"] or "", text).strip()
