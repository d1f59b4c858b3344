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
    """Number of tokens of the model's context window, which holds the request and the answer. `None`: the value of
    `max_input_tokens` in the model's profile. For gpt-5 this value counts only the request."""

    preset: Preset = Field(default="selective", title="Preset")
    """The set of defaults to start from. A setting that you do not give has the preset's value."""

    enabled: bool = Field(default=True, title="Compact automatically")
    """Whether compactions start automatically. If false, a compaction runs only when a person asks for it, and a
    request over the limit raises an error."""

    trigger_ratio: float | None = Field(default=0.8, gt=0, le=1, title="Trigger (share of the window)")
    """A compaction starts when the request reaches this share of the window. `None`: a compaction starts only if a
    condition in `triggers` is met, or if the request is over the limit."""

    target_ratio: float = Field(default=0.5, gt=0, lt=1, title="Target (share of the room)")
    """Share of the room that the conversation should take after a compaction. The room is the limit minus system
    prompt, system messages and tool schemas. A compaction that misses this target is still committed if the request
    fits into the limit."""

    output_reserve: int | None = Field(default=None, ge=0, title="Reserve for the answer (tokens)")
    """Number of tokens kept free for the answer. `None`: the model's `max_tokens`. If the model has no `max_tokens`
    either, the package computes the number from the window and the trigger. If `output_reserve` or `max_tokens` is
    more than 5 % of the window, `trigger_ratio`, `warn_ratio` and the ratios in `triggers` are shares of the limit
    instead of the window."""

    summary_instructions: str | None = Field(default=None, title="Summary: additional instructions")
    """Text added to the prompt of every summary, for example a list of the facts that every summary has to keep.
    `None`: no text is added."""

    language: Language = Field(default="en", title="Language")
    """Language of the prompts for summaries and of the fixed text around a summary."""

    require_confirmation: bool = Field(default=False, title="Ask before compacting")
    """Ask a person before each compaction, with a LangGraph interrupt."""

    recall: bool = Field(default=False, title="Recall tool")
    """Give the agent the tool `recall`, which searches the messages that compactions removed from the view. Summaries
    and shortened tool results then contain handles (short ids of archived messages or of compactions). For a handle,
    the tool returns the original message, or the beginning of each message that the compaction removed."""


class TriggerSettings(Frozen):
    """These settings decide how the size of a request is measured and when a compaction starts."""

    fallback_window: PositiveInt | None = Field(default=None, title="Trigger: fallback for the window (tokens)")
    """The context window to assume if neither `context_window` nor the model's profile gives a value. `None`: raise
    an error in this case."""

    token_counter: str = Field(
        default="usage", pattern=r"^(usage|tiktoken|cjk_aware|chars/[1-9]\d*)$", title="Trigger: token counter"
    )
    """How tokens are counted if you give the builder no counter. `usage`: with tiktoken, corrected by the usage that
    the provider reports. `tiktoken`: with tiktoken alone. `cjk_aware`: by an estimate from words and characters. This
    estimate also fits Chinese. `chars/N`: number of characters divided by N."""

    soft_zone: bool = Field(default=True, title="Trigger: start before the limit")
    """Keep the trigger below the limit, so that a request which reaches the trigger can still be sent. The distance
    between trigger and limit is at least 2 % of the window. If half the distance between the limit and the aim (the
    size that a compaction tries to reach) is smaller, this half is enough. If false, or if no trigger depends on the
    size of the request, the size at which a compaction starts can be the limit itself."""

    triggers: tuple[Trigger, ...] = Field(default=(), title="Trigger: additional triggers")
    """Triggers in addition to `trigger_ratio`, of the kinds `used_ratio`, `remaining_ratio`, `reserve_tokens`,
    `count`, `marker`, `command` and `own`. A compaction starts as soon as any trigger fires."""

    hooks: tuple[Hook, ...] = Field(default=("pre_model", "post_model", "on_overflow"), title="Trigger: hooks")
    """Points of a turn at which the triggers are checked. `pre_input`: when a new user message arrives; the
    size is then measured without this message. `pre_model`: before each call of the model. `post_model`: after the
    model's answer. `on_overflow` stands for no check of triggers: a compaction then also starts after the provider
    refused a request as too long. A request over the limit is compacted before a call of the model even if this list
    does not contain `pre_model`."""

    warn_ratio: float | None = Field(default=None, gt=0, le=1, title="Trigger: warning (share of the window)")
    """The package writes a `ContextWarningEvent` when the request reaches this share of the window, at most once
    between two compactions. `None`: the package never writes this event."""

    emit_compaction_meta_events: bool = Field(default=False, title="Trigger: events of each phase")
    """Write a `CompactionMetaEvent` to LangGraph's stream `custom` for each phase of a compaction."""


