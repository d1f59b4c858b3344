"""The pure parts of a compaction: choose messages to remove, size the summary, apply the draft, judge the result.

All ways of running the nodes share these functions; the summarizer's calls are in `summarize_chunks.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from ..compaction_request import WISHES
from ..config.settings import CompactionSettings
from ..config.summary_format import DEFAULT_FORMAT, FormatChoice
from ..conversation.message_marks import earlier_summary, is_summary, pinned_texts
from ..conversation.redaction import Redaction
from ..conversation.sizes import Meter, Sizes
from ..conversation.transcript import Transcript, message_id
from ..digest.digest import NO_FACTS, Facts, facts_of
from ..events import Counts
from ..gate.invariants import Bounds, Finding, Required, broken_invariant
from ..selection.hiding import hide_oldest
from ..selection.selector import Demand, Selection, Selector
from ..selection.strategies.registry import BUILT_IN, Strategy
from ..selection.strategy_chain import choose, forced
from ..summary.fallback_chain import Level
from ..summary.summarizers import DigestSummarizer
from ..summary.summary_message import EARLIER_HANDLES, handles_of, summary_message

LEAST_SUMMARY = (12, 40)
"""Tokens of the shortest summary worth planning for: a notice, and a line of facts in a larger room."""
STEP = (99_999, 99_999)
"""More calls and results than any step has, so that no sentence about a real step is longer than one about these."""
LEAST_FACTS = 12
"""Fewest tokens of the facts beside a summary; with a smaller budget no facts are added."""
SMALL_SUMMARY = 1_024
DECISIVE = 0.8
BEYOND_AIM = 5
"""The divisor for the share of the room (a fifth) up to which a summary may take the result beyond the aim."""
DIGEST_SHARE = 0.5
"""Share of the room that is kept free for an extracted summary that may fill the window: the extracted facts are
worth more than the messages that they displace (benchmarks/what_survives.py)."""
ANY_ID = "a0" * 8
"""Placeholder for a compaction id that is not known yet; no real id has more tokens."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """The conditions of one call of one model: settings, sizes, and how requests are measured."""

    settings: CompactionSettings
    sizes: Sizes
    meter: Meter
    pins: frozenset[str] = frozenset()
    """Ids of pinned messages."""
    redaction: Redaction | None = None
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: BUILT_IN)
    names_handles: bool = False
    """Whether a summary names the handles by which its messages can be recalled from the archive."""
    fills_window: bool = False
    """Whether the result may fill the window, because no answer and no further input follow it."""

    def redacted(self, message: AnyMessage) -> AnyMessage:
        """Return the message, redacted for summarizer, facts and ledger."""
        return self.redaction.message(message) if self.redaction else message

    def pinned_texts(self, messages: Sequence[AnyMessage]) -> tuple[str, ...]:
        """Return the texts that the user pinned, as far as they take no more than half of the room."""
        return pinned_texts(messages, self.meter.unscaled(self.sizes.room // 2), self.meter.counter)

    def selector(self, messages: Sequence[AnyMessage]) -> Selector:
        """Return the selector by which strategies choose messages of this conversation."""
        return Selector(Transcript(messages), self.settings, self.meter, self.pins)


@dataclass(frozen=True, kw_only=True)
class SummaryParts:
    """The parts of a summary's message that do not come from the summarizer."""

    pins: tuple[str, ...] = ()
    facts: Facts = NO_FACTS
    key_information: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts of the key information by name, in the order of the message."""
    format_choice: FormatChoice = DEFAULT_FORMAT
    """The form of the summary's message."""
    handles: tuple[str, ...] | None = None
    """Ids of earlier compactions that the message names for `recall`, after its own id; `None` names no id at all."""
    step: tuple[int, int] | None = None
    """Numbers of tool calls, and of those with a result, in a step removed before the model has answered to it."""

    def message(self, body: str, compaction_id: str, record: Mapping[str, Any] | None = None) -> HumanMessage:
        """Return the message that holds this summary and these parts."""
        return summary_message(
            body,
            compaction_id,
            record,
            pins=self.pins,
            facts=self.facts,
            key_information=self.key_information,
            format_choice=self.format_choice,
            handles=self.handles,
            step=self.step,
        )


NO_PARTS = SummaryParts()


