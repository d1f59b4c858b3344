"""Measures whether `recall` finds what a conversation needs, among many other conversations in the same thread.

A thread holds the beginning of one recorded run, at a random place among whole runs of other tasks. The query is the
next message of the run's user, in the user's own words, or the query that automatic recall makes of this message and
the view. The two rounds before the message are in view and not archived. What has to be found are the identifiers
that the view does not hold and that the calls need by which the message is answered. The query knows nothing about
the places where these identifiers stand.

BM25 with stemming, over the same messages and shown in the same way, is printed beside it, and so are two limits:
what words can reach (`_in_reach`), and what would be found if the run to which the message belongs were known.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.compaction.search_index import text_of as searched_text
from langgraph_compaction.checkpoint.compaction.search_terms import DEFAULT, query_terms, terms
from langgraph_compaction.checkpoint.patterns import MULTILINE, Pattern
from langgraph_compaction.graph.lab.evaluation.policies import COUNTER, count
from langgraph_compaction.graph.lab.evaluation.ratios import rounded
from langgraph_compaction.graph.lab.evaluation.survival import asked, holds, text_of
from langgraph_compaction.graph.lab.recordings import Recording
from langgraph_compaction.graph.recall_tool import MAX_TOKENS
from langgraph_compaction.nodes.runtime.archive_quotation import MOST_COMPARED, found_for, passages_for
from langgraph_compaction.nodes.summary.quotation import quotation
from langgraph_compaction.nodes.summary.recall_answer import MOST_FOUND, answer

IN_VIEW = 2
"""Number of rounds before the message that are in view."""
OTHERS = 8
"""Number of other tasks in a thread of unlimited size."""
_TOP = 5
_RARE = 0.05
"""Share of a thread's messages; a term in no more of them is rare."""
_SATURATION, _LENGTH = 1.2, 0.75
"""The parameters k1 and b of BM25, which are those of the index too."""
_HEADLINE = Pattern(r"^\[[0-9a-f]{12} [^\]\n]*+\]$", MULTILINE)
"""The line above each message of an answer, which shows its handle."""


@dataclass(frozen=True)
class Question:
    """A message of a user, what its run said before, and what its answer needs."""

    task: str
    old: Sequence[AnyMessage]
    """The run's messages that are no longer in view."""
    view: Sequence[AnyMessage]
    """The newest rounds, and the message at their end."""
    needed: frozenset[str]

    @property
    def words(self) -> str:
        """The message itself."""
        return self.view[-1].text


def task_of(run: Recording) -> str:
    """Return the task of a recording: of `file#task-trial` the task, else the recording's name."""
    task, _, trial = run.name.rpartition("#")[2].rpartition("-")
    return task if "#" in run.name and task and trial.isdecimal() else run.name


def questions(run: Recording, task: str) -> Iterator[Question]:
    """Yield the messages of a run's user whose answers need identifiers that are no longer in view."""
    said: list[Any] = [message for message in run.messages if not isinstance(message, SystemMessage)]
    prompt = text_of(message for message in run.messages if isinstance(message, SystemMessage))
    users = [place for place, message in enumerate(said) if isinstance(message, HumanMessage)]
    for number, place in enumerate(users):
        begin, end = users[max(0, number - IN_VIEW)], [*users, len(said)][number + 1]
        old, view = said[:begin], said[begin : place + 1]
        if needed := _needed(said[place + 1 : end], text_of(old), f"{prompt}\n{text_of(view)}"):
            yield Question(task, old, view, needed)


def _needed(later: Sequence[AnyMessage], before: str, supplied: str) -> frozenset[str]:
    found = set[str]()
    for message in later:
        if isinstance(message, AIMessage):
            every = (token for call in message.tool_calls for token in asked(call))
            found |= {token for token in every if holds(before, token) and not holds(supplied, token)}
        else:
            supplied += f"\n{text_of([message])}"
    return frozenset(found)


def thread_of(
    question: Question, runs: Sequence[tuple[str, Recording]], tokens: int, random: Random
) -> tuple[list[AnyMessage], set[str]]:
    """Return the messages of a thread, with new ids, and the ids of those that belong to the question's run.

    With `tokens`, runs of other tasks are added until they have so many; else one run each of `OTHERS` tasks.
    """
    others = [(task, run) for task, run in runs if task != question.task]
    random.shuffle(others)
    parts: list[Sequence[Any]] = []
    size, tasks = 0, set[str]()
    for task, run in others:
        if (size >= tokens) if tokens else (len(tasks) == OTHERS):
            break
        if not tokens and task in tasks:
            continue
        tasks.add(task)
        parts.append([message for message in run.messages if not isinstance(message, SystemMessage)])
        size += count(parts[-1]) if tokens else 0
    place = random.randrange(len(parts) + 1)
    first = sum(map(len, parts[:place]))
    whole = [message for part in (*parts[:place], question.old, *parts[place:]) for message in part]
    named = [message.model_copy(update={"id": f"message-{n}"}) for n, message in enumerate(whole)]
    return named, {f"message-{n}" for n in range(first, first + len(question.old))}


