"""Full-text search over a thread's archive: FTS5, tsvector or FULLTEXT finds, the same few lines rank everywhere.

The index holds what was archived when somebody last searched; each search first adds what is new, so that threads
in which nobody searches pay nothing. Each word carries its thread, so that no other thread's rows are looked at.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy.dialects import mysql

from . import tables
from .statements import chunks
from .threads import Thread
from .words import encoded, words

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


def find(conn: sa.Connection, thread: Thread, query: str) -> dict[int, float]:
    """Return the numbers of the messages with a word of the query, each with its score; nothing is a syntax error."""
    asked = list(dict.fromkeys(_named(thread, words(query)[:_QUERY_WORDS])))
    if not asked:
        return {}
    statement, sign = _statement(conn.dialect.name)
    rows = conn.execute(statement, {"thread": thread.id, "asked": sign.join(asked)}).all()
    return ranked(asked, {row.seq: row.words.split() for row in rows})


def scan(thread: Thread, query: str, messages: Mapping[int, BaseMessage]) -> dict[int, float]:
    """Do what `find` does, by looking through messages."""
    asked = list(dict.fromkeys(_named(thread, words(query)[:_QUERY_WORDS])))
    return ranked(asked, {seq: _named(thread, words(text_of(message))) for seq, message in messages.items()})


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


def _named(thread: Thread, found: Iterable[str]) -> list[str]:
    return [f"t{thread.id}w{encoded(word)}" for word in found]


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
