"""Every figure a user may change, with its unit; validated when it is set."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveInt, create_model, model_validator

from .base_model import Frozen
from .head_and_tail import InputGuard
from .presets import Preset, defaults_of
from .prompts import Language, PromptName
from .strategy_settings import StrategySettings
from .summary_format import SummaryForm
from .triggers import Hook, TokenTrigger, Trigger, UsedRatio


class _Settings(Frozen):
    """All but the figures of the strategies."""

    context_window: PositiveInt | None = None
    """Tokens the model accepts; `None` asks the model's profile for `max_input_tokens`."""

    preset: Preset = "selective"
    """Which system of the requirements these settings start from: its figures hold where none is given here."""

    enabled: bool = True
    """Whether anything compacts by itself; without, only a person's wish does, and what is over the limit is an
    error."""

    fallback_window: PositiveInt | None = None
    """Tokens assumed where neither `context_window` nor the model's profile says; `None`: an error."""

    token_counter: str = Field(default="usage", pattern=r"^(usage|tiktoken|cjk_aware|chars/[1-9]\d*)$")
    """How tokens are counted where the builder is given no counter: `usage` (tiktoken, and the provider's own
    figures for what it has been sent), `tiktoken`, `cjk_aware`, or `chars/N` (characters divided by N)."""

    output_reserve: int | None = Field(default=None, ge=0)
    """Tokens kept free for the answer; `None`: the model's `max_tokens`, else min(16,384, window / 8, half of what
    lies above the trigger), and at least min(4,096, window / 16). Where this setting or `max_tokens` takes more than
    5 % of the window, ratios are shares of the limit."""

    trigger_ratio: float | None = Field(default=0.8, gt=0, le=1)
    """Share of the window at which (inclusive) a compaction starts; `None`: `triggers` alone decide."""

    soft_zone: bool = True
    """Start a compaction at the latest 2 % of the window below the limit, while the request still fits; without it
    `trigger_ratio=1.0` starts one at the limit."""

    triggers: tuple[Trigger, ...] = ()
    """Further triggers: whichever fires first starts a compaction. Of several token triggers the lowest counts."""

    hooks: tuple[Hook, ...] = ("pre_model", "post_model", "on_overflow")
    """Where in a turn the triggers are asked; over the limit a compaction starts before the model anyway."""

    target_ratio: float = Field(default=0.5, gt=0, lt=1)
    """Share of the room that a policy works towards; missing it is no failure."""

    recall: bool = False
    """Give the agent the tool `recall`, and clipped results and summaries the handles that it accepts."""

    summary_mode: Literal["always", "if_needed", "last_resort"] = "always"
    """Whether a summary is written always, where selective compaction misses the aim, or only of the whole
    conversation where no strategy makes enough room."""

    summary_scope: Literal["old_part", "all"] = "old_part"
    """What the summary stands for: what is not kept, or the whole conversation."""

    summary_form: SummaryForm = "record"
    """How the summary's message is written: a framed record, `<summary>` tags alone, S3's fixed prefix,
    S2's `[历史摘要]`, S4's header with a line about the rounds that stay, or `terse`: the fewest tokens."""

    prompts: PromptName = "five_sections"
    """What a chat model is asked for a summary."""

    language: Language = "en"
    """Language of the prompts and of the words around a summary."""

    summary_instructions: str | None = None
    """What a chat model is asked of every summary besides."""

    summary_retries: int = Field(default=2, ge=0, le=10)
    """Further calls of the summarizer after a failed one, within one attempt."""

    summary_max_tokens: PositiveInt | None = None
    """Most tokens of a summary; `None`: 5 % of the window, or a quarter of a small room; a digest, which is
    extracted and not invented, may hold `facts_share` of the room as well."""

    summary_max_chars: PositiveInt | None = None
    """Most characters of a summary. What is longer, or longer than a `summary_max_tokens` given here, is cut
    at the end of a line or sentence."""

    summary_input_guard: InputGuard | None = None
    """Show a chat model only beginning and end of a conversation of very many characters; `None`: all of
    it, in as many calls as it takes."""

    summary_input_tokens: PositiveInt | None = None
    """Most tokens of conversation shown to the summarizer in one call; `None`: three quarters of the window."""

    summary_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds after which a summarizer's call counts as failed."""

    summary_backoff_s: float = Field(default=0.5, ge=0)
    """Seconds before a summarizer is asked again after a failure that passes; doubled, with jitter, each time."""

    keep_facts: bool = True
    """Show facts beside a summary in prose too: rules and identifiers with their words, required by the gate."""

    facts_share: float = Field(default=0.10, ge=0, le=0.5)
    """Share of the room for facts that are kept verbatim, beside the usual size of a summary."""

    cooldown_s: float = Field(default=8.0, ge=0)
    """Seconds without automatic attempts after repeated failures."""

    cooldown_after: PositiveInt = 2
    """Failed attempts in a row that start the cool-down."""

    ineffective_after: PositiveInt = 2
    """Compactions in a row after which the provider still reports the trigger or more, that start the cool-down."""

    frequency_compactions: PositiveInt = 3
    """Compactions within `frequency_calls` after which the next waits, unless the request is over the limit."""

    frequency_calls: int = Field(default=6, ge=0)
    """Calls of the model in which so many compactions are too many; 0 switches this off."""

    require_confirmation: bool = False
    """Ask before compacting, by an interrupt; over the limit with four ways to go on."""

    on_no_handler: Literal["proceed", "refuse"] | None = None
    """Where nobody can be asked, for want of a checkpointer: `proceed` compacts unasked; `refuse` compacts nothing,
    and over the limit ends the run with an error; `None`: an error before anything is sent."""

    key_information: tuple[str, ...] = ()
    """What always stays beside a summary, by name: `goal`, `pins`, `memories`, `git_diff`, `tasks` and those that the
    builder was given."""

    key_information_share: float = Field(default=0.10, ge=0, le=0.5)
    """Share of the room for key information, pins aside; what does not fit is cut."""

    key_information_timeout_s: float = Field(default=5.0, gt=0)
    """Seconds after which a provider of key information is left out."""

    recent_memories_keep: PositiveInt = 10
    """Newest memories of the store that `memories` keeps."""

    pin_first_input: bool = False
    """Pin what the user says first, whole, for use without a person beside it."""

    warn_ratio: float | None = Field(default=None, gt=0, le=1)
    """Share of the window at which (inclusive) a `ContextWarningEvent` is written, once until the next commit."""

    emit_compaction_meta_events: bool = False
    """Also write a `CompactionMetaEvent` for each phase to the custom stream."""

    long_input: Literal["keep", "summarize"] = "keep"
    """An input that the model has read and works on, where it does not fit beside what else must stay: `keep` it, and
    end with an error that names the sizes, or `summarize` it, its rules and its request, as what is older."""

    on_refusal: Literal["message", "raise"] = "message"
    """An input larger than the limit leaves a one-line stand-in; `raise` raises an error as well."""

    join_user_messages: bool = False
    """Join adjacent user messages in the request, for providers that want alternating roles."""


