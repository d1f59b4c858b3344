"""The settings by group: those that most users change first, then one class for each named group.

A class holds the fields of one group; `CompactionSettings` inherits them all, so every setting is a flat name. The
class's docstring introduces its group in the guide, and the titles of its fields begin with the group's name.
"""

from typing import Literal

from pydantic import Field, PositiveInt

from .base_model import Frozen
from .presets import Preset
from .prompts import InputGuard, Language, PromptName
from .summary_format import SummaryForm
from .triggers import Hook, Trigger


class EverydaySettings(Frozen):
    """The ten settings that most applications look at; the others rarely need a change."""

    context_window: PositiveInt | None = Field(default=None, title="Context window (tokens)")
    """Number of tokens that the model accepts. `None`: `max_input_tokens` of the model's profile."""

    preset: Preset = Field(default="selective", title="Preset")
    """The set of defaults to start from. Every setting that is not given takes the preset's value."""

    enabled: bool = Field(default=True, title="Compact automatically")
    """Whether compactions start automatically. If false, only a user's request compacts, and a request over the
    limit is an error."""

    trigger_ratio: float | None = Field(default=0.8, gt=0, le=1, title="Trigger (share of the window)")
    """Share of the window at which a compaction starts (inclusive). `None`: only `triggers` start one."""

    target_ratio: float = Field(default=0.5, gt=0, lt=1, title="Target (share of the room)")
    """Size that a compaction aims for, as a share of the room, which is the limit without system prompt, system
    messages and tool schemas. A compaction that ends above it is not a failure."""

    output_reserve: int | None = Field(default=None, ge=0, title="Reserve for the answer (tokens)")
    """Tokens kept free for the answer. `None`: the model's `max_tokens`, else the smallest of 16,384, an eighth of
    the window and half of the space above the trigger, but at least min(4,096, window / 16). Where this setting or
    `max_tokens` takes more than 5 % of the window, ratios are shares of the limit."""

    summary_instructions: str | None = Field(default=None, title="Summary: additional instructions")
    """Text added to the prompt of every summary, for example what to keep in every case."""

    language: Language = Field(default="en", title="Language")
    """Language of the prompts and of the words around a summary."""

    require_confirmation: bool = Field(default=False, title="Ask before compacting")
    """Ask a person before each compaction, with an interrupt. Over the limit the question offers four choices."""

    recall: bool = Field(default=False, title="Recall tool")
    """Give the agent the tool `recall`, which finds messages that left the view; clipped results and summaries
    then name the handles that it accepts."""


class TriggerSettings(Frozen):
    """How the size of a request is measured, and when a compaction starts."""

    fallback_window: PositiveInt | None = Field(default=None, title="Trigger: fallback for the window (tokens)")
    """Window assumed when neither `context_window` nor the model's profile gives one. `None`: an error."""

    token_counter: str = Field(
        default="usage", pattern=r"^(usage|tiktoken|cjk_aware|chars/[1-9]\d*)$", title="Trigger: token counter"
    )
    """How tokens are counted when the builder is given no counter: `usage` (tiktoken, corrected by the usage that
    the provider reports), `tiktoken`, `cjk_aware`, or `chars/N` (characters divided by N)."""

    soft_zone: bool = Field(default=True, title="Trigger: start before the limit")
    """Start a compaction at least 2 % of the window below the limit, while the request still fits. Without it,
    `trigger_ratio=1.0` starts one at the limit."""

    triggers: tuple[Trigger, ...] = Field(default=(), title="Trigger: additional triggers")
    """Additional triggers; the first that fires starts a compaction. Of several token triggers the lowest counts."""

    hooks: tuple[Hook, ...] = Field(default=("pre_model", "post_model", "on_overflow"), title="Trigger: hooks")
    """Points of a turn at which the triggers are checked. A request over the limit is compacted before the model's
    call in any case."""

    warn_ratio: float | None = Field(default=None, gt=0, le=1, title="Trigger: warning (share of the window)")
    """Share of the window at which a `ContextWarningEvent` is written (inclusive), once until the next commit."""

    emit_compaction_meta_events: bool = Field(default=False, title="Trigger: events of each phase")
    """Also write a `CompactionMetaEvent` for each phase of a compaction to the custom stream."""


