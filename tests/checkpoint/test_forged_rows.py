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
from langgraph_compaction.checkpoint.db.transaction import Transaction
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages import items
from langgraph_compaction.checkpoint.messages.decode import (
    EXT_DELTA,
    EXT_FOREIGN,
    EXT_LIST,
    EXT_MESSAGE,
    EXT_NAMELESS,
    EXT_SEND,
    INLINE,
    PACKED,
    PLAIN,
    TYPED,
    VALUE,
)
from langgraph_compaction.checkpoint.messages.references import References
from tests.checkpoint.tampering import (
    TABLES,
    Canary,
    fill,
    overwrite,
    read,
    rows,
)

NAMED = r"(message|messages|value|checkpoint|write of task) .* ?of thread \d+"


@pytest.fixture
def saver() -> Iterator[Any]:
    """Return a saver in memory whose thread has rows of every kind."""
    with SQLAlchemySaver.from_url("memory") as opened:
        opened.setup()
        fill(opened, "t")
        yield opened


Plant = Callable[[Any, sa.Connection, str, bytes], None]


def into_checkpoint(saver: Any, conn: Transaction, **content: Any) -> None:
    """Write the newest checkpoint again with other content."""
    thread = saver.store.threads.lock(conn, "t")
    stored = checkpoint_rows.find(conn, thread, "", None)
    assert stored is not None
    if "values" in content:
        content["values"] = {**stored.values, **content["values"]}
    checkpoint_rows.put(conn, thread, replace(stored, **content))


def in_a_write(saver: Any, conn: Transaction, kind: str, data: bytes, **parts: Any) -> None:
    """Write tagged bytes as what a task wrote, with other parts of the pending write as given."""
    thread = saver.store.threads.lock(conn, "t")
    stored = checkpoint_rows.find(conn, thread, "", None)
    assert stored is not None
    none = References()
    write = pending_writes.Write("", "task-9", 0, "short", [INLINE, kind, data], row="", references=none)
    new = pending_writes.TaskWrites(("", stored.id), "task-9", [replace(write, **parts)], none)
    pending_writes.put(conn, thread, new)


def reseal(saver: Any, conn: Transaction, name: str, content: bytes) -> None:
    """Put content into the own envelope of the first row of a kind, as one with the code and write access can."""
    thread = saver.store.threads.lock(conn, "t")
    first = conn.execute(
        sa.select(tables.item).where(TABLES[name][1]).order_by(sa.func.abs(tables.item.c.seq))
    ).first()
    here = sa.and_(tables.item.c.thread == thread.id, tables.item.c.seq == first.seq)
    body = thread.codec.encode(items.row_name(first.seq, first.hashes), content)
    conn.execute(sa.update(tables.item).where(here).values(body=body))


def in_a_typed_value(saver: Any, conn: Transaction, kind: str, data: bytes) -> None:
    """Write tagged bytes as a large value that the serializer has written."""
    into_checkpoint(saver, conn, values={"long": [TYPED, 0]}, references=References(values=(0,)))
    reseal(saver, conn, "value", ormsgpack.packb([kind, data]))


def packed(kind: str, data: bytes) -> list[Any]:
    """Return a packed value that holds what a serializer wrote, or the bytes themselves if they are msgpack."""
    foreign = ormsgpack.packb({"deep": [ormsgpack.Ext(EXT_FOREIGN, ormsgpack.packb([kind, data]))]})
    return [PACKED, data if kind == "msgpack" else foreign]


