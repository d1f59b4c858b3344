"""The report of a thread as plain data, for the page and for `--json`. Sizes are tokens."""

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any, TypedDict, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.compaction.original_conversation import summarized_by
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.checkpoint.messages.sequence_runs import Runs, expand
from langgraph_compaction.checkpoint.usage import FREE
from langgraph_compaction.nodes.config.prices import usage_of
from langgraph_compaction.nodes.conversation.message_marks import answers_for_model, is_pinned, is_summary
from langgraph_compaction.nodes.conversation.request import render
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, media_of, texts_of, tiktoken_counter
from langgraph_compaction.nodes.conversation.view import NO_VIEW
from langgraph_compaction.nodes.selection.breaker import suspension_reason

from ..bill import Bill
from .thread_data import CheckpointData, Saver, ThreadData, read, stamp

PUT_OFF = frozenset({"noop", "declined", "deferred_cooldown", "stale", "recovered", "abandoned"})
"""Verdicts of attempts that changed nothing and yet are no failures; the report shows them as "put off"."""

_NOT_SHOWN = frozenset({"thread_id", "seen", "window", "base_fingerprint"})


class Request(TypedDict):
    """One request to the model."""

    turn: int
    """Number of the turn, counted from 1."""
    at: str
    """Time, in ISO 8601, of the checkpoint with the answer; for a failed call, of the checkpoint before the call."""
    answered: bool
    """Whether the model answered the request; false if the call of the model failed."""
    tokens: int
    real: bool
    """Whether the provider reported `tokens`; if not, the messages and the known fixed part were counted."""
    trigger: int | None
    """Size in tokens at which a compaction starts, as the last attempt before the request recorded it.

    For requests before the first attempt, it is the size that the first commit, else the first attempt, recorded;
    `None` without attempts.
    """
    limit: int | None
    sent: Runs
    """The messages that the model was sent, by their numbers in `Report.messages`, without prompt and tools."""
    fixed: int
    """Tokens of system prompt and tools, which the thread does not hold, as they were counted."""
    answer: int | None
    """Number of the answer's message; `None` if the call failed."""
    cached: int
    """Tokens of the request that the provider read from its cache; 0 if it reported none."""
    cache_write: int
    output: int
    """Tokens of the answer as the provider reported them, with the reasoning; 0 if it reported none."""


class Shown(TypedDict):
    """A message, with its text as a provider receives it."""

    id: str
    handle: str
    role: str
    name: str
    text: str
    calls: list[tuple[str, str]]
    """The name and the arguments of each tool call, as indented JSON; malformed arguments as they are."""
    tokens: int
    summary: bool
    pinned: bool
    """Whether it is pinned now."""


class Attempt(TypedDict):
    """One attempt at a compaction; messages are named by their numbers in `Report.messages`."""

    row: dict[str, Any]
    """Columns of the attempt's ledger row. The summary is left out if a message in `after` contains it."""
    kind: str
    """The outcome: `committed`, `failed`, `put off`, `undone`, `other branch`, `prepared` or `open`."""
    at: int
    """Number of the thread's requests that had been sent when the attempt began."""
    before: Runs
    """The messages in the state when the attempt began."""
    after: Runs | None
    """The messages in the state after the attempt; `None` if nothing changed or the checkpoint was erased."""
    left: list[int]
    clipped: list[tuple[int, int | None]]
    """(original, shortened form) of each message that the attempt shortened.

    The shortened form is `None` if the checkpoint after the attempt does not hold it.
    """
    window: list[dict[str, Any]]
    """What filled the window before and after the attempt, as `WindowUsage` has it; empty if nothing changed."""
    summary: int | None
    goal: str
    pins: list[int]


class Report(TypedDict):
    """All data of the page."""

    version: int
    thread: str
    stamp: str
    """A text that changes whenever the thread changes."""
    counter: str
    """Name of the token counter that this report uses."""
    counters: list[str]
    """Names of the token counters with which the thread's graph counted, according to the ledger."""
    tokens: int
    """Tokens of the messages that the model sees now."""
    held: bool
    redo: str | None
    """Id of the compaction that a redo brings back."""
    bill: dict[str, dict[str, Any]]
    """What the calls of the agent (`agent`) and for summaries (`summaries`) took, and their cost in dollars."""
    requests: list[Request]
    attempts: list[Attempt]
    frequent: list[int]
    """Positions in `attempts` of commits so soon after others that the breaker suspends automatic compactions."""
    messages: dict[int, Shown]
    transcript: list[int]
    in_view: list[int]


