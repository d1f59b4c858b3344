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
    """Most applications use only these ten settings."""

    context_window: PositiveInt | None = Field(default=None, title="Context window (tokens)")
    """Number of tokens of the model's window that the package uses at most. The model's own window is
    `max_input_tokens` in its profile; without a profile, it is `context_window`. `None`: the package uses the whole
    window of the model."""

    preset: Preset = Field(default="selective", title="Preset")
    """The set of defaults to start from. A setting that you do not give has the preset's value."""

    enabled: bool = Field(default=True, title="Compact automatically")
    """Whether compactions start automatically. If false, a compaction runs only when a person or your code asks for
    it, and a request over the limit raises an error."""

    trigger_ratio: float | None = Field(default=0.8, gt=0, le=1, title="Trigger (share of the window)")
    """A compaction starts when the request reaches this share of the window. `None`: a compaction starts only if a
    condition in `triggers` is met, or if the request is over the limit."""

    target_ratio: float = Field(default=0.5, gt=0, lt=1, title="Target (share of the room)")
    """Share of the room that the conversation should take after a compaction. The room is the limit minus the tokens
    of the system prompt, the system messages and the tool schemas. The package also commits a compaction that misses
    this target, if the request then fits into the limit."""

    output_reserve: int | None = Field(default=None, ge=0, title="Reserve for the answer (tokens)")
    """Number of tokens that the package keeps free for the model's answer. `None`: the model's `max_tokens`, less the
    tokens by which the model's window is larger than `context_window`. If the
    model has no `max_tokens`, the package computes the number from the window and the trigger. If `output_reserve` or
    the model's `max_tokens` is more than 5 % of the window, some ratios are shares of the limit instead of the
    window. These ratios are `trigger_ratio`, `warn_ratio` and the ratios in `triggers`."""

    summary_instructions: str | None = Field(default=None, title="Summary: additional instructions")
    """Text that the package adds to the prompt of every summary, for example a list of the facts that every summary
    has to keep. `None`: the package adds no text."""

    language: Language = Field(default="en", title="Language")
    """Language of the prompts for summaries, and of the fixed text that surrounds a summary."""

    require_confirmation: bool = Field(default=False, title="Ask before compacting")
    """Whether a LangGraph interrupt asks a person before each automatic compaction. The package does not ask after
    the provider refused a request as too long."""

    recall: bool = Field(default=False, title="Recall tool")
    """Whether the agent gets the tool `recall`, which searches the messages that compactions removed from the view.
    With this tool, summaries and shortened tool results contain handles (short ids of archived messages or of
    compactions). If the model passes the handle of a message, the tool returns the original message. If the model
    passes the handle of a compaction, the tool returns the beginning of each message that this compaction removed."""


class TriggerSettings(Frozen):
    """These settings decide how the package measures the size of a request, and when a compaction starts."""

    soft_zone: bool = Field(default=True, title="Trigger: start before the limit")
    """Whether the package keeps the trigger below the limit, so that the package can still send a request that
    reaches the trigger. The distance between trigger and limit is then at least 2 % of the window. If half the
    distance between the limit and the aim (the size that a compaction tries to reach) is smaller, this half is
    enough. If `soft_zone` is false, or if no trigger depends on the size of the request, a compaction can start at
    the limit itself."""

    triggers: tuple[Trigger, ...] = Field(default=(), title="Trigger: additional triggers")
    """Triggers that start compactions in addition to `trigger_ratio`. Each trigger has one of the kinds `used_ratio`,
    `remaining_ratio`, `reserve_tokens`, `count`, `marker`, `command` and `own`. A compaction starts as soon as any
    trigger fires."""

    hooks: tuple[Hook, ...] = Field(default=("pre_model", "post_model", "on_overflow"), title="Trigger: hooks")
    """Points of a turn at which the package checks the triggers. `pre_input`: when a new user message arrives. The
    package then measures the size without this message. `pre_model`: before each call of the model. `post_model`:
    after the model's answer. With `on_overflow` in the list, a compaction also starts after the provider refused a
    request as too long. The package compacts a request over the limit before a call of the model even if the list
    does not contain `pre_model`."""

    warn_ratio: float | None = Field(default=None, gt=0, le=1, title="Trigger: warning (share of the window)")
    """Share of the window. When the request reaches this share, the package writes a `ContextWarningEvent`, at most
    once between two compactions. `None`: the package never writes this event."""

    emit_compaction_meta_events: bool = Field(default=False, title="Trigger: events of each phase")
    """Whether the package writes a `CompactionMetaEvent` to LangGraph's stream mode `custom` for each phase of a
    compaction."""


