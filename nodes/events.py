"""The events that a compaction writes to the custom stream. An error of the stream's writer is only logged.

Each event is written as a dictionary `{"event": <class name>, <field>: <value>, ...}`, and logged at level DEBUG:

=================== =========================================================================================
event               written
=================== =========================================================================================
PreCompactEvent     when a trigger fires, also if the attempt is then skipped
CompactionMetaEvent at each phase of an attempt, if `emit_compaction_meta_events` is set; `summary_done` only
                    when the gate has accepted the summary, `rollback` once for each failed attempt
KeyInformationEvent when a provider of key information failed or timed out, and its text is left out
CompactingEvent     when a model is asked for a summary, so that a front end can say why the turn takes longer
ReleaseEvent        when a run's input allowed automatic compactions again after an undo
PinsRefusedEvent    when messages came with pins for which there is no room, and are not pinned
PreparationEvent    when a summary is prepared ahead, and when it is used, or is not
ContextEvent        at a commit: COMPACTION_PERFORMED and CONVERSATION_REPLACED, the model's view is another one
CompactContextEvent at a commit
CompactionEvent     when an attempt ends, with its verdict: the last event of the attempt
ContextWarningEvent when the request reaches 75 % of the window, and no trigger: once until the next commit
=================== =========================================================================================
"""

import logging
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from .compaction_request import WISHES


class Counts(TypedDict):
    """How many tool blocks a compaction keeps and drops, and how many tool calls and results it clips."""

    blocks_kept: int
    blocks_dropped: int
    calls_clipped: int
    results_clipped: int


NO_COUNTS = Counts(blocks_kept=0, blocks_dropped=0, calls_clipped=0, results_clipped=0)


class _Log(logging.LoggerAdapter[logging.Logger]):
    """The package's logger. An exception in a log handler does not end a turn."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Keep the argument `extra` of the call, in place of which an adapter puts its own."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        with suppress(Exception):  # logging itself fails, so the error cannot be logged
            super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})


log = _Log(logging.getLogger("langgraph_compaction"))

TriggerSource = Literal["input", "precheck", "check"]
"""The check at which a trigger fired: before the new input counts, before the model's call, after the answer."""

Phase = Literal["selective_start", "selective_done", "summary_start", "summary_done", "rollback"]

COMPACTION_PERFORMED = "COMPACTION_PERFORMED"
CONVERSATION_REPLACED = "CONVERSATION_REPLACED"
CONTEXT_COMPACTED = "context_compacted"
CONTEXT_WARNING = "context_warning"

EventSink = Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class PreCompactEvent:
    """A trigger fired. The event is written also if the attempt is then skipped."""

    trigger: str
    """The check at which tokens fired (`input`, `precheck`, `check`), or `overflow`, `manual`, `marker`, `command`,
    the unit of a count, or the name of an application's own trigger."""
    current_tokens: int
    threshold: int


@dataclass(frozen=True, kw_only=True)
class CompactingEvent:
    """A model is asked for the summary of this turn's compaction; `CompactionEvent` follows."""

    current_tokens: int
    messages: int
    """How many messages the summary is to stand for."""
    limit: int


@dataclass(frozen=True, kw_only=True)
class CompactionMetaEvent:
    """One phase of an attempt. Tokens are those of the whole request, counts are those of the attempt so far."""

    phase: Phase
    tokens_before: int
    tokens_after: int
    tool_blocks_kept: int
    tool_blocks_dropped: int
    tool_calls_truncated: int
    tool_results_truncated: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class CompactionEvent:
    """An attempt ended, with this verdict."""

    verdict: str
    reason: str
    strategy: str
    tokens_before: int
    tokens_after: int
    blocks_dropped: int
    compaction_id: str | None
    tokens_remaining: int | None = None
    """Tokens between the size of the current request and the limit."""
    summary_calls: int = 0
    """Calls of the summarizer, failed ones included."""
    summary_input_tokens: int = 0
    summary_cache_read_tokens: int = 0
    summary_cache_write_tokens: int = 0
    summary_output_tokens: int = 0
    summary_reasoning_tokens: int = 0
    summary_cost: float | None = None
    """Dollars; `None` if the usage or the price of a call is not known."""
    detail: str = ""
    """What the reason is about, such as an error's text, redacted as in the ledger and cut to 500 characters."""


