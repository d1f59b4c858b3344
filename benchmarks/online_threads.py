"""Plays runs turn by turn inside long threads, where earlier parts of a run have left the view when they are needed.

A thread holds several runs. Each run is cut at a user message in its middle: first come the first halves of all runs
of the thread, then their second halves, in the same order. So a thread returns to each of its tasks, after all
others, and the archive then holds up to all of the thread. The user does not say to which task the thread returns.

Policies without an archive get the same number of tokens: what plain BM25 finds, for the query of automatic recall.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from long_threads import plain_bm25

from langgraph_compaction.graph.lab.evaluation.online import Online, PlayedRun, Run, available, bill, uncompacted
from langgraph_compaction.graph.lab.evaluation.policies import COUNTER, Policy, count
from langgraph_compaction.graph.lab.evaluation.ratios import Pair, edges, ratio, rounded, summed
from langgraph_compaction.graph.lab.recordings import Recording
from langgraph_compaction.nodes.config.triggers import share
from langgraph_compaction.nodes.conversation.window_and_reserve import MAX_RECALLED, MIN_RECALLED, RECALL_SHARE
from langgraph_compaction.nodes.runtime.archive_quotation import passages_for, query_for
from langgraph_compaction.nodes.summary.quotation import OPENING, quotation


@dataclass(frozen=True)
class LongThread:
    """Several runs in one recording."""

    recording: Recording
    parts: Sequence[str]
    """The name of the run to which each message belongs; empty for a system message."""


def long_threads(recordings: Sequence[Recording], tokens: int, seed: int = 0) -> list[LongThread]:
    """Put all runs into threads of at least `tokens` tokens each, in an order drawn by the seed.

    All threads have the system messages and the tools of the first run. The runs that are left over when no further
    thread can be filled are in the last thread.
    """
    order = list(recordings)
    Random(seed).shuffle(order)  # noqa: S311 - a draw that can be repeated
    groups: list[list[Recording]] = [[]]
    sizes = [count(_said(one)) for one in order]
    size = 0
    for place, one in enumerate(order):
        if size >= tokens and sum(sizes[place:]) >= tokens:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += sizes[place]
    return [_joined(f"thread-{number}", group) for number, group in enumerate(groups)]


def _joined(name: str, runs: Sequence[Recording]) -> LongThread:
    first = runs[0]
    halves = [_halves(run) for run in runs]
    placed: list[tuple[str, BaseMessage]] = [
        ("", message) for message in first.messages if isinstance(message, SystemMessage)
    ]
    placed += [
        (run.name, message)
        for half in (0, 1)
        for run, each in zip(runs, halves, strict=True)
        for message in each[half]
    ]
    messages = tuple(message.model_copy(update={"id": f"{name}-{n}"}) for n, (_, message) in enumerate(placed))
    return LongThread(Recording(name=name, messages=messages, tools=first.tools), [part for part, _ in placed])


def _said(run: Recording) -> list[BaseMessage]:
    return [message for message in run.messages if not isinstance(message, SystemMessage)]


def _halves(run: Recording) -> tuple[list[BaseMessage], list[BaseMessage]]:
    said = _said(run)
    users = [place for place, message in enumerate(said) if isinstance(message, HumanMessage)]
    middle = users[len(users) // 2] if len(users) > 1 else len(said)
    return said[:middle], said[middle:]


def with_bm25(policy: Policy, depth: float = 1.0) -> Online:
    """Return a function that plays a run as `turn_by_turn` does, and quotes what BM25 finds in removed messages.

    The quotation has the form, the place and the tokens of automatic recall, which come out of the same limit.
    """

    def played(run: Run, limit: int) -> PlayedRun:
        room, most = limit - run.fixed, _quotation_tokens(run, limit)
        context, removed, course = list[BaseMessage](), list[BaseMessage](), PlayedRun()
        for index, message in enumerate(run.messages):
            if isinstance(message, AIMessage):
                if count(context) > room - (most if removed else 0):
                    kept = list(policy(context, int(depth * (room - most))))
                    left = {one.id for one in kept}
                    removed += [one for one in context if one.id not in left]
                    context = kept
                    course.compactions += 1
                course.send(index, [*run.header(index), *context, *_quoted(context, removed, most)])
            if not isinstance(message, SystemMessage):
                context.append(message)
        return course

    return played


def _quotation_tokens(run: Run, limit: int) -> int:
    most = min(MAX_RECALLED, share(limit - run.fixed, RECALL_SHARE))
    return most if most >= MIN_RECALLED else 0


def _quoted(context: Sequence[Any], removed: Sequence[Any], most: int) -> list[BaseMessage]:
    query = query_for(context) if removed and most else ""
    hits = plain_bm25(removed, query) if query else []
    frame = COUNTER.message(HumanMessage("x")) - COUNTER.text("x")
    text = quotation(passages_for(context, query, hits, max_tokens=most - frame, counter=COUNTER))
    return [HumanMessage(text)] if text else []


def played_threads(
    threads: Sequence[tuple[Run, Sequence[str]]],
    policies: Mapping[str, Sequence[Online]],
    limits: Sequence[int],
    compared: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """Play all threads with each policy under each limit in tokens, and yield a row of figures for each.

    `threads` are runs, each with the name of the part to which each of its messages belongs. `compared` names, for a
    policy that quotes the archive, the earlier policy that does not: `gain` is the difference of what is available.
    Intervals are bootstrap intervals over the parts.
    """
    wholes = [sum(bill(run, uncompacted(run)).costs) for run, _ in threads]
    about = {"threads": len(threads), "tokens": round(sum(count(run.messages) for run, _ in threads) / len(threads))}
    for limit in limits:
        by_name: dict[str, dict[str, Pair]] = {}
        for name, each in policies.items():
            courses = [(run, parts, policy(run, limit)) for run, parts in threads for policy in each]
            found = by_name[name] = _by_part(courses)
            row: dict[str, Any] = {
                "policy": name,
                "limit": limit,
                **about,
                "runs": len(found),
                **_figures(courses, limit),
            }
            row["cost"] = rounded(row.pop("spent") / (len(each) * sum(wholes)))
            row["available"] = rounded(ratio(found.values()))
            row["ci95"] = edges(list(found.values()))
            if name in compared:
                before = by_name[compared[name]]
                more = [(hits - before[part][0], needed) for part, (hits, needed) in found.items()]
                row["gain"], row["gain_ci95"] = rounded(ratio(more)), edges(more)
            yield row


def _by_part(courses: Sequence[tuple[Run, Sequence[str], PlayedRun]]) -> dict[str, Pair]:
    """Return, for each run in the threads, the identifiers found in the requests and those needed by its calls."""
    found: dict[str, list[Pair]] = {}
    for run, parts, course in courses:
        of_calls = [parts[answer] for answer, calls in run.needed.items() for _ in calls]
        for part, pair in zip(of_calls, available(run, course), strict=True):
            found.setdefault(part, []).append(pair)
    return {part: summed(pairs) for part, pairs in found.items()}


def _figures(courses: Sequence[tuple[Run, Sequence[str], PlayedRun]], limit: int) -> dict[str, Any]:
    bills = [bill(run, course) for run, _, course in courses]
    last = [sent.messages[-1] for _, _, course in courses for sent in course.sent]
    quoted = [count([message]) for message in last if message.text.startswith(OPENING)]
    sizes = [size for one in bills for size in one.sizes]
    return {
        "compactions": round(sum(course.compactions for _, _, course in courses) / len(courses), 1),
        "tokens_over_limit": rounded(sum(sizes) / (limit * len(sizes))),
        "over_limit": rounded(sum(size > limit for size in sizes) / len(sizes)),
        "quoted": rounded(len(quoted) / len(last)),
        "quoted_tokens": round(sum(quoted) / len(quoted)) if quoted else 0,
        "spent": sum(one.cost for one in bills),
    }
