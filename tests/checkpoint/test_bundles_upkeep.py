from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import CheckpointError, Database, Keyring, RowError, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints import checkpoint_bundles
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.bundling import small_bundles
from tests.checkpoint.contract.steps import Steps, id_of, ids, read, where
from tests.checkpoint.lines import COUNT, bundled, line, rows_of, states
from tests.checkpoint.samples import talk
from tests.checkpoint.tampering import MARKER, damages
from tests.checkpoint.test_growth import statements

KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}
FIRST, BOTH = Keyring({"k1": KEYS["k1"]}, current="k1"), Keyring(KEYS, current="k2")


@pytest.fixture
def saver(database: Database) -> Any:
    """Return a saver on a database of each kind."""
    return SQLAlchemySaver(database)


def test_runs_are_deleted_out_of_the_middle_of_bundles(saver: Any, thread_id: str) -> None:
    """What a run left goes from every bundle, of every thread, and the rest is joined."""
    runs = ("one", "two")
    threads = (thread_id, f"{thread_id}-other")
    names = {}
    for name in threads:
        steps = Steps(saver, name)
        with small_bundles(4, 1):
            names[name] = [steps.put({"x": n}, run_id=f"{runs[n % 2]}-{thread_id}") for n in range(COUNT)]
    saver.delete_for_runs([f"one-{thread_id}"])
    for name, heads in names.items():
        left = heads[1::2]
        assert ids(states(saver, name)) == [id_of(head) for head in reversed(left)]
        assert [read(saver, head).parent_config for head in left] == [None, *left[:-1]]
        assert [row.run for row in rows_of(saver, tables.run, name)] == [f"two-{thread_id}"]
    saver.delete_for_runs([f"two-{thread_id}"])
    for name in threads:
        assert states(saver, name) == []
        assert rows_of(saver, tables.bundle, name) == rows_of(saver, tables.run, name) == []


def test_a_run_that_is_in_bundles_alone_is_found(saver: Any, thread_id: str) -> None:
    """What a run left long ago is deleted without its thread being named."""
    steps = Steps(saver, thread_id)
    with small_bundles(4, 1):
        heads = [steps.put({"x": n}, run_id=f"{'old' if n < 3 else 'new'}-{thread_id}") for n in range(COUNT)]
    saver.delete_for_runs([f"old-{thread_id}"])
    assert ids(states(saver, thread_id)) == [id_of(head) for head in reversed(heads[3:])]


def test_the_newest_may_be_in_a_bundle(saver: Any, thread_id: str) -> None:
    """Where all that came after was deleted, a thread goes on from what a bundle holds."""
    heads = line(saver, thread_id, 8)
    steps = Steps(saver, thread_id)
    late = [steps.put({"x": number}, on=heads[-1], run_id=f"late-{thread_id}") for number in range(3)]
    with small_bundles(1, 1):
        late.append(steps.put({"x": 0}, on=heads[-1], run_id=f"late-{thread_id}"))
    saver.delete_for_runs([f"late-{thread_id}"])
    assert rows_of(saver, tables.checkpoint, thread_id) == []
    assert read(saver, where(thread_id)).config == heads[-1]
    guarded = SQLAlchemySaver(saver.database, on_conflict="raise")
    stored = Steps(guarded, thread_id).put({"x": 2}, on=heads[-1])
    assert ids(states(saver, thread_id))[:2] == [id_of(stored), id_of(heads[-1])]


@pytest.mark.parametrize("keep", [1, 3, 6, COUNT])
def test_pruning_takes_bundles_apart(saver: Any, thread_id: str, keep: int) -> None:
    """So many of the newest stay as they were, and nothing else."""
    heads = line(saver, thread_id)
    kept = states(saver, thread_id)[:keep]
    saver.prune([thread_id], keep_last=keep)
    found = states(saver, thread_id)
    assert [one._replace(parent_config=None) for one in found] == [one._replace(parent_config=None) for one in kept]
    assert all(saver.get_tuple(head) is None for head in heads[:-keep])
    assert len(rows_of(saver, tables.write, thread_id)) <= 2 * keep


def test_a_copy_has_bundles_of_its_own(saver: Any, thread_id: str) -> None:
    """A copied thread reads as the first one did, under its own name, and lives on without it."""
    steps, copy = Steps(saver, thread_id), f"{thread_id}-copy"
    with small_bundles(4, 1):
        for number in range(COUNT):
            saver.put_writes(steps.put({"messages": talk(number + 1)}, thread_id=thread_id), [("x", number)], "task")
    before = states(saver, thread_id)
    saver.copy_thread(thread_id, copy)
    saver.copy_thread(thread_id, copy)
    assert {one.metadata["thread_id"] for one in states(saver, copy)} == {copy}
    saver.delete_thread(thread_id)
    assert rows_of(saver, tables.bundle, thread_id) == []
    assert [one.checkpoint for one in states(saver, copy)] == [one.checkpoint for one in before]
    assert [one.pending_writes for one in states(saver, copy)] == [one.pending_writes for one in before]