class CompactionSettings(StrategySettings, _Settings):
    """Settings of a compaction: frozen, JSON only. Dependencies and connections go to the builder."""

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        """What is not given is the preset's; an unknown preset is told by the field itself."""
        if not isinstance(given, dict):
            return given
        return {**defaults_of(given.get("preset", "selective")), **given}

    @model_validator(mode="after")
    def _aim_below_trigger(self) -> Self:
        if self.trigger_ratio is not None and self.target_ratio >= self.trigger_ratio:
            raise ValueError(
                f"target_ratio ({self.target_ratio}) must be below trigger_ratio ({self.trigger_ratio}): "
                "a compaction that ends where it starts runs at every turn"
            )
        return self

    @property
    def token_triggers(self) -> tuple[TokenTrigger, ...]:
        """The triggers that compare tokens, `trigger_ratio` first."""
        first = () if self.trigger_ratio is None else (UsedRatio(ratio=self.trigger_ratio),)
        return (*first, *(trigger for trigger in self.triggers if isinstance(trigger, TokenTrigger)))


def _optional(name: str) -> tuple[Any, Any]:
    field = CompactionSettings.model_fields[name]
    return (field.annotation | None, Field(None, description=field.description))  # type: ignore[operator] # a type


_create: Any = create_model  # its overloads know no fields given by name

CompactionOverrides: type[BaseModel] = _create(
    "CompactionOverrides",
    __base__=Frozen,
    __doc__="Settings changed for one run (the graph's context schema): what is `None` stays as built.",
    **{name: _optional(name) for name in CompactionSettings.model_fields},
)


def effective(settings: CompactionSettings, overrides: BaseModel | dict[str, Any] | None) -> CompactionSettings:
    """The builder's settings with a run's overrides on top; validated again as a whole."""
    if overrides is None:
        return settings
    given = overrides.model_dump() if isinstance(overrides, BaseModel) else overrides
    changed = {name: value for name, value in given.items() if value is not None}
    return CompactionSettings.model_validate({**chosen(settings), **changed}) if changed else settings


def chosen(settings: CompactionSettings) -> dict[str, Any]:
    """Their preset and what these settings change of it: what stays when another preset is taken."""
    usual = CompactionSettings(preset=settings.preset).model_dump()
    changed = {name: value for name, value in settings.model_dump().items() if value != usual[name]}
    return {"preset": settings.preset, **changed}
