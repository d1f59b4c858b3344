"""Brings a database of an earlier version to the next one, in the transaction that then sets its version.

MariaDB commits before each change of a table. So a step may have been interrupted anywhere, and each part of it does
nothing where it was done before. A step knows the forms of both versions by itself: it must not change with the code.

A step first renames a column that every transaction of the version before names. So processes of that version that
still run fail from then on, and nothing that they write is missed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import ormsgpack
import sqlalchemy as sa

from . import tables
from .columns import Body, Ident, Key
from .row_codec import Keyring, RowCodec, intact
from .statements import chunks

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_PACK = 96
_GONE = bytes(16)


def _from_2_to_3(conn: sa.Connection, keys: Keyring | None) -> None:
    """Put messages and large values into one table, and what rows refer to beside the rows.

    In version 2 `message` holds the newest messages, `block` older ones, 96 to a row, `hash` the hashes of these, and
    `blob` large values. Bodies of checkpoints and pending writes stay, but are bound to the new column.
    """
    if "next_blob" in _columns(conn, "thread"):
        conn.exec_driver_sql("ALTER TABLE compaction_thread RENAME COLUMN next_blob TO next_value")
    if "nameless" in _columns(conn, "thread"):
        tables.item.create(conn, checkfirst=True)
        for name in ("checkpoint", "write"):
            _add_column(conn, name, "refs", Body)
        for row in conn.execute(_THREADS).all():
            codec = _codec(row, keys)
            conn.execute(sa.delete(tables.item).where(tables.item.c.thread == row.id))
            for some in chunks(list(_items(conn, row.id, codec))):
                conn.execute(sa.insert(tables.item), list(some))
            _add_references(conn, row.id, codec)
        conn.exec_driver_sql("ALTER TABLE compaction_thread DROP COLUMN nameless")
    for name in ("message", "block", "hash", "blob"):
        conn.exec_driver_sql(f"DROP TABLE IF EXISTS compaction_{name}")


def _from_3_to_4(conn: sa.Connection, _: Keyring | None) -> None:
    """Add what summaries took of the prompt cache and for reasoning, and what they cost."""
    for table, prefix in (("ledger", "summary_"), ("summary", "")):
        for name in ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"):
            _add_column(conn, table, prefix + name, sa.BigInteger())
        _add_column(conn, table, f"{prefix}cost", sa.Double())


STEPS: Mapping[int, Callable[[sa.Connection, Keyring | None], None]] = {2: _from_2_to_3, 3: _from_3_to_4}
"""By the version that it begins with."""


def _columns(conn: sa.Connection, table: str) -> set[str]:
    return {one["name"] for one in sa.inspect(conn).get_columns(f"compaction_{table}")}


def _add_column(conn: sa.Connection, table: str, name: str, kind: sa.types.TypeEngine[Any]) -> None:
    if name not in _columns(conn, table):
        told = kind.compile(dialect=conn.dialect)
        conn.exec_driver_sql(f"ALTER TABLE compaction_{table} ADD COLUMN {name} {told}")


def _codec(row: sa.Row[*tuple[Any, ...]], keys: Keyring | None) -> RowCodec:
    if row.salt is None:
        return RowCodec(row.id, keys, name=row.thread_id)
    salt = RowCodec(row.id, keys, name=row.thread_id).decode("salt", bytes(row.salt))
    return RowCodec(row.id, keys, salt, name=row.thread_id)


def _items(conn: sa.Connection, thread: int, codec: RowCodec) -> Iterator[dict[str, Any]]:
    where = {"key": thread}
    for seq, name, body in conn.execute(_MESSAGES, where):
        yield {"thread": thread, "seq": seq, "held": 1, "hashes": bytes(name), "body": bytes(body)}
    hashes = {seq: bytes(name) for seq, name in conn.execute(_HASHES, where)}
    for block, body in conn.execute(_BLOCKS, where):
        with intact(codec.describe(f"block {block}")):
            held: list[bytes | None] = ormsgpack.unpackb(codec.decode(f"block {block}", bytes(body)))
            start = next((at for at, one in enumerate(held) if one is not None), None)
        if start is not None:
            first, span = block * _PACK + start, _PACK - start
            name = f"messages {first} to {first + span - 1}" if span > 1 else f"message {first}"
            data = ormsgpack.packb(held[start:]) if span > 1 else held[start]
            yield {
                "thread": thread,
                "seq": first,
                "held": _PACK - held.count(None),
                "hashes": b"".join(
                    hashes.get(first + at, _GONE) if one is not None else _GONE for at, one in enumerate(held[start:])
                ),
                "body": codec.encode(name, data or b""),
            }
    for number, name, body in conn.execute(_BLOBS, where):
        data = codec.decode(f"blob {number}", bytes(body))
        seq = -1 - number
        anew = codec.encode(f"value {number}", data)
        yield {"thread": thread, "seq": seq, "held": 1, "hashes": bytes(name), "body": anew}


def _add_references(conn: sa.Connection, thread: int, codec: RowCodec) -> None:
    """Fill the column `refs` of checkpoints and pending writes, and bind their bodies to it."""
    for row in conn.execute(_CHECKPOINTS, {"key": thread}).all():
        name = f"checkpoint {row.id} in {row.namespace!r}"
        before = f"{row.number} {row.parent} {row.run}"
        before += "" if row.metadata_hashes is None else f" {row.metadata_hashes}"
        with intact(codec.describe(name)):
            data = codec.decode(name, bytes(row.body), bound=before)
            refs = _references(ormsgpack.unpackb(data, option=_OPTION)[5].values())
        after = f"{row.number} {row.parent} {row.run} {row.metadata_hashes} {refs.hex()}"
        values = {"new_refs": refs, "new_body": codec.encode(name, data, bound=after)}
        conn.execute(_BIND_CHECKPOINT, {"key": thread, "at": row.namespace, "of": row.number, **values})
    for row in conn.execute(_WRITES, {"key": thread}).all():
        name = f"write of task {row.task} at checkpoint {row.checkpoint} in {row.namespace!r}"
        with intact(codec.describe(name)):
            data = codec.decode(name, bytes(row.body))
            groups = ormsgpack.unpackb(data, option=_OPTION)
            refs = _references([one[2] for _, some in groups for one in some])
        values = {"new_refs": refs, "new_body": codec.encode(name, data, bound=refs.hex())}
        place = {"at": row.namespace, "of": row.checkpoint, "by": row.task}
        conn.execute(_BIND_WRITE, {"key": thread, **place, **values})


def _references(encoded: Iterable[Any]) -> bytes:
    runs: list[tuple[int, int]] = []
    values: set[int] = set()
    shared: set[int] = set()
    for leaf in chain.from_iterable(map(_leaves, encoded)):
        match leaf:
            case [1, data]:
                runs += _runs(data)
            case [4, number]:
                values.add(number)
            case [10, numbers, data]:
                shared.update(numbers)
                runs += _runs(data)
            case _:
                runs.append((leaf[1], 1))
    covered: list[list[int]] = []
    for start, length in sorted(runs):
        if covered and start <= sum(covered[-1]):
            covered[-1][1] = max(sum(covered[-1]), start + length) - covered[-1][0]
        else:
            covered.append([start, length])
    parts: list[list[int]] = [list(chain.from_iterable(covered))]
    if values or shared:
        parts.append(sorted(values))
    if shared:
        parts.append(sorted(shared))
    return ormsgpack.packb(parts)


def _leaves(encoded: Any) -> Iterator[Any]:
    """Yield the parts of an encoded value of version 2 that refer to messages or values."""
    match encoded:
        case [0, str(), bytes()]:
            return
        case [1, bytes()] | [2 | 3 | 4, int()] | [10, list(), bytes()]:
            yield encoded
        case [5, dict() as held]:
            yield from chain.from_iterable(map(_leaves, held.values()))
        case [6, list() as parts]:
            yield from chain.from_iterable(map(_leaves, parts))
        case [7, str(), held, timeout]:
            yield from chain.from_iterable(map(_leaves, [held] if timeout is None else [held, timeout]))
        case [8 | 9, held]:
            yield from _leaves(held)
        case _:
            raise ValueError("not an encoded value")


def _runs(data: bytes) -> list[tuple[int, int]]:
    """Return runs of sequence numbers from varints; [] for data that holds none."""
    numbers: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift = shift + 7 if byte & 0x80 else 0
        if not shift:
            numbers.append(value)
            value = 0
    return list(zip(numbers[::2], numbers[1::2], strict=False))


_THREADS = sa.select(tables.thread.c.id, tables.thread.c.thread_id, tables.thread.c.salt).order_by(tables.thread.c.id)
_KEY: sa.BindParameter[int] = sa.bindparam("key")


def _old(name: str, *columns: str) -> sa.Select[*tuple[Any, ...]]:
    table = sa.table(f"compaction_{name}", *map(sa.column, ("thread", *columns)))
    return sa.select(*(table.c[one] for one in columns)).where(table.c.thread == _KEY).order_by(table.c[columns[0]])


_MESSAGES = _old("message", "seq", "hash", "body")
_HASHES = _old("hash", "seq", "hash")
_BLOCKS = _old("block", "block", "body")
_BLOBS = _old("blob", "number", "hash", "body")
_checkpoint, _write = tables.checkpoint.c, tables.write.c
_CHECKPOINTS = sa.select(
    *(_checkpoint[name] for name in ("namespace", "number", "id", "parent", "run", "metadata_hashes", "body"))
).where(_checkpoint.thread == _KEY, _checkpoint.refs.is_(None))
_WRITES = sa.select(*(_write[name] for name in ("namespace", "checkpoint", "task", "body"))).where(
    _write.thread == _KEY, _write.refs.is_(None)
)
_NEW = {"refs": sa.bindparam("new_refs", type_=Body), "body": sa.bindparam("new_body", type_=Body)}
_BIND_CHECKPOINT = (
    sa.update(tables.checkpoint)
    .where(
        _checkpoint.thread == _KEY,
        _checkpoint.namespace == sa.bindparam("at", type_=Key(2048, empty=True)),
        _checkpoint.number == sa.bindparam("of"),
    )
    .values(_NEW)
)
_BIND_WRITE = (
    sa.update(tables.write)
    .where(
        _write.thread == _KEY,
        _write.namespace == sa.bindparam("at", type_=Key(2048, empty=True)),
        _write.checkpoint == sa.bindparam("of", type_=Ident(255)),
        _write.task == sa.bindparam("by", type_=Ident(255)),
    )
    .values(_NEW)
)