def test_stats_count_what_is_bundled(saver: Any, thread_id: str) -> None:
    """Checkpoints and writes are counted wherever they stand."""
    line(saver, thread_id)
    [found] = saver.stats(thread_id)
    assert (found.checkpoints, found.writes) == (COUNT, 2 * COUNT)
    assert len(bundled(saver, thread_id)) == 8


def test_bundles_are_encrypted_and_rotated(empty_url: str) -> None:
    """With keys no bundle shows what was said; after `rotate` the old key is not needed."""
    with SQLAlchemySaver.from_url(empty_url, keys=FIRST) as saver:
        saver.setup()
        line(saver, "t", note=MARKER)
        before = states(saver, "t")
        assert rows_of(saver, tables.bundle, "t")
        assert not any(MARKER.encode() in bytes(row.body) for row in rows_of(saver, tables.bundle, "t"))
    with SQLAlchemySaver.from_url(empty_url, keys=BOTH) as saver:
        assert saver.rotate() > 0
        assert saver.rotate() == 0
    with SQLAlchemySaver.from_url(empty_url, keys=Keyring({"k2": KEYS["k2"]}, current="k2")) as saver:
        assert states(saver, "t") == before


@pytest.mark.parametrize("keys", [None, FIRST], ids=["open", "encrypted"])
def test_a_damaged_bundle_is_named(tmp_path: Path, keys: Keyring | None) -> None:
    """Whatever is changed in a bundle, its body or what stands beside it, is an error that names the row."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'a.db'}", keys=keys) as saver:
        saver.setup()
        line(saver, "t")
        first, second = rows_of(saver, tables.bundle, "t")
        bodies = [{"body": body} for _, body in damages(bytes(first.body))]
        moved = [{"last": 9}, {"low": "a"}, {"high": "z"}, {"size": 3}, {"body": second.body}]
        mine = sa.update(tables.bundle).where(tables.bundle.c.first == first.first)
        for change in (*bodies, *moved):
            with saver.database.write() as conn:
                conn.execute(mine.values(change))
            with pytest.raises(CheckpointError, match=r"bundle 0 in '' of thread"):
                states(saver, "t")
            with saver.database.write() as conn:
                conn.execute(mine.values({column.name: getattr(first, column.name) for column in tables.bundle.c}))
        assert len(states(saver, "t")) == COUNT


def test_a_damaged_checkpoint_stops_no_writer(saver: Any, thread_id: str) -> None:
    """It stays where it stands, an error for whoever reads it, and the thread goes on."""
    heads = line(saver, thread_id, size=99)
    damaged = rows_of(saver, tables.checkpoint, thread_id)[1]
    with saver.database.write() as conn:
        mine = sa.and_(tables.checkpoint.c.thread == damaged.thread, tables.checkpoint.c.number == damaged.number)
        conn.execute(sa.update(tables.checkpoint).where(mine).values(body=b"damaged"))
    more = Steps(saver, thread_id)
    with small_bundles(2, 1):
        stored = [more.put({"x": number}) for number in range(4)]
    assert read(saver, where(thread_id)).config == stored[-1]
    assert read(saver, heads[-1]).config == heads[-1]
    with pytest.raises(RowError, match=f"checkpoint {id_of(heads[1])}"):
        saver.get_tuple(heads[1])


def test_a_large_checkpoint_has_a_bundle_to_itself(saver: Any, thread_id: str) -> None:
    """A bundle ends where it would become too large for a row."""
    steps = Steps(saver, thread_id)
    with small_bundles(4, 1):
        for number in range(9):
            steps.put({"x": number}, note="\u00e9" * (checkpoint_bundles.LARGE if number == 2 else 1))
    sizes = [row.size for row in rows_of(saver, tables.bundle, thread_id)]
    assert sizes == [2, 1, 1, 4]
    assert len(states(saver, thread_id)) == 9


def test_the_newest_checkpoint_asks_no_bundle(database: Database, thread_id: str) -> None:
    """A put and writes at it, and reading the newest, ask for no bundle however many there are."""
    saver = SQLAlchemySaver(database)
    heads = line(saver, thread_id)
    assert bundled(saver, thread_id)
    with statements(database) as sent:
        head = Steps(saver, thread_id).put({"x": 1}, on=heads[-1])
        saver.put_writes(head, [("x", 1)], "task")
        read(saver, where(thread_id))
        read(saver, head)
    assert sent
    assert not [text for text in sent if "compaction_bundle" in text]
