"""The parts of a compaction that call neither model nor database: choose messages, size the summary, apply the draft.

All ways of running the nodes share these functions; the summarizer's calls are in `summarize_chunks.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AnyMessage, HumanMessage

from ..compaction_request import WISHES
from ..config.prices import PRICES, Price
from ..config.settings import CompactionSettings
from ..config.summary_format import FORMATS, MessageFormat
from ..conversation.clipping import clip_at_sentence_end
from ..conversation.message_marks import earlier_summary, is_summary
from ..conversation.pin_tags import pinned_texts
from ..conversation.redaction import Redaction
from ..conversation.request import Meter
from ..conversation.transcript import Transcript, message_id
from ..conversation.window_and_reserve import Sizes
from ..digest.digest import BESIDE_SUMMARY, Digest, digest, tokens_of_words, words_of
from ..digest.listed_sentences import NOTHING_LISTED, ListedSentences
from ..gate.invariants import Bounds, Finding, broken_invariant
from ..selection.hiding import hide_oldest
from ..selection.oversize_step import forced
from ..selection.selector import Choice, Demand, Selection, Selector
from ..selection.strategies.registry import BUILT_IN, Strategy
from ..selection.strategy_chain import choose, shortened
from ..summary.chunks import old_part
from ..summary.fallback_chain import Level
from ..summary.summarizers import AcceptSummary, DigestSummarizer
from ..summary.summary_message import EARLIER_HANDLES, NO_PARTS, SummaryParts, handles_of

LEAST_SUMMARY = (12, 40)
"""Smallest number of tokens reserved for a summary, in a small room and in a large one: enough for a notice, and for
a line of facts."""
STEP = (99_999, 99_999)
"""Numbers of calls and results from which the tokens of the sentence about a removed step are computed in advance.
They are larger than those of any real step, so the real sentence is not longer."""
MODEL_SUMMARY = 160
"""Tokens reserved for a model's summary in a large room if the result may fill the window: models seldom write
shorter ones."""
LEAST_FACTS = 12
"""Fewest tokens of the facts beside a summary; with a smaller budget no facts are added."""
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
MOST_CUT, JOINTS = 0.25, 3
"""Largest share of a summary that is cut off where the summary exceeds its space, and number of tokens that texts
may take in addition where they are joined."""
WORDS_SHARE = 0.15
"""Largest share of the room that the user's own words take beside a summary that a model writes."""
SMALL_SUMMARY = 1_024
DECISIVE = 0.8
BEYOND_AIM = 5
"""If the aim leaves little room for the summary, the summary may take up to the room divided by this number (a
fifth), and the result may be larger than the aim."""
DIGEST_SHARE = 0.5
"""Share of the room that is reserved for a digest if the result may fill the window: the facts in a digest are worth
more than the messages that would otherwise stay (benchmarks/what_survives.py)."""
ANY_ID = "a0" * 8
"""Stands for a compaction id that is not known yet when the tokens of a summary's message are counted; no real id has
more tokens."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """The conditions of one call of one model: settings, sizes, and how requests are measured."""

    settings: CompactionSettings
    sizes: Sizes
    meter: Meter
    pins: frozenset[str] = frozenset()
    """Ids of pinned messages."""
    said: frozenset[str] = frozenset()
    """Ids of messages that stay as pinned ones do, but take no room from pins: the answer of a turn that is over."""
    redaction: Redaction | None = None
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: BUILT_IN)
    names_handles: bool = False
    """Whether a summary names the handles by which its messages can be recalled from the archive."""
    fills_window: bool = False
    """Whether the result may fill the window, because no answer and no further input follow it."""
    summary_input: int | None = None
    """Most tokens of a conversation that a summarizer is shown in one call; `None`: the models' windows decide."""
    accept_summary: AcceptSummary | None = None
    """The application's own check of a model's summary, in place of the check by shared words."""
    prices: Mapping[str, Price] = field(default_factory=lambda: PRICES)
    """What models cost, by the beginnings of their names."""

    def redacted(self, message: AnyMessage) -> AnyMessage:
        """Return the message, redacted for summarizer, facts and ledger."""
        return self.redaction.message(message) if self.redaction else message

    def pinned_texts(self, messages: Sequence[AnyMessage]) -> tuple[str, ...]:
        """Return the texts that the user pinned, as far as pins take no more than half of the room together."""
        pinned = Selector(Transcript(messages), self.settings, self.meter, self.pins).pinned_tokens
        left = max(0, self.sizes.most_pinned - pinned)
        return pinned_texts(messages, self.meter.unscaled(left), self.meter.counter)

    def selector(self, messages: Sequence[AnyMessage]) -> Selector:
        """Return the selector by which strategies choose messages of this conversation."""
        return Selector(Transcript(messages), self.settings, self.meter, self.pins | self.said)


