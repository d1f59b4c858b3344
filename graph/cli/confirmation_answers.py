"""What a person types at the question before a compaction: the prompt, and the answer that the line stands for."""

import json
from collections.abc import Mapping
from typing import Any, cast

from langgraph_compaction.nodes.confirm import ACTION

_ANSWERS = {
    **dict.fromkeys(("approve", "yes", "y", "是"), True),
    **dict.fromkeys(("reject", "no", "n", "否"), False),
}
"""The words that accept and those that decline, when a person types them."""

_FOCUS = ("keep", "focus", "保留", "重点")
"""Words before the colon of a line that says what the summary must keep."""


def is_over_limit(question: Mapping[str, Any]) -> bool:
    """Whether the question is the one over the limit, whose answers are words to choose from."""
    return "compact" in question["answers"]


def prompt_of(question: Mapping[str, Any]) -> str:
    """Return the prompt, which says what can be answered."""
    if is_over_limit(question):
        return f"{', '.join(question['answers'])}> "
    return "yes, no, or keep: WHAT THE SUMMARY MUST KEEP> "


def unclear(question: Mapping[str, Any]) -> str:
    """Return what to say about a line that `answer_of` cannot read."""
    if is_over_limit(question):
        return "Nothing is decided yet: answer with one of the words in the prompt."
    return "Nothing is compacted yet: answer yes or no, or name what to keep, such as: keep: the prices"


def answer_of(line: str, question: Mapping[str, Any]) -> bool | str | dict[str, Any] | None:
    """Return the answer that a line stands for; `None` if the line does not say it clearly, so that one asks again.

    `keep: TEXT` accepts, with the text as the summary's focus; a program may write the JSON object of LangChain's
    human-in-the-loop, `{"decisions": [...]}`. Over the limit, the line is one of the question's answers; accepting
    means "compact", and declining means "raise".
    """
    said = line.strip()
    accepted = _ANSWERS.get(said.lower())
    if is_over_limit(question):
        if said.lower() in question["answers"]:
            return said.lower()
        return None if accepted is None else "compact" if accepted else "raise"
    word, _, focus = said.replace("：", ":", 1).partition(":")
    if word.strip().lower() in _FOCUS and focus.strip():
        edited = {"name": ACTION, "args": {"focus": focus.strip()}}
        return {"decisions": [{"type": "edit", "edited_action": edited}]}
    return _read_object(said) if accepted is None else accepted


def _read_object(line: str) -> dict[str, Any] | None:
    """Return a line that is a JSON object with `decisions` as this object; `None` for any other line."""
    try:
        answer: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) and "decisions" in answer else None