TOKEN_TRIGGERS = frozenset({"input", "precheck", "check"})
"""Triggers that count tokens: a result must get below their threshold. For others the ceiling is the limit."""


def demand(
    call: Call,
    *,
    trigger: str,
    before: int,
    last: bool,
    pins: Sequence[str] = (),
    max_messages: int | None = None,
    summarize_all: bool = False,
    key_information: Mapping[str, str] | None = None,
    answered: bool = False,
    extracted: bool = False,
) -> Demand:
    """Return the demand on a result: below the trigger; at most the limit for other triggers and the last level.

    `pins` and `key_information` are the texts that a summary has to carry; `max_messages` and `summarize_all` come
    from the trigger. After the provider's refusal our count is known to be too low, so the result must be a fifth
    smaller. After the turn is `answered`, no request has to fit: at the next input the answered round is old.
    `extracted` says that the summary is made without a model; if the result may fill the window, half of the room is
    kept for such a summary.
    """
    sizes, token_trigger = call.sizes, trigger in TOKEN_TRIGGERS
    ceiling = sizes.trigger - 1 if token_trigger and not last else sizes.limit
    if trigger == "overflow":
        ceiling = min(ceiling, int(before * DECISIVE))
    ceiling = min(ceiling, before - 1)
    named = (ANY_ID,) * (0 if last else EARLIER_HANDLES) if call.names_handles else None
    told = {} if last or key_information is None else key_information
    format_choice = _format_choice(call.settings, 1, last=last)
    around = SummaryParts(pins=tuple(pins), key_information=told, format_choice=format_choice, handles=named)
    least = frame(call, around) + _least(call)
    spacious = call.fills_window and extracted and not last
    return Demand(
        before=before,
        ceiling=ceiling,
        aim=ceiling if call.fills_window else min(sizes.aim, ceiling),
        summary=max(least, int(sizes.room * DIGEST_SHARE)) if spacious else least,
        least=least,
        messages=max_messages,
        summarize_all=summarize_all,
        must_fit=trigger == "overflow" or (before > sizes.limit and (not answered or trigger in WISHES)),
        step_notice=frame(call, replace(around, step=STEP)) - frame(call, around),
    )


def _format_choice(settings: CompactionSettings, rounds: int, *, last: bool) -> FormatChoice:
    """Return the form of the summary's message that `rounds` whole rounds follow; the shortest on the last level."""
    return FormatChoice("record" if last else settings.summary_form, settings.language, rounds)