TOKEN_TRIGGERS = frozenset({"input", "precheck", "check"})
"""Triggers that compare tokens: after them, a result must be smaller than the trigger, else it would fire again at
once. After any other trigger, a result must only fit under the limit."""


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
    words: int = 0,
    left_out: Collection[str] = (),
) -> Demand:
    """Return the sizes that the result of a compaction must have, which depend on the `trigger` that started it.

    If a trigger by tokens started it, the result must be smaller than that trigger, but on the last level, and after
    any other trigger, it may be as large as the limit.

    `pins` and `key_information` are the texts that a summary has to carry; `max_messages` and `summarize_all` come
    from the trigger. If the provider refused the request, our count was too low, so the result must be a fifth
    smaller than `before`. If the turn is already `answered`, the result may exceed the limit: at the next input the
    answered round can be summarized too. `extracted` says that the summary is made without a model: it covers dropped
    messages only, and if the result may fill the window, half of the room is reserved for it. `words` are the tokens
    of the user's own words (`words_beside`), which are reserved as well, `left_out` the strategies not to ask.
    """
    sizes, token_trigger = call.sizes, trigger in TOKEN_TRIGGERS
    ceiling = sizes.trigger - 1 if token_trigger and not last else sizes.limit
    if trigger == "overflow":
        ceiling = min(ceiling, int(before * DECISIVE))
    ceiling = min(ceiling, before - 1)
    named = (ANY_ID,) * (0 if last else EARLIER_HANDLES) if call.names_handles else None
    told = {} if last or key_information is None else key_information
    form = _format(call.settings, last=last)
    around = SummaryParts(pins=tuple(pins), key_information=told, form=form, handles=named)
    framed, body = frame(call, around), _notice(call) if last else _least(call)
    least = framed + body
    by_model, spacious = not extracted and not last, call.fills_window and extracted and not last
    if by_model and call.fills_window:
        body = call.meter.scaled(min(MODEL_SUMMARY, sizes.room // 20))
    must_fit = trigger == "overflow" or (before > sizes.limit and (not answered or trigger in WISHES))
    at_last = None
    if must_fit and not last:  # only then may the user's message be shortened
        at_last = demand(call, trigger=trigger, before=before, last=True, pins=pins, answered=answered)
    return Demand(
        before=before,
        ceiling=ceiling,
        aim=ceiling if call.fills_window else min(sizes.aim, ceiling),
        summary=max(least, int(sizes.room * DIGEST_SHARE)) if spacious else framed + body + words,
        least=least,
        messages=max_messages,
        summarize_all=summarize_all,
        by_model=by_model,
        must_fit=must_fit,
        step_notice=frame(call, replace(around, step=STEP)) - framed,
        left_out=frozenset(left_out),
        at_last=at_last,
    )


def _format(settings: CompactionSettings, *, last: bool) -> MessageFormat:
    """Return the format of a summary's message; on the last level the shortest one."""
    return FORMATS["terse" if last else settings.policy.form, settings.language]


def _notice(call: Call) -> int:
    """Return the tokens of the shortest text of a summary: the notice that messages are no longer in view."""
    return call.meter.scaled(LEAST_SUMMARY[0])


def _least(call: Call) -> int:
    low, high = LEAST_SUMMARY
    return call.meter.scaled(min(high, max(low, call.sizes.room // 20)))


def frame(call: Call, parts: SummaryParts) -> int:
    """Return the tokens that a summary's message has beside the summary itself.

    A dot stands for the summary, because around an empty text white space would be merged and count less.
    """
    return call.meter.scaled(call.meter.counter.message(parts.message(".", ANY_ID)))


def shortest_summary(call: Call) -> int:
    """Return the tokens of the summary of the last level, with the sentence about a removed step."""
    parts = SummaryParts(
        form=_format(call.settings, last=True),
        handles=(ANY_ID,) if call.names_handles else None,
        step=STEP,
    )
    return frame(call, parts) + _notice(call)


def words_beside(call: Call, messages: Sequence[AnyMessage]) -> int:
    """Return the tokens to reserve for the user's own words beside a summary, at most their share of the room."""
    if not call.settings.policy.facts_beside_summary:
        return 0
    earlier = earlier_summary(messages)
    old = [call.redacted(message) for message in messages if not is_summary(message)]
    needed = tokens_of_words(words_of(old, earlier.facts or earlier.record), call.meter.counter)
    return min(call.meter.scaled(needed), _most_for_words(call))


def _most_for_words(call: Call) -> int:
    return int(call.sizes.room * WORDS_SHARE)


def propose(
    call: Call, messages: Sequence[AnyMessage], level: Level, goal: Demand, prepared: Choice | None = None
) -> Selection | Finding:
    """Choose messages to remove and to shorten; a `Finding` if no choice fits or nothing can be removed.

    If a summary of a choice was `prepared` ahead, it is this choice, and strategies are not asked.

    If no choice makes the request smaller than the trigger, one that fits under the limit is accepted: a summary of
    everything is better than the notice of the last level. If even this is not possible and the request cannot be
    sent as it is, results that the model has not read yet are shortened to the room that is left, and at last their
    tool blocks are removed too. A user message that the model has not read is shortened only if the last level does
    so too.
    """
    selector = call.selector(messages)
    if prepared is not None:
        chosen: Selection | None = _prepared(selector, goal, prepared)
    elif level.hides:
        chosen = hide_oldest(selector, goal)
    else:
        wide = replace(goal, ceiling=max(goal.ceiling, min(call.sizes.limit, goal.before - 1)))
        chosen = (
            choose(selector, goal, call.strategies)
            or choose(selector, wide, call.strategies)
            or shortened(selector, wide if goal.before > call.sizes.limit else goal, call.strategies)
            or forced(selector, wide)
        )
        if chosen is not None and selector.shortens_input(chosen) and _is_kept_at_last(selector, goal):
            chosen = None
    if chosen is None:
        return Finding("rejected_insufficient", "no_selection_fits", f"ceiling {goal.ceiling} tokens")
    fits = goal.before < call.sizes.trigger and not goal.must_fit
    rewrites = fits and all(is_summary(messages[index]) for index in chosen.drop)
    if not chosen.clip and (not chosen.drop or rewrites):
        return Finding("noop", "nothing_old")
    return chosen


def _prepared(selector: Selector, goal: Demand, choice: Choice) -> Selection | None:
    """Return the selection of a choice that was made earlier; `None` if it is not allowed now, or does not fit."""
    found = selector.resolve(goal, choice)
    fits = found.tokens + goal.summary <= goal.ceiling
    return found if fits and found.drop == choice.drop and found.sections == choice.sections else None


def _is_kept_at_last(selector: Selector, goal: Demand) -> bool:
    """Whether the last level, whose summary is the shortest, keeps the user's message as it is."""
    if goal.at_last is None:
        return False
    chosen = hide_oldest(selector, goal.at_last)
    fits = chosen.tokens + (goal.at_last.summary if chosen.drop else 0) <= goal.at_last.ceiling
    return fits and not selector.shortens_input(chosen)


def needs_summary(settings: CompactionSettings, chosen: Selection, goal: Demand) -> bool:
    """Whether to write a summary: the settings or the choice require it, or without it the result exceeds the aim."""
    if not chosen.may_be_summarized(goal):
        return False
    if settings.summary_mode != "if_needed" or chosen.summarize is not None:
        return True
    return bool(chosen.drop) and (chosen.owes_summary or chosen.tokens > goal.aim)


def summary_parts(
    call: Call,
    level: Level,
    messages: Sequence[AnyMessage],
    drop: Collection[int],
    *,
    clip: Collection[str] = (),
    tokens: int,
    ceiling: int,
    key_information: Mapping[str, str] | None = None,
    listed: ListedSentences = NOTHING_LISTED,
) -> SummaryParts:
    """Return the parts of the summary's message that the summarizer does not write: pins, facts, key information.

    Pinned texts are those of the messages to be removed. Facts take at most their share of the room and at most
    half of the space under the ceiling; the user's own words come first and take at most `WORDS_SHARE` of the room. A
    digest has both in its own text. `clip` holds the ids of the shortened messages, whose facts are added if the
    summary covers these messages (`shortened_blocks`). `tokens` is the size of the request without a summary.
    `listed` are the sentences that the model listed next to its summary.
    """
    leaving = [messages[index] for index in sorted(drop)]
    gone = set(call.pinned_texts(leaving))
    pins = tuple(pin for pin in call.pinned_texts(messages) if pin in gone)
    view = Transcript(messages)
    earlier_names = () if level.hides else handles_of(leaving)
    always = SummaryParts(
        pins=pins,
        key_information=key_information or {},
        form=_format(call.settings, last=level.hides),
        handles=earlier_names if call.names_handles else None,
        step=view.last_step(drop),
    )
    if not call.settings.policy.facts_beside_summary or isinstance(level.summarizer, DigestSummarizer):
        return always
    space = ceiling - tokens - frame(call, replace(always, facts=Digest("."))) - _least(call)
    covered = {*drop, *shortened_blocks(messages, drop, clip)}
    old = [call.redacted(message) for message in old_part(messages, frozenset(covered))]
    earlier, counter = earlier_summary(leaving), call.meter.counter
    known = earlier.facts or earlier.record
    beside = [call.redacted(message) for message in _after(messages, drop)]
    said = words_of(old, known, beside, listed=listed)
    words = min(tokens_of_words(said, counter), call.meter.unscaled(min(_most_for_words(call), space)))
    share = min(int(call.sizes.room * call.settings.policy.facts_share), (space - call.meter.scaled(words)) // 2)
    budget = words + call.meter.unscaled(share)
    if budget < LEAST_FACTS:
        return always
    facts = digest(
        old,
        budget=budget,
        counter=counter,
        previous=known,
        sections=BESIDE_SUMMARY,
        beside=beside,
        words_first=words,
        said=said,
        listed=listed,
    )
    return replace(always, facts=facts)


def _after(messages: Sequence[AnyMessage], drop: Collection[int]) -> list[AnyMessage]:
    """Return the kept messages after the last removed message that a user wrote or that is a summary."""
    last = max((index for index in drop if isinstance(messages[index], HumanMessage)), default=-1)
    return [message for index, message in enumerate(messages) if index > last and index not in drop]


def fitted_summary(call: Call, body: str, *, tokens: int, ceiling: int, extra: SummaryParts = NO_PARTS) -> str:
    """Return a summary that exceeds the space under the ceiling a little, cut at the end of a sentence.

    A summary that has no end of a sentence there, or of which more than `MOST_CUT` would be lost, is returned as it
    is, for the gate to refuse. The other arguments are those of `summary_budget`.
    """
    space = _space(call, tokens=tokens, ceiling=ceiling, extra=extra)
    if call.meter.counter.text(body) <= space or space <= 0:
        return body
    cut = clip_at_sentence_end(body, counter=call.meter.counter, tokens=space)
    ends = cut.endswith(SENTENCE_ENDS) or body[len(cut) : len(cut) + 1] == "\n"
    return cut if ends and len(cut) >= len(body) * (1 - MOST_CUT) else body


def has_space(call: Call, body: str, *, tokens: int, ceiling: int, extra: SummaryParts) -> bool:
    """Whether a summary fits under the ceiling next to the other parts of its message."""
    return call.meter.counter.text(body) <= _space(call, tokens=tokens, ceiling=ceiling, extra=extra)


def _space(call: Call, *, tokens: int, ceiling: int, extra: SummaryParts) -> int:
    """Return the most tokens that a summary's text may have next to the other parts of its message."""
    return call.meter.unscaled(ceiling - tokens - frame(call, extra)) - JOINTS


def summary_budget(
    call: Call, level: Level, goal: Demand, *, tokens: int, ceiling: int, extra: SummaryParts = NO_PARTS
) -> int:
    """Return the maximum number of tokens of a summary's text; `tokens` is the size of the request without it.

    The result should end at the aim. If this leaves less than a fifth of the room for the summary, the summary may
    take half of the space under the ceiling, up to that fifth, but never more than `_longest`. The other parts of the
    message (`extra`) are counted with the request.
    """
    taken, cap = tokens + frame(call, extra), _longest(call, level)
    space = ceiling - taken - JOINTS
    wanted = max(goal.aim - taken, min(space // 2, call.sizes.room // BEYOND_AIM), _least(call))
    return max(1, min(cap, call.meter.unscaled(min(wanted, space))))


def _longest(call: Call, level: Level) -> int:
    """Return the most tokens of a summary, whatever room there is."""
    sizes = call.sizes
    if call.fills_window:
        return sizes.window if level.is_deterministic else max(1, sizes.window // 2)
    usual = max(sizes.window // 20, min(sizes.room // 4, SMALL_SUMMARY))
    return usual + int(sizes.room * call.settings.policy.facts_share) if level.is_deterministic else usual


def shortened_blocks(messages: Sequence[AnyMessage], drop: Collection[int], clip: Collection[str]) -> frozenset[int]:
    """Return the indexes of the tool blocks that a model's summary covers because their messages are shortened.

    `drop` holds indexes of the removed messages, `clip` ids of the shortened ones. There are no such blocks if a
    message other than an earlier summary is removed: the summary then covers the removed messages, and the originals
    of the shortened ones are summarized when these are removed later.
    """
    if not all(is_summary(messages[index]) for index in drop):
        return frozenset()
    named = {index for index, message in enumerate(messages) if message_id(message) in clip}
    blocks = (block.indexes for block in Transcript(messages).blocks)
    return frozenset(index for indexes in blocks if not named.isdisjoint(indexes) for index in indexes)


def judge(
    call: Call,
    before: Sequence[AnyMessage],
    after: Sequence[AnyMessage],
    *,
    ceiling: int,
    floor: int,
) -> Finding | None:
    """Ask the gate whether `after` may take the place of `before`."""
    bounds = Bounds(before=call.meter.request(before), ceiling=ceiling)
    return broken_invariant(call.selector(before), after, bounds, floor=floor, pins=call.pinned_texts(before))
