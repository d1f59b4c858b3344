"""Stores each message once per thread, under a sequence number that stands for the message in other rows."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from ..db import tables
from ..db.row_codec import HASH_PREFIX_BYTES, Keyring
from ..db.statements import BINARY_RESULTS, any_of, chunks, in_groups, insert_new
from ..db.thread_row import Thread, Threads, note
from ..db.write_recorder import NewValue, NotRecordableError, WriteRecorder
from ..errors import MessageError, RowError
from . import message_blocks
from .message_codec import HASH_BYTES, bytes_hash, check_readable, content_hash, dumps, loads, loads_plain
from .sequence_runs import Runs, count, covering, expand, runs_of

_RANGES_PER_QUERY = 100
_FEW_RANGES = 2
"""Number of ranges up to which each range is read by a query of its own.

These queries have the same text, which SQLAlchemy compiles only once; a query for several ranges is compiled anew.
"""


_FEW_NEW = 8
"""Number of messages up to which a writer expects that all of them are new to the thread."""


class PreparedMessage(NamedTuple):
    """A serialized message, ready to be stored."""

    message: BaseMessage
    body: bytes
    hash: bytes
    has_id: bool

    @property
    def hash_without_id(self) -> bytes:
        """Hash that this message would have without its id."""
        return content_hash(dumps(loads(self.body).model_copy(update={"id": None})))


class MessageStore:
    """The only writer of message rows and sequence numbers. The store holds no state and opens no transaction.

    A message is recognized by the hash of its bytes; other rows refer to messages by runs of consecutive sequence
    numbers. Every writer first locks the thread's row; sequence numbers are assigned under this lock.

    A node can write a message before the message has an id; LangGraph then assigns an id later. Such a message is
    stored without an id. The first message with an id that is otherwise equal replaces the stored message in its row.
    A reference to the message without an id keeps the sequence number and records that there was no id.
    """

    def __init__(self, keys: Keyring | None = None, now: Callable[[], float] = time.time) -> None:
        self.threads = Threads(keys, now)

    def thread(self, conn: sa.Connection, thread_id: str) -> Thread:
        """Return the conversation thread, created if needed, and lock its row until the transaction ends."""
        return self.threads.lock(conn, thread_id)

    def find(self, conn: sa.Connection, thread_id: str, *, lock: bool = True) -> Thread | None:
        """Return a conversation thread, or None if it does not exist; `lock` locks its row for the transaction."""
        return self.threads.find(conn, thread_id, lock=lock)

    def put(self, conn: sa.Connection, thread: Thread, messages: Sequence[BaseMessage]) -> Runs:
        """Store the messages that are new, and return the sequence numbers of all the messages as runs, in order.

        Raise `MessageError`, before anything is written, for a message that has no id or a value that could not be
        read again.
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
        self, conn: sa.Connection, thread: Thread, prepared: Sequence[PreparedMessage], *, checked: bool = False
    ) -> list[int]:
        """Store the messages that are new, and return the sequence number of each message.

        The method changes the counters of `thread`; the caller saves the thread's row. `checked` means that the
        caller has already called `check_readable` for each message.
        """
        hashes = [thread.codec.lookup_hash(one.hash) for one in prepared]
        seqs = {lookup_hash: thread.added[lookup_hash] for lookup_hash in hashes if lookup_hash in thread.added}
        new = {name: one for name, one in zip(hashes, prepared, strict=True) if name not in seqs}
        # a single message, the usual case, need not be looked up: the insert tells whether the message is new; but if
        # the thread has messages without ids, the message must be looked up, because it may replace one of these
        look_up = len(new) > 1 or thread.nameless
        if isinstance(conn, WriteRecorder):  # if a message is stored already, the recorded rows are not written
            if len(new) > _FEW_NEW:
                raise NotRecordableError
            look_up = False
        known = self._known(conn, thread, list(new)) if look_up else {}
        missing = {name: one for name, one in new.items() if name not in known}
        if not checked:
            for one in missing.values():
                check_readable(one.message, one.body)
        if thread.nameless:
            known.update(self._add_ids(conn, thread, missing, set(hashes)))
        fresh = {name: one for name, one in missing.items() if name not in known}
        seqs.update(known)
        seqs.update(self._insert(conn, thread, fresh))
        thread.added.update((lookup_hash, seqs[lookup_hash]) for lookup_hash in hashes)
        if fresh:
            message_blocks.move_old_messages(conn, thread)
        return [seqs[lookup_hash] for lookup_hash in hashes]

    def get(self, conn: sa.Connection, thread: Thread, runs: Runs) -> list[BaseMessage]:
        """Return the messages with the sequence numbers in `runs`; raise `RowError` for a missing or damaged row."""
        found = self.get_many(conn, thread, [runs])
        return [found[seq] for seq in expand(runs)]

    def get_many(
        self,
        conn: sa.Connection,
        thread: Thread,
        many: Iterable[Runs],
        known: Mapping[int, BaseMessage] | None = None,
        hashes: dict[int, int] | None = None,
        *,
        hash_bytes: Callable[[bytes], int] = bytes_hash,
        stored: Mapping[int, bytes] | None = None,
    ) -> dict[int, BaseMessage]:
        """Return by number each message whose sequence number is in any of the runs, once.

        Messages in `known`, and rows whose bodies are in `stored`, are not read again. For each message that is
        read, `hashes` receives the result of `hash_bytes` for its bytes.
        """
        wanted = covering(many)
        found = dict(known or {})
        missing = covering([runs_of(seq for seq in expand(wanted) if seq not in found)]) if found else wanted
        for seq, body, message in self.each(conn, thread, missing, stored):
            found[seq] = message
            if hashes is not None:
                hashes[seq] = hash_bytes(body)
        return found

    def each(
        self, conn: sa.Connection, thread: Thread, runs: Runs, stored: Mapping[int, bytes] | None = None
    ) -> Iterator[tuple[int, bytes, BaseMessage]]:
        """Yield (sequence number, body, message) of each message in sorted runs, not always in order.

        Rows whose bodies are in `stored`, by sequence number, are not read again. Only a block of messages is in
        memory at a time. Raise `RowError`, naming the row, if a row is missing or damaged.
        """
        found = 0
        for seq, body in self._bodies(conn, thread, runs, stored or {}):
            found += 1
            message = loads_plain(body)
            yield seq, body, loads(body, row=_row(thread, seq)) if message is None else message
        if found < count(runs):
            there = {seq for seq, _ in self._bodies(conn, thread, runs, {})}
            missing = next(seq for seq in expand(runs) if seq not in there)
            raise RowError(f"{_row(thread, missing)} is missing")

    def find_by_hash(self, conn: sa.Connection, thread: Thread, start: bytes) -> list[int]:
        """Return the sequence numbers of messages whose hash starts with `start` (at least 6 bytes), newest first."""
        first = thread.codec.lookup_prefix(start[:HASH_PREFIX_BYTES]) + (
            start[HASH_PREFIX_BYTES:] if thread.codec.hashes_are_plain else b""
        )
        last = first + b"\xff" * (HASH_BYTES - len(first))
        both = (
            sa.select(table.c.seq).where(table.c.thread == thread.id, table.c.hash.between(first, last))
            for table in _WITH_HASHES
        )
        seqs = sorted(conn.execute(sa.union_all(*both)).scalars(), reverse=True)
        if thread.codec.hashes_are_plain or len(start) == HASH_PREFIX_BYTES:
            return seqs
        bodies = dict(self._bodies(conn, thread, covering(((seq, 1),) for seq in seqs), {}))
        return [seq for seq in seqs if content_hash(bodies[seq]).startswith(start)]

    def _known(self, conn: sa.Connection, thread: Thread, hashes: Sequence[bytes]) -> dict[bytes, int]:
        known: dict[bytes, int] = {}
        for size, group in in_groups(list(dict.fromkeys(hashes))):
            rows = conn.execute(_seqs(size), {"thread": thread.id, **group})
            known.update((bytes(lookup_hash), seq) for lookup_hash, seq in rows)
        return known

    def _insert(
        self, conn: sa.Connection, thread: Thread, fresh: Mapping[bytes, PreparedMessage]
    ) -> dict[bytes, int]:
        """Store messages, and return their sequence numbers by lookup hash.

        Nothing is stored if there is only one message and the thread already has it: then its number is returned.
        """
        seqs = {lookup_hash: thread.next_seq + at for at, lookup_hash in enumerate(fresh)}
        rows = [
            {"thread": thread.id, "seq": seqs[name], "hash": name, "body": _encoded(thread, seqs[name], one.body)}
            for name, one in fresh.items()
        ]
        if len(rows) == 1 or isinstance(conn, WriteRecorder):
            unless = _is_stored if isinstance(conn, WriteRecorder) else _in_block if thread.packed else None
            if not all(insert_new(conn, tables.message, row, unless) for row in rows):
                if found := self._known(conn, thread, list(fresh)):
                    return found
                raise RowError(f"{_row(thread, thread.next_seq)} exists, but the thread's row counts fewer messages")
        elif rows:
            conn.execute(_INSERT, rows)
        thread.next_seq += len(rows)
        for name, one in fresh.items():
            if not one.has_id:
                thread.nameless += 1
                note(thread.known.nameless, name, seqs[name])
        return seqs

    def _add_ids(
        self, conn: sa.Connection, thread: Thread, missing: Mapping[bytes, PreparedMessage], asked: set[bytes]
    ) -> dict[bytes, int]:
        """Replace stored messages without an id by messages that differ from them only in having an id.

        Return a dict from the lookup hash of each new message to the sequence number of the message it replaced.
        """
        without_id = {
            name: thread.codec.lookup_hash(one.hash_without_id) for name, one in missing.items() if one.has_id
        }
        wanted = [name for name in without_id.values() if name not in asked]
        nameless = thread.known.nameless
        if len(nameless) == thread.nameless:
            there = {name: nameless[name] for name in wanted if name in nameless}
        else:
            there = self._known(conn, thread, wanted)
        replaced: dict[bytes, int] = {}
        for name, without in without_id.items():
            if there.get(without, -1) >= message_blocks.first_single(thread):
                replaced[name] = seq = there.pop(without)
                body = _encoded(thread, seq, missing[name].body)
                nameless.pop(without, None)
                if isinstance(conn, WriteRecorder):
                    row = {"thread": thread.id, "seq": seq, "hash": name, "body": body}
                    conn.update(tables.message, row, _is_stored)
                else:
                    conn.execute(_REPLACE, {"key": thread.id, "at": seq, "name": name, "content": body})
        thread.nameless -= len(replaced)
        return replaced

    def _bodies(
        self, conn: sa.Connection, thread: Thread, runs: Runs, stored: Mapping[int, bytes]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (sequence number, body) of each existing message in sorted runs."""
        if stored:
            read = [(seq, stored[seq]) for seq in expand(runs) if seq in stored]
            yield from _decoded(thread, read)
            runs = runs_of(seq for seq in expand(runs) if seq not in stored)
        edge = message_blocks.first_single(thread)
        old = tuple((start, min(length, edge - start)) for start, length in runs if start < edge)
        found: set[int] = set()
        for seq, body in message_blocks.bodies(conn, thread, old):
            found.add(seq)
            yield seq, body
        # old messages that are missing in the blocks are large (`message_blocks.LARGE`): they have rows of their own
        large = () if len(found) == count(old) else runs_of(seq for seq in expand(old) if seq not in found)
        ranges = [(start, start + length - 1) for start, length in large]
        ranges += [(max(start, edge), start + length - 1) for start, length in runs if start + length > edge]
        for start, end in ranges if len(ranges) <= _FEW_RANGES else ():
            where = {"thread": thread.id, "first": start, "last": end}
            yield from _decoded(thread, conn.execute(_BETWEEN, where).all())
        columns = tables.message.c
        for chunk in chunks(ranges if len(ranges) > _FEW_RANGES else (), _RANGES_PER_QUERY):
            in_range = sa.or_(*(columns.seq.between(start, end) for start, end in chunk))
            query = _BODIES.where(columns.thread == thread.id, in_range)
            yield from _decoded(thread, conn.execute(query).all())


def prepare(message: BaseMessage) -> PreparedMessage:
    """Serialize and hash a message; raise `MessageError` if a value in the message cannot be serialized."""
    body = dumps(message)
    return PreparedMessage(message, body, content_hash(body), bool(message.id))


def _decoded(thread: Thread, rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    for seq, body in rows:
        yield seq, thread.codec.decode(f"message {seq}", bytes(body))


def _encoded(thread: Thread, seq: int, body: bytes) -> bytes:
    return thread.codec.encode(f"message {seq}", body)


def _row(thread: Thread, seq: int) -> str:
    return thread.codec.describe(f"message {seq}")


@cache
def _seqs(size: int) -> sa.CompoundSelect[bytes, int]:
    both = (
        sa.select(table.c.hash, table.c.seq).where(
            table.c.thread == sa.bindparam("thread"), any_of(table.c.hash, size)
        )
        for table in _WITH_HASHES
    )
    return sa.union_all(*both)


_WITH_HASHES = (tables.message, tables.hash_)
"""Tables with the hashes of messages: one for messages in single rows, one for messages in blocks."""


def _with_hash(table: sa.Table, new_value: NewValue) -> sa.Select[int]:
    """Return the query for a message of a table that has the thread and the hash of the new message."""
    new_row = tables.message.c
    return sa.select(table.c.seq).where(
        table.c.thread == new_value(new_row.thread), table.c.hash == new_value(new_row.hash)
    )


def _in_block(new_value: NewValue) -> sa.Exists:
    return _with_hash(tables.hash_, new_value).exists()


def _is_stored(new_value: NewValue) -> sa.Exists:
    return sa.union_all(*(_with_hash(table, new_value) for table in _WITH_HASHES)).exists()


_REPLACE = (
    sa.update(tables.message)
    .where(tables.message.c.thread == sa.bindparam("key"), tables.message.c.seq == sa.bindparam("at"))
    .values(hash=sa.bindparam("name"), body=sa.bindparam("content"))
)
_INSERT = sa.insert(tables.message)
_BODIES = sa.select(tables.message.c.seq, tables.message.c.body).execution_options(**{BINARY_RESULTS: True})
_BETWEEN = _BODIES.where(
    tables.message.c.thread == sa.bindparam("thread"),
    tables.message.c.seq.between(sa.bindparam("first"), sa.bindparam("last")),
)