class _Ruler:
    """Gives the tokens of any list of messages quickly: `_upto[n]` is the sum for all stored numbers below n."""

    def __init__(self, messages: Mapping[int, BaseMessage], counter: TokenCounter) -> None:
        self._messages, self._counter = messages, counter
        numbers = range(max(messages, default=-1) + 1)
        self._upto = [0, *accumulate(self._counted(seq) if seq in messages else 0 for seq in numbers)]

    def tokens(self, runs: Runs) -> int:
        forms = sum(map(self._counted, expand(tuple(run for run in runs if run[0] < 0))))
        return forms + sum(self._upto[start + length] - self._upto[start] for start, length in runs if start >= 0)

    def _counted(self, seq: int) -> int:
        return self._counter.message(self._messages[seq])


def read_report(saver: Saver, thread_id: str) -> Report:
    """Read a thread and return its report; without requests and attempts if the thread does not exist."""
    # before the data: if the thread changes in between, the next poll sees another stamp and loads the data again
    known = stamp(saver, thread_id)
    return report_of(read(saver, thread_id), tiktoken_counter(), known=known)


def report_of(data: ThreadData, counter: TokenCounter, *, known: str = "") -> Report:
    """Return the report of a thread."""
    ruler = _Ruler(data.messages, counter)
    requests, answered = _requests(data, ruler)
    attempts = [_attempt(data, row, requests, answered) for row in data.attempts]
    in_view, now = list(data.in_view), data.line[-1].compaction if data.line else {}
    undone = (data.line[-1].view or NO_VIEW).get("undone") if data.line else None
    pins = now.get("pins") or ()
    shown = {seq: _shown(message, ruler.tokens(((seq, 1),)), pins) for seq, message in data.messages.items()}
    return Report(
        version=2,
        thread=data.thread_id,
        stamp=known,
        counter=counter.name,
        counters=sorted({row.counter for row in data.attempts} - {""}),
        tokens=sum(shown[seq]["tokens"] for seq in in_view),
        held=bool(now.get("held")),
        redo=undone[0]["source"] if undone else None,
        bill=asdict(Bill.of({"compaction": now}, data.attempts)),
        requests=requests,
        attempts=attempts,
        frequent=list(_frequent(attempts)),
        messages=shown,
        transcript=list(data.transcript),
        in_view=in_view,
    )


def _shown(message: BaseMessage, tokens: int, pins: Collection[str]) -> Shown:
    media = len(media_of(message))
    calls = [*_calls(message)]
    texts = texts_of(message)[: -len(calls) or None]
    return Shown(
        id=message.id or "",
        handle=handle(message),
        role=message.type,
        name=message.name or "",
        text="\n".join([*texts, *([f"[images, audio or files: {media}]"] if media else [])]),
        calls=calls,
        tokens=tokens,
        summary=is_summary(message),
        pinned=is_pinned(message, pins),
    )


def _calls(message: BaseMessage) -> Iterator[tuple[str, str]]:
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            yield call["name"], json.dumps(call["args"], ensure_ascii=False, indent=2, default=str)
        for broken in message.invalid_tool_calls:
            yield broken["name"] or "", broken["args"] or ""


def _requests(data: ThreadData, ruler: _Ruler) -> tuple[list[Request], dict[str, int]]:
    """Return the requests of the newest branch, and by checkpoint id the number of requests sent up to a checkpoint.

    A request consists of the messages before an answer of the model, or of all messages in the state when a call of
    the model failed.
    """
    found: list[Request] = []
    answered: dict[str, int] = {}
    seen: set[int] = set()
    turn, sizes = 0, _Sizes.before(data)
    for checkpoint in data.line:
        turn += checkpoint.source == "input"
        sizes = sizes.after(checkpoint)
        last = sum(checkpoint.said[-1]) - 1 if checkpoint.said else None
        if checkpoint.source == "loop" and last is not None and last not in seen and _is_answer(data.messages[last]):
            found.append(_request(data, ruler, checkpoint, sizes, turn=turn, answer=last))
        if checkpoint.failed:
            found.append(_request(data, ruler, checkpoint, sizes, turn=turn, answer=None))
        if last is not None:
            seen.add(last)
        answered[checkpoint.id] = len(found)
    return found, answered


def _is_answer(message: BaseMessage) -> bool:
    """Whether the model gave this answer, and not this package to a refused input."""
    return isinstance(message, AIMessage) and not answers_for_model(message)


