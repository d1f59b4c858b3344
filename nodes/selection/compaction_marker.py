"""Find the marker by which a model asks for a compaction, and remove the marker from the answer to be stored."""

from typing import Any

from langchain_core.messages import AIMessage

from langgraph_compaction.checkpoint.patterns import MULTILINE, Pattern, escape

from ..text.quoting import split_code


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


def _pattern(marker: str) -> Pattern:
    """Return a pattern for the marker, also as a tag, and, in group `kept`, text to skip: code and quotations."""
    words = escape(marker)
    return Pattern(
        rf"(?P<kept>`[^`\n]*+`|^[ \t]*+>[^\n]*+|[\"'“‘«]{words}[\"'”’»])|<{words}>|{words}",
        MULTILINE,
    )


def _without_marker(text: str, pattern: Pattern) -> str | None:
    """Return the text without the marker; `None` if it does not contain the marker."""
    parts = [part if is_code else _outside_code(part, pattern) for is_code, part in split_code(text)]
    left = "".join(parts)
    return None if left == text else left.strip()


def _outside_code(text: str, pattern: Pattern) -> str:
    return pattern.sub(lambda found: found["kept"] or "", text)
