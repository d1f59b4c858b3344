"""`compact_messages`: the same engine, once, on a plain list: the sibling of `trim_messages`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload
from uuid import uuid4

from langchain_core.messages import AnyMessage, BaseMessage, BaseMessageChunk, SystemMessage

from ..config.presets import Preset
from ..config.settings import CompactionSettings, effective
from ..conversation.meter import Meter
from ..conversation.sizes import sizes_of
from ..conversation.tokens import named_counter, total
from ..conversation.transcript import Transcript, message_id
from ..effects import Effects, arun, blocking, run
from ..errors import ContextExhaustedError, InvalidMessagesError, SettingsError
from ..events import saved_ratio
from ..gate.invariants import Finding
from ..selection.selector import Demand, Selection
from ..selection.strategies.registry import Strategy, check_named, with_own
from ..state import with_ids
from ..summary.fallback_chain import FallbackChain, Level, after_failure, fallback_chain_of, verdict_of
from ..summary.summarizers import summarizer_of
from .dependencies import counter_of, loaded
from .engine import Beside, Call, applied_to, beside, demand, judge, needs_summary, summary_budget
from .key_information_room import foreseen
from .sections import summarize_by_sections
from .summarize_chunks import Work, WrittenSummary

SUMMARY_INPUT = 4_000
"""Tokens that any summarizer reads at once, however little the list itself may hold."""


DIGEST_SHARE = 0.5
"""Share of the room that is kept free for a digest: what it extracts is worth more than what it displaces
(benchmarks/what_survives.py)."""


@dataclass(frozen=True, kw_only=True)
class CompactionResult:
    """A compacted list and what became of it."""

    new_messages: list[AnyMessage]
    summary: str | None
    original_token_count: int
    new_token_count: int
    compacted_rounds: int
    compacted_messages: int
    verdict: str = "noop"

    @property
    def saved_ratio(self) -> float:
        """Share of the tokens saved: 1 - new / original; 0 for an empty list."""
        return saved_ratio(self.original_token_count, self.new_token_count)


@overload
def compact_messages(
    messages: Sequence[AnyMessage],
    *,
    max_tokens: int,
    preset: Preset | None = ...,
    summarizer: Any = ...,
    token_counter: Any = ...,
    settings: CompactionSettings | None = ...,
    strategies: Mapping[str, Strategy] | None = ...,
    return_result: Literal[False] = ...,
) -> list[AnyMessage]: ...
@overload
def compact_messages(
    messages: Sequence[AnyMessage],
    *,
    max_tokens: int,
    preset: Preset | None = ...,
    summarizer: Any = ...,
    token_counter: Any = ...,
    settings: CompactionSettings | None = ...,
    strategies: Mapping[str, Strategy] | None = ...,
    return_result: Literal[True],
) -> CompactionResult: ...
def compact_messages(
    messages: Sequence[AnyMessage],
    *,
    max_tokens: int,
    preset: Preset | None = None,
    summarizer: Any = "digest",
    token_counter: Any = None,
    settings: CompactionSettings | None = None,
    strategies: Mapping[str, Strategy] | None = None,
    return_result: bool = False,
) -> list[AnyMessage] | CompactionResult:
    """Compact a list to at most `max_tokens`; a list that fits comes back as it is.

    The messages given are not changed; those without an id get one in the result. System messages count and
    stay. `strategies` are your own, by the names under which the settings choose them.

    Raises `InvalidMessagesError` for what is no conversation, `SettingsError` where the system messages
    alone fill `max_tokens`, `ContextExhaustedError` where what must stay does not fit.
    """
    result = run(
        _compact(
            messages,
            max_tokens=max_tokens,
            preset=preset,
            summarizer=summarizer,
            token_counter=token_counter,
            settings=settings,
            strategies=strategies,
        )
    )
    return result if return_result else result.new_messages


async def acompact_messages(
    messages: Sequence[AnyMessage],
    *,
    max_tokens: int,
    preset: Preset | None = None,
    summarizer: Any = "digest",
    token_counter: Any = None,
    settings: CompactionSettings | None = None,
    strategies: Mapping[str, Strategy] | None = None,
    return_result: bool = False,
) -> list[AnyMessage] | CompactionResult:
    """`compact_messages` without blocking the event loop while the summarizer works."""
    result = await arun(
        _compact(
            messages,
            max_tokens=max_tokens,
            preset=preset,
            summarizer=summarizer,
            token_counter=token_counter,
            settings=settings,
            strategies=strategies,
        )
    )
    return result if return_result else result.new_messages


def _compact(
    messages: Sequence[AnyMessage],
    *,
    max_tokens: int,
    preset: Preset | None,
    summarizer: Any,
    token_counter: Any,
    settings: CompactionSettings | None,
    strategies: Mapping[str, Strategy] | None,
) -> Effects[CompactionResult]:
    if max_tokens < 1:
        raise SettingsError(f"max_tokens={max_tokens} leaves no room: give the tokens that the result may hold")
    given = _checked(messages)
    chosen, known = _chosen(settings or CompactionSettings(), preset, max_tokens), with_own(strategies)
    check_named(chosen.strategies, known)
    counter = counter_of(token_counter) or named_counter(chosen.token_counter)
    yield from blocking(lambda: loaded(counter))
    meter = Meter(counter, 0)
    system = [message for message in given if isinstance(message, SystemMessage)]
    before = meter.request(given)
    if before <= max_tokens:
        return _result(given, given, None, meter, "noop")
    sizes = sizes_of(chosen, window=max_tokens, fixed=total(counter, system))
    call = Call(settings=chosen, sizes=sizes, meter=meter, strategies=known)
    return (yield from _climb(call, given, fallback_chain_of(summarizer_of(summarizer))))


def _chosen(settings: CompactionSettings, preset: Preset | None, max_tokens: int) -> CompactionSettings:
    """The settings for a list of its own: no answer follows it, so that nothing is kept free."""
    changed = {
        "preset": preset,
        "context_window": max_tokens,
        "output_reserve": 0,
        "summary_input_tokens": settings.summary_input_tokens or max(SUMMARY_INPUT, max_tokens // 2),
    }
    return effective(settings, changed)


def _climb(call: Call, given: list[AnyMessage], fallback_chain: FallbackChain) -> Effects[CompactionResult]:
    """Try level after level until the gate lets one pass."""
    before, finding, index = call.meter.request(given), Finding("noop", ""), 0
    while True:
        outcome = yield from _attempt(
            call, given, fallback_chain[index], before, is_last=index == len(fallback_chain) - 1
        )
        if not isinstance(outcome, Finding):
            after, text = outcome
            return _result(given, after, text, call.meter, verdict_of(fallback_chain, index))
        finding = outcome
        if index == len(fallback_chain) - 1:
            break
        index = after_failure(fallback_chain, index, finding)
    raise ContextExhaustedError(
        f"the messages hold {before} tokens and at most {call.sizes.limit} are wanted, {call.sizes.fixed} of them "
        f"for system messages; what must stay does not fit ({finding.reason}: {finding.detail})"
    )


def _attempt(
    call: Call, given: list[AnyMessage], level: Level, before: int, *, is_last: bool
) -> Effects[tuple[list[AnyMessage], str | None] | Finding]:
    """One level: the compacted list and its summary, or what was wrong."""
    pins = call.pinned_texts(given)

    def demanded(texts: Mapping[str, str]) -> Demand:
        goal = demand(call, trigger="manual", before=before, last=is_last, pins=pins, key_information=texts)
        goal = replace(goal, aim=goal.ceiling)  # nothing is said after it: no room is kept for more
        if level.is_deterministic and not is_last:
            goal = replace(goal, summary=max(goal.summary, int(call.sizes.room * DIGEST_SHARE)))
        return goal

    proposal = foreseen(call, given, level, demanded)
    chosen, goal = proposal.chosen, proposal.goal
    if isinstance(chosen, Finding):
        return chosen
    extra = beside(
        call,
        level,
        given,
        chosen.drop,
        tokens=chosen.tokens,
        ceiling=chosen.ceiling,
        key_information=proposal.key_information,
    )
    written = None
    if needs_summary(call.settings, chosen, goal):
        budget = _budget(call, level, chosen, goal, extra)
        clip = {message_id(given[index]): message for index, message in chosen.clip.items()}
        work = Work(
            call=call,
            level=level,
            messages=given,
            drop=chosen.drop,
            budget=budget,
            sections=chosen.sections,
            clip=clip,
        )
        written = yield from summarize_by_sections(work)
        if written.finding:
            return written.finding
    after, text = _after(given, chosen, written, extra)
    needed = () if is_last or written is None else extra.facts.needed
    judged = judge(call, given, after, ceiling=chosen.ceiling, floor=chosen.floor, needed=needed)
    return judged or (after, text)


def _budget(call: Call, level: Level, chosen: Selection, goal: Demand, extra: Beside) -> int:
    tokens, ceiling = chosen.tokens, chosen.ceiling
    return summary_budget(_generous(call, level), level, goal, tokens=tokens, ceiling=ceiling, extra=extra)


def _generous(call: Call, level: Level) -> Call:
    """A model's summary may hold half of the list, an extracted one all of it, unless the settings say how much."""
    usual = call.sizes.window if level.is_deterministic else call.sizes.window // 2
    most = call.settings.summary_max_tokens or max(1, usual)
    return replace(call, settings=call.settings.model_copy(update={"summary_max_tokens": most}))


