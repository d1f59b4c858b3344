"""Stores old messages in blocks of 96 per row: together they compress to about a third of the bytes of single rows.

Large messages, most of them images, keep rows of their own, for two reasons: a whole block is read even for a single
message, and a row must not exceed the size that a database accepts at once (MariaDB: 16 MB).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache

import ormsgpack
import sqlalchemy as sa

from ..db import tables
from ..db.row_codec import intact
from ..db.statements import BINARY_RESULTS, any_of, ignoring, in_groups
from ..db.thread_row import Thread
from ..errors import KeyringError, RowError

BLOCK = 96
"""Number of messages in a block. MariaDB stores a block in 16 kB pages; the last page is half empty on average."""

LARGE = 2**16
"""Size in bytes above which a stored message keeps a row of its own."""

_SINGLE_BLOCKS = 2
"""Number of newest blocks whose messages keep single rows: one still grows, one is likely to be read next."""
_BLOCKS_AT_ONCE = 32
_message, _block = tables.message.c, tables.block.c


def first_single(thread: Thread) -> int:
    """Return the lowest sequence number after the blocks; all messages from it on have rows of their own."""
    return thread.packed * BLOCK


def blocks_due(count: int) -> int:
    """Return how many blocks a thread with `count` messages should have."""
    return max(count // BLOCK - _SINGLE_BLOCKS + 1, 0)


def move_old_messages(conn: sa.Connection, thread: Thread) -> None:
    """Move old messages from single rows into blocks.

    The function increases `thread.packed`; the caller saves the thread's row. A row that cannot be decoded is not
    moved: reading the row raises an error, but writers can go on.
    """
    end = blocks_due(thread.next_seq)
    while thread.packed < end:
        blocks = range(thread.packed, min(thread.packed + _BLOCKS_AT_ONCE, end))
        old = _message.seq.between(blocks.start * BLOCK, blocks.stop * BLOCK - 1)
        ours = sa.and_(_message.thread == thread.id, old, sa.func.length(_message.body) <= LARGE)
        found = dict(_decoded(thread, conn.execute(sa.select(_message.seq, _message.body).where(ours))))
        if damaged := [seq for seq, body in found.items() if body is None]:
            ours = sa.and_(ours, _message.seq.not_in(damaged))
        write(conn, thread, {block: [found.get(block * BLOCK + at) for at in range(BLOCK)] for block in blocks})
        hashes = sa.select(_message.thread, _message.hash, _message.seq).where(ours)
        # a hash that already exists (only if somebody has changed rows by hand) is skipped, so that writers can go on
        conn.execute(ignoring(conn.dialect.name, tables.hash_).from_select(["thread", "hash", "seq"], hashes))
        conn.execute(sa.delete(tables.message).where(ours))
        thread.packed = blocks.stop


def write(conn: sa.Connection, thread: Thread, blocks: Mapping[int, Sequence[bytes | None]]) -> None:
    """Insert blocks; None stands for a message that is not in its block. A block of None alone is not inserted."""
    rows = [
        {
            "thread": thread.id,
            "block": block,
            "body": thread.codec.encode(f"block {block}", ormsgpack.packb(list(held))),
        }
        for block, held in blocks.items()
        if any(body is not None for body in held)
    ]
    if rows:
        conn.execute(sa.insert(tables.block), rows)


def read(conn: sa.Connection, thread: Thread, blocks: Iterable[int]) -> Iterator[tuple[int, list[bytes | None]]]:
    """Yield each existing block as its number and a list of 96, with None for a message that is not in the block."""
    wanted = sorted(set(blocks))
    for size, group in in_groups(wanted):
        for block, body in conn.execute(_chosen(size), {"thread": thread.id, **group}).all():
            yield block, _messages(thread, block, bytes(body))


def bodies(conn: sa.Connection, thread: Thread, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of each message that is in a block and in one of the (start, length) ranges."""
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


def all_messages(conn: sa.Connection, thread: Thread) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of every message of a thread."""
    yield from in_blocks(conn, thread)
    yield from in_single_rows(conn, thread)


def in_blocks(conn: sa.Connection, thread: Thread) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of every message in a block."""
    blocks = conn.execute(sa.select(_block.block).where(_block.thread == thread.id)).scalars().all()
    for block, held in read(conn, thread, blocks):
        yield from ((block * BLOCK + at, body) for at, body in enumerate(held) if body is not None)


def in_single_rows(conn: sa.Connection, thread: Thread) -> Iterator[tuple[int, bytes]]:
    """Yield (sequence number, body) of every message in a row of its own."""
    rows = conn.execute(sa.select(_message.seq, _message.body).where(_message.thread == thread.id))
    for seq, body in rows:
        yield seq, thread.codec.decode(f"message {seq}", bytes(body))


def _decoded(thread: Thread, rows: Iterable[sa.Row[int, bytes]]) -> Iterator[tuple[int, bytes | None]]:
    """Yield (sequence number, decoded body) of each row, with None for a body that cannot be decoded."""
    for seq, body in rows:
        data = None
        with suppress(RowError, KeyringError):  # the row is not moved, and reading it raises the error
            data = thread.codec.decode(f"message {seq}", bytes(body))
        yield seq, data


def _messages(thread: Thread, block: int, body: bytes) -> list[bytes | None]:
    row = f"block {block}"
    with intact(thread.codec.describe(row)):
        held: list[bytes | None] = ormsgpack.unpackb(thread.codec.decode(row, body))
        if type(held) is not list or len(held) != BLOCK or not {bytes, type(None)}.issuperset(map(type, held)):
            raise ValueError("not a block of messages")
    return held


@cache
def _chosen(size: int) -> sa.Select[int, bytes]:
    ours = _block.thread == sa.bindparam("thread")
    query = sa.select(_block.block, _block.body).where(ours, any_of(_block.block, size))
    return query.execution_options(**{BINARY_RESULTS: True})
