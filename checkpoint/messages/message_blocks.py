"""Old messages, 96 to a row: compressed together they take about a third of what they take one by one.

Large ones, most of them images, stay in rows of their own: a pack is read for a single message too, and a row
must fit into what a database takes at once (MariaDB: 16 MB).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.row_codec import intact
from ..db.statements import IN_BINARY, any_of, ignoring, in_groups
from ..db.thread_row import Thread
from ..errors import KeyringError, RowError

BLOCK = 96
"""Messages in a pack: MariaDB keeps it in pages of 16 kB of its own, and the last one is half empty on average."""

LARGE = 2**16
"""Bytes, as stored, up to which a message is packed."""

_LOOSE_BLOCKS = 2  # the last one is still growing; the one before keeps a pack from being made just before it is read
_PACKED_AT_ONCE = 32
_message, _pack = tables.message.c, tables.pack.c


def first_loose(thread: Thread) -> int:
    """Return the sequence number from which on all messages have rows of their own."""
    return thread.packed * BLOCK


def due(count: int) -> int:
    """Return how many blocks of a thread with so many messages are packed."""
    return max(count // BLOCK - _LOOSE_BLOCKS + 1, 0)


def pack_old(conn: sa.Connection, thread: Thread) -> None:
    """Pack every block that is far enough behind the newest message. The thread's counters are not saved yet.

    A row that cannot be opened stays where it is: who reads it is told, and who adds a message is not kept from it.
    """
    end = due(thread.next_seq)
    while thread.packed < end:
        blocks = range(thread.packed, min(thread.packed + _PACKED_AT_ONCE, end))
        old = _message.seq.between(blocks.start * BLOCK, blocks.stop * BLOCK - 1)
        ours = sa.and_(_message.thread == thread.id, old, sa.func.length(_message.body) <= LARGE)
        found = dict(_where_whole(thread, conn.execute(sa.select(_message.seq, _message.body).where(ours))))
        if damaged := [seq for seq, body in found.items() if body is None]:
            ours = sa.and_(ours, _message.seq.not_in(damaged))
        write(conn, thread, {block: [found.get(block * BLOCK + place) for place in range(BLOCK)] for block in blocks})
        named = sa.select(_message.thread, _message.hash, _message.seq).where(ours)
        # a hash may be there only where somebody harmed the rows
        conn.execute(ignoring(conn.dialect.name, tables.hash_).from_select(["thread", "hash", "seq"], named))
        conn.execute(sa.delete(tables.message).where(ours))
        thread.packed = blocks.stop


def write(conn: sa.Connection, thread: Thread, blocks: Mapping[int, Sequence[bytes | None]]) -> None:
    """Write the packs of blocks, None for a message that is not in it; nothing for a block with no message."""
    rows = [
        {
            "thread": thread.id,
            "block": block,
            "body": thread.codec.encode(f"pack {block}", ormsgpack.packb(list(held))),
        }
        for block, held in blocks.items()
        if any(body is not None for body in held)
    ]
    if rows:
        conn.execute(sa.insert(tables.pack), rows)


def read(conn: sa.Connection, thread: Thread, blocks: Iterable[int]) -> Iterator[tuple[int, list[bytes | None]]]:
    """Yield (block, what it holds) for each of the blocks that is there."""
    wanted = sorted(set(blocks))
    for size, group in in_groups(wanted):
        for block, body in conn.execute(_chosen(size), {"thread": thread.id, **group}).all():
            yield block, _opened(thread, block, bytes(body))


def bodies(conn: sa.Connection, thread: Thread, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of the packed messages in (start, length) ranges, a pack at a time."""
    wanted: dict[int, list[range]] = {}
    for start, length in ranges:
        for block in range(start // BLOCK, (start + length - 1) // BLOCK + 1):
            first = block * BLOCK
            places = range(max(start - first, 0), min(start + length - first, BLOCK))
            wanted.setdefault(block, []).append(places)
    for block, held in read(conn, thread, wanted):
        for places in wanted[block]:
            seqs = range(block * BLOCK + places.start, block * BLOCK + places.stop)
            there = zip(seqs, held[places.start : places.stop], strict=True)
            yield from ((seq, body) for seq, body in there if body is not None)


def everything(conn: sa.Connection, thread: Thread) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of every message of a thread."""
    yield from packed(conn, thread)
    yield from loose(conn, thread)


def packed(conn: sa.Connection, thread: Thread) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of every message in a pack."""
    blocks = conn.execute(sa.select(_pack.block).where(_pack.thread == thread.id)).scalars().all()
    for block, held in read(conn, thread, blocks):
        yield from ((block * BLOCK + place, body) for place, body in enumerate(held) if body is not None)


def loose(conn: sa.Connection, thread: Thread) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of every message in a row of its own."""
    rows = conn.execute(sa.select(_message.seq, _message.body).where(_message.thread == thread.id))
    for seq, body in rows:
        yield seq, thread.codec.decode(f"message {seq}", bytes(body))


def _where_whole(thread: Thread, rows: Iterable[sa.Row[int, bytes]]) -> Iterator[tuple[int, bytes | None]]:
    for seq, body in rows:
        opened = None
        with suppress(RowError, KeyringError):  # it is kept, and is an error for whoever reads it
            opened = thread.codec.decode(f"message {seq}", bytes(body))
        yield seq, opened


def _opened(thread: Thread, block: int, sealed: bytes) -> list[bytes | None]:
    row = f"pack {block}"
    with intact(thread.codec.describe(row)):
        held: list[bytes | None] = ormsgpack.unpackb(thread.codec.decode(row, sealed))
        if type(held) is not list or len(held) != BLOCK or not {bytes, type(None)}.issuperset(map(type, held)):
            raise ValueError("no block of messages")
    return held


@cache
def _chosen(size: int) -> sa.Select[int, bytes]:
    ours = _pack.thread == sa.bindparam("thread")
    query = sa.select(_pack.block, _pack.body).where(ours, any_of(_pack.block, size))
    return query.execution_options(**{IN_BINARY: True})