class SummarySettings(Frozen):
    """These settings decide who writes summaries, when and how, and what happens after a summary has failed."""

    summarizer: Literal["model", "digest"] = Field(default="model", title="Summary: written by")
    """Who writes the summaries. `model`: the agent's chat model. `digest`: the package itself, without a model. A
    digest is a summary that the package extracts from the messages. The package also uses the digest if there is no
    model, or if the summary of a model fails. If you give the builder a summarizer, that summarizer overrides this
    setting."""

    on_summary_failure: Literal["digest", "nothing"] = Field(default="digest", title="Summary: after a failure")
    """What happens after a model's summary failed. `digest`: the next attempt uses the next summarizer in this order:
    the same summarizer with smaller pieces of the conversation, each of `fallback_summarizers`, the digest.
    `nothing`: the conversation stays unchanged, and the next attempt uses the next summarizer in this order that is
    not the digest. After the last of these summarizers, the first summarizer is next. For a request over the limit,
    `nothing` has the same effect as `digest`."""

    summary_mode: Literal["always", "if_needed", "last_resort"] = Field(default="always", title="Summary: mode")
    """When the package writes a summary. `always`: in every compaction that removes messages. `if_needed`: only if
    the request is still larger than the target after the removal of messages. `last_resort`: only if no strategy
    makes enough room. The summary then replaces the whole conversation. In every mode, the package summarizes the
    messages that the strategies `sliding_window`, `importance`, `key_events` and `incremental` remove."""

    summary_scope: Literal["old_part", "all"] = Field(default="old_part", title="Summary: scope")
    """Which messages the summary replaces. `old_part`: the messages that the strategy does not keep. `all`: the whole
    conversation."""

    summary_form: SummaryForm = Field(default="record", title="Summary: form of the message")
    """Format of the message that contains the summary. `record`: between `<summary>` tags, after a fixed line that
    calls the summary a record. `tags`: between `<summary>` tags, before the same fixed line. `cleared`: below a fixed
    line which says that the context was cleared. `history`: below the line `[Summary of the history]`.
    `recent_rounds`: below the line `[Context summary]`, with a last line that gives the number of kept rounds.
    `terse`: between `<reference>` tags, with the shortest fixed text."""

    summary_prompts: PromptName = Field(default="five_sections", title="Summary: prompts")
    """Name of the set of prompts with which the package asks a chat model for a summary."""

    summary_retries: int = Field(default=2, ge=0, le=10, title="Summary: retries")
    """Maximum number of times that the package repeats a call of the summarizer after the call failed, or after the
    package rejected the reply. If the messages are too long for one call, the package divides the messages into
    parts. The maximum then applies to each part."""

    summary_max_tokens: PositiveInt | None = Field(default=None, title="Summary: most tokens")
    """Maximum length of a summary in tokens. If you give a number, the package cuts a longer summary at the end of a
    line or sentence. `None`: the maximum is `max(window / 20, min(1024, room / 4))`. For a digest
    (a summary made without a model), this maximum is higher by `facts_share * room`."""

    summary_max_chars: PositiveInt | None = Field(default=None, title="Summary: most characters")
    """Maximum length of a summary in characters. The package cuts a longer summary at the end of a line or sentence.
    `None`: no maximum."""

    summary_input_guard: InputGuard | None = Field(default=None, title="Summary: cut of a very long input")
    """Limit for the length of the conversation that the package shows to a chat model for a summary. A conversation
    with more than `max_chars` characters counts as very long. Of a very long conversation, the package shows only the
    beginning, the end, and a digest of the part between them. `head` and `tail` are the lengths of the beginning and
    of the end, as shares of `max_chars`. `None`: the package shows the whole conversation, in as many calls as
    needed."""

    summary_input_tokens: PositiveInt | None = Field(default=None, title="Summary: most input tokens of a call")
    """Maximum number of tokens of the conversation that the package shows to the summarizer in one call. `None`: 75 %
    of the window, or 90 % of the limit if this is less."""

    summary_timeout_s: float = Field(default=60.0, gt=0, title="Summary: timeout (seconds)")
    """Seconds after which a call of the summarizer counts as failed. If the package repeats the call after an error,
    this time also includes the repeated calls and the pauses before them."""

    summary_deadline_s: float = Field(default=120.0, gt=0, title="Summary: deadline of a compaction (seconds)")
    """Seconds after which the package makes no further call of a summarizer for a compaction. One deadline applies to
    all calls of a turn, including repeated calls and calls of fallback summarizers. After the deadline, the package
    uses the digest (a summary made without a model) if the request is over the limit, or if a person asked for the
    compaction. The package sends any other request without a compaction."""

    summary_ahead: bool = Field(default=True, title="Summary: prepared ahead")
    """Whether the package prepares a model's summary in the background when the size of the request comes near the
    trigger. The turn with the compaction then does not wait for the summary. With `require_confirmation`, the package
    prepares nothing. A compaction uses no prepared summary if it has a `focus`, if it summarizes the whole
    conversation (`full`), or if a count of messages or events started it."""

    summary_ahead_unused: PositiveInt = Field(default=2, title="Summary: most unused preparations (per hour)")
    """Maximum number of prepared summaries of a thread that may go unused within an hour. When a thread reaches this
    number, the package prepares no summary until the oldest unused summary is more than an hour old."""

    summary_backoff_s: float = Field(default=0.5, ge=0, title="Summary: pause before a retry (seconds)")
    """Seconds before the package repeats a call of the summarizer for the first time after a temporary failure. The
    pause doubles before each further repetition, and the package adds a random part."""