PLACES: dict[str, Plant] = {
    "inline": lambda saver, conn, kind, data: into_checkpoint(saver, conn, values={"short": [INLINE, kind, data]}),
    "packed": lambda saver, conn, kind, data: into_checkpoint(saver, conn, values={"short": packed(kind, data)}),
    "metadata": lambda saver, conn, kind, data: into_checkpoint(saver, conn, metadata=[INLINE, kind, data]),
    "old metadata": lambda saver, conn, kind, data: into_checkpoint(saver, conn, metadata=[kind, data]),
    "rest": lambda saver, conn, kind, data: into_checkpoint(saver, conn, rest=[INLINE, kind, data]),
    "write": in_a_write,
    "value": lambda saver, conn, _, data: reseal(saver, conn, "value", data),
    "typed value": in_a_typed_value,
    "message": lambda saver, conn, _, data: reseal(saver, conn, "message", data),
    "messages": lambda saver, conn, _, data: reseal(
        saver, conn, "messages", ormsgpack.packb([*[None] * 5, data, *[None] * 90])
    ),
    "nameless": lambda saver, conn, _, data: into_checkpoint(
        saver, conn, values={"short": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_NAMELESS, data))]}
    ),
}
BARE = {"message", "messages", "value", "nameless"}
"""Places whose content has no tag that names a serializer."""
NAMES = {
    **dict.fromkeys(("inline", "packed", "metadata", "old metadata", "rest", "nameless"), "checkpoint"),
    "messages": "message",
    "typed value": "value",
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
        if kind != "msgpack" and place in BARE:
            continue
        with saver.database.write() as conn:
            PLACES[place](saver, conn, kind, data)
        try:
            with pytest.raises(RowError, match=f"{NAMES.get(place, place)} .*of thread") as caught:
                read(saver)
        except BaseException as error:
            error.add_note(payload)
            raise
        assert str(canary.file) not in str(caught.value), payload
        assert canary.name not in sys.modules, payload
        assert not canary.file.exists(), payload
        restore(saver, whole)
    assert read(saver)


def restore(saver: Any, whole: dict[str, list[sa.Row[Any]]]) -> None:
    """Write rows back as they were."""
    with saver.database.write() as conn:
        for table in {table for table, _ in TABLES.values()}:
            conn.execute(sa.delete(table))
        for name, held in whole.items():
            conn.execute(sa.insert(TABLES[name][0]), [dict(row._mapping) for row in held])


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
    "value of a serializer that is not there": [TYPED, 10**6],
    "value of a serializer below zero": [TYPED, -1],
    "value that is not there": [VALUE, 10**6],
    "value below zero": [VALUE, -1],
    "value as text": [VALUE, "0"],
    "plain of nothing": [PLAIN],
    "packed of a number": [PACKED, 5],
    "packed, no msgpack": [PACKED, b"\xc1\xff"],
    "packed, unknown extension": [PACKED, ormsgpack.packb([ormsgpack.Ext(99, b"x")])],
    "packed, a message that is not there": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_MESSAGE, b"\xcd\x7f\xff"))],
    "packed, a message below zero": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_MESSAGE, b"\xff"))],
    "packed, a message as text": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_MESSAGE, b"\xa10"))],
    "packed, of no serializer": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_FOREIGN, b"\x05"))],
    "packed, a list of nothing": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_LIST, b"\x90"))],
    "packed, a list without end": [
        PACKED,
        ormsgpack.packb(ormsgpack.Ext(EXT_LIST, ormsgpack.packb([1, b"\x00" + b"\xff" * 7 + b"\x7f"]))),
    ],
    "packed, a send of a number": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_SEND, b"\x05"))],
    "packed, a snapshot of no msgpack": [PACKED, ormsgpack.packb(ormsgpack.Ext(EXT_DELTA, b"\xc1"))],
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


REFERENCES: dict[str, References] = {
    "messages that are not there": References(((10**6, 3),)),
    "messages without end": References(((0, 2**62),)),
    "messages below zero": References(((-5, 3),)),
    "fewer messages than none": References(((5, -3),)),
    "a value that is not there": References(((0, 1),), (10**6,)),
    "a value below zero": References(((0, 1),), (-9,)),
    "shared runs that are not there": References(((0, 1),), (), (10**6,)),
    "a value as shared runs": References(((0, 1),), (), (0,)),
    "none": References(),
}


@pytest.mark.parametrize("forged", REFERENCES.values(), ids=REFERENCES)
def test_references_to_what_is_not_there_are_named(saver: Any, forged: References) -> None:
    """A sealed row that refers to other items than its values are read with an error that names a row."""
    with saver.database.write() as conn:
        into_checkpoint(saver, conn, references=forged)
    with pytest.raises(RowError, match=NAMED):
        saver.get_tuple({"configurable": {"thread_id": "t"}})
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
        thread = saver.store.threads.lock(conn, "t")
        stored = checkpoint_rows.find(conn, thread, "", None)
        assert stored is not None
        refs = stored.references.encode()
        content = [stored.v, stored.ts, {}, {}, None, {"short": None}, stored.metadata, None]
        deep = b"\x92\x06\x91" * depth + ormsgpack.packb([0, "null", b""])  # a list in a list in a list ...
        data = ormsgpack.packb(content).replace(b"\xa5short\xc0", b"\xa5short" + deep)
        here = tables.checkpoint.c.number == stored.number
        bound = checkpoint_rows.bound_columns(stored.number, stored.parent, stored.run, stored.metadata_hashes, refs)
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
        codec = saver.store.threads.find(conn, "t", lock=False).codec
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
            bound = checkpoint_rows.bound_columns(
                row.number, row.parent, row.run, row.metadata_hashes, bytes(row.refs)
            )
            return checkpoint_rows.row_name(row.namespace, row.id), bound
        case "write":
            return pending_writes.row_name(row.namespace, row.checkpoint, row.task), bytes(row.refs).hex()
        case _:
            return items.row_name(row.seq, bytes(row.hashes)), ""
