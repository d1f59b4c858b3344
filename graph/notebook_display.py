"""Compactions as a notebook shows them: `_repr_html_` of `Diff`, `Preview`, `Undone` and `Compaction`."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import texts_of

from .inspector.page import environment

SHOWN = 50
"""Most messages of a list that a notebook shows."""
_CHARACTERS = 240
_ROLES = {"human": "user", "ai": "assistant"}

Figures = Sequence[tuple[str, int | str | None]]
Parts = Sequence[tuple[str, Sequence[Any]]]
"""Messages, or pairs of them, by what became of them."""


def card(title: str, figures: Figures, parts: Parts = (), summary: str = "") -> str | None:
    """Figures, lists of messages (or of pairs of them, before and after) that fold away, and a summary, as HTML.

    `None` without jinja2, which the extra `cli` installs: a notebook shows the text of the value then.
    """
    if find_spec("jinja2") is None:
        return None
    return (
        environment()
        .get_template("card.html.jinja")
        .render(
            title=title,
            figures=[(name, f"{value:,}" if isinstance(value, int) else value) for name, value in figures if value],
            parts=[(name, len(held), [_row(one) for one in held[:SHOWN]]) for name, held in parts if held],
            summary=summary,
            shown=SHOWN,
        )
    )


def _row(one: BaseMessage | tuple[BaseMessage, BaseMessage]) -> tuple[str, str, str]:
    """Role, text, and the text that stands for it now."""
    before, after = one if isinstance(one, tuple) else (one, None)
    role = "summary" if is_summary(before) else _ROLES.get(before.type, before.type)
    return role, _text(before), _text(after) if after else ""


def _text(message: BaseMessage) -> str:
    text = " ".join("\n".join(texts_of(message)).split())
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]} [... {len(text):,} characters]"
