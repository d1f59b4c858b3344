"""HTML that a notebook shows for a compaction: `_repr_html_` of `Diff`, `Preview`, `Undone` and `Compaction`."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from langchain_core.messages import BaseMessage

from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import joined_texts
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage

from .inspector.page import environment, window_bars

SHOWN = 50
"""Largest number of messages that are shown of a list."""
_CHARACTERS = 240
_ROLES = {"human": "user", "ai": "assistant"}

Figures = Sequence[tuple[str, int | str | None]]
Parts = Sequence[tuple[str, Sequence[Any]]]
"""Lists of messages, or of pairs of messages (before, after), each with its heading."""


def card(
    title: str, figures: Figures, parts: Parts = (), summary: str = "", usages: Sequence[WindowUsage] = ()
) -> str | None:
    """Return HTML with a title, figures, bars of the window, lists of messages that can be folded, and a summary.

    Return `None` without jinja2, which the extra `cli` installs; a notebook then shows the value's `repr`.
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
            bars=window_bars(usages),
        )
    )


def _row(one: BaseMessage | tuple[BaseMessage, BaseMessage]) -> tuple[str, str, str]:
    """Return the role, the text, and the text that replaced it (empty for a single message)."""
    before, after = one if isinstance(one, tuple) else (one, None)
    role = "summary" if is_summary(before) else _ROLES.get(before.type, before.type)
    return role, _text(before), _text(after) if after else ""


def _text(message: BaseMessage) -> str:
    whole = joined_texts(message)
    text = " ".join(whole.split())
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]} [... {len(whole):,} characters]"
