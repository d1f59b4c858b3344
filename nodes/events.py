"""What the custom stream carries while a conversation is compacted. A failing sink is only logged (F26)."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .policies.selection import Counts


class _Log(logging.LoggerAdapter[logging.Logger]):
    """The package's logger. A handler that raises does not end a turn (F26)."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        with suppress(Exception):
            super().log(level, msg, *args, **{**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + 1})


log = _Log(logging.getLogger("langgraph_compaction"))

TriggerSource = Literal["input", "precheck", "check"]
"""Which check asked: without the newest message, before the model, or after its answer (S0.2, S0.3, S4.32)."""

Phase = Literal["selective_start", "selective_done", "summary_start", "summary_done", "rollback"]

EventSink = Callable[[Any], None]


@dataclass(frozen=True, kw_only=True)
class PreCompactEvent:
    """The conversation reached its trigger; written also when the attempt is then skipped (S0.45)."""

    trigger: str
    """The check at which tokens fired (`input`, `precheck`, `check`), `overflow`, `manual`, `marker`, `command`,
    the unit of a count, or the name of an application's own trigger."""
    current_tokens: int
    threshold: int


@dataclass(frozen=True, kw_only=True)
class CompactionMetaEvent:
    """One phase of an attempt (S0.29-S0.34); tokens are those of the whole request."""

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
    """An attempt ended with this verdict (DESIGN §7)."""

    verdict: str
    reason: str
    strategy: str
    tokens_before: int
    tokens_after: int
    blocks_dropped: int
    compaction_id: str | None


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


def emit(sink: EventSink, event: PreCompactEvent | CompactionMetaEvent | CompactionEvent) -> None:
    """Write an event to a sink as `{"event": its class's name, …its fields}`; never raises (B27, F26)."""
    payload = {"event": type(event).__name__, **asdict(event)}
    log.debug("%s", payload)
    try:
        sink(payload)
    except Exception:
        log.exception("the event sink failed; the compaction goes on")
