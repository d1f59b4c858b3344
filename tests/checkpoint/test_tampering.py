from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import CheckpointError, CompactionRecords, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.transaction import Transaction
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages.items import HASH_BYTES
from langgraph_compaction.checkpoint.messages.references import References
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.samples import key_of, opening
from tests.checkpoint.tampering import (
    TABLES,
    config_of,
    conversation,
    damages,
    fill,
    fill_records,
    overwrite,
    read,
    rows,
)

KEYED = pytest.mark.parametrize("keys", [None, Keyring({"k1": b"1" * 32}, current="k1")], ids=["open", "encrypted"])


@KEYED
def test_a_damaged_row_is_named(any_url: str, keys: Keyring | None) -> None:
    """A body that is cut off, too long, or has one bit flipped in any region is an error that names the row."""
    with SQLAlchemySaver.from_url(any_url, keys=keys) as saver:
        saver.setup()
        fill(saver, "t")
        whole = read(saver)
        for name in TABLES:
            row = rows(saver, name)[0]
            for damage, body in damages(bytes(row.body)):
                overwrite(saver, name, row, body=body)
                with pytest.raises(CheckpointError, match=name) as caught:
                    read(saver)
                assert type(caught.value) is RowError or keys, damage
                overwrite(saver, name, row, body=row.body)
        assert read(saver) == whole


@KEYED
@pytest.mark.parametrize("name", TABLES)
def test_swapped_rows_are_named(name: str, keys: Keyring | None) -> None:
    """Two rows whose bodies were exchanged, of one thread or of two, are each not what was stored there."""
    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        fill(saver, "t")
        fill(saver, "u")
        held = rows(saver, name)
        of_t = [row for row in held if row.thread == held[0].thread]
        of_u = [row for row in held if row.thread != held[0].thread]
        for first, second, threads in ((of_t[0], of_t[1], "t"), (of_t[0], of_u[0], "tu")):
            overwrite(saver, name, first, body=second.body)
            overwrite(saver, name, second, body=first.body)
            for thread in threads:
                with pytest.raises(RowError, match=name):
                    read(saver, thread)
            overwrite(saver, name, first, body=first.body)
            overwrite(saver, name, second, body=second.body)
        assert read(saver, "t")
        assert read(saver, "u")


@KEYED
def test_exchanged_names_of_threads_are_named(keys: Keyring | None) -> None:
    """Nobody reads another thread's conversation because its row has another thread's name."""
    names = tables.thread.c.thread_id
    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        for thread in ("t", "u"):
            fill(saver, thread, 2)
            fill_records(saver, thread)
        assert read(saver, "t") != read(saver, "u")
        with saver.database.write() as conn:
            for now, then in (("t", "between"), ("u", "t"), ("between", "u")):
                conn.execute(sa.update(tables.thread).where(names == now).values(thread_id=then))
        records = CompactionRecords(saver.database)
        for thread in ("t", "u"):
            with pytest.raises(RowError, match="of thread"):
                read(saver, thread)
            with pytest.raises(RowError, match="ledger row .* of thread" if keys is None else "of thread"):
                records.history(thread)


def change_places(conn: Transaction) -> None:
    """Let the oldest of three checkpoints stand where the newest stood, and the other way round."""
    number = tables.checkpoint.c.number
    for now, then in ((0, 9), (2, 0), (9, 2)):
        conn.execute(sa.update(tables.checkpoint).where(number == now).values(number=then))


def change_parent(conn: Transaction) -> None:
    """Let the newest checkpoint follow upon the oldest."""
    number = tables.checkpoint.c.number
    oldest = conn.execute(sa.select(tables.checkpoint.c.id).where(number == 0)).scalar_one()
    conn.execute(sa.update(tables.checkpoint).where(number == 2).values(parent=oldest))


def change_run(conn: Transaction) -> None:
    """Give the newest checkpoint to another run."""
    conn.execute(sa.update(tables.checkpoint).where(tables.checkpoint.c.number == 2).values(run="another"))


def change_metadata_hashes(conn: Transaction) -> None:
    """Let filters pass the newest checkpoint by."""
    mine = tables.checkpoint.c.number == 2
    conn.execute(sa.update(tables.checkpoint).where(mine).values(metadata_hashes=""))


def change_references(conn: Transaction) -> None:
    """Let the newest checkpoint refer to no message, so that the next sweep would erase its messages."""
    mine = tables.checkpoint.c.number == 2
    conn.execute(sa.update(tables.checkpoint).where(mine).values(refs=References().encode()))


@KEYED
@pytest.mark.parametrize(
    "change", [change_places, change_parent, change_run, change_metadata_hashes, change_references]
)
def test_a_checkpoint_moved_to_another_place_is_named(
    change: Callable[[Transaction], None], keys: Keyring | None
) -> None:
    """Whoever makes another checkpoint the newest, or changes what one follows upon, is found out."""
    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        fill(saver, "t", 3)
        with saver.database.write() as conn:
            change(conn)
        with pytest.raises(RowError, match=r"checkpoint .*of thread"):
            read(saver)