def plain_bm25(messages: Sequence[AnyMessage], query: str) -> list[SearchHit]:
    """Return the messages that BM25 with English stems ranks first, without stop words and neighbors."""
    texts = [_counted(searched_text(message)) for message in messages]
    wanted = set(terms(query))
    having = Counter(term for text in texts for term in wanted & text.keys())
    mean = sum(text.total() for text in texts) / len(texts)

    def score(text: Counter[str]) -> float:
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * text.total() / mean)
        return sum(
            math.log(1 + (len(texts) - having[term] + 0.5) / (having[term] + 0.5))
            * (text[term] * (_SATURATION + 1) / (text[term] + norm))
            for term in wanted & text.keys()
        )

    scores = [score(text) for text in texts]
    order = sorted((n for n, found in enumerate(scores) if found), key=lambda n: -scores[n])[:MOST_COMPARED]
    return [
        SearchHit(message=messages[n], handle="0" * 12, compaction_id="", archived_at=0.0, score=scores[n])
        for n in order
    ]


@lru_cache(maxsize=16_384)
def _counted(text: str) -> Counter[str]:
    return Counter(terms(text))


def measured(
    records: CompactionRecords,
    runs: Sequence[tuple[str, Recording]],
    *,
    tokens: int,
    most: int,
    skipped: int = 0,
    seed: int = 0,
    seen: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Return a row of figures for each way to search, over at most `most` questions, drawn by the seed.

    The first `skipped` questions that were drawn are left out. `runs` are recordings, each with the name of its task.
    `seen` is called after each question, to show the progress.
    """
    every = [question for task, run in runs for question in questions(run, task)]
    Random(seed).shuffle(every)  # noqa: S311 - a draw that can be repeated
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    size = 0
    chosen = list(enumerate(every))[skipped : skipped + most]
    for number, question in chosen:
        messages, own = thread_of(question, runs, tokens, Random(f"{seed} {number}"))  # noqa: S311 - the same
        size += count(messages)
        records.archive(thread := f"thread-{number}", "", "0" * 16, messages, now=0.0)
        query, quoted, _ = found_for(records, thread, question.view)
        for asking, words, hits, shown in (
            ("message", question.words, records.search(thread, question.words, limit=MOST_FOUND), _answered),
            ("automatic recall", query, quoted, _quoted),
        ):
            reach = _in_reach(question, messages, own, words)
            every_hit = records.search(thread, words, limit=len(messages), follow=asking == "automatic recall")
            known = [one for one in every_hit if one.message.id in own][:MOST_COMPARED]
            for name, each in (("recall", hits), ("BM25 with stems", plain_bm25(messages, words)), (KNOWN, known)):
                found.setdefault((asking, name), []).append(
                    (*_judged(question, own, *shown(question, words, each)), reach)
                )
        records.forget(thread)
        seen()
    return [
        {
            "query": asking,
            "search": name,
            "questions": len(chosen),
            "tokens": round(size / len(chosen)),
            **{
                key: rounded(sum(each) / len(each))
                for key, each in zip(FIGURES, zip(*all_, strict=True), strict=True)
            },
        }
        for (asking, name), all_ in found.items()
    ]


KNOWN = "recall, its run known"
"""The name of a search among the messages of the question's own run only."""
FIGURES = ("hit@1", "hit@5", "found", "in_reach")
"""Shares of 1: questions with a needed identifier in the best hit, and in the best five, of the question's own run;
and needed identifiers that an answer of 1,000 tokens holds, and that `_in_reach` counts, in the mean over the
questions."""


def _in_reach(question: Question, messages: Sequence[AnyMessage], own: set[str], query: str) -> float:
    """Return the share of needed identifiers in a message of the question's run that has a rare term of the query."""
    wanted = set(query_terms(query, [DEFAULT]))
    shared = [wanted.intersection(terms(searched_text(message))) for message in messages]
    having = Counter(term for each in shared for term in each)
    rare = {term for term, number in having.items() if number <= max(1, _RARE * len(messages))}
    reached = text_of(
        message for message, each in zip(messages, shared, strict=True) if message.id in own and each & rare
    )
    return sum(holds(reached, token) for token in question.needed) / len(question.needed)


def _answered(_: Question, query: str, hits: Sequence[SearchHit]) -> tuple[Sequence[SearchHit], str]:
    """Return what the tool `recall` shows of found messages: the messages in order, and the text."""
    best = hits[:MOST_FOUND]
    return best, answer(best, query, max_tokens=MAX_TOKENS, counter=COUNTER)


def _quoted(question: Question, query: str, hits: Sequence[SearchHit]) -> tuple[Sequence[SearchHit], str]:
    """Return what automatic recall quotes of found messages: the messages in order, and the text."""
    passages = passages_for(question.view, query, hits, max_tokens=MAX_TOKENS, counter=COUNTER)
    return [one.found for one in passages], quotation(passages)


def _judged(question: Question, own: set[str], hits: Sequence[SearchHit], shown: str) -> tuple[float, float, float]:
    good = [
        one.message.id in own and any(holds(text_of([one.message]), token) for token in question.needed)
        for one in hits
    ]
    text = _HEADLINE.sub("", shown)
    held = sum(holds(text, token) for token in question.needed)
    return float(any(good[:1])), float(any(good[:_TOP])), held / len(question.needed)