class SummarySettings(Frozen):
    """Who writes a summary and when, how it is asked for, how long it may be, and what happens when a call fails."""

    summarizer: Literal["model", "digest"] = Field(default="model", title="Summary: written by")
    """Who writes the summaries: `model`, the model of the call; or `digest`, an extraction that needs no model. The
    digest also writes where there is no model, and where a model's summary fails. A summarizer given to the builder
    takes the place of this setting."""

    on_summary_failure: Literal["digest", "nothing"] = Field(default="digest", title="Summary: after a failure")
    """What follows a model's summary that failed: the next attempt takes the next level, and at last the `digest`; or
    `nothing` changes until a model's summary succeeds. A request over the limit takes the next level in any case."""

    summary_mode: Literal["always", "if_needed", "last_resort"] = Field(default="always", title="Summary: mode")
    """When a summary is written: `always`; `if_needed`, where selective compaction misses the target; or
    `last_resort`, of the whole conversation, where no strategy makes enough room."""

    summary_scope: Literal["old_part", "all"] = Field(default="old_part", title="Summary: scope")
    """Which messages the summary replaces: those that the strategy does not keep, or the whole conversation."""

    summary_form: SummaryForm = Field(default="record", title="Summary: form of the message")
    """How the message that holds the summary is written: `record`, a framed record; `tags`, `<summary>` tags alone;
    `cleared`, under a fixed line that says that the context was cleared; `history`, under `[Summary of the history]`;
    `recent_rounds`, with a line that counts the rounds that follow; or `terse`, with the fewest tokens."""

    summary_prompts: PromptName = Field(default="five_sections", title="Summary: prompts")
    """The set of prompts with which a chat model is asked for a summary."""

    summary_retries: int = Field(default=2, ge=0, le=10, title="Summary: retries")
    """Number of additional calls of the summarizer after a failed one, within one attempt."""

    summary_max_tokens: PositiveInt | None = Field(default=None, title="Summary: most tokens")
    """Most tokens of a summary. `None`: 5 % of the window, or a quarter of the room where the room is small. A
    digest, which is extracted without a model, may use `facts_share` of the room in addition."""

    summary_max_chars: PositiveInt | None = Field(default=None, title="Summary: most characters")
    """Most characters of a summary. A longer one, or one longer than a `summary_max_tokens` given here, is cut at
    the end of a line or sentence."""

    summary_input_guard: InputGuard | None = Field(default=None, title="Summary: cut of a very long input")
    """Show a chat model only the beginning and the end of a conversation of very many characters. `None`: show all
    of it, in as many calls as needed."""

    summary_input_tokens: PositiveInt | None = Field(default=None, title="Summary: most input tokens of a call")
    """Most tokens of conversation shown to the summarizer in one call. `None`: three quarters of the window, or nine
    tenths of the limit if that is less."""

    summary_timeout_s: float = Field(default=60.0, gt=0, title="Summary: timeout (seconds)")
    """Seconds after which a call of the summarizer counts as failed."""

    summary_deadline_s: float = Field(default=120.0, gt=0, title="Summary: deadline of a compaction (seconds)")
    """Seconds after which a compaction calls no summarizer any more: all calls, retries and fallbacks of a turn count
    together. Over the limit the digest then takes the summary's place; else the turn goes on without a compaction."""

    summary_ahead: bool = Field(default=True, title="Summary: prepared ahead")
    """Prepare the summary of a model in the background when the size nears a trigger by tokens, so that the turn that
    compacts need not wait for it. Nothing is prepared with `require_confirmation`."""

    summary_ahead_unused: PositiveInt = Field(default=2, title="Summary: most unused preparations (per hour)")
    """Number of prepared summaries of a thread that may stay unused within an hour; then no other is prepared."""

    summary_backoff_s: float = Field(default=0.5, ge=0, title="Summary: pause before a retry (seconds)")
    """Seconds before the first retry after a transient failure; the pause doubles each time, with jitter."""


class FactSettings(Frozen):
    """Rules of the user and identifiers that are extracted without a model and kept word for word."""

    facts_beside_summary: bool = Field(default=True, title="Facts: show beside a summary")
    """Show the facts beside a summary written by a model too. The gate then refuses a summary without them."""

    facts_share: float = Field(default=0.10, ge=0, le=0.5, title="Facts: share of the room")
    """Share of the room for facts, in addition to the usual size of a summary. The user's rules beside a model's
    summary come first and may take up to three times this share."""


