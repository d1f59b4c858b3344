"""Messages, each stored once per thread, and the sequence numbers that stand for them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from . import tables
from .codec import HASH_BYTES, content_hash, dumps, loads, prove
from .errors import MessageError, RowError
from .runs import Runs, count, covering, expand, runs_of
from .statements import insert_if_absent

_HASHES_A_QUERY = 500
_RUNS_A_QUERY = 100
T = TypeVar("T")


class MessageStore:
    """The only writer of message rows and sequence numbers. It holds no state and opens no transaction.

    A message is found again by the hash of its bytes; whoever keeps messages keeps runs of their numbers.
    Numbers are given out under the lock of the thread's row, which every writer takes first.
    """

    def thread(self, conn: sa.Connection, thread_id: str) -> int:
        """Return the thread's integer key, creating the thread if needed, and hold its lock to the end."""
        if (found := self.find(conn, thread_id)) is not None:
            return found
        insert_if_absent(conn, tables.thread, {"thread_id": thread_id, "next_seq": 0, "generation": 0})
        return conn.execute(_by_name(thread_id).with_for_update()).scalar_one()

    def find(self, conn: sa.Connection, thread_id: str, *, lock: bool = True) -> int | None:
        """Return the key of a thread, or None where there is none; with `lock` hold its row to the end."""
        query = _by_name(thread_id)
        return conn.execute(query.with_for_update() if lock else query).scalar_one_or_none()

    def put(self, conn: sa.Connection, thread: int, messages: Sequence[BaseMessage]) -> Runs:
        """Store the messages that are not yet there, and return the runs that stand for the list, in order.

        MessageError, before anything is written, for a message without an id or with a value that would not
        come back.
        """
        bodies = [_body(message) for message in messages]
        hashes = [content_hash(body) for body in bodies]
        next_seq = _lock(conn, thread)
        seqs = _known(conn, thread, hashes)
        fresh: list[dict[str, object]] = []
        for message, body, name in zip(messages, bodies, hashes, strict=True):
            if name not in seqs:
                prove(message, body)
                seqs[name] = next_seq + len(fresh)
                fresh.append({"thread": thread, "seq": seqs[name], "hash": name, "body": body})
        if fresh:
            conn.execute(sa.insert(tables.message), fresh)
            advance = sa.update(tables.thread).where(tables.thread.c.id == thread)
            conn.execute(advance.values(next_seq=next_seq + len(fresh)))
        return runs_of(seqs[name] for name in hashes)

    def get(self, conn: sa.Connection, thread: int, runs: Runs) -> list[BaseMessage]:
        """Return the messages the runs stand for; RowError names a row that is missing or damaged."""
        found = self.get_many(conn, thread, [runs])
        return [found[seq] for seq in expand(runs)]

    def get_many(self, conn: sa.Connection, thread: int, many: Iterable[Runs]) -> dict[int, BaseMessage]:
        """Return each message of any of the runs once, by its sequence number."""
        wanted = covering(many)
        rows = {seq: (name, body) for seq, name, body in _rows(conn, thread, wanted)}
        if len(rows) != count(wanted):
            missing = next(seq for seq in expand(wanted) if seq not in rows)
            raise RowError(f"{_row(thread, missing)} is missing")
        return {seq: _message(thread, seq, *row) for seq, row in rows.items()}

    def find_prefix(self, conn: sa.Connection, thread: int, prefix: bytes) -> list[int]:
        """Return the numbers of the thread's messages whose hash starts with these bytes, newest first."""
        columns = tables.message.c
        last = prefix + b"\xff" * (HASH_BYTES - len(prefix))
        query = sa.select(columns.seq).where(columns.thread == thread, columns.hash.between(prefix, last))
        return list(conn.execute(query.order_by(columns.seq.desc())).scalars())


def _by_name(thread_id: str) -> sa.Select[int]:
    return sa.select(tables.thread.c.id).where(tables.thread.c.thread_id == thread_id)


def _lock(conn: sa.Connection, thread: int) -> int:
    """Take the thread row's lock and return the next free sequence number."""
    query = sa.select(tables.thread.c.next_seq).where(tables.thread.c.id == thread).with_for_update()
    found: int | None = conn.execute(query).scalar_one_or_none()
    if found is None:
        raise RowError(f"the row of thread {thread} is missing")
    return found


def _known(conn: sa.Connection, thread: int, hashes: Sequence[bytes]) -> dict[bytes, int]:
    """Return the sequence numbers of those hashes that the thread already holds."""
    columns = tables.message.c
    known: dict[bytes, int] = {}
    for chunk in _chunks(dict.fromkeys(hashes), _HASHES_A_QUERY):
        query = sa.select(columns.hash, columns.seq).where(columns.thread == thread, columns.hash.in_(chunk))
        known.update((bytes(name), seq) for name, seq in conn.execute(query))
    return known


def _rows(conn: sa.Connection, thread: int, runs: Runs) -> Iterator[tuple[int, bytes, bytes]]:
    columns = tables.message.c
    for chunk in _chunks(runs, _RUNS_A_QUERY):
        ranges = sa.or_(*(columns.seq.between(start, start + length - 1) for start, length in chunk))
        query = sa.select(columns.seq, columns.hash, columns.body).where(columns.thread == thread, ranges)
        for seq, name, body in conn.execute(query):
            yield seq, bytes(name), bytes(body)


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _body(message: BaseMessage) -> bytes:
    if not message.id:
        raise MessageError(f"a {message.type} message has no id; every message needs one before it is stored")
    return dumps(message)


def _message(thread: int, seq: int, name: bytes, body: bytes) -> BaseMessage:
    if content_hash(body) != name:
        raise RowError(f"{_row(thread, seq)} is damaged: its bytes are not those that were stored")
    return loads(body, row=_row(thread, seq))


def _row(thread: int, seq: int) -> str:
    return f"message {seq} of thread {thread}"
