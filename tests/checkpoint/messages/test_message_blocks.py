from base64 import b64encode
from hashlib import shake_256

import pytest
import sqlalchemy as sa
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import Database, KeyringError
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.thread_row import Thread
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.maintenance.retention import sweep
from langgraph_compaction.checkpoint.messages.message_blocks import (
    BLOCK,
    all_messages,
    blocks_due,
    first_single,
    read,
    write,
)
from langgraph_compaction.checkpoint.messages.message_store import (
    MessageStore,
)
from tests.checkpoint.samples import talk

STORE = MessageStore()


def filled(conn: sa.Connection, thread_id: str, count: int) -> Thread:
    """Return a thread with so many messages."""
    thread = STORE.thread(conn, thread_id)
    STORE.put(conn, thread, talk(count))
    return thread


@pytest.mark.parametrize(("count", "packed"), [(0, 0), (191, 0), (192, 1), (287, 1), (288, 2), (9600, 99)])
def test_the_newest_messages_are_loose(count: int, packed: int) -> None:
    """All blocks of 96 are packed but for the last full one and what came after it."""
    assert blocks_due(count) == packed


@pytest.mark.parametrize("count", [191, 192, 193, 300])
def test_a_message_is_loose_or_packed_and_never_both(database: Database, thread_id: str, count: int) -> None:
    """Every message is in one place, and all of them are found."""
    with database.write() as conn:
        thread = filled(conn, thread_id, count)
        rows = sa.select(tables.message.c.seq).where(tables.message.c.thread == thread.id)
        assert sorted(conn.execute(rows).scalars()) == list(range(blocks_due(count) * BLOCK, count))
        assert sorted(seq for seq, _ in all_messages(conn, thread)) == list(range(count))


@pytest.mark.parametrize(
    "runs",
    [((0, 450),), ((90, 9),), ((0, 1), (95, 2), (191, 2), (449, 1)), ((400, 50), (10, 5), (400, 2)), ((200, 200),)],
    ids=["all", "over an edge", "single", "in any order", "loose and packed"],
)
def test_runs_over_loose_and_packed_messages(
    database: Database, thread_id: str, runs: tuple[tuple[int, int], ...]
) -> None:
    """Wherever a list's messages stand, it is read in its own order."""
    with database.write() as conn:
        thread = filled(conn, thread_id, 450)
        assert first_single(thread) == 3 * BLOCK
        expected = [talk(450)[seq] for start, length in runs for seq in range(start, start + length)]
        assert STORE.get(conn, thread, runs) == expected


def test_a_pack_may_have_holes(database: Database, thread_id: str) -> None:
    """What was erased from a pack is missing, its neighbors are read; a pack of nothing is not written."""
    with database.write() as conn:
        thread = filled(conn, thread_id, 300)
        held = dict(read(conn, thread, [0, 1, 77]))
        assert sorted(held) == [0, 1]
        conn.execute(sa.delete(tables.block).where(tables.block.c.thread == thread.id))
        write(conn, thread, {0: [None, *held[0][1:]], 1: [None] * BLOCK})
        assert list(dict(read(conn, thread, [0, 1]))) == [0]
        assert STORE.get(conn, thread, ((1, 95), (192, 72))) == [*talk(95, start=1), *talk(72, start=192)]
        for gone in (0, 96):
            with pytest.raises(RowError, match=f"message {gone} of thread .* missing"):
                STORE.get(conn, thread, ((gone, 2),))


def test_large_messages_stay_in_rows_of_their_own(database: Database, thread_id: str) -> None:
    """Images of 300 kB, of which a block would be more than MariaDB takes at once, are kept beside the packs."""
    images: list[BaseMessage] = [
        HumanMessage(b64encode(shake_256(f"{n}".encode()).digest(300_000)).decode(), id=f"i{n}") for n in range(60)
    ]
    batch = [*talk(34), *images, *talk(200, start=34)]
    with database.write() as conn:
        thread = STORE.thread(conn, thread_id)
        runs = STORE.put(conn, thread, batch)
        assert first_single(thread) == 192
        packed = [body for _, held in read(conn, thread, [0, 1]) for body in held if body is not None]
        assert len(packed) == 192 - len(images)
        assert STORE.get(conn, thread, runs) == batch
        assert STORE.get(conn, thread, ((33, 2), (93, 2))) == [*batch[33:35], *batch[93:95]]
        sweep(conn, thread)  # nothing holds any of them
        for table in (tables.message, tables.block, tables.hash_):
            assert conn.execute(sa.select(table).where(table.c.thread == thread.id)).first() is None


@pytest.mark.parametrize("body", [b"\x01torn", b"\x02torn", b"\x00"], ids=["torn", "as if encrypted", "unknown"])
def test_a_damaged_row_is_left_out_of_its_pack(database: Database, thread_id: str, body: bytes) -> None:
    """It keeps nobody from adding to the thread; its neighbors are packed, and who reads it is told."""
    with database.write() as conn:
        thread = filled(conn, thread_id, 191)
        fifth = sa.and_(tables.message.c.thread == thread.id, tables.message.c.seq == 5)
        conn.execute(sa.update(tables.message).where(fifth).values(body=body))
        STORE.put(conn, thread, talk(1, start=191))
        assert first_single(thread) == BLOCK
        assert dict(read(conn, thread, [0]))[0].count(None) == 1
        assert STORE.get(conn, thread, ((0, 5), (6, 186))) == [*talk(5), *talk(186, start=6)]
        assert STORE.put(conn, thread, talk(10)) == ((0, 10),)
        with pytest.raises((RowError, KeyringError), match=f"message 5 of thread {thread.id} is"):
            STORE.get(conn, thread, ((0, 192),))


def test_a_pack_of_another_size_is_damaged(database: Database, thread_id: str) -> None:
    """A pack that does not hold 96 places is an error that names it."""
    with database.write() as conn:
        thread = filled(conn, thread_id, 192)
        conn.execute(sa.delete(tables.block).where(tables.block.c.thread == thread.id))
        write(conn, thread, {0: [b"x"]})
        with pytest.raises(RowError, match=r"block 0 of thread \d+ is damaged"):
            STORE.get(conn, thread, ((0, 1),))
