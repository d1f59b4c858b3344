from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import CheckpointError, CompactionRecords, Keyring, KeyringError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.maintenance import thread_copies
from langgraph_compaction.checkpoint.messages.items import HASH_BYTES
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint,
)
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.samples import key_of, talk
from tests.checkpoint.tampering import (
    MARKER,
    TABLES,
    conversation,
    fill,
    fill_records,
    overwrite,
    read,
    rows,
)

OLD, NEW = {"k1": b"1" * 32}, {"k2": b"2" * 32}
FIRST = Keyring(OLD, current="k1")
BOTH = Keyring(OLD | NEW, current="k2")
SECOND = Keyring(NEW, current="k2")


def opened(url: str, keys: Keyring | None = FIRST) -> AbstractContextManager[Any]:
    """Open a saver with these keys."""
    return SQLAlchemySaver.from_url(url, keys=keys)


def filled(saver: Any, *threads: str) -> None:
    """Make the tables and fill threads with rows of every kind."""
    saver.setup()
    for thread in threads:
        fill(saver, thread)
        fill_records(saver, thread)


def raw(saver: Any) -> bytes:
    """Every value of every row of every table, as one would find them in a dump, and an SQLite file with its log."""
    found: list[bytes] = []
    with saver.database.read() as conn:
        for table in tables.METADATA.sorted_tables:
            for row in conn.execute(sa.text(f"SELECT * FROM {table.name}")):  # noqa: S608 - our own names
                found += [bytes(v) if isinstance(v, bytes | memoryview) else str(v).encode() for v in row]
    if (file := saver.database.engine.url.database) and saver.database.engine.dialect.name == "sqlite":
        found += [Path(file + end).read_bytes() for end in ("", "-wal") if Path(file + end).exists()]
    return b"\n".join(found)


def hashes_of(saver: Any) -> list[bytes]:
    """The hash of each stored message and value, of all threads."""
    with saver.database.read() as conn:
        held = b"".join(map(bytes, conn.execute(sa.select(tables.item.c.hashes)).scalars()))
    return [held[at : at + HASH_BYTES] for at in range(0, len(held), HASH_BYTES)]


def readable(saver: Any) -> bool:
    """Whether any of what `filled` said can be read in the raw database."""
    held = raw(saver)
    return any(word in held for word in (MARKER.encode(), MARKER.encode("utf-16-le"), b"white rabbit"))


def test_nothing_said_or_stored_is_readable_in_the_database(any_url: str, tmp_path: Path) -> None:
    """With keys neither messages nor values, metadata, writes, summaries or ledger texts are in the raw database.

    Every column is encrypted, and holds no digest by which a guess of what was said could be confirmed.
    """
    messages = [*conversation("t", 132), *conversation("t-records", 5)]
    key = key_of("t", conversation("t-records", 5))
    with opened(any_url) as saver:
        filled(saver, "t")
        assert not readable(saver)
        held = raw(saver)
        assert len(read(saver)) == 2
        records = CompactionRecords(saver.database)
        assert records.snapshot(key) == conversation("t-records", 5)
        found = records.find_summary(key, input_digest="ab" * 16)
        assert found is not None
        assert MARKER in found.text
        assert records.history("t")[0].detail == MARKER
        with saver.database.read() as conn:
            for sealed in thread_copies.ENCODED_COLUMNS:
                column = sealed.table.c[sealed.column]
                starts = {bytes(body)[:4] for body in conn.execute(sa.select(column)).scalars()}
                assert starts == {b"\x02\x02k1"}, str(column)
    known = {*map(fingerprint, messages), key.base_fingerprint, "ab" * 16}
    assert not [one for one in known if one.encode() in held or bytes.fromhex(one) in held]
    with opened(f"sqlite:///{tmp_path / 'plain.db'}", None) as plain:
        filled(plain, "t")
        assert readable(plain)


def test_a_copy_of_an_encrypted_thread_has_hashes_of_its_own(any_url: str) -> None:
    """They do not tell that both hold equal messages; by them each finds what it stores already."""
    values = {"messages": talk(200), "text": "first " * 99, "again": "second " * 99}
    with opened(any_url) as saver:
        saver.setup()
        Steps(saver, "t").put(values)
        saver.copy_thread("t", "u")
        copied = saver.stats("t") + saver.stats("u")
    with opened(any_url) as saver:
        for name in ("t", "u"):
            Steps(saver, name).put(values)
            assert [one.checkpoint["channel_values"] for one in read(saver, name)] == [values] * 2
        for one, before in zip(saver.stats("t") + saver.stats("u"), copied, strict=True):
            assert (one.messages, one.value_bytes) == (200, before.value_bytes)
            assert one.message_bytes <= before.message_bytes
        hashes = hashes_of(saver)
        assert len(set(hashes)) == len(hashes) == 2 * (200 + 2)


def test_equal_messages_of_two_threads_cannot_be_told_to_be_equal(any_url: str) -> None:
    """Hashes and bodies of the same conversation differ from thread to thread, and from what anyone can compute."""
    with opened(any_url) as saver:
        saver.setup()
        messages = conversation("same", 5)
        with saver.database.write() as conn:
            for name in ("t", "u"):
                saver.store.put(conn, saver.store.threads.lock(conn, name), messages)
        with saver.database.read() as conn:
            bodies = [bytes(body) for body in conn.execute(sa.select(tables.item.c.body)).scalars()]
        hashes = hashes_of(saver)
    assert len(set(hashes)) == len(set(bodies)) == 10
    known = {fingerprint(message) for message in messages}
    assert not any(name.hex() in known or name.hex()[:12] in {one[:12] for one in known} for name in hashes)