class SummarySettings(Frozen):
    """These settings decide who writes a summary, when and how, and what happens if a summary fails."""

    summarizer: Literal["model", "digest"] = Field(default="model", title="Summary: written by")
    """Who writes the summaries. `model`: the agent's chat model. `digest`: no model; a digest is a summary
    extracted from the messages. The digest is also used if there is no model or if a model's summary fails. A
    summarizer given to the builder overrides this setting."""

    on_summary_failure: Literal["digest", "nothing"] = Field(default="digest", title="Summary: after a failure")
    """What happens after a model's summary failed. `digest`: the next attempt uses the next level of the fallback
    chain (the same summarizer with smaller pieces, then each of `fallback_summarizers`, then the digest). `nothing`:
    the conversation stays unchanged, and the next attempt uses the next level with a model, or the first level after
    the last one. For a request over the limit, `nothing` has the same effect as `digest`."""

    summary_mode: Literal["always", "if_needed", "last_resort"] = Field(default="always", title="Summary: mode")
    """When a summary is written. `always`: in every compaction that removes messages. `if_needed`: only if the
    request is still larger than the target after messages were removed. `last_resort`: only if no strategy makes
    enough room; the summary then replaces the whole conversation. What the strategies `sliding_window`,
    `importance`, `key_events` and `incremental` remove is summarized in every mode."""

    summary_scope: Literal["old_part", "all"] = Field(default="old_part", title="Summary: scope")
    """Which messages the summary replaces. `old_part`: the messages that the strategy does not keep. `all`: the whole
    conversation."""

    summary_form: SummaryForm = Field(default="record", title="Summary: form of the message")
    """Format of the message that contains the summary. `record`: between fixed lines that call it a record. `tags`:
    between `<summary>` tags only. `cleared`: below a fixed line which says that the context was cleared. `history`:
    below the line `[Summary of the history]`. `recent_rounds`: with a last line that gives the number of kept rounds.
    `terse`: with the fewest tokens."""

    summary_prompts: PromptName = Field(default="five_sections", title="Summary: prompts")
    """The set of prompts with which a chat model is asked for a summary."""

    summary_retries: int = Field(default=2, ge=0, le=10, title="Summary: retries")
    """For each request to the summarizer, the package repeats the call at most this number of times, if the call
    failed or its reply was rejected. An attempt sends several requests if the messages are too long for one."""

    summary_max_tokens: PositiveInt | None = Field(default=None, title="Summary: most tokens")
    """Maximum length of a summary in tokens. A summary that is longer than a value given here is cut at the end of a
    line or sentence. `None`: window / 20 or min(1,024, room / 4), whichever is larger. With `None`, a digest (a
    summary made without a model) may be longer by the share `facts_share` of the room."""

    summary_max_chars: PositiveInt | None = Field(default=None, title="Summary: most characters")
    """Maximum length of a summary in characters. `None`: no maximum. A longer summary is cut at the end of a line or
    sentence."""

    summary_input_guard: InputGuard | None = Field(default=None, title="Summary: cut of a very long input")
    """Show a chat model only the beginning and the end of a very long conversation, with a digest of the part between
    them. The keys are `max_chars` (the number of characters from which a conversation counts as very long) and `head`
    and `tail` (the lengths of beginning and end, as shares of `max_chars`). `None`: show the whole conversation, in
    as many calls as needed."""

    summary_input_tokens: PositiveInt | None = Field(default=None, title="Summary: most input tokens of a call")
    """Maximum number of tokens of the conversation that one call shows to the summarizer. `None`: three quarters of
    the window, or nine tenths of the limit if this is less."""

    summary_timeout_s: float = Field(default=60.0, gt=0, title="Summary: timeout (seconds)")
    """Seconds after which a request to the summarizer counts as failed. This time includes the repeated calls after
    an error, and the pauses between these calls."""

    summary_deadline_s: float = Field(default=120.0, gt=0, title="Summary: deadline of a compaction (seconds)")
    """Seconds after which a compaction makes no further call of a summarizer. One deadline applies to all calls,
    retries and fallbacks of a turn. After the deadline, the digest (a summary made without a model) is used for a
    request over the limit, and for a compaction that a person asked for. Any other request is sent without a
    compaction."""

    summary_ahead: bool = Field(default=True, title="Summary: prepared ahead")
    """Prepare a model's summary in the background when the request comes near the number of tokens at which a trigger
    fires. The turn that compacts then does not wait for the summary. With `require_confirmation`, nothing is
    prepared. A compaction with `focus` or `full`, or one that was started by a count of messages or events, does not
    use a prepared summary."""

    summary_ahead_unused: PositiveInt = Field(default=2, title="Summary: most unused preparations (per hour)")
    """In a thread, at most this number of prepared summaries may go unused within an hour. When this number is
    reached, no summary is prepared until the oldest unused summary is more than an hour old."""

    summary_backoff_s: float = Field(default=0.5, ge=0, title="Summary: pause before a retry (seconds)")
    """Seconds before the first retry after a temporary failure of the summarizer. The pause doubles with each retry,
    and a random part is added."""


