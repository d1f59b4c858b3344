"""Stores messages and large values, each once per thread, under a number by which other rows refer to it.

Messages have the sequence numbers 0, 1, 2 ..., so that a list of messages is a few runs of numbers. A large value
with the number n has the sequence number -1 - n. Old messages are packed, 96 to a row: together they compress to
about a third. Large messages, most of them images, keep rows of their own: a packed row is read as a whole, and
MariaDB accepts at most 16 MB at once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.row_codec import RowCodec, intact
from ..db.statements import any_of, chunks, in_groups
from ..db.thread_row import StoredList, Thread
from ..db.transaction import Transaction
from ..errors import KeyringError, RowError
from .message_codec import content_hash
from .references import References
from .sequence_runs import Runs, covering, decode_runs, expand, runs_of

PACK = 96
"""Number of messages in a packed row, which MariaDB stores in 16 kB pages; the last is half empty on average."""
LARGE = 2**16
"""Size in bytes above which a stored message keeps a row of its own."""
HASH_BYTES = 16
GONE = bytes(HASH_BYTES)
"""The hash of a message that is no longer, or never was, in its packed row."""
_NEAR = 4 * PACK
_RANGES_PER_QUERY = 64
_item = tables.item.c


@dataclass(slots=True)
class Batch:
    """What a transaction adds to a thread. What is known of the thread is changed by nobody before the commit."""

    thread: Thread
    next_seq: int = field(init=False)
    next_value: int = field(init=False)
    next_checkpoint: int = field(init=False)
    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Rows of the table `item`."""
    seqs: dict[bytes, int] = field(default_factory=dict[bytes, int])
    lists: dict[tuple[str, str], StoredList] = field(default_factory=dict[tuple[str, str], StoredList])

    def __post_init__(self) -> None:
        thread = self.thread
        self.next_seq, self.next_value = thread.next_seq, thread.next_value
        self.next_checkpoint = thread.next_checkpoint

    def add_message(self, body: bytes) -> int:
        """Return the sequence number of a serialized message, which is stored if it is new to the thread."""
        seq = self._add(body, self.next_seq)
        if seq == self.next_seq:
            self.next_seq += 1
        return seq

    def add_value(self, data: bytes) -> int:
        """Return the number of a large value, which is stored if it is new to the thread."""
        number = -1 - self._add(data, -1 - self.next_value)
        if number == self.next_value:
            self.next_value += 1
        return number

    def count(self) -> None:
        """Set the thread's counters, to be saved in this transaction."""
        thread = self.thread
        thread.next_seq, thread.next_value = self.next_seq, self.next_value
        thread.next_checkpoint = self.next_checkpoint

    def _add(self, data: bytes, new: int) -> int:
        """Return the sequence number of an item, which is stored under the number `new` if there is no such item."""
        thread = self.thread
        if thread.seqs is None:
            raise LookupError("the hashes of the thread's items were not read")
        lookup_hash = thread.codec.lookup_hash(content_hash(data))
        seq = thread.seqs.get(lookup_hash)
        if seq is None:
            seq = self.seqs.get(lookup_hash)
        if seq is None:
            self.seqs[lookup_hash] = seq = new
            body = thread.codec.encode(_row(seq, 1), data)
            self.items.append({"thread": thread.id, "seq": seq, "held": 1, "hashes": lookup_hash, "body": body})
        return seq


