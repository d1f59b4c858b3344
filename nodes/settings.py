"""Every figure a user may change, with its unit; validated when it is set."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, create_model, model_validator

PRESETS = ("selective",)
"""Presets that exist; each is one of the systems of the requirements."""


class CompactionSettings(BaseModel):
    """Settings of a compaction: frozen, JSON only. Collaborators and connections go to the builder."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    context_window: PositiveInt | None = None
    """Tokens the model accepts; `None` asks the model's profile for `max_input_tokens`."""

    preset: Literal["selective"] = "selective"
    """Which system of the requirements these settings start from."""

    output_reserve: int | None = Field(default=None, ge=0)
    """Tokens kept free for the answer; `None`: the model's `max_tokens`, else min(16,384, window / 8)."""

    trigger_ratio: float = Field(default=0.8, gt=0, le=1)
    """Share of the window at which (inclusive) a compaction starts (S1.1)."""

    target_ratio: float = Field(default=0.5, gt=0, lt=1)
    """Share of the room that a policy works towards; missing it is no failure."""

    tool_blocks_keep_recent: int = Field(default=5, ge=0)
    """Tool blocks kept, newest first; older ones are dropped whole (S0.39)."""

    tool_call_threshold: PositiveInt = 500
    """Tokens above which (exclusive) a kept call's arguments are clipped (S0.40)."""

    tool_result_threshold: PositiveInt = 600
    """Tokens above which (exclusive) a kept result is clipped (S0.41)."""

    preview_tokens: PositiveInt = 200
    """Tokens that a clipped field keeps from its beginning (S0.42)."""

    keep_unread_results: bool = True
    """Leave results that the model has not read yet whole, where five blocks and the floor still fit so."""

    dialogue_rounds_keep_min: int = Field(default=12, ge=0)
    """Rounds whose user and assistant messages are not deleted: the round floor (S0.43)."""

    dialogue_beyond_keep: int = Field(default=5, ge=0)
    """Older user messages, and as many assistant messages, that are kept beyond the floor (S0.19)."""

    summary_mode: Literal["always", "if_needed"] = "always"
    """Whether the summary runs although selective compaction alone reached the aim (S0.44, C7)."""

    summary_scope: Literal["old_part", "all"] = "old_part"
    """What the summary stands for: what is not kept, or the whole conversation (C9)."""

    summary_retries: int = Field(default=2, ge=0, le=10)
    """Further calls of the summariser after a failed one, within one attempt (S0.26)."""

    summary_max_tokens: PositiveInt | None = None
    """Most tokens of a summary; `None`: 5 % of the window, or a quarter of a small room; a digest, which is
    extracted and not invented, may hold `facts_share` of the room as well."""

    summary_input_tokens: PositiveInt | None = None
    """Most tokens of conversation shown to the summariser in one call; `None`: three quarters of the window."""

    summary_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds after which a summariser's call counts as failed."""

    summary_backoff_s: float = Field(default=0.5, ge=0)
    """Seconds before a summariser is asked again after a failure that passes; doubled, with jitter, each time."""

    keep_facts: bool = True
    """Show facts beside a summary in prose too: rules and identifiers with their words, required by the gate."""

    facts_share: float = Field(default=0.10, ge=0, le=0.5)
    """Share of the room for facts that are kept verbatim, beside the usual size of a summary."""

    cooldown_s: float = Field(default=8.0, ge=0)
    """Seconds without automatic attempts after repeated failures (S0.47)."""

    cooldown_after: PositiveInt = 2
    """Failed attempts in a row that start the cool-down."""

    ineffective_after: PositiveInt = 2
    """Compactions in a row after which the provider still reports the trigger or more, that start the cool-down."""

    frequency_compactions: PositiveInt = 3
    """Compactions within `frequency_calls` after which the next waits, unless the request is over the limit (F12)."""

    frequency_calls: int = Field(default=6, ge=0)
    """Calls of the model in which so many compactions are too many; 0 switches this off."""

    require_confirmation: bool = False
    """Ask before compacting in the soft zone, by an interrupt (S4.23)."""

    emit_compaction_meta_events: bool = False
    """Also write a `CompactionMetaEvent` for each phase to the custom stream (S0.35)."""

    on_refusal: Literal["message", "raise"] = "message"
    """An input larger than the limit leaves a one-line stand-in; `raise` raises an error as well."""

    join_user_messages: bool = False
    """Join adjacent user messages in the request, for providers that want alternating roles."""

    @model_validator(mode="after")
    def _aim_below_trigger(self) -> Self:
        if self.target_ratio >= self.trigger_ratio:
            raise ValueError(
                f"target_ratio ({self.target_ratio}) must be below trigger_ratio ({self.trigger_ratio}): "
                "a compaction that ends where it starts runs at every turn"
            )
        return self


def _optional(name: str) -> tuple[Any, Any]:
    field = CompactionSettings.model_fields[name]
    return (field.annotation | None, Field(None, description=field.description))  # type: ignore[operator] # a type


_create: Any = create_model  # its overloads know no fields given by name

CompactionOverrides: type[BaseModel] = _create(
    "CompactionOverrides",
    __config__=ConfigDict(frozen=True, extra="forbid"),
    __doc__="Settings changed for one run (the graph's context schema): what is `None` stays as built.",
    **{name: _optional(name) for name in CompactionSettings.model_fields},
)


def effective(settings: CompactionSettings, overrides: BaseModel | dict[str, Any] | None) -> CompactionSettings:
    """The builder's settings with a run's overrides on top; validated again as a whole (DESIGN §11)."""
    if overrides is None:
        return settings
    given = overrides.model_dump() if isinstance(overrides, BaseModel) else overrides
    changed = {name: value for name, value in given.items() if value is not None}
    return CompactionSettings.model_validate({**settings.model_dump(), **changed}) if changed else settings