class FactSettings(Frozen):
    """Facts are the user's rules and the identifiers in the messages, such as order numbers.

    The package finds them without a model, and keeps them word for word. With
    `summary_prompts="five_sections"`, the model that writes a summary also lists rules and decisions. A sentence of
    this list becomes a fact if the conversation contains the same words.
    """

    facts_beside_summary: bool = Field(default=True, title="Facts: show beside a summary")
    """Add the facts to a summary that a model wrote. A check before the commit then rejects a compaction that lost
    one of the added facts."""

    facts_share: float = Field(default=0.10, ge=0, le=0.5, title="Facts: share of the room")
    """A share of the room, for facts. A summary that is made without a model may be longer by this share. Next to a
    summary that a model writes, the user's rules may take up to three times this share, and all other facts may take
    this share once more."""


class KeyInformationSettings(Frozen):
    """Key information is text that the model sees next to every summary, for example the goal of the conversation."""

    key_information: tuple[str, ...] = Field(default=(), title="Key information: sources")
    """Names of the sources whose text is added to every summary: `goal`, `pins`, `memories`, `git_diff`, `tasks`, and
    the sources given to the builder. `git_diff` returns a text only if the builder gets `GitDiff(folder)`. `pins`
    only sets the position of the pinned texts, which every summary contains anyway."""

    key_information_share: float = Field(default=0.10, ge=0, le=0.5, title="Key information: share of the room")
    """Share of the room that key information may take, not counting the pinned texts. Text that does not fit is
    cut."""

    key_information_timeout_s: float = Field(default=5.0, gt=0, title="Key information: timeout (seconds)")
    """Seconds that the package waits for a source of key information. After this time, the summary is written without
    the text of this source."""

    key_information_memories_keep: PositiveInt = Field(default=10, title="Key information: memories kept")
    """The source `memories` shows this number of the newest memories in LangGraph's store."""

    key_information_pin_first_input: bool = Field(default=False, title="Key information: pin the first input")
    """Pin the whole first user message, so that it stays word for word. This is useful for an agent that works alone
    on one task."""