@dataclass(frozen=True, kw_only=True)
class ContextEvent:
    """The conversation was compacted, and the model sees another list of messages."""

    event_type: Literal["COMPACTION_PERFORMED", "CONVERSATION_REPLACED"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class CompactContextEvent:
    """A compaction was committed."""

    type: str = CONTEXT_COMPACTED
    original_tokens: int
    new_tokens: int
    saved_ratio: float
    """1 - new / original; 0 if the original is 0."""
    summary: str | None
    """Redacted text of the message that carries the summary; `None` if nothing was summarized."""


@dataclass(frozen=True, kw_only=True)
class ContextWarningEvent:
    """The request reached 75 % of the window, before it reaches the trigger."""

    type: str = CONTEXT_WARNING
    message: str
    tokens: int
    ratio: float
    """Share of the context window that the request fills."""
    will_compact_at: int
    """Tokens at which a compaction starts."""


@dataclass(frozen=True, kw_only=True)
class KeyInformationEvent:
    """A provider of key information was left out of a summary."""

    name: str
    reason: str
    """`timeout`, or the class name of the exception."""


@dataclass(frozen=True, kw_only=True)
class ReleaseEvent:
    """A run's input allowed automatic compactions again after an undo."""

    held: bool
    """Whether they were held off before."""


@dataclass(frozen=True, kw_only=True)
class PinsRefusedEvent:
    """Messages came with pins for which there is no room; they are ordinary messages now."""

    message_ids: tuple[str, ...]
    most_tokens: int
    """Tokens that pins may hold together: half of the room, or less in a small one."""


Preparing = Literal["preparing", "waiting", "joined", "swapped", "stale", "failed"]


@dataclass(frozen=True, kw_only=True)
class PreparationEvent:
    """A summary is prepared ahead, or what became of it."""

    state: Preparing
    """`preparing`: it begins; it ends without a summary if no message may be removed yet. `waiting`: a trigger fired
    before it was ready, and the turn goes on without it. `joined`: the turn waited for it, over the limit or because
    a person asked for the compaction. `swapped`: the compaction uses it. `stale`: it was not used, for this reason.
    `failed`: there is none, for this reason."""
    reason: str = ""
    seconds: float | None = None
    """With `swapped`, the seconds that the preparation took; with `joined`, the seconds that the turn waited."""
    compaction_id: str | None = None
    """Id of the preparation's row in the ledger; `None` as long as it has none."""


Event = (
    PreCompactEvent
    | CompactingEvent
    | CompactionMetaEvent
    | CompactionEvent
    | ContextEvent
    | CompactContextEvent
    | ContextWarningEvent
    | KeyInformationEvent
    | PinsRefusedEvent
    | PreparationEvent
    | ReleaseEvent
)


def saved_ratio(original: int, new: int) -> float:
    """Return the share of the tokens that a compaction saved: 1 - new / original; 0 if `original` is 0."""
    return 1 - new / original if original else 0.0


def committed_events(trigger: str, original: int, new: int, count: int, summary: str | None) -> list[Event]:
    """Return the events of a commit; `count` is the new number of messages, `original` and `new` are tokens."""
    by_hand = "manual_compact" if trigger in WISHES else "auto_compact"
    ratio = round(saved_ratio(original, new), 4)
    return [
        ContextEvent(event_type="COMPACTION_PERFORMED", detail=f"{by_hand}: {original} → {new} tokens"),
        ContextEvent(event_type="CONVERSATION_REPLACED", detail=f"conversation replaced with {count} items"),
        CompactContextEvent(original_tokens=original, new_tokens=new, saved_ratio=ratio, summary=summary),
    ]


def warning_event(tokens: int, window: int, trigger: int) -> ContextWarningEvent:
    """Return the warning about a request of `tokens` tokens; `window` and `trigger` are numbers of tokens too."""
    return ContextWarningEvent(
        message=f"the context is {tokens / window:.0%} full; it is compacted at {trigger} tokens",
        tokens=tokens,
        ratio=round(tokens / window, 4),
        will_compact_at=trigger,
    )


def meta_event(phase: Phase, before: int, after: int, counts: Counts, reason: str) -> CompactionMetaEvent:
    """Return the event of a phase, with the counts of the attempt so far."""
    return CompactionMetaEvent(
        phase=phase,
        tokens_before=before,
        tokens_after=after,
        tool_blocks_kept=counts["blocks_kept"],
        tool_blocks_dropped=counts["blocks_dropped"],
        tool_calls_truncated=counts["calls_clipped"],
        tool_results_truncated=counts["results_clipped"],
        reason=reason,
    )


def emit(sink: EventSink, event: Event) -> None:
    """Write an event to a sink, as the module's docstring describes; never raise."""
    payload = {"event": type(event).__name__, **asdict(event)}
    log.debug("%s", payload, extra={"compaction_event": payload})
    try:
        sink(payload)
    except Exception:
        log.exception("The event sink failed; the compaction continues")