def _after(
    given: list[AnyMessage], chosen: Selection, written: WrittenSummary | None, extra: Beside
) -> tuple[list[AnyMessage], str | None]:
    ids = [message_id(message) for message in given]
    summary = extra.message(written.body, uuid4().hex[:16], written.record) if written else None
    after = applied_to(
        given,
        drop=[ids[index] for index in chosen.drop],
        clip={ids[index]: message for index, message in chosen.clip.items()},
        summary=summary,
    )
    return after, written.body if written else None


def _result(
    before: list[AnyMessage], after: list[AnyMessage], summary: str | None, meter: Meter, verdict: str
) -> CompactionResult:
    left = {message.id for message in after}
    gone = [index for index, message in enumerate(before) if message.id not in left]
    starts = set(Transcript(before).round_starts)
    return CompactionResult(
        new_messages=after,
        summary=summary,
        original_token_count=meter.request(before),
        new_token_count=meter.request(after),
        compacted_rounds=len(starts & set(gone)),
        compacted_messages=len(gone),
        verdict=verdict,
    )


def _checked(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    seen: set[str] = set()
    for position, message in enumerate(messages):
        if not isinstance(message, BaseMessage) or isinstance(message, BaseMessageChunk):  # pyright: ignore[reportUnnecessaryIsInstance] # callers err
            raise InvalidMessagesError(f"item {position} is a {type(message).__name__}, not a whole message")
        if message.id and message.id in seen:
            raise InvalidMessagesError(f"message {position} has the id {message.id!r} of an earlier message")
        seen.add(message.id or "")
    return with_ids(messages)
