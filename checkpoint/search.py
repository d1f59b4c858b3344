"""Full-text search over a thread's archive: FTS5, tsvector or FULLTEXT finds, the same few lines rank everywhere.

The index holds what was archived when somebody last searched; each search first adds what is new, so that threads
in which nobody searches pay nothing. Each word carries its thread, so that no other thread's rows are looked at.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy.dialects import mysql

from . import tables
from .codec import handle
from .statements import chunks
from .threads import Thread
from .transcript import clipped_from, is_original, retells
from .words import encoded, singular, words

SCANNED_BYTES = 8_000_000
"""Bytes of the newest archived messages that are looked through where encryption forbids an index."""

_search = tables.search.c
_CANDIDATES = 400
_SATURATION, _LENGTH = 1.2, 0.75
_QUERY_WORDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message of the archive that a search found."""

    message: BaseMessage
    handle: str
    """By which `recall` gives it back."""
    compaction_id: str
    """The compaction that took it out of view first."""
    archived_at: float
    """When, in seconds of the wall clock."""
    score: float
    """Higher is better; comparable within one search only."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The texts with a word of a query, by their numbers."""

    scores: Mapping[int, float] = field(default_factory=dict[int, float])
    words: Mapping[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])
    """Which of the query's words each holds."""


def text_of(message: BaseMessage) -> str:
    """What of a message is searched: its text, its name, and its calls."""
    calls = (
        [f"{call['name']} {call['args']}" for call in message.tool_calls] if isinstance(message, AIMessage) else []
    )
    return "\n".join([message.text, message.name or "", *calls])


def missing(conn: sa.Connection, thread: Thread, archived: Iterable[int]) -> list[int]:
    """Return which of these messages the index does not have yet."""
    known = set(conn.execute(sa.select(_search.seq).where(_search.thread == thread.id)).scalars())
    return sorted(set(archived) - known)


def add(conn: sa.Connection, thread: Thread, messages: Mapping[int, BaseMessage]) -> None:
    """Put messages into the index; the thread's lock is held."""
    rows = [
        {"thread": thread.id, "seq": seq, "words": " ".join(_named(thread, words(text_of(message))))}
        for seq, message in messages.items()
    ]
    for chunk in chunks(rows):
        conn.execute(sa.insert(tables.search), chunk)


def find(conn: sa.Connection, thread: Thread, query: str) -> Hits:
    """Return the messages with a word of the query, in singular or plural; nothing is a syntax error."""
    asked = _asked(thread, query)
    if not asked:
        return Hits()
    statement, sign = _statement(conn.dialect.name)
    either = sign.join(form for word in asked for form in (word, f"{word}s"))
    rows = conn.execute(statement, {"thread": thread.id, "asked": either}).all()
    return _hits(asked, {row.seq: _singular(thread, row.words.split()) for row in rows})


def scan(thread: Thread, query: str, messages: Mapping[int, BaseMessage]) -> Hits:
    """Do what `find` does, by looking through messages."""
    held = {seq: _named(thread, words(text_of(message))) for seq, message in messages.items()}
    return _hits(_asked(thread, query), {seq: _singular(thread, found) for seq, found in held.items()})


def _asked(thread: Thread, query: str) -> list[str]:
    return list(dict.fromkeys(_singular(thread, _named(thread, words(query)[:_QUERY_WORDS]))))


def _hits(asked: Sequence[str], held: Mapping[int, Sequence[str]]) -> Hits:
    scores = ranked(asked, held)
    return Hits(scores, {seq: frozenset(asked).intersection(held[seq]) for seq in scores})


def ranked(asked: Sequence[str], held: Mapping[int, Sequence[str]]) -> dict[int, float]:
    """Score texts by BM25 over these texts alone (Robertson & Zaragoza 2009); those without any word are left out."""
    counts = {seq: Counter(text) for seq, text in held.items()}
    usual = sum(map(len, held.values())) / max(1, len(held)) or 1.0
    scores: dict[int, float] = {}
    for word in asked:
        having = [seq for seq, count in counts.items() if word in count]
        rarity = math.log(1 + (len(held) - len(having) + 0.5) / (len(having) + 0.5))
        for seq in having:
            often, long = counts[seq][word], len(held[seq]) / usual
            weight = often * (_SATURATION + 1) / (often + _SATURATION * (1 - _LENGTH + _LENGTH * long))
            scores[seq] = scores.get(seq, 0.0) + rarity * weight
    return scores


def originals_first(
    order: Sequence[int], held: Mapping[int, BaseMessage], words: Mapping[int, frozenset[str]]
) -> list[int]:
    """Put what stands for other messages behind them, or leave it out where it adds nothing.

    A clipped message adds nothing where its original is among those held; what retells adds nothing where originals
    have its words.
    """
    whole = [seq for seq in order if is_original(held[seq])]
    names = {handle(held[seq]) for seq in whole}
    said = frozenset[str]().union(*(words[seq] for seq in whole))
    clipped = [seq for seq in order if (name := clipped_from(held[seq])) is not None and name not in names]
    return [*whole, *clipped, *(seq for seq in order if retells(held[seq]) and not words[seq] <= said)]


def _named(thread: Thread, found: Iterable[str]) -> list[str]:
    return [f"{_name(thread)}{encoded(word)}" for word in found]


def _singular(thread: Thread, named: Iterable[str]) -> list[str]:
    start = _name(thread)
    return [start + singular(word.removeprefix(start)) for word in named]


def _name(thread: Thread) -> str:
    """What each of a thread's words begins with."""
    return f"t{thread.id}w"


@cache
def _statement(dialect: str) -> tuple[sa.Select[int, str], str]:
    """Return the query, and what stands between two words of which either will do."""
    query = sa.select(_search.seq, _search.words).where(_search.thread == sa.bindparam("thread"))
    asked = sa.bindparam("asked", type_=sa.Text())
    if dialect == "sqlite":
        index = tables.search_fts
        whole: sa.ColumnElement[str] = sa.literal_column(index.name, sa.Text())
        query = query.join(index, index.c.rowid == _search.id).where(whole.op("MATCH")(asked))
        return query.order_by(sa.func.bm25(whole)).limit(_CANDIDATES), " OR "
    if dialect == "postgresql":
        held, wanted = tables.SEARCH_VECTOR, sa.func.to_tsquery(sa.literal_column("'simple'"), asked)
        query = query.where(held.op("@@")(wanted))
        return query.order_by(sa.func.ts_rank(held, wanted).desc(), _search.seq.desc()).limit(_CANDIDATES), " | "
    score = mysql.match(_search.words, against=asked).in_boolean_mode()
    return query.where(score).order_by(score.desc(), _search.seq.desc()).limit(_CANDIDATES), " "
