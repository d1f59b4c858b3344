import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints import checkpoint_rows, pending_writes
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.errors import RowError
from tests.checkpoint.tampering import (
    TABLES,
    Canary,
    fill,
    overwrite,
    read,
    rows,
)

NAMED = r"(message|block|blob|checkpoint|write of task) .* ?of thread \d+"


@pytest.fixture
def saver() -> Iterator[Any]:
    """Return a saver in memory whose thread has rows of every kind."""
    with SQLAlchemySaver.from_url("memory") as opened:
        opened.setup()
        fill(opened, "t")
        yield opened


Plant = Callable[[Any, sa.Connection, str, bytes], None]


def into_checkpoint(saver: Any, conn: sa.Connection, **content: Any) -> None:
    """Write the newest checkpoint again with other content."""
    thread = saver.store.thread(conn, "t")
    stored = checkpoint_rows.find(conn, thread, "", None)
    assert stored is not None
    if "values" in content:
        content["values"] = {**stored.values, **content["values"]}
    checkpoint_rows.put(conn, thread, replace(stored, **content))


def in_a_write(saver: Any, conn: sa.Connection, kind: str, data: bytes, **parts: Any) -> None:
    """Write tagged bytes as what a task wrote, with other parts of the pending write as given."""
    thread = saver.store.thread(conn, "t")
    stored = checkpoint_rows.find(conn, thread, "", None)
    assert stored is not None
    write = pending_writes.Write("", "task-9", 0, "short", [0, kind, data], row="")
    pending_writes.put(conn, thread, ("", stored.id), "task-9", [replace(write, **parts)])


def reseal(saver: Any, conn: sa.Connection, table: sa.Table, row: str, content: bytes) -> None:
    """Put content into the row's own envelope, as one with the code and write access can."""
    thread = saver.store.thread(conn, "t")
    number = int(row.split()[1])
    where = sa.and_(table.c.thread == thread.id, list(table.primary_key)[1] == number)
    assert conn.execute(sa.update(table).where(where).values(body=thread.codec.encode(row, content))).rowcount == 1


