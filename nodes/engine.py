"""One compaction: propose -> summarise -> apply -> prove. Pure but for the summariser's call.

The graph's nodes, the middleware and `compact_messages` all drive these functions; only what stands around
them differs (snapshots, state, retries over turns).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from langchain_core.messages import AnyMessage

from .policies.gate import Bounds, Finding, prove
from .policies.hiding import hide
from .policies.meter import Meter
from .policies.overflow import classify
from .policies.selection import Counts, Demand, Selection, Selector
from .policies.sizes import Sizes
from .policies.summary import (
    Chunk,
    Reply,
    absorbed,
    chunks,
    extract,
    old_part,
    summary_message,
)
from .policies.transcript import Transcript, message_id
from .settings import CompactionSettings
from .steps import Step
from .summarizers import (
    DigestSummarizer,
    NoticeSummarizer,
    Summarizer,
    SummaryRequest,
    SummaryTimeoutError,
    called,
)

LEAST_SUMMARY = (12, 40)
"""Tokens of the shortest summary worth planning for: a notice, and a line of facts in a larger room."""
SMALL_SUMMARY = 1_024
NO_ORIGINALS: Mapping[str, AnyMessage] = MappingProxyType({})
DECISIVE = 0.8
STALLED = "summary_timeout"


@dataclass(frozen=True, kw_only=True)
class Call:
    """What holds for one call of one model: settings, sizes, and how requests are measured."""

    settings: CompactionSettings
    sizes: Sizes
    meter: Meter
    pins: frozenset[str] = frozenset()

    def selector(self, messages: Sequence[AnyMessage]) -> Selector:
        """The policies' view of a conversation."""
        return Selector(Transcript(messages), self.settings, self.meter, self.pins)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A summary, and what it cost."""

    body: str
    record: Mapping[str, Any] | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    model: str | None = None
    seen: Mapping[str, Any] = field(default_factory=dict[str, Any])
    finding: Finding | None = None
    """What was wrong with the last reply, where no summary came about."""


def rungs(summarizer: Summarizer) -> tuple[Summarizer, ...]:
    """The ladder: the configured summariser, the deterministic digest, the notice (DESIGN §7)."""
    digest = DigestSummarizer()
    first = () if summarizer.name == digest.name else (summarizer,)
    return (*first, digest, NoticeSummarizer())


def strategy(settings: CompactionSettings, rung: Summarizer) -> str:
    """Name of an attempt's strategy, as ledger and events have it."""
    scope = "" if settings.summary_scope == "old_part" else "-all"
    return rung.name if isinstance(rung, NoticeSummarizer) else f"{settings.preset}{scope}+{rung.name}"


def demand(call: Call, *, trigger: str, before: int, last: bool) -> Demand:
    """What a result must reach: below the trigger, or the limit for other triggers and the last rung (§4).

    After the provider's own refusal our count is known to be too low, so a decisive step down is asked for.
    """
    sizes, token_trigger = call.sizes, trigger in ("precheck", "check")
    ceiling = sizes.trigger - 1 if token_trigger and not last else sizes.limit
    if trigger == "overflow":
        ceiling = min(ceiling, int(before * DECISIVE))
    ceiling = min(ceiling, before - 1)
    return Demand(before=before, ceiling=ceiling, aim=min(sizes.aim, ceiling), summary=_frame(call) + _least(call))