@KEYED
@pytest.mark.parametrize("table", [tables.checkpoint, tables.write], ids=["checkpoint", "write"])
def test_nothing_is_erased_by_changed_references(table: sa.Table, keys: Keyring | None) -> None:
    """Whoever changes what a row refers to has no message of it erased: retention reads the rows' bodies first."""
    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        fill(saver, "t")
        whole, held = read(saver), rows(saver, "message")
        before = rows(saver, table.name.removeprefix("compaction_"))
        with saver.database.write() as conn:
            conn.execute(sa.update(table).values(refs=References().encode()))
        for erase in (lambda: saver.prune(["t"], keep_last=9), lambda: saver.delete_for_runs(["no run"])):
            with suppress(RowError):
                erase()
        with pytest.raises(RowError, match="of thread"):
            saver.prune(["t"])
        assert rows(saver, "message") == held
        for row in before:
            overwrite(saver, table.name.removeprefix("compaction_"), row, refs=row.refs)
        assert read(saver) == whole


ITEMS: dict[str, Callable[[sa.Row[Any]], dict[str, Any]]] = {
    "number": lambda row: {"seq": row.seq + 1000},
    "hashes": lambda row: {"hashes": row.hashes + bytes(HASH_BYTES)},
    "fewer hashes": lambda row: {"hashes": row.hashes[:-HASH_BYTES]},
}


@KEYED
@pytest.mark.parametrize("name", ["message", "messages", "value"])
@pytest.mark.parametrize("change", ITEMS)
def test_items_under_other_numbers_are_named(name: str, change: str, keys: Keyring | None) -> None:
    """A row of items that stands for other items than it was stored for is an error, or they are missing."""
    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        fill(saver, "t")
        row = rows(saver, name)[0]
        overwrite(saver, name, row, **ITEMS[change](row))
        with pytest.raises(RowError, match=r"(messages?|value) .*of thread"):
            read(saver)


@pytest.mark.parametrize("key", ["a' OR 1=1 --", 'a" OR ""="', "a') OR (1=1", "$.source", "source;--", "100%", "a\\"])
def test_a_filter_key_never_reaches_sql(any_url: str, key: str) -> None:
    """Keys and values of a filter are compared in Python: no statement holds them, and they match nothing else."""
    with SQLAlchemySaver.from_url(any_url) as saver:
        saver.setup()
        fill(saver, "t")
        said: list[str] = []

        def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            said.append(f"{statement} {parameters}")

        sa.event.listen(saver.database.engine, "before_cursor_execute", note)
        assert list(saver.list(None, filter={key: "x' OR 1=1 --"})) == []
        assert list(saver.list(config_of("t"), filter={"source": key})) == []
        assert said
        assert not any(
            key in statement or repr(key)[1:-1] in statement or "OR 1=1" in statement for statement in said
        )
        assert len(list(saver.list(config_of("t"), filter={"source": "loop"}))) == 2


def change(table: sa.Table, **values: object) -> Callable[[Transaction], object]:
    """Change columns of every row of a table."""
    return lambda conn: conn.execute(sa.update(table).values(values))


def _without(end: Callable[[Any], Any]) -> sa.Delete:
    """Delete the first or the last row of the ledger."""
    number = tables.ledger.c.id
    return sa.delete(tables.ledger).where(number == sa.select(end(number)).scalar_subquery())


COLUMNS: dict[str, tuple[str, Callable[[Transaction], object]]] = {
    "the parent of a compaction": ("ledger row", change(tables.ledger, parent_id=None)),
    "the namespace of a compaction": ("ledger row", change(tables.ledger, namespace="other")),
    "the checkpoint of a compaction": ("ledger row", change(tables.ledger, checkpoint_id="other")),
    "the namespace of an archive row": ("archive", change(tables.archive, namespace="other")),
    "an archive row": ("archive row", lambda conn: conn.execute(sa.delete(tables.archive))),
    "the last ledger row": ("ledger row of compaction", lambda conn: conn.execute(_without(sa.func.max))),
    "an earlier ledger row": ("ledger row of compaction", lambda conn: conn.execute(_without(sa.func.min))),
    "a changed snapshot": ("snapshot", change(tables.snapshot, runs=b"\x00\x02")),
    "a snapshot": ("snapshot", lambda conn: conn.execute(sa.delete(tables.snapshot))),
}


@KEYED
@pytest.mark.parametrize("case", COLUMNS)
def test_a_changed_chain_of_compactions_is_named(case: str, keys: Keyring | None) -> None:
    """No column beside an encoded body, and no missing row, makes a transcript shorter without an error."""
    named, damage = COLUMNS[case]
    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        records, messages = CompactionRecords(saver.database), conversation("c", 4)
        first, second = (key_of("t", messages, level=level) for level in (0, 1))
        for key, parent, gone in ((first, None, messages[:1]), (second, first.compaction_id, messages[1:2])):
            records.begin(key, messages, now=1.0, **{**opening(), "parent_id": parent})
            records.commit(key, Outcome(verdict="committed", now=2.0), archived=gone)
        whole = records.transcript("t", "", messages[2:], head=second.compaction_id)
        assert whole == messages
        with saver.database.write() as conn:
            damage(conn)
        with pytest.raises(RowError, match=named):
            records.transcript("t", "", messages[2:], head=second.compaction_id)


def test_a_damaged_message_stops_no_later_put(any_url: str) -> None:
    """A message that no newest state holds can be damaged: the thread goes on, also when the message gets old."""
    with SQLAlchemySaver.from_url(any_url) as saver:
        saver.setup()
        fill(saver, "t", 2)
        with saver.database.write() as conn:
            last = conn.execute(sa.select(sa.func.max(tables.item.c.seq))).scalar_one()
            conn.execute(sa.update(tables.item).where(tables.item.c.seq == last).values(body=b"\x01damaged"))
        steps = Steps(saver, "t")
        for number in range(4):
            config = steps.put({"messages": conversation(f"later-{number}", 100)})
        assert saver.get_tuple(config) is not None
