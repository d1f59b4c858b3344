"""Build the message that carries a summary together with key information, facts and pinned texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from ..config.summary_format import DEFAULT_FORMAT, MessageFormat, step_line
from ..conversation.clipping import recall_line
from ..conversation.message_marks import MARK, SUMMARY_KIND, is_summary, marks
from ..digest.digest import NO_DIGEST, Digest
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


@dataclass(frozen=True, kw_only=True)
class SummaryParts:
    """The parts of a summary's message that do not come from the summarizer."""

    pins: Sequence[str] = ()
    facts: Digest = NO_DIGEST
    """The user's own words and the facts beside a summary of a model (`BESIDE_SUMMARY`)."""
    key_information: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts of the key information by name, in the order of the message."""
    form: MessageFormat = DEFAULT_FORMAT
    handles: Sequence[str] | None = None
    """Ids of earlier compactions that the message names for `recall`, before its own; `None` names no id at all."""
    step: tuple[int, int] | None = None
    """Number of tool calls, and number of those with a result, in a tool block that was removed before the model read
    its results; the message says so. `None`: no such block was removed."""

    def message(self, body: str, compaction_id: str, record: Mapping[str, Any] | None = None) -> HumanMessage:
        """Return the user message that replaces the summarized messages; `body` is the summarizer's text.

        The message id is derived from the compaction's id, so a repeated step writes an identical message.
        """
        form, pinned = self.form, ""
        mark: dict[str, Any] = {"kind": SUMMARY_KIND, "is_meta": True, "compaction": compaction_id}
        if form is not DEFAULT_FORMAT:
            mark |= {"form": form.form, "language": form.language}
        text = form.written(body)
        if record is not None:
            mark["record"] = dict(record)
        if self.facts.text:
            mark["facts"] = dict(self.facts.record)
            text += f"\n<facts>\n{self.facts.text}\n</facts>"
        if self.pins:
            mark["pins"] = list(self.pins)
            pinned = "\n".join([PINNED, "<pinned>", *(f"- {pin}" for pin in self.pins), "</pinned>"])
        before, after = blocks(self.key_information, pinned)
        if "pins" not in self.key_information:
            after = "\n".join(filter(None, (pinned, after)))
        if after:
            text += f"\n{after}"
        if before:
            text = f"{before}\n{text}"
            mark["front"] = len(before) + 1
        if self.step is not None:
            text += f"\n{step_line(*self.step, form.language)}"
        if self.handles is not None:
            mark["handles"] = [*self.handles, compaction_id]
            text += f"\n{recall_line(*mark['handles'])}"
        kwargs = {MARK: mark, "lc_source": "summarization"}
        return HumanMessage(text, id=f"summary-{compaction_id}", additional_kwargs=kwargs)


NO_PARTS = SummaryParts()