class FactSettings(Frozen):
    """Facts are the user's rules and the identifiers in the messages, such as order numbers.

    The package finds facts without a model, and keeps them word for word. With `summary_prompts="five_sections"`, the
    model that writes a summary also lists rules and decisions. A sentence of this list becomes a fact only if the
    conversation contains the same words.
    """

    facts_beside_summary: bool = Field(default=True, title="Facts: show beside a summary")
    """Whether the package adds the facts to a summary that a model wrote. A check before the commit then rejects a
    compaction that lost one of the added facts."""

    facts_share: float = Field(default=0.10, ge=0, le=0.5, title="Facts: share of the room")
    """Share of the room for facts. A summary that is made without a model may be longer by this share. Next to a
    summary that a model writes, the user's rules may take up to three times this share. All other facts together may
    take up to this share."""


class KeyInformationSettings(Frozen):
    """Key information is text that the model sees next to every summary, for example the goal of the conversation."""

    key_information: tuple[str, ...] = Field(default=(), title="Key information: sources")
    """Names of the sources whose texts the package adds to every summary: `goal`, `pins`, `memories`, `git_diff`,
    `tasks`, and the sources that you give to the builder. `git_diff` returns a text only if you give
    `GitDiff(folder)` to the builder. `pins` only sets the position of the pinned texts, which every summary contains
    anyway."""

    key_information_share: float = Field(default=0.10, ge=0, le=0.5, title="Key information: share of the room")
    """Share of the room that key information may take, not counting the pinned texts. The package cuts text that does
    not fit."""

    key_information_timeout_s: float = Field(default=5.0, gt=0, title="Key information: timeout (seconds)")
    """Seconds that the package waits for a source of key information. After this time, the package writes the summary
    without the text of this source."""

    key_information_memories_keep: PositiveInt = Field(default=10, title="Key information: memories kept")
    """Number of memories that the source `memories` shows. The source shows the newest memories in LangGraph's
    store."""

    key_information_pin_first_input: bool = Field(default=False, title="Key information: pin the first input")
    """Whether the package pins the whole first user message, so that the message stays in the view word for word.
    This setting is useful for an agent that works alone on one task."""


