"""Build the message that carries a summary together with key information, facts and pinned texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from ..config.summary_format import DEFAULT_FORMAT, FormatChoice, step_line
from ..conversation.clipping import recall_line
from ..conversation.message_marks import MARK, SUMMARY_KIND, is_summary, marks
from ..digest.digest import Facts
from .key_information import blocks

EARLIER_HANDLES = 3
"""Number of earlier compactions whose ids a summary names for `recall`. The summaries of those compactions name the
ids before."""

PINNED = "The user pinned these words; they hold as they stand:"
"""The line above the pinned texts."""


def handles_of(messages: Sequence[AnyMessage]) -> tuple[str, ...]:
    """Return the newest `EARLIER_HANDLES` compaction ids that the summaries among these messages name."""
    named = (str(name) for message in messages if is_summary(message) for name in marks(message).get("handles", ()))
    return tuple(dict.fromkeys(named))[-EARLIER_HANDLES:]


def summary_message(
    body: str,
    compaction_id: str,
    record: Mapping[str, Any] | None = None,
    *,
    pins: Sequence[str] = (),
    facts: Facts | None = None,
    key_information: Mapping[str, str] | None = None,
    format_choice: FormatChoice = DEFAULT_FORMAT,
    handles: Sequence[str] | None = None,
    step: tuple[int, int] | None = None,
) -> HumanMessage:
    """Return the user message that replaces the summarized messages.

    `body` is the summarizer's text; key information, facts and pinned texts are added here, whatever the summarizer
    wrote. The message id is derived from the compaction's id, so a repeated step writes an identical message. With
    `handles`, the ids of earlier compactions, a line names them and this compaction for `recall`. `step` holds the
    number of tool calls, and of those with a result, of a last step that the model has not read: a line says that it
    was summarized.
    """
    mark: dict[str, Any] = {"kind": SUMMARY_KIND, "is_meta": True, "compaction": compaction_id, **format_choice.mark}
    text = format_choice.message_format.written(body)
    if record is not None:
        mark["record"] = dict(record)
    if facts is not None and facts.text:
        mark["facts"] = dict(facts.record)
        text += f"\n<facts>\n{facts.text}\n</facts>"
    pinned = "\n".join([PINNED, "<pinned>", *(f"- {pin}" for pin in pins), "</pinned>"]) if pins else ""
    before, after = blocks(key_information or {}, pinned)
    if pins:
        mark["pins"] = list(pins)
    if pins and "pins" not in (key_information or {}):
        after = "\n".join(filter(None, (pinned, after)))
    if after:
        text += f"\n{after}"
    if before:
        text = f"{before}\n{text}"
        mark["front"] = len(before) + 1
    if step is not None:
        text += f"\n{step_line(*step, format_choice.language)}"
    if handles is not None:
        mark["handles"] = [*handles, compaction_id]
        text += f"\n{recall_line(*mark['handles'])}"
    return HumanMessage(
        text,
        id=f"summary-{compaction_id}",
        additional_kwargs={MARK: mark, "lc_source": "summarization"},
    )
