"""Summarize the removed messages in chunks, so that the summarizer reads all of them; failures become findings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from time import perf_counter
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.usage import FREE, Usage

from ..config.prices import Price
from ..config.prompts import WORDINGS, is_tagged
from ..conversation.clipping import clip_at_sentence_end
from ..conversation.message_marks import EarlierSummary, earlier_summary
from ..conversation.transcript import message_id
from ..digest.listed_sentences import NOTHING_LISTED, ListedSentences, split_list
from ..gate.invariants import Finding
from ..gate.reply_checks import Reply, is_between_tags, mismatch, summary_text, text_of_reply
from ..selection.selector import Demand, Selection
from ..summary.chunks import Chunk, chunks, old_part
from ..summary.fallback_chain import Level
from ..summary.summarizers import DigestSummarizer, SummaryRequest, beginning_of
from .effects import Effects
from .engine import ANY_ID, Call, summary_budget, summary_parts
from .finish_attempt import failure
from .summarizer_call import SummaryTimeoutError, call

STALLED, LATE = "summary_timeout", "summary_deadline"
LEAST_PIECE = 500
"""Minimum size, in tokens, of the pieces into which a conversation is divided; for less, a call of its own is not
worth it."""
MOST = 2
"""A summary that only the next call reads, and that the conversation never holds, may be at most this many times as
long as the budget."""
BACKOFF_S = 0.5
"""Seconds before the first repeated call after a temporary failure; the pause doubles each time, with a random
part."""
ASKED_AGAIN = frozenset({"rejected_empty", "rejected_truncated", "rejected_inflated"})
"""Verdicts on a reply after which the same summarizer is asked again, with the defect named."""
CALLS = 3
"""Maximum number of calls for one request: the first one, and two more after failures or rejected replies."""
MOST_FAILED = 4
"""Maximum number of calls of one attempt that fail or whose reply is rejected."""
PIECES = 4
"""The size of a piece is the summarizer's input limit, or the conversation's size if that is smaller, divided by this
number."""


@dataclass(frozen=True, kw_only=True)
class WrittenSummary:
    """A summary, or why there is none, and what the calls of the summarizer cost."""

    body: str
    record: Mapping[str, Any] | None = None
    usage: Usage = FREE
    model: str | None = None
    seen: Mapping[str, Any] = field(default_factory=dict[str, Any])
    listed: ListedSentences = NOTHING_LISTED
    """The rules and decisions that the model listed next to its summary."""
    failed: int = 0
    """Number of calls that failed, or whose reply was rejected."""
    finding: Finding | None = None
    """The reason why the summarizer's last reply was refused; `None` if it was accepted as the summary."""

    def booked(self, reply: Reply, calls: int, prices: Mapping[str, Price]) -> "WrittenSummary":
        """Return the summary with the usage of this reply added, and with the number of calls that it took."""
        spent = replace(reply.usage(prices), calls=calls)
        return replace(self, usage=self.usage + spent, model=reply.model or self.model)