class KeyInformationSettings(Frozen):
    """Information that stays in view through every compaction."""

    key_information: tuple[str, ...] = Field(default=(), title="Key information: sources")
    """Sources whose text always stays beside a summary, by name: `goal`, `pins`, `memories`, `git_diff`, `tasks`
    and those given to the builder."""

    key_information_share: float = Field(default=0.10, ge=0, le=0.5, title="Key information: share of the room")
    """Share of the room for key information, not counting pins; text that does not fit is cut."""

    key_information_timeout_s: float = Field(default=5.0, gt=0, title="Key information: timeout (seconds)")
    """Seconds after which a source of key information is left out."""

    key_information_memories_keep: PositiveInt = Field(default=10, title="Key information: memories kept")
    """Number of newest memories of the store that `memories` keeps."""

    key_information_pin_first_input: bool = Field(default=False, title="Key information: pin the first input")
    """Pin the first user message, whole. Useful where an agent works alone on one task."""


class ConfirmationSettings(Frozen):
    """What happens where `require_confirmation` is set and a person cannot be asked."""

    confirmation_unavailable: Literal["proceed", "refuse"] | None = Field(
        default=None, title="Confirmation: when nobody can be asked"
    )
    """What to do when no person can be asked because the graph has no checkpointer: `proceed` compacts without
    asking; `refuse` compacts nothing, and over the limit ends the run with an error. `None`: an error before
    anything is sent."""


class BreakerSettings(Frozen):
    """When automatic compactions pause, so that failing or useless attempts do not repeat at every call."""

    breaker_cooldown_s: float = Field(default=8.0, ge=0, title="Breaker: cooldown (seconds)")
    """Seconds without automatic attempts after repeated failures."""

    breaker_cooldown_after: PositiveInt = Field(default=2, title="Breaker: failures before a cooldown")
    """Number of failed attempts in a row that starts the cooldown."""

    breaker_ineffective_after: PositiveInt = Field(default=2, title="Breaker: useless compactions before a cooldown")
    """Number of compactions in a row that starts the cooldown because the provider still reports a size at or
    above the trigger after each."""

    breaker_frequency_compactions: PositiveInt = Field(default=3, title="Breaker: most compactions in a while")
    """Number of compactions within `breaker_frequency_calls` after which the next one waits, unless the request is
    over the limit."""

    breaker_frequency_calls: int = Field(default=6, ge=0, title="Breaker: length of the while (model calls)")
    """Number of model calls over which compactions are counted for `breaker_frequency_compactions`; 0 switches this
    limit off."""


class RequestSettings(Frozen):
    """How inputs that are too long, ephemeral results and adjacent user messages are treated, and how a run waits."""

    long_input: Literal["keep", "summarize"] = Field(default="keep", title="Request: long input")
    """What to do with an unanswered input that no longer fits beside the messages that must stay: `keep` it and end
    with an error that names the sizes; or `summarize` it, as older messages are, if the model has read it, and else
    shorten it to its beginning and end, with the rules and identifiers between them."""

    on_refusal: Literal["message", "raise"] = Field(default="message", title="Request: input over the limit")
    """What to do with a new input that is larger than the limit: replace it by a one-line `message`, or `raise` an
    error as well."""

    join_user_messages: bool = Field(default=False, title="Request: join user messages")
    """Join adjacent user messages in the request, for providers that require alternating roles."""

    auto_recall: bool = Field(default=False, title="Request: recall automatically")
    """Before a call that answers a user's new message, quote what the archive knows about that message behind the
    conversation, for this call only. Takes at most 5 % of the room and 1,000 tokens, and nothing before the first
    compaction."""

    ephemeral_keep: int | None = Field(default=None, ge=0, title="Request: ephemeral results kept")
    """Number of newest messages marked `ephemeral`, of each tool, that a call still shows whole. `None`: all. A
    tool sets its own number with `metadata={"ephemeral": n}`."""

    turn_wait_s: float | None = Field(default=60.0, ge=0, title="Request: wait for another run (seconds)")
    """Seconds that a run waits while another run works on the same thread, before it ends with `ThreadBusyError` and
    nothing of it is stored. `None`: runs do not wait for each other."""