@dataclass(frozen=True)
class _Sizes:
    """What the checkpoints up to one recorded; `fixed` are the tokens of system prompt and tools."""

    trigger: int | None = None
    limit: int | None = None
    fixed: int = 0

    @classmethod
    def before(cls, data: ThreadData) -> "_Sizes":
        """Return the trigger and the limit before the first commit, else those that the first attempt recorded."""
        found = next((row.window[0] for row in data.attempts if row.window), None)
        if found:
            return cls(found["trigger"], found["limit"])
        recorded = (cls().after(checkpoint) for checkpoint in data.line)
        return next((cls(one.trigger, one.limit) for one in recorded if one.trigger), cls())

    def after(self, checkpoint: CheckpointData) -> "_Sizes":
        sizes, usage = (checkpoint.compaction.get(name) or {} for name in ("sizes", "usage"))
        trigger, limit = sizes.get("trigger", self.trigger), sizes.get("limit", self.limit)
        return _Sizes(trigger, limit, usage.get("fixed", self.fixed))


def _request(
    data: ThreadData,
    ruler: _Ruler,
    checkpoint: CheckpointData,
    sizes: _Sizes,
    *,
    turn: int,
    answer: int | None,
) -> Request:
    runs = data.seen(checkpoint)
    own = () if answer is None else ((answer, 1),)
    view = [data.messages[seq] for seq in expand(runs) if seq != answer]
    told = None if answer is None else data.messages[answer]
    usage = usage_of(told.usage_metadata, (), {}) if isinstance(told, AIMessage) else FREE
    return Request(
        turn=max(1, turn),
        at=checkpoint.written_at,
        answered=answer is not None,
        tokens=usage.input_tokens or sizes.fixed + ruler.tokens(runs) - ruler.tokens(own),
        real=bool(usage.input_tokens),
        trigger=sizes.trigger,
        limit=sizes.limit,
        sent=data.numbers.runs(render(cast("list[AnyMessage]", view))),
        fixed=sizes.fixed,
        answer=answer,
        cached=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
        output=usage.output_tokens,
    )


def _attempt(data: ThreadData, row: LedgerRow, requests: Sequence[Request], answered: Mapping[str, int]) -> Attempt:
    name = row.compaction_id
    commit = data.commits.get(name)
    view = data.seen(commit) if commit else None
    after = list(expand(view or ()))
    standing = {data.messages[seq].id: seq for seq in after}
    summary = next((seq for seq in after if summarized_by(data.messages[seq]) == name), None)
    gone, taken = set(row.dropped), {seq: data.messages[seq] for seq in expand(data.archived.get(name, ()))}
    left = {seq: message for seq, message in taken.items() if message.id in gone or is_summary(message)}
    known: Mapping[str, Any] = commit.compaction if commit else {}
    pins = known.get("pins") or ()
    hidden = _NOT_SHOWN if summary is None else _NOT_SHOWN | {"summary"}
    return Attempt(
        row={key: value for key, value in asdict(row).items() if key not in hidden},
        kind=_kind(data, row),
        at=_place(row, requests, answered),
        before=data.snapshots.get(name, ()),
        after=view,
        left=list(left),
        clipped=[(seq, standing.get(message.id)) for seq, message in taken.items() if seq not in left],
        window=row.window or [],
        summary=summary,
        goal=str(known.get("goal") or ""),
        pins=[seq for seq in after if is_pinned(data.messages[seq], pins)],
    )


def _frequent(attempts: Sequence[Attempt]) -> Iterator[int]:
    recent = list[int]()
    for position, attempt in enumerate(attempts):
        if attempt["kind"] == "committed":
            recent.append(attempt["at"])
            if suspension_reason({"recent": recent}, calls=attempt["at"], now=0.0):
                yield position


def _kind(data: ThreadData, row: LedgerRow) -> str:
    match row.verdict:
        case None:
            return "open"
        case "undone" | "redone" | "prepared" as verdict:
            return verdict
        case verdict if not row.is_committed:
            return "put off" if verdict in PUT_OFF else "failed"
        case _ if row.compaction_id in data.in_force or not data.line:
            return "committed"
        case _:
            undone = [one.detail.split(", ") for one in data.attempts if one.verdict == "undone"]
            return "undone" if any(row.compaction_id in names for names in undone) else "other branch"


def _place(row: LedgerRow, requests: Sequence[Request], answered: Mapping[str, int]) -> int:
    """Return the number of requests that were sent before an attempt.

    If `answered` has a number for the attempt's checkpoint, return this number. Otherwise count the requests that are
    older than the attempt.
    """
    if (known := answered.get(row.checkpoint_id or "")) is not None:
        return known
    return bisect_right(requests, row.started_at, key=lambda one: datetime.fromisoformat(one["at"]).timestamp())