class TimeLeft:
    """The seconds that are left for the models of one compaction, as a clock measures them."""

    def __init__(self, seconds: float, clock: Callable[[], float] = perf_counter) -> None:
        self._seconds, self._clock, self._began = seconds, clock, clock()

    def passed(self) -> float:
        """Return the seconds since this object was made; 0 if the clock was set back."""
        return max(0.0, self._clock() - self._began)

    def left(self) -> float:
        """Return the seconds that are left, 0 or more."""
        return max(0.0, self._seconds - self.passed())

    def end(self) -> None:
        """Leave no time, because what is left is too short for a call."""
        self._seconds = 0.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """The task of one level: the messages to be removed, and the limits of their summary."""

    call: Call
    level: Level
    messages: Sequence[AnyMessage]
    drop: frozenset[int]
    shortened: frozenset[int] = frozenset()
    """Indexes of kept tool blocks with a shortened message, if the summary covers their originals."""
    budget: int
    """Most tokens of the summary's text."""
    originals: Mapping[str, AnyMessage] = field(default_factory=dict[str, AnyMessage])
    """By id, the originals of messages that an earlier compaction shortened: the summarizer reads the originals."""
    focus: str | None = None
    callbacks: Any = None
    configurable: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sections: tuple[frozenset[int], ...] = ()
    """Indexes of the removed messages of each part that is summarized separately, in order."""
    clip: Mapping[str, AnyMessage] = field(default_factory=dict[str, AnyMessage])
    """By id, the shortened forms of messages that are kept."""
    time: TimeLeft = field(default_factory=lambda: TimeLeft(math.inf))
    """The time in which models may be called."""
    behind: tuple[AnyMessage, ...] = ()
    """The agent's own request, behind which its model is asked if there is room; empty for other summarizers."""

    def earlier(self) -> EarlierSummary:
        """Return the text and record of the earlier summary among the messages to be removed."""
        return earlier_summary([self.messages[index] for index in sorted(self.drop)])

    def old(self) -> list[AnyMessage]:
        """Return the originals of the messages that the summary covers, redacted."""
        old = old_part(self.messages, self.drop | self.shortened)
        return [self.call.redacted(self.originals.get(message_id(message), message)) for message in old]

    @cached_property
    def stays(self) -> tuple[AnyMessage, ...]:
        """The messages that are kept, in their new form, redacted."""
        left = (message for index, message in enumerate(self.messages) if index not in self.drop)
        return tuple(self.call.redacted(self.clip.get(message_id(message), message)) for message in left)

    def parts(self) -> list[Chunk]:
        """Return the conversation in chunks, each of which the summarizer reads in one call."""
        old, counter = self.old(), self.call.meter.counter
        if self.level.is_deterministic:
            return [Chunk(tuple(old), "")]
        limit, guard = self._limit(), self.call.settings.policy.input_guard
        if self.level.in_pieces:
            whole = sum(counter.text(chunk.text) for chunk in chunks(old, limit, counter, guard))
            limit = max(LEAST_PIECE, min(limit, whole) // PIECES)
        return chunks(old, limit, counter, guard) or [Chunk((), "")]

    def _limit(self) -> int:
        """Return the most tokens of one chunk: 75 % of what the summarizer accepts, as far as that is known."""
        call, own = self.call, getattr(self.level.summarizer, "max_input_tokens", None) or 0
        usual = own * 3 // 4 or min(call.sizes.window * 3 // 4, call.sizes.limit * 9 // 10)
        return max(1, call.meter.unscaled(call.summary_input or usual))

    def request(self, part: Chunk, earlier: EarlierSummary, body: str) -> SummaryRequest:
        """Return the request to add one chunk to the summary so far."""
        settings = self.call.settings
        return SummaryRequest(
            messages=part.messages,
            conversation=part.text,
            earlier=body or None,
            record=earlier.record,
            facts=earlier.facts,
            stays=self.stays,
            max_tokens=self.budget,
            counter=self.call.meter.counter,
            focus=self.focus,
            summary_prompt=settings.prompt,
            language=settings.language,
            max_chars=settings.summary_max_length,
            callbacks=self.callbacks,
            configurable=self.configurable,
            lists=bool(part.messages) and self._asks_for_list(),
        )

    def behind_request(self, request: SummaryRequest) -> SummaryRequest:
        """Return the request to be made behind the agent's own, if it fits there with its answer; else itself.

        Of several messages that begin alike, the model could not tell up to which one it is to summarize.
        """
        if not self.behind or self.level.in_pieces:
            return request
        if list(map(beginning_of, self.behind)).count(beginning_of(request.messages[-1])) != 1:
            return request
        asked, meter = replace(request, behind=self.behind), self.call.meter
        size = meter.request(self.messages) + meter.scaled(meter.counter.message(asked.prompt()[-1]) + self.budget)
        return asked if size <= self.call.sizes.limit else request

    def _asks_for_list(self) -> bool:
        """Whether the model is asked to list rules: they are shown beside its summary, which stands between tags."""
        settings = self.call.settings
        shown = settings.policy.facts_beside_summary and is_tagged(settings.prompt)
        return shown and not self.level.is_deterministic

    def joined(self, texts: Sequence[str]) -> list[Chunk]:
        """Return the pieces' summaries as quoted text, in as few chunks as the summarizer's input limit allows."""
        counter, groups, size = self.call.meter.counter, list[list[str]](), 0
        for place, text in enumerate(texts, 1):
            part = f'<part number="{place}">\n{escape(text, quote=False)}\n</part>'
            tokens = counter.text(part) + 1
            if not groups or size + tokens > self._limit():
                groups.append([])
                size = 0
            groups[-1].append(part)
            size += tokens
        return [Chunk((), "\n".join(group)) for group in groups]


def summarize(work: Work) -> Effects[WrittenSummary]:
    """Summarize the messages to be removed, chunk by chunk; each chunk updates the summary so far.

    A level in pieces summarizes each piece separately, and then the pieces' summaries together. A reply that is no
    summary is requested again, with the defect named, at most twice. No call begins that is not expected to end
    before the deadline.
    """
    earlier, parts = work.earlier(), work.parts()
    written = WrittenSummary(body=earlier.body, record=earlier.record)
    shown = parts
    if work.level.in_pieces:
        if len(parts) == 1:
            return replace(written, finding=Finding("rejected_insufficient", "no_smaller_pieces"))
        texts: list[str] = []
        for part in parts:
            request = work.request(part, EarlierSummary(), "")
            written = yield from _ask(work, request, written, most=MOST * work.budget)
            if written.finding:
                return written
            texts.append(written.body)
        shown = work.joined(texts)
        written = replace(written, body=earlier.body, record=earlier.record)
    for place, part in enumerate(shown, 1):
        so_far = replace(earlier, record=written.record)
        request = work.request(part, so_far, written.body)
        if len(shown) == 1 and part.messages:
            request = work.behind_request(request)
        written = yield from _ask(work, request, written, most=None if place == len(shown) else MOST * work.budget)
        if written.finding:
            return written
    return replace(written, seen=seen_of(parts))


def expected_summary(
    call: Call, level: Level, messages: Sequence[AnyMessage], goal: Demand, chosen: Selection
) -> int:
    """Return the tokens to expect of the summary's message: those of the digest, or what a model's is given room for.

    A model's summary counts with the facts that may stand beside it.
    """
    if not isinstance(level.summarizer, DigestSummarizer):
        policy, space = call.settings.policy, max(0, chosen.ceiling - chosen.tokens - goal.summary)
        facts = int(call.sizes.room * policy.facts_share) if policy.facts_beside_summary and not level.hides else 0
        return goal.summary + min(facts, space // 2)
    tokens, ceiling = chosen.tokens, chosen.ceiling
    extra = summary_parts(call, level, messages, chosen.drop, tokens=tokens, ceiling=ceiling)
    budget = summary_budget(call, level, goal, tokens=tokens, ceiling=ceiling, extra=extra)
    work = Work(call=call, level=level, messages=messages, drop=chosen.drop, budget=budget)
    earlier = work.earlier()
    reply = level.summarizer.summarize(work.request(work.parts()[0], earlier, earlier.body))
    written = limited(work, WrittenSummary(body=text_of_reply(reply)))
    return call.meter.scaled(call.meter.counter.message(extra.message(written.body, ANY_ID)))


def limited(work: Work, written: WrittenSummary) -> WrittenSummary:
    """Return the summary cut to the characters that the settings allow."""
    most, counter = work.call.settings.summary_max_length, work.call.meter.counter
    return replace(written, body=clip_at_sentence_end(written.body, counter=counter, characters=most))


def seen_of(parts: Sequence[Chunk]) -> dict[str, Any]:
    """Return what a summarizer read: ids of whole messages, and by id `[tokens shown, tokens]` of cut messages."""
    cut = {key: list(value) for part in parts for key, value in part.cut.items()}
    full = [message_id(m) for part in parts for m in part.messages if message_id(m) not in cut]
    return {"full": full, "cut": cut}


def _ask(work: Work, request: SummaryRequest, so_far: WrittenSummary, *, most: int | None) -> Effects[WrittenSummary]:
    """Make one request; repeat it after a transient error, and after a reply that is empty or was cut short.

    A reply whose content is no summary is not asked for again. `most` limits the tokens of a summary that only the
    next call reads; with `None` the gate judges the size later.
    """
    finding: Finding | None = None
    defect: str | None = None
    left, took = 1 if work.level.is_deterministic else CALLS, 0.0
    while (left := min(left, MOST_FAILED - so_far.failed)) > 0:
        until = work.time.left()
        if not work.level.is_deterministic and until <= took:
            work.time.end()
            return replace(so_far, finding=finding or _late(work))
        began, seconds = work.time.passed(), min(work.call.settings.summary_timeout_s, until)
        asked = replace(request, defect=defect)
        reply, calls = yield from call(work.level.summarizer, asked, seconds=seconds, calls=left, pause=BACKOFF_S)
        left, took = left - calls, work.time.passed() - began
        so_far = replace(so_far, failed=so_far.failed + calls)
        if not isinstance(reply, Reply):
            so_far = replace(so_far, usage=so_far.usage + Usage(calls=calls))
            finding = _failure(work, reply)
            if request.behind and finding.kind != "transient":
                request = replace(request, behind=())
                continue
            return replace(so_far, finding=finding)
        outcome, listed = _without_list(request, reply)
        if not work.level.is_deterministic:
            so_far = so_far.booked(outcome, calls, work.call.prices)
        text = _judged(work, request, outcome)
        if isinstance(text, str) and most is not None and (size := request.counter.text(text)) > most:
            text = Finding("rejected_inflated", "longer_than_asked", f"{size} tokens, asked for {work.budget}")
        if isinstance(text, str):
            failed = so_far.failed - 1
            return replace(so_far, body=text, record=outcome.record, listed=so_far.listed + listed, failed=failed)
        finding = text
        if request.behind:  # the model went on with its work, or something else there kept it from a summary
            request = replace(request, behind=())
            continue
        defect = text.reason
        if text.verdict not in ASKED_AGAIN or work.level.in_pieces:
            break
    return replace(so_far, finding=finding or Finding("failed_transient", "too_many_failed_calls", kind="transient"))


def _without_list(request: SummaryRequest, reply: Reply) -> tuple[Reply, ListedSentences]:
    """Return a reply without the list of rules that the request asked for, and what the list says."""
    if not request.lists:
        return reply, NOTHING_LISTED
    text = text_of_reply(reply)
    left, listed = split_list(text)
    return (reply if left == text else replace(reply, content=left)), listed


def _judged(work: Work, request: SummaryRequest, reply: Reply) -> str | Finding:
    """Return the summary in a reply, or why the reply is none. The content of a digest or a notice is not judged."""
    text = summary_text(reply)
    if isinstance(text, Finding) or work.level.is_deterministic:
        return text
    if request.behind and not is_between_tags(reply):
        return Finding("rejected_not_a_summary", "no_summary_tags", "the reply has no <summary> tags")
    if (accepts := work.call.accept_summary) is not None:
        accepted = accepts(text, request.messages)
        return (
            text if accepted else Finding("rejected_not_a_summary", "not_accepted", "accept_summary= returned False")
        )
    prompts = (request.summary_prompt, WORDINGS[request.language].update)
    shown = request.conversation if request.messages else ""  # the summary of one piece may be the summary of all
    return mismatch(text, conversation=shown, earlier=request.earlier or "", prompts=prompts) or text


def _late(work: Work) -> Finding:
    seconds = work.call.settings.summary_deadline_s
    return Finding("failed_transient", LATE, f"no summary within {seconds} s, twice summary_timeout_s", "transient")


def _failure(work: Work, error: Exception) -> Finding:
    """Return the verdict on a summarizer's error; after a time-out it is not asked again, which could end as late."""
    if not isinstance(error, SummaryTimeoutError):
        return failure(error, "summary_exception")
    if work.time.left() <= 0:
        return _late(work)
    return Finding("failed_transient", STALLED, str(error), "transient")
