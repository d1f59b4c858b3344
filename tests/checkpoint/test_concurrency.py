from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier

import pytest
from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database, DatabaseError, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.messages import message_blocks
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint, handle
from langgraph_compaction.checkpoint.messages.message_store import (
    MessageStore,
)
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    Runs,
)
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.listening import statements
from tests.checkpoint.processes import forks, run_together
from tests.checkpoint.samples import COMMITTED, begin, key_of, opening, talk

STORE = MessageStore()
ROUNDS = 20
WRITERS = 4


def put_in_turns(database: Database, thread_id: str, number: int) -> None:
    """Store lists that overlap those of the other writers, and see each come back."""
    for turn in range(ROUNDS):
        batch = [*talk(3, start=turn), *talk(2, start=1000 * (number + 1) + turn)]
        with database.write() as conn:
            thread = STORE.thread(conn, thread_id)
            runs = STORE.put(conn, thread, batch)
            assert STORE.get(conn, thread, runs) == batch


def check_numbers(database: Database, thread_id: str) -> None:
    """See that every message is there once, under numbers without a gap."""
    with database.read() as conn:
        thread = STORE.find(conn, thread_id, lock=False)
        assert thread is not None
        seqs = sorted(seq for seq, _ in message_blocks.all_messages(conn, thread))
        found = {message.id for message in STORE.get(conn, thread, ((0, len(seqs)),))}
    expected = {message.id for message in talk(ROUNDS + 2)}
    expected |= {m.id for number in range(WRITERS) for m in talk(ROUNDS + 1, start=1000 * (number + 1))}
    assert seqs == list(range(len(expected)))
    assert found == expected


def test_threads_that_interleave_lose_nothing(database: Database, thread_id: str) -> None:
    """Threads that put into one conversation get unique numbers, and every message is there once."""
    with ThreadPoolExecutor(WRITERS) as pool:
        done = [pool.submit(put_in_turns, database, thread_id, number) for number in range(WRITERS)]
        for one in done:
            one.result(timeout=100)
    check_numbers(database, thread_id)


@forks
def test_processes_that_interleave_lose_nothing(shared_url: str, thread_id: str) -> None:
    """Processes that put into one conversation get unique numbers, and every message is there once."""

    def work(number: int) -> None:
        with Database.open(shared_url) as database:
            put_in_turns(database, thread_id, number)

    run_together(WRITERS, work)
    with Database.open(shared_url) as database:
        check_numbers(database, thread_id)


def test_threads_that_meet_a_new_thread_make_it_once(database: Database, thread_id: str) -> None:
    """Many who create the same thread at once all get the same key."""

    def create(number: int) -> tuple[int, int]:
        with database.write() as conn:
            return number // 8, STORE.thread(conn, f"{thread_id}-{number // 8}").id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(80)))) == 10


WRITES: dict[str, Callable[[CompactionRecords, str], object]] = {
    "begin": lambda records, name: records.begin(key_of(name, talk(5)), talk(5), now=1.0, **opening()),
    "note": lambda records, name: records.note(
        key_of(name, talk(6)), Outcome(verdict="declined", now=1.0), **opening()
    ),
    "archive": lambda records, name: records.archive(name, "", "refused", talk(2), now=1.0),
}


@pytest.mark.parametrize("kind", WRITES)
def test_the_same_write_at_once_is_one_write(database: Database, thread_id: str, kind: str) -> None:
    """Some that write the same thing at the same time, as after a retry, all succeed and leave it once."""
    records = CompactionRecords(database)
    gate = Barrier(4)

    def write(_number: int) -> None:
        for turn in range(5):
            gate.wait(timeout=30)
            WRITES[kind](records, f"{thread_id}-{turn}")

    begin(records, f"{thread_id}-0", 1)  # one of the threads is there before
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    rows = [len(records.history(f"{thread_id}-{turn}")) for turn in range(5)]
    assert rows == ([1, 0, 0, 0, 0] if kind == "archive" else [2, 1, 1, 1, 1])


def test_the_lock_of_a_thread_is_held_to_the_end(shared_url: str, thread_id: str) -> None:
    """A second writer of a thread gets its key only when the first has committed, and then sees what it wrote."""
    with Database.open(shared_url) as database, ThreadPoolExecutor(1) as pool:
        put_of(database, thread_id, talk(1))

        def second() -> Runs:
            with database.write() as conn:
                return STORE.put(conn, STORE.thread(conn, thread_id), talk(4))

        with database.write() as conn:
            thread = STORE.thread(conn, thread_id)
            waiting = pool.submit(second)
            assert wait([waiting], timeout=0.2).not_done
            STORE.put(conn, thread, talk(3))
        assert waiting.result(timeout=30) == ((0, 4),)


