import random
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME

from langgraph_compaction.checkpoint import Database, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints import checkpoint_bundles
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.bundling import small_bundles
from tests.checkpoint.contract.steps import Steps, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.lines import COUNT, bundled, line, rows_of, states
from tests.checkpoint.processes import forks, run_together
from tests.checkpoint.samples import talk
from tests.kill import test_saver_kills as kills

KEYS = Keyring({"k": b"1" * 32}, current="k")


@pytest.fixture
def saver(database: Database) -> Any:
    """Return a saver on a database of each kind."""
    return SQLAlchemySaver(database)


def test_what_is_bundled_reads_as_before(saver: Any, thread_id: str) -> None:
    """A checkpoint in a bundle has its values, its parent, its metadata and its writes, found by id or listed."""
    heads = line(saver, thread_id)
    assert bundled(saver, thread_id) == [id_of(head) for head in heads[:8]]
    listed = states(saver, thread_id)
    assert ids(listed) == [id_of(head) for head in reversed(heads)]
    for number, (head, found) in enumerate(zip(heads, reversed(listed), strict=True)):
        assert read(saver, head) == found
        assert found.checkpoint["channel_values"] == {"messages": talk(number + 1), "count": number}
        assert found.metadata["step"] == number
        assert [task for task, *_ in found.pending_writes or ()] == ["a", "a", "b", "b"]
    for before, after in pairwise(heads):
        assert read(saver, after).parent_config == before


@pytest.mark.parametrize("limit", [None, 0, 1, 2, 3, 7, 50])
@pytest.mark.parametrize("back", range(COUNT))
def test_a_list_may_begin_and_end_inside_a_bundle(thread_id: str, back: int, limit: int | None) -> None:
    """`before` and `limit` cut wherever they fall, in one namespace and over all of them."""
    with SQLAlchemySaver.from_url("memory") as saver:
        saver.setup()
        heads = line(saver, thread_id)
        line(saver, thread_id, namespace="inner")
        root = [id_of(head) for head in heads[:back]][::-1][:limit]
        assert ids(list(saver.list(where(thread_id), before=heads[back], limit=limit))) == root
        everything = list(saver.list({"configurable": {"thread_id": thread_id}}, before=heads[back], limit=limit))
        assert ids(everything) == root  # "inner" came later
        newest = [one.checkpoint["id"] for one in saver.list(None)]
        assert newest == sorted(newest, reverse=True)
        assert [one.checkpoint["id"] for one in saver.list(None, limit=limit)] == newest[:limit]


def test_writes_to_a_bundled_checkpoint_are_kept(saver: Any, thread_id: str) -> None:
    """The first write of an index stays, a special one takes an earlier one's place, and a new task is added."""
    old = line(saver, thread_id)[2]
    saver.put_writes(old, [("x", "again"), ("x", "again"), ("x", "third")], "a", "path a")
    saver.put_writes(old, [(INTERRUPT, "first")], "c")
    saver.put_writes(old, [(INTERRUPT, "second"), (RESUME, 1)], "c")
    assert id_of(old) in bundled(saver, thread_id)
    assert len(rows_of(saver, tables.write, thread_id)) == 2 * (COUNT - 8)
    assert writes_of(saver, old) == [
        *(("c", RESUME, 1), ("c", INTERRUPT, "second")),
        *(("a", "messages", talk(1, start=2)), ("a", "x", "a"), ("a", "x", "third")),
        *(("b", "messages", talk(1, start=2)), ("b", "x", "b")),
    ]


def test_a_repeated_put_of_a_bundled_checkpoint_takes_its_place(saver: Any, thread_id: str) -> None:
    """It keeps its place among the others and its writes, and is there once."""
    heads = line(saver, thread_id)
    listed = states(saver, thread_id)
    old = read(saver, heads[3])
    again = {**old.checkpoint, "channel_values": {**old.checkpoint["channel_values"], "count": "again"}}
    saver.put(old.parent_config, again, old.metadata, {})
    found = states(saver, thread_id)
    assert ids(found) == ids(listed)
    assert read(saver, heads[3]).checkpoint["channel_values"]["count"] == "again"
    assert read(saver, heads[3]).pending_writes == old.pending_writes
    assert [one for one in found if one.config != heads[3]] == [one for one in listed if one.config != heads[3]]


def test_a_fork_of_a_bundled_checkpoint(saver: Any, thread_id: str) -> None:
    """What goes on from an old checkpoint is the newest, and the old one its parent."""
    heads = line(saver, thread_id)
    fork = saver.put(heads[1], {**read(saver, heads[1]).checkpoint, "id": "f" * 8}, {"source": "fork"}, {})
    assert read(saver, where(thread_id)).config == fork
    assert read(saver, fork).parent_config == heads[1]
    assert values_of(saver, fork) == values_of(saver, heads[1])


@forks
def test_writers_that_bundle_at_once(empty_url: str) -> None:
    """Three processes that put to one thread, whoever bundles, leave every checkpoint once, with its writes."""
    with SQLAlchemySaver.from_url(empty_url) as saver:
        saver.setup()

    def work(number: int) -> None:
        with small_bundles(3, 2), SQLAlchemySaver.from_url(empty_url) as own:
            head: Any = where("t")
            steps = Steps(own, "t")
            for step in range(20):
                head = steps.put({"x": step}, on=head, name=f"{number}-{step:02}")
                own.put_writes(head, [("x", step)], "task")
                own.put_writes(where("t", f"{number}-{step // 2:02}"), [("y", step)], f"late {step}")

    run_together(3, work)
    with SQLAlchemySaver.from_url(empty_url) as saver:
        found = {one.checkpoint["id"]: one for one in states(saver, "t")}
        assert len(bundled(saver, "t")) > 30
        assert len(found) == len(states(saver, "t")) == 60
        for name, one in found.items():
            number, step = name.split("-")
            late = [2 * int(step), 2 * int(step) + 1] if int(step) < 10 else []
            written = {(task, value) for task, _, value in one.pending_writes or ()}
            assert written == {("task", int(step)), *((f"late {each}", each) for each in late)}, (number, step)


@forks
def test_killed_while_it_bundles(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends at any moment of its work, which is bundling mostly, leaves each call whole or absent."""
    monkeypatch.setattr(kills, "KILLS", 6)
    with small_bundles(2, 1):
        kills.test_a_saver_killed_anywhere_keeps_what_it_acknowledged(empty_url)


def test_a_checkpoint_takes_few_bytes(saver: Any, thread_id: str) -> None:
    """Checkpoints and writes of a long thread take fewer than a hundred bytes a checkpoint, bodies and keys."""
    steps, chance = Steps(saver, thread_id), random.Random(0)  # noqa: S311 - the same ids on every run
    for number in range(3 * checkpoint_bundles.SIZE):
        head = steps.put({"messages": talk(number + 1)})
        saver.put_writes(head, [("messages", talk(1, start=number + 1))], str(UUID(int=chance.getrandbits(128))))
    held = rows_of(saver, tables.bundle, thread_id)
    assert [row.size for row in held] == [checkpoint_bundles.SIZE]
    assert len(held[0].body) < 100 * checkpoint_bundles.SIZE
