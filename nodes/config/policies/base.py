"""What all policies have, and how their fields are declared."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from ..base_model import Frozen
from ..prompts import InputGuard, PromptName
from ..summary_format import SummaryForm
from ..triggers import Hook

SummaryMode = Literal["always", "if_needed", "last_resort"]


def strategies_of(*names: str) -> Any:
    """Return the field `strategies` with these by default."""
    return Field(
        default=names,
        min_length=1,
        title="Strategies",
        description="Strategies that choose the messages to remove, in the order in which they are tried. A name is "
        "that of a strategy of the package, or of one of the builder's `extensions`.",
    )


def hooks_of(*names: Hook) -> Any:
    """Return the field `hooks` with these by default."""
    return Field(
        default=names,
        title="Hooks",
        description="When the triggers are checked: `pre_input` at a new user message, without counting it, "
        "`pre_model` before each call of the model, `post_model` after its answer, `on_overflow` after the provider "
        "refused a request as too long. A request over the limit is compacted before a call in any case.",
    )


class Policy(Frozen):
    """What all policies have."""

    strategies: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = hooks_of("pre_model", "post_model", "on_overflow")

    prompt: ClassVar[PromptName] = "five_sections"
    """The prompt for a summary where the settings give none."""
    form: ClassVar[SummaryForm] = "record"
    """How the message that carries a summary begins and ends."""
    mode: ClassVar[SummaryMode] = "always"
    summarizer: ClassVar[Literal["model", "digest"]] = "model"
    """Who writes summaries where the application names nobody."""
    input_guard: ClassVar[InputGuard | None] = None
    tool_blocks_keep_unread: ClassVar[bool] = True
    """Whether results that the model has not read yet are shortened only where they do not fit."""
    soft_zone: ClassVar[bool] = True
    """Whether the trigger stays below the limit."""
    facts_beside_summary: ClassVar[bool] = True
    """Whether facts stand beside a model's summary."""
    facts_share: ClassVar[float] = 0.1
    """Share of the room for facts beside a summary."""
    next_after_failure: ClassVar[bool] = False
    """Whether a strategy whose summary failed is followed by the next one in the same turn."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - a form that subclasses fill
        """Return the shared settings that the document sets, for these settings of the policy's own."""
        return {}