class ConfirmationSettings(Frozen):
    """This setting applies if `require_confirmation` is on and no person can be asked.

    A person can be asked only if the graph has a checkpointer.
    """

    confirmation_unavailable: Literal["proceed", "refuse"] | None = Field(
        default=None, title="Confirmation: when nobody can be asked"
    )
    """What to do if no person can be asked. `proceed`: compact without asking.
    `refuse`: do not compact, and raise an error if the request is over the limit. `None`: raise an error before
    anything is sent to the model."""


class BreakerSettings(Frozen):
    """The breaker suspends automatic compactions for a while.

    It does so after failed attempts, after useless compactions, or if compactions come too often. A request
    over the limit is compacted all the same.
    """

    breaker_cooldown_s: float = Field(default=8.0, ge=0, title="Breaker: cooldown (seconds)")
    """Length of the cooldown in seconds. During the cooldown, no compaction of a request below the limit starts
    automatically."""

    breaker_cooldown_after: PositiveInt = Field(default=2, title="Breaker: failures before a cooldown")
    """Number of failed attempts in a row that starts the cooldown."""

    breaker_ineffective_after: PositiveInt = Field(default=2, title="Breaker: useless compactions before a cooldown")
    """Number of useless compactions in a row that starts the cooldown. A compaction is useless if the provider
    reports, for the next request, a size at or above the trigger."""

    breaker_frequency_compactions: PositiveInt = Field(default=3, title="Breaker: most compactions in a while")
    """Maximum number of compactions within `breaker_frequency_calls` calls of the model. A further compaction waits,
    unless the request is over the limit."""

    breaker_frequency_calls: int = Field(default=6, ge=0, title="Breaker: length of the while (model calls)")
    """Number of the last model calls in which `breaker_frequency_compactions` counts compactions. With 0, any number
    of compactions may run."""


class RequestSettings(Frozen):
    """These settings say what happens to messages that are too long, and to old tool results.

    The setting `auto_recall` adds quotations from the archive to requests. The setting `turn_wait_s` limits how long
    a run waits for another run on the same thread.
    """

    long_input: Literal["keep", "summarize"] = Field(default="summarize", title="Request: long input")
    """What to do with a user message that waits for its answer if the request is over the limit and nothing else can
    make room. `summarize`: if the model has already read the message in an earlier call of the turn, summarize the
    message like older messages. Otherwise, shorten it to its beginning and end, with the rules and identifiers from
    the part between them. `keep`: keep the message and raise an error that reports the sizes. A new message that is
    too large even without the earlier conversation is refused in both cases (see `on_refusal`)."""

    on_refusal: Literal["message", "raise"] = Field(default="message", title="Request: input over the limit")
    """What to do with a new user message that is larger than the limit, or with a new system message that leaves too
    little room. In both cases, one line of text replaces this message in the view. `message`: the turn ends with an
    assistant message which says that the new message was not sent. `raise`: raise an error."""

    join_user_messages: bool = Field(default=False, title="Request: join user messages")
    """Join adjacent user messages in the request, for providers that require alternating roles."""

    auto_recall: bool = Field(default=False, title="Request: recall automatically")
    """Before a call that answers a new user message, search the archive (the messages that compactions removed) for
    text about this message. Quote the results at the end of the request, for this call only. The quotation takes at
    most 5 % of the room and at most 1,000 tokens."""

    ephemeral_keep: int | None = Field(default=None, ge=0, title="Request: ephemeral results kept")
    """For each tool, number of the newest results with the mark `ephemeral` that a request shows whole. The mark is
    in `additional_kwargs["compaction"]` of the message. One line replaces each older result. `None`: show all results
    whole. A tool with `metadata={"ephemeral": n}` sets its own number, and its results need no mark."""

    turn_wait_s: float | None = Field(default=60.0, ge=0, title="Request: wait for another run (seconds)")
    """Seconds that a run waits while another run works on the same thread. If the other run has not ended by then,
    the waiting run ends with `ThreadBusyError` and stores nothing. `None`: runs do not wait for each other."""
