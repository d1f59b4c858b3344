"""Processes and threads that write to one conversation at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from typing import Any

import pytest

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.maintenance.maintenance import ThreadMaintenance
from langgraph_compaction.checkpoint.messages.message_codec import handle
from tests.checkpoint.contract.steps import Steps, values_of, where
from tests.checkpoint.listening import statements
from tests.checkpoint.processes import forks, run_together
from tests.checkpoint.samples import COMMITTED, Clock, begin, key_of, opening, talk

ROUNDS = 10
WRITERS = 4


def spoken(number: int, turn: int) -> list[Any]:
    """Return what a writer has said after a turn: in part what the others say, too."""
    return [*talk(3, start=turn), *talk(2, start=1000 * (number + 1) + turn)]


@forks
def test_processes_that_interleave_lose_nothing(shared_url: str, thread_id: str) -> None:
    """Their checkpoints, snapshots, archives and verdicts are kept apart, and a message of several is stored once."""

    def work(number: int) -> None:
        with SQLAlchemySaver.from_url(shared_url) as saver:
            records, steps = CompactionRecords(saver.database), Steps(saver, thread_id, f"{number}")
            for turn in range(ROUNDS):
                batch = spoken(number, turn)
                assert values_of(saver, steps.put({"messages": batch}))["messages"] == batch
                key = key_of(thread_id, batch)
                records.begin(key, batch, now=float(turn), **opening(epoch=number))
                assert records.snapshot(key) == batch
                records.commit(key, Outcome(verdict="committed", now=turn + 0.5), archived=batch[:1])

    run_together(WRITERS, work)
    with SQLAlchemySaver.from_url(shared_url) as saver:
        for number in range(WRITERS):
            found = saver.list(where(thread_id, namespace=f"{number}"))
            assert [one.checkpoint["channel_values"]["messages"] for one in found] == [
                spoken(number, turn) for turn in reversed(range(ROUNDS))
            ]
        [there] = saver.stats(thread_id)
        said = {message.id for number in range(WRITERS) for turn in range(ROUNDS) for message in spoken(number, turn)}
        assert there.messages == len(said)
        rows = CompactionRecords(saver.database).history(thread_id)
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    for number in range(WRITERS):
        assert [row.started_at for row in rows if row.epoch == number] == [float(turn) for turn in range(ROUNDS)]
    assert {row.verdict for row in rows} == {"committed"}


@forks
def test_a_saver_that_was_opened_before_a_fork_serves_parent_and_children(shared_url: str, thread_id: str) -> None:
    """Also what it remembers of the thread, and its open connections: nobody misses what another process wrote."""
    with SQLAlchemySaver.from_url(shared_url) as saver:

        def work(number: int) -> None:
            steps = Steps(saver, thread_id, f"{number}")
            for turn in range(ROUNDS):
                batch = spoken(number, turn)
                assert values_of(saver, steps.put({"messages": batch}))["messages"] == batch
                assert values_of(saver, where(thread_id, namespace=f"{number}"))["messages"] == batch

        work(WRITERS)
        run_together(WRITERS, work)
        work(WRITERS + 1)
        for number in range(WRITERS + 2):
            found = saver.list(where(thread_id, namespace=f"{number}"))
            assert [one.checkpoint["channel_values"]["messages"] for one in found] == [
                spoken(number, turn) for turn in reversed(range(ROUNDS))
            ]
        said = {one.id for number in range(WRITERS + 2) for turn in range(ROUNDS) for one in spoken(number, turn)}
        assert saver.stats(thread_id)[0].messages == len(said)


def test_the_same_attempt_begun_at_once_is_one_attempt(database: Database, thread_id: str) -> None:
    """Some that begin the same thing at the same time, as after a retry, all succeed and leave it once."""
    records = CompactionRecords(database)
    gate = Barrier(WRITERS)

    def write(_number: int) -> None:
        for turn in range(5):
            gate.wait(timeout=30)
            begin(records, f"{thread_id}-{turn}")

    begin(records, f"{thread_id}-0", 1)  # one of the threads is there before
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert [len(records.history(f"{thread_id}-{turn}")) for turn in range(5)] == [2, 1, 1, 1, 1]


def test_two_sweeps_at_once_erase_each_idle_thread_once(
    own_url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have found the same threads; a thread to which somebody has written since then stays."""
    names = [f"idle-{number}" for number in range(12)]
    gate, found = Barrier(3), ThreadMaintenance.idle

    def idle(maintenance: ThreadMaintenance, until: float) -> list[str]:
        there = found(maintenance, until)
        gate.wait(timeout=30)  # both have read
        gate.wait(timeout=30)  # the other thread was written to
        return there

    monkeypatch.setattr(ThreadMaintenance, "idle", idle)
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        first, second = (stack.enter_context(SQLAlchemySaver.from_url(own_url, now=clock)) for _ in range(2))
        first.setup()
        for name in [*names, "written"]:
            Steps(first, name).put({"messages": talk(3)})
        clock.time += 100
        sweeps = [pool.submit(saver.sweep, 60) for saver in (first, second)]
        gate.wait(timeout=30)
        Steps(second, "written").put({"messages": talk(4)})
        gate.wait(timeout=30)
        swept = [name for sweep in sweeps for name in sweep.result()]
        assert sorted(swept) == sorted(names)
        assert first.threads() == ["written"]


def test_a_read_locks_no_thread(shared_url: str, thread_id: str) -> None:
    """What a person reads back while the agent runs does not stop the agent, nor wait for it."""
    with SQLAlchemySaver.from_url(shared_url) as saver:
        records, name = CompactionRecords(saver.database), handle(talk(1)[0])
        key = begin(records, thread_id)
        records.commit(key, COMMITTED, archived=talk(3))
        stored = Steps(saver, thread_id).put({"x": 1})
        with statements(saver.database) as sent:
            assert saver.get_tuple(stored)
            assert len(list(saver.list(where(thread_id)))) == 1
            assert records.snapshot(key) == talk(5)
            assert len(records.history(thread_id)) == 1
            assert records.recall(thread_id, name) == talk(1)[0]
            assert len(records.by_handle(thread_id, key.compaction_id)) == 3
            assert records.taken_by(thread_id, key.compaction_id) == talk(3)
            assert records.transcript(thread_id, "", talk(2, start=3), head=key.compaction_id) == talk(5)
            assert records.before(thread_id, head=key.compaction_id).undone == (key.compaction_id,)
            assert records.began_with(thread_id, key.compaction_id) == talk(5)
            records.search(thread_id, "message")
            assert records.find_summary(key, input_digest="none") is None
        assert not [one for one in sent if "FOR UPDATE" in one]
