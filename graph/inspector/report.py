"""A thread's course as plain data: what the page shows and `--json` prints. Sizes are tokens."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.compaction.transcript import summarized_by
from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    Runs,
    expand,
)
from langgraph_compaction.nodes.conversation.message_marks import is_pinned, is_summary
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, media_blocks, texts_of
from langgraph_compaction.nodes.summary.fallback_chain import COMMITTED

from .course import Course, Moment

PUT_OFF = frozenset({"noop", "declined", "deferred_cooldown", "stale", "recovered", "abandoned"})
"""Verdicts that are no failures, though nothing was compacted."""

_NOT_SHOWN = frozenset({"thread_id", "seen", "base_fingerprint"})


class Request(TypedDict):
    """One request to the model."""

    turn: int
    """Counted from 1."""
    at: str
    """When its answer was stored, or, without one, what it was made of; ISO 8601."""
    answered: bool
    """False where the call of the model failed."""
    tokens: int
    real: bool
    """Whether the provider reported the size; else the messages are counted, and what is known of the fixed part."""
    trigger: int | None
    """As the last compaction before it knew it; before the first, as that one did. `None` where there was none."""
    limit: int | None


class Shown(TypedDict):
    """A message, in the words that a provider is sent."""

    id: str
    handle: str
    role: str
    name: str
    text: str
    tokens: int
    summary: bool
    pinned: bool


class Attempt(TypedDict):
    """One attempt at a compaction; messages are named by their numbers in `Report.messages`."""

    row: dict[str, Any]
    """Figures, verdict, reason and detail from the ledger, and the summary where no message of it is known."""
    kind: str
    """`committed`, `failed`, `put off`, `undone`, `other branch` or `open`."""
    at: int
    """How many of the thread's requests had been answered when it began."""
    before: Runs
    """The messages that it began with."""
    after: Runs | None
    """The messages that it left; `None` where nothing changed or the checkpoint is gone."""
    left: list[int]
    clipped: list[tuple[int, int | None]]
    """What was shortened: its original, and what stands for it where that is known."""
    summary: int | None
    goal: str
    pins: list[int]


class Report(TypedDict):
    """All that the page shows."""

    version: int
    thread: str
    stamp: str
    """Changes whenever the thread does."""
    counter: str
    """What counts here."""
    counters: list[str]
    """What the thread's graph counted with, by its ledger."""
    tokens: int
    """Of the messages in view."""
    held: bool
    requests: list[Request]
    attempts: list[Attempt]
    messages: dict[int, Shown]
    transcript: list[int]
    in_view: list[int]


@dataclass(frozen=True)
class _Ruler:
    """Measures lists of messages in a few additions, however long they are."""

    upto: Sequence[int]

    @classmethod
    def of(cls, shown: Mapping[int, Shown]) -> "_Ruler":
        tokens = (shown[seq]["tokens"] if seq in shown else 0 for seq in range(max(shown, default=-1) + 1))
        return cls([0, *accumulate(tokens)])

    def tokens(self, runs: Runs) -> int:
        return sum(self.upto[start + length] - self.upto[start] for start, length in runs)


def report_of(course: Course, counter: TokenCounter, *, stamp: str = "") -> Report:
    """What there is to tell of a thread."""
    shown = {seq: _shown(message, counter) for seq, message in course.messages.items()}
    ruler = _Ruler.of(shown)
    requests, answered = _requests(course, ruler)
    return Report(
        version=1,
        thread=course.thread_id,
        stamp=stamp,
        counter=counter.name,
        counters=sorted({row.counter for row in course.attempts} - {""}),
        tokens=ruler.tokens(course.line[-1].messages) if course.line else 0,
        held=bool(course.line and course.line[-1].compaction.get("held")),
        requests=requests,
        attempts=[_attempt(course, row, requests, answered) for row in course.attempts],
        messages=shown,
        transcript=list(course.transcript),
        in_view=list(course.in_view),
    )


def _shown(message: BaseMessage, counter: TokenCounter) -> Shown:
    media = media_blocks(message)
    return Shown(
        id=message.id or "",
        handle=handle(message)[:12],
        role=message.type,
        name=message.name or "",
        text="\n".join([*texts_of(message), *([f"[images, audio or files: {media}]"] if media else [])]),
        tokens=counter.message(message),
        summary=is_summary(message),
        pinned=is_pinned(message),
    )