class ConfirmationSettings(Frozen):
    """Without a checkpointer, the package cannot ask a person.

    The setting `confirmation_unavailable` has an effect only in this case, and if `require_confirmation` is true.
    """

    confirmation_unavailable: Literal["proceed", "refuse"] | None = Field(
        default=None, title="Confirmation: when nobody can be asked"
    )
    """What the package does before a compaction if it cannot ask a person. `proceed`: the package compacts without
    asking. `refuse`: the package does not compact, and raises an error if the request is over the limit. `None`: the
    package raises an error before it sends anything to the model."""


class BreakerSettings(Frozen):
    """The breaker is the part of the package that suspends automatic compactions for a while.

    Automatic compactions are suspended after several failed attempts, after several useless compactions, or after too
    many compactions in a short time. The package still compacts a request over the limit.
    """

    breaker_cooldown_s: float = Field(default=8.0, ge=0, title="Breaker: cooldown (seconds)")
    """Length of the cooldown in seconds. The cooldown starts after failed attempts, or after useless compactions.
    During the cooldown, no compaction starts automatically, unless the request is over the limit."""

    breaker_cooldown_after: PositiveInt = Field(default=2, title="Breaker: failures before a cooldown")
    """Number of failed attempts in a row after which the cooldown starts."""

    breaker_ineffective_after: PositiveInt = Field(default=2, title="Breaker: useless compactions before a cooldown")
    """Number of useless compactions in a row after which the cooldown starts. A compaction is useless if the provider
    reports that the size of the next request is at or above the trigger."""

    breaker_frequency_compactions: PositiveInt = Field(default=3, title="Breaker: most compactions in a while")
    """Maximum number of compactions within the last `breaker_frequency_calls` calls of the model. A further
    compaction waits, unless the request is over the limit."""

    breaker_frequency_calls: int = Field(default=6, ge=0, title="Breaker: length of the while (model calls)")
    """Number of the last model calls for which `breaker_frequency_compactions` is the maximum number of compactions.
    0: there is no maximum number."""


class RequestSettings(Frozen):
    """These settings decide what happens to messages that are too long, and to old tool results.

    The setting `auto_recall` adds quotations from the archive to requests. The setting `turn_wait_s` limits how long
    a run waits for another run on the same thread.
    """

    long_input: Literal["keep", "summarize"] = Field(default="summarize", title="Request: long input")
    """What the package does with the user message that the model has to answer, if the request is over the limit and
    nothing else can make room. `summarize`: if the model has already read the message in an earlier call of the turn,
    the package summarizes the message like older messages. Otherwise, the package shortens the message to its
    beginning and end, with the rules and identifiers from the part between them. `keep`: the package keeps the
    message and raises an error that reports the sizes. With both values, the package refuses a new message that is
    too large even without the earlier conversation (see `on_refusal`)."""

    on_refusal: Literal["message", "raise"] = Field(default="message", title="Request: input over the limit")
    """What the package does with a new user message that is larger than the limit, or with a new system message that
    leaves too little room. With both values, one line of text replaces this message in the view. `message`: the turn
    ends with an assistant message which says that the new message was not sent. `raise`: the package raises an
    error."""

    join_user_messages: bool = Field(default=False, title="Request: join user messages")
    """Whether the package joins adjacent user messages in the request, for providers that require alternating
    roles."""

    auto_recall: bool = Field(default=False, title="Request: recall automatically")
    """Whether the package searches the archive (the messages that compactions removed) before the model answers a new
    user message. The package searches for texts that fit this message, and quotes the results at the end of the
    request. The quotation is part of only one request, and takes at most 5 % of the room and at most 1,000 tokens."""

    ephemeral_keep: int | None = Field(default=None, ge=0, title="Request: ephemeral results kept")
    """Number of the newest ephemeral results of each tool that a request contains in full. A tool result is ephemeral
    if it has the mark `ephemeral` in `additional_kwargs["compaction"]`. One line replaces each older ephemeral
    result. `None`: a request contains all results with this mark in full. If a tool has `metadata={"ephemeral": n}`,
    all results of the tool are ephemeral, and the number for this tool is `n`."""

    turn_wait_s: float | None = Field(default=60.0, ge=0, title="Request: wait for another run (seconds)")
    """Seconds that a run waits while another run works on the same thread. If the other run has not ended by then,
    the waiting run ends with `ThreadBusyError` and stores nothing. `None`: runs do not wait for each other."""