PLACES: dict[str, Plant] = {
    "value": lambda saver, conn, kind, data: into_checkpoint(saver, conn, values={"short": [0, kind, data]}),
    "metadata": lambda saver, conn, kind, data: into_checkpoint(saver, conn, metadata=(kind, data)),
    "rest": lambda saver, conn, kind, data: into_checkpoint(saver, conn, rest=(kind, data)),
    "write": in_a_write,
    "blob": lambda saver, conn, kind, data: reseal(saver, conn, tables.blob, "blob 0", ormsgpack.packb([kind, data])),
    "message": lambda saver, conn, _, data: reseal(saver, conn, tables.message, "message 96", data),
    "block": lambda saver, conn, _, data: reseal(
        saver, conn, tables.block, "block 0", ormsgpack.packb([*[None] * 5, data, *[None] * 90])
    ),
}
NAMES = {
    "value": "checkpoint",
    "metadata": "checkpoint",
    "rest": "checkpoint",
    "block": "message",
    "write": "write of",
}


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_a_row_names_is_run(
    saver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A class, method, pickle or constructor that someone wrote into a sealed row is an error that names the row."""
    monkeypatch.syspath_prepend(tmp_path)
    canary = Canary(tmp_path)
    whole = {name: rows(saver, name) for name in TABLES}
    for payload, (kind, data) in canary.payloads():
        if kind != "msgpack" and place in {"message", "block"}:
            continue  # they have no tag
        with saver.database.write() as conn:
            PLACES[place](saver, conn, kind, data)
        with pytest.raises(RowError, match=f"{NAMES.get(place, place)} .*of thread") as caught:
            read(saver)
        assert str(canary.file) not in str(caught.value), payload
        assert canary.name not in sys.modules, payload
        assert not canary.file.exists(), payload
        restore(saver, whole)
    assert read(saver)


def restore(saver: Any, whole: dict[str, list[sa.Row[Any]]]) -> None:
    """Write rows back as they were."""
    with saver.database.write() as conn:
        for name, held in whole.items():
            conn.execute(sa.delete(TABLES[name]))
            conn.execute(sa.insert(TABLES[name]), [dict(row._mapping) for row in held])


NODES: dict[str, Any] = {
    "no list": 5,
    "nothing": None,
    "empty": [],
    "unknown tag": [99, 1],
    "tag as text": ["0", "msgpack", b"\xc0"],
    "inline without bytes": [0, "msgpack", 5],
    "inline of no kind": [0, None, b"\xc0"],
    "inline, unknown kind": [0, "yaml", b"a: 1"],
    "inline, no msgpack": [0, "msgpack", b"\xc1\xff"],
    "inline, message that is none": [0, "msgpack", b"\xc7\x00\x05"],
    "runs that break off": [1, b"\x80"],
    "runs as text": [1, "0"],
    "runs beyond the end": [1, b"\x05\xff\x7f"],
    "runs without end": [1, b"\x00" + b"\xff" * 7 + b"\x7f"],
    "one that is not there": [2, 10**6],
    "one as text": [2, "0"],
    "one below zero": [2, -1],
    "blob that is not there": [4, 10**6],
    "blob below zero": [4, -1],
    "dict of a list": [5, [1]],
    "list of numbers": [6, [1, 2]],
    "send without an argument": [7, "node"],
    "send to a number": [7, 1, [0, "null", b""], None],
    "pieces that are not there": [10, [10**6], b"\x00\x01"],
    "pieces of no list": [10, 5, b"\x00\x01"],
}


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_a_value_of_no_known_form_is_named(saver: Any, node: Any) -> None:
    """A wrong tag, or one whose content does not fit it, in a sealed row is an error that names the row."""
    with saver.database.write() as conn:
        into_checkpoint(saver, conn, values={"short": node})
    with pytest.raises(RowError, match=NAMED):
        read(saver)


@pytest.mark.parametrize("part", [{"path": 5}, {"index": "0"}, {"channel": 5}], ids=str)
def test_a_pending_write_of_no_known_form_is_named(saver: Any, part: dict[str, Any]) -> None:
    """Pending writes are sorted by path and number, and values of other types could not be compared."""
    with saver.database.write() as conn:
        in_a_write(saver, conn, "null", b"", **part)
    with pytest.raises(RowError, match=NAMED):
        read(saver)


@pytest.mark.parametrize("depth", [450, 100_000])
def test_a_value_nested_without_end_is_named(saver: Any, depth: int) -> None:
    """A value in very many containers is an error that names the row, not the end of the process."""
    with saver.database.write() as conn:
        thread = saver.store.thread(conn, "t")
        stored = checkpoint_rows.find(conn, thread, "", None)
        assert stored is not None
        content = [stored.v, stored.ts, {}, {}, None, {"short": None}, stored.metadata, None]
        deep = b"\x92\x06\x91" * depth + ormsgpack.packb([0, "null", b""])  # a list in a list in a list ...
        data = ormsgpack.packb(content).replace(b"\xa5short\xc0", b"\xa5short" + deep)
        here = tables.checkpoint.c.number == stored.number
        bound = checkpoint_rows.bound_columns(stored.number, stored.parent, stored.run, stored.metadata_hashes)
        conn.execute(
            sa.update(tables.checkpoint).where(here).values(body=thread.codec.encode(stored.row, data, bound=bound))
        )
    with pytest.raises(RowError, match=NAMED):
        read(saver)


@pytest.mark.parametrize("name", TABLES)
def test_bytes_changed_inside_a_valid_envelope_give_no_other_error(saver: Any, name: str) -> None:
    """Whoever can write a fitting checksum makes reads differ or fail with RowError; nothing else comes out."""
    chance = random.Random(name)  # noqa: S311 - reproducible, not secret
    with saver.database.read() as conn:
        codec = saver.store.find(conn, "t", lock=False).codec
    for turn in range(300):
        row = chance.choice(rows(saver, name))
        label, beside = label_of(name, row)
        content = bytearray(codec.decode(label, bytes(row.body), bound=beside))
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xC1, 0xFF, chance.randrange(256))
            )
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)) :]
        overwrite(saver, name, row, body=codec.encode(label, bytes(content), bound=beside))
        try:
            read(saver)
        except RowError:  # it was noticed
            pass
        except Exception as error:
            raise AssertionError(f"turn {turn}, {label}: {bytes(content).hex()}") from error
        overwrite(saver, name, row, body=row.body)


def label_of(name: str, row: sa.Row[Any]) -> tuple[str, str]:
    """The name under which a row is sealed, and what it is bound to beside it."""
    match name:
        case "checkpoint":
            bound = checkpoint_rows.bound_columns(row.number, row.parent, row.run, row.metadata_hashes)
            return checkpoint_rows.row_name(row.namespace, row.id), bound
        case "write":
            return pending_writes.row_name(row.namespace, row.checkpoint, row.task), ""
        case _:
            return f"{name} {row[1]}", ""
