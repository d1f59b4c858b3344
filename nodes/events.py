"""What the custom stream carries while a conversation is compacted. A failing sink is only logged.

Each event is a dictionary `{"event": name of its class, ...its fields}`, and is logged as well:

=================== =========================================================================================
event               written
=================== =========================================================================================
PreCompactEvent     when a trigger fires, also where the attempt is then skipped
CompactionMetaEvent at each phase of an attempt, where `emit_compaction_meta_events` is set; `summary_done` only
                    once the gate has let it pass, `rollback` once for each attempt that fails
KeyInformationEvent when a provider of key information failed or stalled and is left out
ContextEvent        at a commit (COMPACTION_PERFORMED), and where the messages were replaced, a rollback's
                    restoring too (CONVERSATION_REPLACED)
CompactContextEvent at a commit
CompactionEvent     when an attempt ends, with its verdict: the last of its events
ContextWarningEvent when `warn_ratio`, where it is set, is reached: once until the next commit
=================== =========================================================================================
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .compaction_request import WISHES


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of tool blocks and fields."""

    blocks_kept: int = 0
    blocks_dropped: int = 0
    calls_clipped: int = 0
    results_clipped: int = 0


class _Log(logging.LoggerAdapter[logging.Logger]):
    """The package's logger. A handler that raises does not end a turn."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        with suppress(Exception):  # there is nowhere left to say it
            super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})


log = _Log(logging.getLogger("langgraph_compaction"))

TriggerSource = Literal["input", "precheck", "check"]
"""Which check asked: without the newest message, before the model, or after its answer."""

Phase = Literal["selective_start", "selective_done", "summary_start", "summary_done", "rollback"]

COMPACTION_PERFORMED = "COMPACTION_PERFORMED"
CONVERSATION_REPLACED = "CONVERSATION_REPLACED"
CONTEXT_COMPACTED = "context_compacted"
CONTEXT_WARNING = "context_warning"

EventSink = Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class PreCompactEvent:
    """The conversation reached its trigger; written also when the attempt is then skipped."""

    trigger: str
    """The check at which tokens fired (`input`, `precheck`, `check`), `overflow`, `manual`, `marker`, `command`,
    the unit of a count, or the name of an application's own trigger."""
    current_tokens: int
    threshold: int


@dataclass(frozen=True, kw_only=True)
class CompactionMetaEvent:
    """One phase of an attempt; tokens are those of the whole request."""

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
    """An attempt ended with this verdict."""

    verdict: str
    reason: str
    strategy: str
    tokens_before: int
    tokens_after: int
    blocks_dropped: int
    compaction_id: str | None
    tokens_remaining: int | None = None
    """Tokens between the request as it is now and the limit."""
    summary_calls: int = 0
    """Calls of the summarizer, those that failed too."""
    summary_input_tokens: int = 0
    summary_output_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class ContextEvent:
    """Something became of the conversation itself."""

    event_type: Literal["COMPACTION_PERFORMED", "CONVERSATION_REPLACED"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class CompactContextEvent:
    """A compaction was committed."""

    type: str = CONTEXT_COMPACTED
    original_tokens: int
    new_tokens: int
    saved_ratio: float
    """1 - new / original; 0 where the original is 0."""
    summary: str | None
    """Redacted text of the message that carries the summary; `None` where nothing was summarized."""


@dataclass(frozen=True, kw_only=True)
class ContextWarningEvent:
    """The conversation nears its trigger."""

    type: str = CONTEXT_WARNING
    message: str
    tokens: int
    ratio: float
    """Of the window."""
    will_compact_at: int
    """Tokens at which a compaction starts."""


@dataclass(frozen=True, kw_only=True)
class KeyInformationEvent:
    """A provider of key information was left out of a summary."""

    name: str
    reason: str
    """`timeout`, or the class of the error."""


Event = (
    PreCompactEvent
    | CompactionMetaEvent
    | CompactionEvent
    | ContextEvent
    | CompactContextEvent
    | ContextWarningEvent
    | KeyInformationEvent
)


def cost_of(draft: Mapping[str, Any]) -> dict[str, int]:
    """What an attempt's summary cost, by the fields of `CompactionEvent`."""
    costs = {
        "summary_calls": "calls",
        "summary_input_tokens": "input_tokens",
        "summary_output_tokens": "output_tokens",
    }
    return {name: draft.get(key) or 0 for name, key in costs.items()}


def saved_ratio(original: int, new: int) -> float:
    """Share of the tokens saved: 1 - new / original; 0 where the original is 0."""
    return 1 - new / original if original else 0.0


def committed_events(trigger: str, original: int, new: int, count: int, summary: str | None) -> list[Event]:
    """What a commit tells: tokens before and after, how many messages the conversation has now, the summary."""
    by_hand = "manual_compact" if trigger in WISHES else "auto_compact"
    ratio = round(saved_ratio(original, new), 4)
    return [
        ContextEvent(event_type="COMPACTION_PERFORMED", detail=f"{by_hand}: {original} → {new} tokens"),
        replaced_event(count),
        CompactContextEvent(original_tokens=original, new_tokens=new, saved_ratio=ratio, summary=summary),
    ]


def replaced_event(count: int) -> ContextEvent:
    """The list of messages is another one, of so many."""
    return ContextEvent(event_type="CONVERSATION_REPLACED", detail=f"conversation replaced with {count} items")


def warning_event(tokens: int, window: int, trigger: int) -> ContextWarningEvent:
    """The warning about a request of so many tokens."""
    return ContextWarningEvent(
        message=f"the context is {tokens / window:.0%} full; it is compacted at {trigger} tokens",
        tokens=tokens,
        ratio=round(tokens / window, 4),
        will_compact_at=trigger,
    )


def meta_event(phase: Phase, before: int, after: int, counts: Counts, reason: str) -> CompactionMetaEvent:
    """A phase's event with the attempt's cumulative counters."""
    return CompactionMetaEvent(
        phase=phase,
        tokens_before=before,
        tokens_after=after,
        tool_blocks_kept=counts.blocks_kept,
        tool_blocks_dropped=counts.blocks_dropped,
        tool_calls_truncated=counts.calls_clipped,
        tool_results_truncated=counts.results_clipped,
        reason=reason,
    )


def emit(sink: EventSink, event: Event) -> None:
    """Write an event to a sink as `{"event": its class's name, …its fields}`; never raises."""
    payload = {"event": type(event).__name__, **asdict(event)}
    log.debug("%s", payload)
    try:
        sink(payload)
    except Exception:
        log.exception("The event sink failed; the compaction continues")