@pytest.mark.parametrize(
    "keys",
    [None, SECOND, Keyring({"k1": b"9" * 32}, current="k1")],
    ids=["none", "unknown id", "wrong key"],
)
def test_without_the_right_key_nothing_can_be_read_or_written(any_url: str, keys: Keyring | None) -> None:
    """No key, another key id, or another key under the same id: an error that says so, for reads and for writes."""
    with opened(any_url) as saver:
        filled(saver, "t")
    with opened(any_url, keys) as saver:
        for call in (lambda: read(saver), lambda: fill(saver, "t"), lambda: saver.copy_thread("t", "u")):
            with pytest.raises(KeyringError if keys is None or keys is SECOND else CheckpointError) as caught:
                call()
            assert MARKER not in str(caught.value)
        assert "9" * 32 not in str(caught.value)
    with opened(any_url) as saver:
        assert len(read(saver)) == 2


@pytest.mark.parametrize("keys", [None, FIRST], ids=["written without keys", "salt taken away"])
def test_a_thread_that_is_not_encrypted_is_refused(any_url: str, keys: Keyring | None) -> None:
    """It is not read as if it were encrypted, nor gone on with in the open."""
    with opened(any_url, keys) as saver:
        filled(saver, "t")
        with saver.database.write() as conn:
            conn.execute(sa.update(tables.thread).values(salt=None))
    with opened(any_url) as saver:
        for call in (lambda: read(saver), lambda: fill(saver, "t")):
            with pytest.raises(RowError, match="not encrypted"):
                call()


@pytest.mark.parametrize("name", TABLES)
def test_a_plain_row_in_an_encrypted_thread_is_refused(name: str) -> None:
    """A row put in without encryption, its checksum right, is an error that names it."""
    with opened("memory") as saver, opened("memory", None) as plain:
        filled(saver, "t")
        filled(plain, "t")
        row, forged = rows(saver, name)[0], rows(plain, name)[0]
        overwrite(saver, name, row, body=forged.body)
        with pytest.raises(RowError, match=f"{name} .*not encrypted"):
            read(saver)


@pytest.mark.parametrize("name", TABLES)
def test_a_row_of_another_place_is_refused(name: str) -> None:
    """An encrypted row of another thread, or of the same place in another database with the same key, is an error."""
    with opened("memory") as saver, opened("memory") as elsewhere:
        filled(saver, "t", "u")
        filled(elsewhere, "t")
        held = rows(saver, name)
        row = held[0]
        others = next(other for other in held if other.thread != row.thread), rows(elsewhere, name)[0]
        for other in others:
            overwrite(saver, name, row, body=other.body)
            with pytest.raises(RowError, match=name):
                read(saver)
        overwrite(saver, name, row, body=row.body)
        assert len(read(saver)) == 2


def test_after_rotation_the_old_key_is_not_needed(any_url: str) -> None:
    """Rotation encrypts every row with the current key and counts the rows.

    Then the old key opens nothing, and the new one all.
    """
    with opened(any_url) as saver:
        filled(saver, "t", "u")
        held = [read(saver, thread) for thread in ("t", "u")]
        history = CompactionRecords(saver.database).history("t")
        columns = (tables.thread.c.salt, *(one.table.c[one.column] for one in thread_copies.ENCODED_COLUMNS))
        with saver.database.read() as conn:
            before = [bytes(body) for column in columns for body in conn.execute(sa.select(column)).scalars()]
    with opened(any_url, BOTH) as saver:
        assert [read(saver, thread) for thread in ("t", "u")] == held
        fill(saver, "v")
        assert saver.rotate() == sum(body.startswith(b"\x02\x02k1") for body in before) > 0
        assert saver.rotate() == 0
        assert b"\x02\x02k1" not in raw(saver) or saver.database.engine.dialect.name == "sqlite"  # its log remembers
        assert not readable(saver)
    with opened(any_url, SECOND) as saver:
        assert [read(saver, thread) for thread in ("t", "u")] == held
        assert len(read(saver, "v")) == 2
        records = CompactionRecords(saver.database)
        assert records.history("t") == history
        assert records.snapshot(key_of("t", conversation("t-records", 5))) == conversation("t-records", 5)
        fill(saver, "t", 1)  # the same messages are found again and cost no second row
        assert len(read(saver)) == 3
        assert len({row.seq for row in rows(saver, "message") if row.thread == 1}) < 140
    with opened(any_url) as saver, pytest.raises(KeyringError):
        read(saver)


def test_what_one_writes_while_another_rotates_is_kept(any_url: str) -> None:
    """A writer that still has the old key current goes on beside a rotation; a second rotation takes its rows too."""
    with opened(any_url, Keyring(OLD | NEW, current="k1")) as writer, opened(any_url, BOTH) as rotator:
        filled(writer, "t")
        rotator.rotate()
        fill(writer, "t", 1)
        assert len(read(rotator)) == 3
        assert rotator.rotate() > 0
    with opened(any_url, SECOND) as saver:
        assert len(read(saver)) == 3


def test_without_keys_nobody_is_told_that_a_user_has_no_threads(any_url: str, thread_id: str) -> None:
    """Who erases all threads of a user by metadata must learn that the encrypted ones could not be searched."""
    with opened(any_url) as saver:
        saver.setup()
        Steps(saver, thread_id).put({"x": 1}, user="u1")
        assert saver.threads(thread_id, {"user": "u1"}) == [thread_id]
    with opened(any_url, keys=None) as saver, pytest.raises(KeyringError, match="is encrypted"):
        saver.threads(thread_id, {"user": "u1"})