def insert(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of items."""
    if len(rows) == 1:
        transaction.run(_INSERT, rows[0])
    elif rows:
        transaction.run_many(_INSERT, rows)


def read_hashes(transaction: Transaction, thread: Thread) -> dict[bytes, int]:
    """Return the sequence number of each item by its lookup hash, as they are in the database."""
    if not (thread.next_seq or thread.next_value):
        return {}
    return hashes_of(transaction.run(_HASHES, {"thread": thread.id}).fetchall())


def hashes_of(rows: Iterable[tuple[int, bytes]]) -> dict[bytes, int]:
    """Return sequence numbers by lookup hash from rows of (seq, hashes)."""
    found: dict[bytes, int] = {}
    for seq, data in rows:
        hashes = bytes(data)
        if len(hashes) == HASH_BYTES:
            found[hashes] = seq
        else:
            found.update(
                (hashes[at : at + HASH_BYTES], seq + at // HASH_BYTES) for at in range(0, len(hashes), HASH_BYTES)
            )
    found.pop(GONE, None)
    return found


def packs_due(count: int) -> int:
    """Return how many packed rows a thread with `count` messages should have."""
    return count // PACK


def pack_old(transaction: Transaction, thread: Thread) -> None:
    """Pack old messages; the caller saves the thread's row.

    A row that cannot be decoded stays as it is: reading it raises an error, but writers can go on.
    """
    while thread.packed < packs_due(thread.next_seq):
        first = thread.packed * PACK
        where = {"thread": thread.id, "first": first, "last": first + PACK - 1}
        bodies: list[bytes | None] = [None] * PACK
        hashes = [GONE] * PACK
        moved: list[dict[str, int]] = []
        for seq, lookup_hash, body in transaction.run(_ROWS, where).fetchall():
            if len(body) <= LARGE:
                with suppress(RowError, KeyringError):
                    bodies[seq - first] = thread.codec.decode(_row(seq, 1), bytes(body))
                    hashes[seq - first] = bytes(lookup_hash)
                    moved.append({"thread": thread.id, "seq": seq})
        if len(moved) > 1:
            transaction.run_many(_DELETE, moved)
            insert(transaction, [packed_row(thread, first, hashes, bodies)])
        thread.packed += 1


def packed_row(thread: Thread, first: int, hashes: Sequence[bytes], bodies: Sequence[bytes | None]) -> dict[str, Any]:
    """Return the row that holds the messages from `first` on, with None for one that is not in it.

    Where its first message keeps a row of its own, the packed row is stored under the number of the next that does
    not.
    """
    start = next(place for place, body in enumerate(bodies) if body is not None)
    body = thread.codec.encode(_row(first + start, PACK - start), ormsgpack.packb(list(bodies[start:])))
    held = PACK - bodies.count(None)
    return {
        "thread": thread.id,
        "seq": first + start,
        "held": held,
        "hashes": b"".join(hashes[start:]),
        "body": body,
    }


def open_rows(codec: RowCodec, rows: Iterable[tuple[int, bytes, bytes]], found: dict[int, bytes]) -> None:
    """Add to `found`, by sequence number, the data of each item in rows of (seq, hashes, body)."""
    for seq, hashes, body in rows:
        span = len(hashes) // HASH_BYTES
        data = codec.decode(_row(seq, span), body)
        if span == 1:
            found[seq] = data
            continue
        with intact(codec.describe(_row(seq, span))):
            held: list[bytes | None] = ormsgpack.unpackb(data)
            if len(held) != span or not {bytes, type(None)}.issuperset(map(type, held)):
                raise ValueError("not a packed row")
            found.update({seq + at: one for at, one in enumerate(held) if one is not None})


def fetch(
    transaction: Transaction, thread: Thread, wanted: References, known: Mapping[int, bytes] | None = None
) -> dict[int, bytes]:
    """Return the data of items by sequence number; raise `RowError`, naming the row, for a missing or damaged one.

    Items in `known` are not read again. There can be more messages than were wanted.
    """
    found = dict(known or {})
    values = [-1 - number for number in {*wanted.values, *wanted.shared} if -1 - number not in found]
    for size, group in in_groups(values):
        rows = transaction.run(_chosen(size), {"thread": thread.id, **group}).fetchall()
        open_rows(thread.codec, rows, found)
    runs = wanted.runs
    if wanted.shared:
        runs = covering([runs, *(shared_runs(found, number, thread) for number in wanted.shared)])
    check_runs(thread, runs)
    _read_messages(transaction, thread, runs, found)
    missing = next((seq for seq in (*values, *expand(runs)) if seq not in found), None)
    if missing is not None:
        raise RowError(f"{thread.codec.describe(_row(missing, 1))} is missing")
    return found


def check_runs(thread: Thread, runs: Runs) -> None:
    """Raise `RowError` for a sequence number that the thread has never assigned."""
    for start, length in runs:
        if start < 0 or length < 1 or start + length > thread.next_seq:
            name = thread.codec.describe(_row(start + length - 1, 1))
            raise RowError(f"{name} never existed: a row that refers to it is damaged")


def shared_runs(data: Mapping[int, bytes], number: int, thread: Thread) -> Runs:
    """Return the runs that a value holds; see `References.shared`."""
    row = thread.codec.describe(_row(-1 - number, 1))
    if -1 - number not in data:
        raise RowError(f"{row} is missing")
    return decode_runs(data[-1 - number], row=row)


def erase_within(
    transaction: Transaction, thread: Thread, row: tuple[int, bytes, bytes], live: Collection[int]
) -> None:
    """Erase the messages of a packed row (seq, hashes, body) whose sequence numbers are not in `live`."""
    seq, hashes, _ = row
    found: dict[int, bytes] = {}
    open_rows(thread.codec, [row], found)
    span = len(hashes) // HASH_BYTES
    bodies = [found.get(at) if at in live else None for at in range(seq, seq + span)]
    held = [
        hashes[at * HASH_BYTES : (at + 1) * HASH_BYTES] if body is not None else GONE
        for at, body in enumerate(bodies)
    ]
    body = thread.codec.encode(_row(seq, span), ormsgpack.packb(bodies))
    _change(transaction, thread, seq, {"held": span - bodies.count(None), "hashes": b"".join(held), "body": body})


def hash_again(transaction: Transaction, thread: Thread, row: tuple[int, bytes, bytes]) -> None:
    """Give the items of a row (seq, hashes, body) the hashes of the thread."""
    seq, hashes, body = row
    found: dict[int, bytes] = {}
    open_rows(thread.codec, [row], found)
    span = len(hashes) // HASH_BYTES
    anew = [
        thread.codec.lookup_hash(content_hash(found[at])) if at in found else GONE for at in range(seq, seq + span)
    ]
    _change(transaction, thread, seq, {"held": len(found), "hashes": b"".join(anew), "body": body})


def _change(transaction: Transaction, thread: Thread, seq: int, values: Mapping[str, Any]) -> None:
    transaction.run(_CHANGE, {"key": thread.id, "at": seq, **{f"new_{name}": one for name, one in values.items()}})


def all_rows(transaction: Transaction, thread: Thread) -> list[tuple[int, bytes, bytes]]:
    """Return (seq, hashes, body) of each row of items."""
    return [(seq, bytes(h), bytes(body)) for seq, h, body in transaction.run(_ALL, {"thread": thread.id}).fetchall()]


def delete(transaction: Transaction, thread: Thread, seqs: Iterable[int]) -> None:
    """Delete rows by their sequence numbers."""
    if rows := [{"thread": thread.id, "seq": seq} for seq in seqs]:
        transaction.run_many(_DELETE, rows)


def _read_messages(transaction: Transaction, thread: Thread, runs: Runs, found: dict[int, bytes]) -> None:
    """Add the messages in sorted runs to those that were found, with others from the same rows."""
    if found:
        runs = runs_of([seq for seq in expand(runs) if seq not in found])
    edge = thread.packed * PACK
    ranges: list[tuple[int, int]] = []
    for start, length in runs:
        # a packed row has the number of its first message
        first, end = start // PACK * PACK if start < edge else start, start + length
        if ranges and first <= ranges[-1][1] + _NEAR:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((first, end))
    for some in chunks(ranges, _RANGES_PER_QUERY):
        where = {f"first_{place}": one for place, (one, _) in enumerate(some)}
        where |= {f"last_{place}": one - 1 for place, (_, one) in enumerate(some)}
        rows = transaction.run(_between(len(some)), {"thread": thread.id, **where}).fetchall()
        open_rows(thread.codec, rows, found)


def row_name(seq: int, hashes: bytes) -> str:
    """Return the name of a row of items; `RowCodec` binds the row's body to this name."""
    return _row(seq, len(hashes) // HASH_BYTES)


def _row(seq: int, span: int) -> str:
    if seq < 0:
        return f"value {-1 - seq}"
    return f"message {seq}" if span == 1 else f"messages {seq} to {seq + span - 1}"


_OURS = _item.thread == sa.bindparam("thread")
_INSERT = sa.insert(tables.item).values({one.name: sa.bindparam(one.name, type_=one.type) for one in _item})
_HASHES = sa.select(_item.seq, _item.hashes).where(_OURS)
_ALL = sa.select(_item.seq, _item.hashes, _item.body).where(_OURS).order_by(_item.seq)
_DELETE = sa.delete(tables.item).where(_OURS, _item.seq == sa.bindparam("seq"))
_CHANGE = (
    sa.update(tables.item)
    .where(_item.thread == sa.bindparam("key"), _item.seq == sa.bindparam("at"))
    .values({name: sa.bindparam(f"new_{name}") for name in ("held", "hashes", "body")})
)
_ROWS = sa.select(_item.seq, _item.hashes, _item.body).where(
    _OURS, _item.seq.between(sa.bindparam("first"), sa.bindparam("last")), _item.held == sa.literal_column("1")
)


@cache
def _chosen(size: int) -> sa.Select[int, bytes, bytes]:
    return sa.select(_item.seq, _item.hashes, _item.body).where(_OURS, any_of(_item.seq, size))


@cache
def _between(size: int) -> sa.Select[int, bytes, bytes]:
    parts = [_item.seq.between(sa.bindparam(f"first_{at}"), sa.bindparam(f"last_{at}")) for at in range(size)]
    return sa.select(_item.seq, _item.hashes, _item.body).where(_OURS, sa.or_(*parts)).order_by(_item.seq)