def _least(call: Call) -> int:
    low, high = LEAST_SUMMARY
    return call.meter.scaled(min(high, max(low, call.sizes.room // 20)))


def frame(call: Call, parts: SummaryParts) -> int:
    """Return the tokens of a summary's message with a dot for the summary, because white space would count less."""
    return call.meter.scaled(call.meter.counter.message(parts.message(".", ANY_ID)))


def propose(call: Call, messages: Sequence[AnyMessage], level: Level, goal: Demand) -> Selection | Finding:
    """Choose messages to remove and to shorten; a `Finding` if no choice fits or nothing can be removed.

    If no choice gets below the trigger, the limit is the ceiling: a full summary at the limit is better than the
    last level's notice. If even this does not fit and the request must, the model's own last step is removed too.
    """
    selector = call.selector(messages)
    if level.hides:
        chosen: Selection | None = hide_oldest(selector, goal)
    else:
        wide = _widened(call, goal)
        chosen = (
            choose(selector, goal, call.strategies)
            or choose(selector, wide, call.strategies)
            or forced(selector, wide)
        )
    if chosen is None:
        return Finding("rejected_insufficient", "no_selection_fits", f"ceiling {goal.ceiling} tokens")
    rewrites = all(is_summary(messages[index]) for index in chosen.drop) and goal.before < call.sizes.trigger
    if not chosen.clip and (not chosen.drop or rewrites):
        return Finding("noop", "nothing_old")
    return chosen


def _widened(call: Call, goal: Demand) -> Demand:
    return replace(goal, ceiling=max(goal.ceiling, min(call.sizes.limit, goal.before - 1)))


def needs_summary(settings: CompactionSettings, chosen: Selection, goal: Demand) -> bool:
    """Whether to write a summary: the settings or the choice require one, or the result misses the aim."""
    if not chosen.drop or chosen.summarize is False:
        return bool(chosen.drop) and chosen.owes_summary
    wanted = settings.summary_mode != "if_needed" or bool(chosen.summarize) or chosen.owes_summary
    return wanted or chosen.tokens > goal.aim


def summary_parts(
    call: Call,
    level: Level,
    messages: Sequence[AnyMessage],
    drop: Collection[int],
    *,
    tokens: int,
    ceiling: int,
    key_information: Mapping[str, str] | None = None,
) -> SummaryParts:
    """Return the parts of the summary's message that the summarizer does not write: pins, facts, key information.

    Pinned texts are those of the messages to be removed. Facts take at most `facts_share` of the room and at most
    half of the space under the ceiling; a digest has its facts in its own text. `tokens` is the size of the request
    without a summary.
    """
    leaving = [messages[index] for index in sorted(drop)]
    gone = set(call.pinned_texts(leaving))
    pins = tuple(pin for pin in call.pinned_texts(messages) if pin in gone)
    view = Transcript(messages)
    stay = len(set(view.round_starts) - {view.pending_user, *drop})
    earlier_names = () if level.hides else handles_of(leaving)
    always = SummaryParts(
        pins=pins,
        key_information=key_information or {},
        format_choice=_format_choice(call.settings, stay, last=level.hides),
        handles=earlier_names if call.names_handles else None,
        step=view.last_step(drop),
    )
    if not call.settings.facts_beside_summary or isinstance(level.summarizer, DigestSummarizer):
        return always
    space = ceiling - tokens - frame(call, replace(always, facts=Facts(text="."))) - _least(call)
    budget = call.meter.unscaled(min(int(call.sizes.room * call.settings.facts_share), space // 2))
    if budget < LEAST_FACTS:
        return always
    old = [call.redacted(message) for message in leaving if not is_summary(message)]
    earlier = earlier_summary(leaving)
    facts = facts_of(old, earlier.facts or earlier.record, budget=budget, counter=call.meter.counter)
    return replace(always, facts=facts)


def summary_budget(
    call: Call, level: Level, goal: Demand, *, tokens: int, ceiling: int, extra: SummaryParts = NO_PARTS
) -> int:
    """Return the most tokens of the summary's text, by the counter; `tokens` is the request without the summary.

    The result should end at the aim. If this leaves less than a fifth of the room for the summary, the summary may
    take half of the space under the ceiling, up to that fifth, but never more than `summary_max_tokens`. The other
    parts of the message (`extra`) are counted with the request.
    """
    taken, cap = tokens + frame(call, extra), call.settings.summary_max_tokens or _usual(call, level)
    space = ceiling - taken
    wanted = max(goal.aim - taken, min(space // 2, call.sizes.room // BEYOND_AIM), _least(call))
    return max(1, min(cap, call.meter.unscaled(min(wanted, space))))


def _usual(call: Call, level: Level) -> int:
    sizes = call.sizes
    if call.fills_window:
        return sizes.window if level.is_deterministic else max(1, sizes.window // 2)
    usual = max(sizes.window // 20, min(sizes.room // 4, SMALL_SUMMARY))
    return usual + int(sizes.room * call.settings.facts_share) if level.is_deterministic else usual


def applied_to(
    messages: Sequence[AnyMessage],
    *,
    drop: Sequence[str],
    clip: Mapping[str, AnyMessage],
    summary: AnyMessage | None,
) -> list[AnyMessage]:
    """Return the conversation with a draft applied: the summary stands where the first dropped message stood."""
    gone, result, placed = set(drop), list[AnyMessage](), summary is None
    for message in messages:
        if message_id(message) not in gone:
            result.append(clip.get(message_id(message), message))
        elif not placed and summary is not None:
            result.append(summary)
            placed = True
    return result


def judge(
    call: Call,
    before: Sequence[AnyMessage],
    after: Sequence[AnyMessage],
    *,
    ceiling: int,
    floor: int,
    needed: Sequence[Sequence[str]] = (),
) -> Finding | None:
    """Ask the gate whether `after` may take the place of `before`; `needed` are the words of required facts."""
    bounds = Bounds(before=call.meter.request(before), ceiling=ceiling)
    required = Required(pins=call.pinned_texts(before), facts=needed)
    return broken_invariant(call.selector(before), after, bounds, floor=floor, required=required)


def counts_of(values: Mapping[str, int] | None) -> Counts:
    """Return the counts of a stored draft as an object."""
    return Counts(**(values or {}))