def _requests(course: Course, ruler: _Ruler) -> tuple[list[Request], dict[str, int]]:
    """The requests of the line, and for each of its checkpoints how many had been answered by then.

    A request is what stands before an answer that the graph added at the end of the messages, or what was in view
    when a call of the model failed.
    """
    found: list[Request] = []
    answered: dict[str, int] = {}
    seen: set[int] = set()
    turn, fixed = 0, 0
    sizes = _Sizes.before(course.line)
    for moment in course.line:
        turn += moment.source == "input"
        sizes = sizes.after(moment)
        usage: Mapping[str, Any] = moment.compaction.get("usage") or {}
        fixed = usage.get("fixed", fixed)
        last = sum(moment.messages[-1]) - 1 if moment.messages else None
        answer = course.messages[last] if last is not None else None
        if moment.source == "loop" and isinstance(answer, AIMessage) and last is not None and last not in seen:
            real = answer.usage_metadata["input_tokens"] if answer.usage_metadata else 0
            counted = fixed + ruler.tokens(moment.messages) - ruler.tokens(((last, 1),))
            found.append(sizes.request(moment, turn, tokens=real or counted, real=bool(real)))
        if moment.failed:
            found.append(sizes.request(moment, turn, tokens=fixed + ruler.tokens(moment.messages), answered=False))
        if last is not None:
            seen.add(last)
        answered[moment.id] = len(found)
    return found, answered


@dataclass(frozen=True)
class _Sizes:
    trigger: int | None
    limit: int | None

    @classmethod
    def before(cls, line: Sequence[Moment]) -> "_Sizes":
        """What the first compaction knew, which held before it too."""
        return next((sizes for moment in line if (sizes := cls(None, None).after(moment)).trigger), cls(None, None))

    def request(
        self, moment: Moment, turn: int, *, tokens: int, real: bool = False, answered: bool = True
    ) -> Request:
        return Request(
            turn=max(1, turn),
            at=moment.written_at,
            answered=answered,
            tokens=tokens,
            real=real,
            trigger=self.trigger,
            limit=self.limit,
        )

    def after(self, moment: Moment) -> "_Sizes":
        last = moment.compaction.get("last") or {}
        return _Sizes(last.get("threshold", self.trigger), last.get("limit", self.limit))


def _attempt(course: Course, row: LedgerRow, requests: Sequence[Request], answered: Mapping[str, int]) -> Attempt:
    name = row.compaction_id
    commit = course.commits.get(name) if row.verdict in COMMITTED else None
    after = list(expand(commit.messages)) if commit else []
    standing = {course.messages[seq].id: seq for seq in after}
    summary = next((seq for seq in after if summarized_by(course.messages[seq]) == name), None)
    gone, taken = set(row.dropped), list(expand(course.archived.get(name, ())))
    left = [seq for seq in taken if course.messages[seq].id in gone or is_summary(course.messages[seq])]
    memory: Mapping[str, Any] = commit.memory if commit else {}
    pins = memory.get("pins") or ()
    hidden = _NOT_SHOWN if summary is None else _NOT_SHOWN | {"summary"}
    return Attempt(
        row={key: value for key, value in asdict(row).items() if key not in hidden},
        kind=_kind(course, row),
        at=_place(row, requests, answered),
        before=course.snapshots.get(name, ()),
        after=commit.messages if commit else None,
        left=left,
        clipped=[(seq, standing.get(course.messages[seq].id)) for seq in taken if seq not in left],
        summary=summary,
        goal=str(memory.get("goal") or ""),
        pins=[seq for seq in after if is_pinned(course.messages[seq], pins)],
    )


def _kind(course: Course, row: LedgerRow) -> str:
    match row.verdict:
        case None:
            return "open"
        case "undone":
            return "undone"
        case verdict if verdict not in COMMITTED:
            return "put off" if verdict in PUT_OFF else "failed"
        case _ if row.compaction_id in course.in_force or not course.line:
            return "committed"
        case _:
            undone = [one.detail.split(", ") for one in course.attempts if one.verdict == "undone"]
            return "undone" if any(row.compaction_id in names for names in undone) else "other branch"


def _place(row: LedgerRow, requests: Sequence[Request], answered: Mapping[str, int]) -> int:
    """Where it began; one of another branch, or whose checkpoint is gone, by the clock."""
    if (known := answered.get(row.checkpoint_id or "")) is not None:
        return known
    return bisect_right(requests, row.started_at, key=lambda one: datetime.fromisoformat(one["at"]).timestamp())
