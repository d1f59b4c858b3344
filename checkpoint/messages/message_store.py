"""Messages, each stored once per thread, and the sequence numbers that stand for them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from ..db import tables
from ..db.row_codec import HASH_PREFIX_BYTES, Keyring
from ..db.statements import IN_BINARY, any_of, chunks, in_groups, insert_new, new_value
from ..db.thread_row import Thread, Threads
from ..errors import MessageError, RowError
from . import message_blocks
from .message_codec import HASH_BYTES, bytes_hash, content_hash, dumps, loads, loads_plain, prove
from .sequence_runs import Runs, count, covering, expand, runs_of

_RUNS_A_QUERY = 100
_FEW = 2  # ranges that are asked for one by one: a query that is always the same costs least


class Prepared(NamedTuple):
    """A message ready to be stored."""

    message: BaseMessage
    body: bytes
    digest: bytes
    named: bool
    """Whether it has an id."""

    @property
    def bare(self) -> bytes:
        """Digest of the same message without its id."""
        return content_hash(dumps(loads(self.body).model_copy(update={"id": None})))


class MessageStore:
    """The only writer of message rows and sequence numbers. It holds no state and opens no transaction.

    A message is found again by the hash of its bytes; whoever keeps messages keeps runs of their numbers.
    Numbers are given out under the lock of the thread's row, which every writer takes first.

    A node writes some messages before they have an id and LangGraph gives them one afterwards. Such a message
    takes a number without an id; the first one that is equal but for its id takes over that row, so that both
    are one row. Whoever keeps a message without an id keeps its number and the fact that it had none.
    """

    def __init__(self, keys: Keyring | None = None, now: Callable[[], float] = time.time) -> None:
        self.threads = Threads(keys, now)

    def thread(self, conn: sa.Connection, thread_id: str) -> Thread:
        """Return the thread, created if needed, and hold its lock to the end."""
        return self.threads.lock(conn, thread_id)

    def find(self, conn: sa.Connection, thread_id: str, *, lock: bool = True) -> Thread | None:
        """Return a thread, or None where there is none; with `lock` hold its row to the end."""
        return self.threads.find(conn, thread_id, lock=lock)

    def put(self, conn: sa.Connection, thread: Thread, messages: Sequence[BaseMessage]) -> Runs:
        """Store the messages that are not yet there, and return the runs that stand for the list, in order.

        MessageError, before anything is written, for a message without an id or with a value that would not
        come back.
        """
        for message in messages:
            if not message.id:
                raise MessageError(f"a {message.type} message has no id; every message needs one before it is stored")
        before = thread.next_seq, thread.nameless
        seqs = self.add(conn, thread, [prepare(message) for message in messages])
        if (thread.next_seq, thread.nameless) != before:
            self.threads.save(conn, thread)
        return runs_of(seqs)

    def add(
        self, conn: sa.Connection, thread: Thread, prepared: Sequence[Prepared], *, proven: bool = False
    ) -> list[int]:
        """Store what is not yet there and return each one's number. The thread's counters are not saved yet.

        With `proven` the caller has seen that each can be read again.
        """
        hashes = [thread.codec.lookup_hash(one.digest) for one in prepared]
        seqs = {name: thread.added[name] for name in hashes if name in thread.added}
        new = {name: one for name, one in zip(hashes, prepared, strict=True) if name not in seqs}
        # most often there is one: unless it may stand there without its id, inserting it tells whether it is new
        ask = len(new) > 1 or thread.nameless
        known = self._known(conn, thread, list(new)) if ask else {}
        missing = {name: one for name, one in new.items() if name not in known}
        if not proven:
            for one in missing.values():
                prove(one.message, one.body)
        if thread.nameless:
            known.update(self._take_over(conn, thread, missing, set(hashes)))
        fresh = {name: one for name, one in missing.items() if name not in known}
        seqs.update(known)
        seqs.update(self._insert(conn, thread, fresh))
        thread.added.update((name, seqs[name]) for name in hashes)
        if fresh:
            message_blocks.pack_old(conn, thread)
        return [seqs[name] for name in hashes]

    def get(self, conn: sa.Connection, thread: Thread, runs: Runs) -> list[BaseMessage]:
        """Return the messages the runs stand for; RowError names a row that is missing or damaged."""
        found = self.get_many(conn, thread, [runs])
        return [found[seq] for seq in expand(runs)]

    def get_many(
        self,
        conn: sa.Connection,
        thread: Thread,
        many: Iterable[Runs],
        known: Mapping[int, BaseMessage] | None = None,
        prints: dict[int, int] | None = None,
        *,
        hash_bytes: Callable[[bytes], int] = bytes_hash,
    ) -> dict[int, BaseMessage]:
        """Return each message of any of the runs once, by its number; those in `known` are not read again.

        `prints` gains what `hash_bytes` returns of the bytes of each that is read.
        """
        wanted = covering(many)
        found = dict(known or {})
        missing = covering([runs_of(seq for seq in expand(wanted) if seq not in found)]) if found else wanted
        for seq, body, message in self.each(conn, thread, missing):
            found[seq] = message
            if prints is not None:
                prints[seq] = hash_bytes(body)
        return found

    def each(self, conn: sa.Connection, thread: Thread, runs: Runs) -> Iterator[tuple[int, bytes, BaseMessage]]:
        """Yield (number, body, message) of each message of sorted runs, not always in order; few are held at a time.

        RowError names a row that is missing or damaged.
        """
        found = 0
        for seq, body in self._bodies(conn, thread, runs):
            found += 1
            message = loads_plain(body)
            yield seq, body, loads(body, row=_row(thread, seq)) if message is None else message
        if found < count(runs):
            there = {seq for seq, _ in self._bodies(conn, thread, runs)}
            gone = next(seq for seq in expand(runs) if seq not in there)
            raise RowError(f"{_row(thread, gone)} is missing")

    def find_digest(self, conn: sa.Connection, thread: Thread, start: bytes) -> list[int]:
        """Return the numbers of the messages whose digest started with these (at least 6) bytes, newest first."""
        first = thread.codec.lookup_prefix(start[:HASH_PREFIX_BYTES]) + (
            start[HASH_PREFIX_BYTES:] if thread.codec.hashes_are_plain else b""
        )
        last = first + b"\xff" * (HASH_BYTES - len(first))
        both = (
            sa.select(table.c.seq).where(table.c.thread == thread.id, table.c.hash.between(first, last))
            for table in _NAMED
        )
        seqs = sorted(conn.execute(sa.union_all(*both)).scalars(), reverse=True)
        if thread.codec.hashes_are_plain or len(start) == HASH_PREFIX_BYTES:
            return seqs
        bodies = dict(self._bodies(conn, thread, covering(((seq, 1),) for seq in seqs)))
        return [seq for seq in seqs if content_hash(bodies[seq]).startswith(start)]

    def _known(self, conn: sa.Connection, thread: Thread, hashes: Sequence[bytes]) -> dict[bytes, int]:
        known: dict[bytes, int] = {}
        for size, group in in_groups(list(dict.fromkeys(hashes))):
            rows = conn.execute(_seqs(size), {"thread": thread.id, **group})
            known.update((bytes(name), seq) for name, seq in rows)
        return known

    def _insert(self, conn: sa.Connection, thread: Thread, fresh: Mapping[bytes, Prepared]) -> dict[bytes, int]:
        """Store messages and return their numbers; a single one may be there."""
        seqs = {name: thread.next_seq + place for place, name in enumerate(fresh)}
        rows = [
            {"thread": thread.id, "seq": seqs[name], "hash": name, "body": _closed(thread, seqs[name], one.body)}
            for name, one in fresh.items()
        ]
        if len(rows) == 1 and not insert_new(conn, tables.message, rows[0], _PACKED if thread.packed else None):
            if found := self._known(conn, thread, list(fresh)):
                return found
            raise RowError(f"{_row(thread, thread.next_seq)} is there already: the thread counts fewer")
        if len(rows) > 1:
            conn.execute(_INSERT, rows)
        thread.next_seq += len(rows)
        thread.nameless += sum(not one.named for one in fresh.values())
        return seqs

    def _take_over(
        self, conn: sa.Connection, thread: Thread, missing: Mapping[bytes, Prepared], asked: set[bytes]
    ) -> dict[bytes, int]:
        """Let messages have the rows of those that equal them but for the id; return the numbers of these rows."""
        bare = {name: thread.codec.lookup_hash(one.bare) for name, one in missing.items() if one.named}
        there = self._known(conn, thread, [name for name in bare.values() if name not in asked])
        taken: dict[bytes, int] = {}
        for name, without in bare.items():
            if there.get(without, -1) >= message_blocks.first_loose(thread):
                taken[name] = seq = there.pop(without)
                body = _closed(thread, seq, missing[name].body)
                conn.execute(_SET, {"key": thread.id, "at": seq, "name": name, "content": body})
        thread.nameless -= len(taken)
        return taken

    def _bodies(self, conn: sa.Connection, thread: Thread, runs: Runs) -> Iterator[tuple[int, bytes]]:
        """Yield (number, body) of those messages of sorted runs that are there."""
        edge = message_blocks.first_loose(thread)
        old = tuple((start, min(length, edge - start)) for start, length in runs if start < edge)
        found: set[int] = set()
        for seq, body in message_blocks.bodies(conn, thread, old):
            found.add(seq)
            yield seq, body
        # large ones stand beside the packs
        beside = () if len(found) == count(old) else runs_of(seq for seq in expand(old) if seq not in found)
        loose = [(start, start + length - 1) for start, length in beside]
        loose += [(max(start, edge), start + length - 1) for start, length in runs if start + length > edge]
        for start, end in loose if len(loose) <= _FEW else ():
            where = {"thread": thread.id, "first": start, "last": end}
            yield from _opened(thread, conn.execute(_BETWEEN, where).all())
        columns = tables.message.c
        for chunk in chunks(loose if len(loose) > _FEW else (), _RUNS_A_QUERY):
            ranges = sa.or_(*(columns.seq.between(start, end) for start, end in chunk))
            query = _BODIES.where(columns.thread == thread.id, ranges)
            yield from _opened(thread, conn.execute(query).all())


def prepare(message: BaseMessage) -> Prepared:
    """Serialize a message once, and hash it. MessageError where it has no form."""
    body = dumps(message)
    return Prepared(message, body, content_hash(body), bool(message.id))


def _opened(thread: Thread, rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    for seq, body in rows:
        yield seq, thread.codec.decode(f"message {seq}", bytes(body))


def _closed(thread: Thread, seq: int, body: bytes) -> bytes:
    return thread.codec.encode(f"message {seq}", body)


def _row(thread: Thread, seq: int) -> str:
    return thread.codec.describe(f"message {seq}")


@cache
def _seqs(size: int) -> sa.CompoundSelect[bytes, int]:
    both = (
        sa.select(table.c.hash, table.c.seq).where(
            table.c.thread == sa.bindparam("thread"), any_of(table.c.hash, size)
        )
        for table in _NAMED
    )
    return sa.union_all(*both)


_NAMED = (tables.message, tables.hash_)
"""Where the hash of a message may stand: beside its body or, once it is packed, by itself."""
_PACKED = sa.exists().where(
    tables.hash_.c.thread == new_value(tables.message.c.thread),
    tables.hash_.c.hash == new_value(tables.message.c.hash),
)
_SET = (
    sa.update(tables.message)
    .where(tables.message.c.thread == sa.bindparam("key"), tables.message.c.seq == sa.bindparam("at"))
    .values(hash=sa.bindparam("name"), body=sa.bindparam("content"))
)
_INSERT = sa.insert(tables.message)
_BODIES = sa.select(tables.message.c.seq, tables.message.c.body).execution_options(**{IN_BINARY: True})
_BETWEEN = _BODIES.where(
    tables.message.c.thread == sa.bindparam("thread"),
    tables.message.c.seq.between(sa.bindparam("first"), sa.bindparam("last")),
)