def _least(call: Call) -> int:
    low, high = LEAST_SUMMARY
    return call.meter.scaled(min(high, max(low, call.sizes.room // 20)))


def _frame(call: Call) -> int:
    return call.meter.scaled(call.meter.counter.message(summary_message("", "0" * 16)))


def propose(call: Call, messages: Sequence[AnyMessage], rung: Summarizer, goal: Demand) -> Selection | Finding:
    """Choose what leaves and what is clipped; a `Finding` where no choice fits or nothing can leave.

    Where what must stay reaches the trigger by itself, the limit is the ceiling: a full summary at the limit
    is worth more than the last rung's notice.
    """
    selector = call.selector(messages)
    if isinstance(rung, NoticeSummarizer):
        chosen: Selection | None = hide(selector, goal)
    else:
        chosen = selector.select(goal) or selector.select(_widened(call, goal))
    if chosen is None:
        return Finding("rejected_insufficient", "no_selection_fits", f"ceiling {goal.ceiling} tokens")
    if not chosen.drop and not chosen.clip:
        return Finding("noop", "nothing_old")
    return chosen


def _widened(call: Call, goal: Demand) -> Demand:
    return replace(goal, ceiling=max(goal.ceiling, min(call.sizes.limit, goal.before - 1)))


def needs_summary(settings: CompactionSettings, chosen: Selection, goal: Demand) -> bool:
    """Whether a summary is due: something left, and it is always wanted, owed, or the aim was missed (S0.5, C7)."""
    wanted = settings.summary_mode == "always" or chosen.owes_summary
    return bool(chosen.drop) and (wanted or chosen.tokens > goal.aim)


def summary_budget(call: Call, rung: Summarizer, goal: Demand, *, tokens: int, ceiling: int) -> int:
    """Most tokens of the summary's text, in the counter's tokens, beside `tokens` of a request under `ceiling`.

    It ends at the aim, or takes half of what is left under the ceiling, whichever is more, and never passes
    its cap (`summary_max_tokens`).
    """
    taken, cap = tokens + _frame(call), call.settings.summary_max_tokens or _usual(call, rung)
    space = ceiling - taken
    wanted = max(goal.aim - taken, space // 2, _least(call))
    return max(1, min(cap, call.meter.unscaled(min(wanted, space))))


def _usual(call: Call, rung: Summarizer) -> int:
    sizes = call.sizes
    usual = max(sizes.window // 20, min(sizes.room // 4, SMALL_SUMMARY))
    return usual + int(sizes.room * call.settings.facts_share) if is_deterministic(rung) else usual


def summarise(
    call: Call,
    rung: Summarizer,
    messages: Sequence[AnyMessage],
    drop: frozenset[int],
    *,
    budget: int,
    originals: Mapping[str, AnyMessage] = NO_ORIGINALS,
    focus: str | None = None,
    callbacks: Any = None,
) -> Step[Written]:
    """Have the old part summarised, chunk by chunk, each chunk updating the summary so far.

    The summariser is shown the originals of everything it replaces (F5); `originals` has those of messages that
    an earlier compaction clipped, by id. A reply that is no summary is asked
    for again with the defect named, `summary_retries` times.
    """
    body, record = absorbed([messages[index] for index in sorted(drop)])
    written = Written(body=body, record=record)
    old = [originals.get(message_id(message), message) for message in old_part(messages, drop)]
    parts = _parts(call, rung, old)
    for part in parts:
        request = SummaryRequest(
            messages=part.messages,
            conversation=part.text,
            earlier=written.body or None,
            record=written.record,
            max_tokens=budget,
            counter=call.meter.counter,
            focus=focus,
            callbacks=callbacks,
        )
        written = yield from _ask(call, rung, request, written)
        if written.finding:
            return written
    return replace(written, seen=_seen(parts))


def _parts(call: Call, rung: Summarizer, old: Sequence[AnyMessage]) -> list[Chunk]:
    if is_deterministic(rung):
        return [Chunk(tuple(old), "")]
    limit = call.settings.summary_input_tokens or call.sizes.window // 2
    return chunks(old, max(1, call.meter.unscaled(limit)), call.meter.counter) or [Chunk((), "")]


def shown(call: Call, rung: Summarizer, messages: Sequence[AnyMessage], drop: frozenset[int]) -> dict[str, Any]:
    """What a summariser sees of an old part, without asking it: for a summary that was recorded before."""
    return _seen(_parts(call, rung, old_part(messages, drop)))


def is_deterministic(rung: Summarizer) -> bool:
    """Whether it takes the old part whole, and would give the same answer again."""
    return bool(getattr(rung, "whole", False))


def _seen(parts: Sequence[Chunk]) -> dict[str, Any]:
    """What the summariser saw: ids shown in full, and `[shown, of]` tokens of those that were cut."""
    cut = {key: list(value) for part in parts for key, value in part.cut.items()}
    full = [message_id(m) for part in parts for m in part.messages if message_id(m) not in cut]
    return {"full": full, "cut": cut}


def _ask(call: Call, rung: Summarizer, request: SummaryRequest, so_far: Written) -> Step[Written]:
    finding: Finding | None = None
    defect: str | None = None
    tries = 1 if is_deterministic(rung) else call.settings.summary_retries + 1
    for _ in range(tries):
        outcome = yield from _reply(rung, replace(request, defect=defect), call.settings.summary_timeout_s)
        so_far = replace(so_far, calls=so_far.calls + 1)
        if isinstance(outcome, Reply):
            so_far = _booked(so_far, outcome)
            text = extract(outcome)
            if isinstance(text, str):
                return replace(so_far, body=text, record=outcome.record)
            finding, defect = text, text.reason
        else:
            finding = outcome
            if finding.verdict == "failed_permanent" or finding.reason == STALLED:
                break
    return replace(so_far, finding=finding)


def _reply(rung: Summarizer, request: SummaryRequest, seconds: float) -> Step[Reply | Finding]:
    try:
        reply = yield from called(rung, request, seconds)
    except SummaryTimeoutError as error:  # the next rung is quicker than two more calls that stall
        return Finding("failed_transient", STALLED, str(error))
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        kind = "failed_transient" if classify(error) == "transient" else "failed_permanent"
        return Finding(kind, f"summary_exception:{type(error).__name__}", str(error)[:500])
    return reply


def _booked(so_far: Written, reply: Reply) -> Written:
    return replace(
        so_far,
        input_tokens=so_far.input_tokens + reply.input_tokens,
        output_tokens=so_far.output_tokens + reply.output_tokens,
        model=reply.model or so_far.model,
    )


def applied_to(
    messages: Sequence[AnyMessage],
    *,
    drop: Sequence[str],
    clip: Mapping[str, AnyMessage],
    summary: AnyMessage | None,
) -> list[AnyMessage]:
    """The conversation with a draft applied: the summary stands where the first dropped message stood (B9)."""
    gone, result, placed = set(drop), list[AnyMessage](), summary is None
    for message in messages:
        if message_id(message) not in gone:
            result.append(clip.get(message_id(message), message))
        elif not placed and summary is not None:
            result.append(summary)
            placed = True
    return result


def judge(
    call: Call, before: Sequence[AnyMessage], after: Sequence[AnyMessage], *, ceiling: int, floor: int
) -> Finding | None:
    """Ask the gate whether `after` may take the place of `before`."""
    selector = call.selector(before)
    bounds = Bounds(before=call.meter.request(before), ceiling=ceiling)
    return prove(selector, after, bounds, floor=floor)


def counts_of(values: Mapping[str, int] | None) -> Counts:
    """The counters of a stored draft."""
    return Counts(**(values or {}))
