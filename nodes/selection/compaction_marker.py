"""Find the marker by which a model asks for a compaction, and remove the marker from the answer to be stored."""

import re
from typing import Any

from langchain_core.messages import AIMessage


def remove_marker(answer: AIMessage, marker: str) -> AIMessage | None:
    """Return the answer without the marker and without text blocks left empty; `None` if it has no marker.

    Only text outside code and quotations is searched. Calls and other blocks do not change.
    """
    pattern, given = _pattern(marker), answer.content
    if isinstance(given, str):
        said = _without_marker(given, pattern)
        return None if said is None else answer.model_copy(update={"content": said})
    heard, blocks = False, list[str | dict[str, Any]]()
    for block in given:
        text = block if isinstance(block, str) else block.get("text") if block.get("type") == "text" else None
        said = _without_marker(text, pattern) if isinstance(text, str) else None
        heard = heard or said is not None
        if said is None:
            blocks.append(block)
        elif said:
            blocks.append(said if isinstance(block, str) else {**block, "text": said})
    return answer.model_copy(update={"content": blocks}) if heard else None


def _pattern(marker: str) -> re.Pattern[str]:
    """Return a pattern for the marker and, in group `kept`, text to skip: code, quoted lines, quoted markers."""
    words = re.escape(marker)
    return re.compile(
        rf"(?P<kept>(?P<fence>`{{3,20}}|~{{3,20}})(?s:.*?)(?:(?P=fence)|\Z)|`[^`\n]*`|^[ \t]*>[^\n]*"
        rf"|[\"'“‘«]{words}[\"'”’»])|{words}",
        re.MULTILINE,
    )


def _without_marker(text: str, pattern: re.Pattern[str]) -> str | None:
    """Return the text without the marker; `None` if it does not contain the marker."""
    if all(found["kept"] is not None for found in pattern.finditer(text)):
        return None
    return pattern.sub(lambda found: found["kept"] or "", text).strip()
