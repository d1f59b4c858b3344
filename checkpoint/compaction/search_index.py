"""Indexes for the search in archives: one per thread, in memory only, built when a thread is first searched.

An index is a table of SQLite's full-text extension FTS5 in a private database in memory, whatever database holds the
archive. It holds terms, not messages. Nothing of it is ever written to a disk: an encrypted archive stays encrypted
there, and erasing a thread has no index to clean up. Later messages are added at the next search. All indexes of a
process together are kept within `MAX_BYTES`; the one that was searched longest ago goes first.
"""

import math
import os
import sqlite3
from bisect import insort
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from weakref import finalize, ref

import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage
from sqlalchemy.pool import Pool

from ..db import tables
from ..db.statements import chunks
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..errors import DatabaseError
from .original_conversation import is_original
from .search_terms import DEFAULT, language_of, query_terms, terms

MAX_BYTES = 64 * 2**20
"""Number of bytes that the indexes of a process take together. The index of a million tokens takes 4 MB."""

QUERY_TERMS = 64
"""Number of terms of a query that are searched: those in the fewest messages, of a longer query."""

IDENTIFIER_WEIGHT = 4
"""Number of times that an identifier of a query counts, where a word counts once."""

_BYTES_PER_MESSAGE = 150
"""Memory that an index takes for each message outside SQLite."""
# tokenchars: what terms contain besides letters and digits
_CREATE = """CREATE VIRTUAL TABLE archive USING fts5(terms, content='', tokenize="ascii tokenchars '-./@:#+_'''")"""
_VOCABULARY = "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(archive, 'row')"
_CLEAR = "INSERT INTO archive (archive) VALUES ('delete-all')"
_ADD = "INSERT INTO archive (rowid, terms) VALUES (?, ?)"
_COUNT = "SELECT term, doc FROM vocabulary WHERE term IN ({})"
_FIND = "SELECT rowid, -bm25(archive) FROM archive WHERE archive MATCH ?"
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"


class ThreadIndex:
    """The terms of the messages of one archive. A caller holds `lock` while it uses any other member."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.held: dict[int, str] = {}
        """The type of each message in the index, such as `human`, by its sequence number."""
        self.originals: list[int] = []
        """Sequence numbers of those that are originals (see `is_original`), in order."""
        self._languages: dict[str, None] = {DEFAULT: None}
        self._conn = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        finalize(self, self._conn.close)
        self._conn.execute("PRAGMA temp_store = MEMORY").close()
        try:
            self._conn.execute(_CREATE).close()
            self._conn.execute(_VOCABULARY).close()
        except sqlite3.OperationalError as error:
            raise DatabaseError(
                f"the archive cannot be searched: Python's SQLite {sqlite3.sqlite_version} was built without FTS5; "
                "use a Python whose SQLite has it (all builds of python.org and of the large distributions do)"
            ) from error

    def add(self, messages: Iterable[tuple[int, BaseMessage]]) -> None:
        """Add messages, each with its sequence number."""
        self._conn.execute("BEGIN").close()
        try:
            for seq, message in messages:
                text = text_of(message)
                language = language_of(text)
                self._conn.execute(_ADD, (seq, " ".join(terms(text, [language])))).close()
                self._languages[language] = None
                self.held[seq] = message.type
                if is_original(message):
                    insort(self.originals, seq)
        finally:
            self._conn.execute("COMMIT").close()  # also of messages before an error: they are in `held`

    def clear(self) -> None:
        """Remove all messages."""
        self._conn.execute(_CLEAR).close()
        self.held.clear()
        self.originals.clear()

    def terms_of(self, query: str) -> list[str]:
        """Return the terms of a query that the index holds; of a long query, those in the fewest messages."""
        asked = query_terms(query, self._languages)
        counts = self.counts(asked)
        return sorted(counts, key=counts.__getitem__)[:QUERY_TERMS]

    def counts(self, asked: Iterable[str]) -> dict[str, int]:
        """Return the number of messages that contain each of the terms, without the terms that none contains."""
        counts: dict[str, int] = {}
        for group in chunks(list(dict.fromkeys(asked))):
            counts.update(self._conn.execute(_COUNT.format(", ".join("?" * len(group))), group).fetchall())
        return counts

    def scores(self, asked: Iterable[str]) -> dict[int, float]:
        """Return the score of each message that contains one of the terms.

        The score is that of BM25, divided by the logarithm of the number of messages: a word that stands in one
        message only adds about 1.
        """
        either = " OR ".join(f'"{term}"' for term in asked)
        if not either:
            return {}
        unit = math.log(1 + len(self.held))
        return {seq: score / unit for seq, score in self._conn.execute(_FIND, (either,)).fetchall()}

    @property
    def size(self) -> int:
        """Memory that the index takes, in bytes."""
        [pages] = self._conn.execute(_SIZE).fetchone()
        return int(pages) + _BYTES_PER_MESSAGE * len(self.held)


def found_in(message: BaseMessage, asked: Collection[str]) -> frozenset[str]:
    """Return those of the terms of a query that a message contains."""
    text = text_of(message)
    return frozenset(terms(text, [language_of(text)])).intersection(asked)


def text_of(message: BaseMessage) -> str:
    """Return the searchable text of a message: its text, its name, and its tool calls."""
    calls = (
        [f"{call['name']} {call['args']}" for call in message.tool_calls] if isinstance(message, AIMessage) else []
    )
    return "\n".join([message.text, message.name or "", *calls])


@dataclass(slots=True)
class _Kept:
    """An index, and what is known about it without its lock."""

    thread: int
    """The key of its thread's row."""
    index: ThreadIndex = field(default_factory=ThreadIndex)
    hashes: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """The hash under which each message was stored, by its sequence number."""
    size: int = 0
    """Memory that it took after its last use, in bytes."""