def test_a_read_of_a_checkpoint_locks_no_thread(shared_url: str, thread_id: str) -> None:
    """So that it waits for no writer, and no writer waits for it."""
    with SQLAlchemySaver.from_url(shared_url) as saver:
        saver.setup()
        stored = Steps(saver, thread_id).put({"x": 1})
        with statements(saver.database) as sent:
            assert saver.get_tuple(stored)
        assert not [one for one in sent if "FOR UPDATE" in one]


def test_a_read_of_the_records_locks_no_thread(shared_url: str, thread_id: str) -> None:
    """What a person reads back while the agent runs does not stop the agent."""
    with Database.open(shared_url) as database:
        database.setup()
        records = CompactionRecords(database)
        key, name = begin(records, thread_id), handle(talk(1)[0])
        records.commit(key, COMMITTED, archived=talk(3))
        with statements(database) as sent:
            assert records.snapshot(key) == talk(5)
            assert len(records.history(thread_id)) == 1
            assert records.recall(thread_id, name) == talk(1)[0]
            assert len(records.by_handle(thread_id, key.compaction_id)) == 3
            assert records.taken_by(thread_id, key.compaction_id) == talk(3)
            assert records.transcript(thread_id, "", talk(2, start=3), head=key.compaction_id) == talk(5)
            assert records.before(thread_id, talk(2, start=3), head=key.compaction_id).undone == (key.compaction_id,)
            assert records.began_with(thread_id, key.compaction_id) == talk(5)
            records.line(thread_id, key.compaction_id)
            records.search(thread_id, "message")
            assert records.find_summary(key, input_digest="none") is None
        assert len(sent) > 12
        assert not [one for one in sent if "FOR UPDATE" in one]


def test_no_number_is_given_out_twice_by_who_did_not_take_the_lock(database: Database, thread_id: str) -> None:
    """Of writers that read the thread before and put at once one gets the numbers, the others an error."""
    put_of(database, thread_id, talk(1))
    gate = Barrier(4)

    def work(number: int) -> Runs | None:
        with database.read() as conn:
            thread = STORE.find(conn, thread_id, lock=False)
            assert thread is not None
        gate.wait(timeout=30)
        try:
            with database.write() as conn:
                return STORE.put(conn, thread, talk(5, start=100 * (number + 1)))
        except DatabaseError:
            return None

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(work, range(4)))
    assert sorted(runs, key=bool) == [None, None, None, ((1, 5),)]
    winner = 100 * (runs.index(((1, 5),)) + 1)
    with database.read() as conn:
        thread = STORE.find(conn, thread_id, lock=False)
        assert thread is not None
        assert STORE.get(conn, thread, ((0, thread.next_seq),)) == [*talk(1), *talk(5, start=winner)]


def put_of(database: Database, thread_id: str, batch: list[BaseMessage]) -> Runs:
    """Store messages in a transaction of their own."""
    with database.write() as conn:
        return STORE.put(conn, STORE.thread(conn, thread_id), batch)


@forks
def test_attempts_of_two_processes_are_kept_apart(shared_url: str, thread_id: str) -> None:
    """Two processes that begin and commit on one thread find each its own snapshot, summary rows and verdicts."""

    def work(number: int) -> None:
        with Database.open(shared_url) as database:
            records = CompactionRecords(database)
            for turn in range(1, 11):
                batch = [*talk(turn), *talk(turn, start=1000 * (number + 1))]
                key = key_of(thread_id, batch)
                records.begin(key, batch, now=float(turn), **opening(epoch=number))
                assert records.snapshot(key) == batch
                records.commit(key, Outcome(verdict="committed", now=turn + 0.5), archived=batch[:1])

    run_together(2, work)
    with Database.open(shared_url) as database:
        rows = CompactionRecords(database).history(thread_id)
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    assert [row.started_at for row in rows if row.epoch == 0] == [float(n) for n in range(1, 11)]
    assert [row.verdict for row in rows] == ["committed"] * 20


def test_a_reader_never_sees_half_an_attempt(shared_url: str, thread_id: str) -> None:
    """While one thread begins and commits, another's history and snapshots always fit each other."""
    with Database.open(shared_url) as database, ThreadPoolExecutor(1) as pool:
        records = CompactionRecords(database)

        def write() -> None:
            for turn in range(1, 15):
                key = key_of(thread_id, talk(turn))
                records.begin(key, talk(turn), now=1.0, **opening())
                records.commit(key, Outcome(verdict="committed", now=2.0), archived=talk(1))

        writer = pool.submit(write)
        while not writer.done():
            for row in records.history(thread_id):
                turn = next(n for n in range(1, 15) if key_of(thread_id, talk(n)).compaction_id == row.compaction_id)
                assert records.snapshot(key_of(thread_id, talk(turn))) == talk(turn)
                if row.verdict:
                    assert records.recall(thread_id, fingerprint(talk(1)[0])) == talk(1)[0]
        writer.result(timeout=60)
        assert len(records.history(thread_id)) == 14