class SearchIndexes:
    """The indexes of a process, by the pool of connections to their database and the id of their thread."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._begin()

    @contextmanager
    def open(self, transaction: Transaction, thread: Thread, archived: Mapping[int, bytes]) -> Generator[ThreadIndex]:
        """Lock the index of a thread, which holds only archived messages; the caller adds those that are missing.

        `archived` has the hash of each, by sequence number: a number can stand for another message after a failover.
        """
        if self._process != os.getpid():  # a forked child: another OS thread of the parent may have held the locks
            self._begin()
        kept = self._find((ref(transaction.conn.engine.pool), thread.thread_id), thread)
        with kept.index.lock:
            if any(archived.get(seq) != one for seq, one in kept.hashes.items()):
                kept.index.clear()
            before = len(kept.index.held)
            kept.hashes = dict(archived)
            yield kept.index
            kept.size = kept.index.size
            grown = len(kept.index.held) > before
        if grown:
            self._drop_erased(transaction)
            self._shrink()

    def drop(self, pool: Pool, thread_id: str) -> None:
        """Drop the index of a thread."""
        with self._lock:
            self._kept.pop((ref(pool), thread_id), None)

    @property
    def size(self) -> int:
        """Memory that all indexes take, in bytes."""
        with self._lock:
            return self._size()

    def _size(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._kept: OrderedDict[tuple[ref[Pool], str], _Kept] = OrderedDict()

    def _find(self, key: tuple[ref[Pool], str], thread: Thread) -> _Kept:
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is None or kept.thread != thread.id:
                kept = _Kept(thread.id)
            self._kept[key] = kept
            return kept

    def _drop_erased(self, transaction: Transaction) -> None:
        """Drop the indexes of threads that another process erased, and of databases that were closed."""
        pool = ref(transaction.conn.engine.pool)
        with self._lock:
            mine = {kept.thread: key for key, kept in self._kept.items() if key[0] == pool}
        there: set[int] = set()
        for group in chunks(list(mine)):
            there.update(
                transaction.execute(sa.select(tables.thread.c.id).where(tables.thread.c.id.in_(group))).scalars()
            )
        gone = [key for name, key in mine.items() if name not in there]
        with self._lock:
            for key in [*gone, *(key for key in self._kept if key[0]() is None)]:
                self._kept.pop(key, None)

    def _shrink(self) -> None:
        """Drop the indexes that were searched longest ago until the others are within the limit."""
        with self._lock:
            while self._size() > self._max_bytes:
                self._kept.popitem(last=False)


INDEXES = SearchIndexes()
"""The indexes of this process."""
