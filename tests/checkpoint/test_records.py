import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.checkpoint.compaction import archive, snapshots
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint,
    fingerprint_all,
)
from tests.checkpoint.samples import COMMITTED, EVERY_KIND, begin, key_of, opening, talk


def test_the_id_of_a_compaction_follows_from_its_key() -> None:
    """Equal keys have equal ids of 16 hexadecimal characters; a difference in any field is another id."""
    keys = [
        AttemptKey("t", "n", "d", 0, 0),
        AttemptKey("t", "nd", "", 0, 0),
        AttemptKey("tn", "", "d", 0, 0),
        AttemptKey("t", "n", "d", 1, 0),
        AttemptKey("t", "n", "d", 0, 1),
        AttemptKey("t", "n", "\ud800", 0, 0),
    ]
    assert len({key.compaction_id for key in keys}) == len(keys)
    assert keys[0].compaction_id == AttemptKey("t", "n", "d", 0, 0).compaction_id == "a07c75c3890d5b9a"


def test_a_snapshot_is_what_the_attempt_began_with(records: CompactionRecords, thread_id: str) -> None:
    """The snapshot comes back byte for byte: ids, metadata, order, messages of every kind."""
    batch = list(EVERY_KIND.values())
    key = key_of(thread_id, batch)
    assert records.snapshot(key) is None
    records.begin(key, batch, now=10.0, **opening())
    found = records.snapshot(key)
    assert found == batch
    assert fingerprint_all(found) == key.base_fingerprint


def test_a_snapshot_of_another_attempt_is_none(records: CompactionRecords, thread_id: str) -> None:
    """Rung, attempt, namespace and thread all belong to the key."""
    begin(records, thread_id)
    fingerprint = fingerprint_all(talk(5))
    for other in (
        AttemptKey(thread_id, "", fingerprint, 1, 0),
        AttemptKey(thread_id, "", fingerprint, 0, 1),
        AttemptKey(thread_id, "sub", fingerprint, 0, 0),
        AttemptKey(f"{thread_id}-other", "", fingerprint, 0, 0),
    ):
        assert records.snapshot(other) is None


def test_a_commit_writes_archive_and_verdict(records: CompactionRecords, thread_id: str) -> None:
    """After a commit the row holds every field of the outcome, and the archive what left the view."""
    key = begin(records, thread_id)
    records.commit(key, COMMITTED, archived=talk(3))
    (row,) = records.history(thread_id)
    for name in Outcome.__dataclass_fields__:
        assert getattr(row, "ended_at" if name == "now" else name) == getattr(COMMITTED, name)
    with records.database.read() as conn:
        thread = records.store.find(conn, thread_id, lock=False)
        assert thread is not None
        assert archive.of_thread(conn, thread) == {key.compaction_id: ((0, 3),)}
    assert records.recall(thread_id, fingerprint(talk(1)[0])) == talk(1)[0]
    assert records.recall(thread_id, key.compaction_id) is None, "a message has its own handle"


def test_a_second_commit_of_the_same_attempt_loses_nothing(records: CompactionRecords, thread_id: str) -> None:
    """A fork that commits the same attempt with other messages adds to the archive and takes nothing out."""
    key = begin(records, thread_id)
    records.commit(key, COMMITTED, archived=talk(2))
    records.commit(key, COMMITTED, archived=talk(2, start=1))
    assert [records.recall(thread_id, fingerprint(message)) for message in talk(4)] == [*talk(3), None]
    with records.database.read() as conn:
        thread = records.store.find(conn, thread_id, lock=False)
        assert thread is not None
        assert archive.of_thread(conn, thread) == {key.compaction_id: ((0, 3),)}
        assert snapshots.of_thread(conn, thread) == {key.compaction_id: ((0, 5),)}


def test_the_snapshot_of_an_open_attempt_outlives_a_dropped_archive(
    records: CompactionRecords, thread_id: str
) -> None:
    """A run may still revert to it; the snapshot of an attempt that has ended is erased with the archive."""
    ended = begin(records, thread_id)
    records.commit(ended, COMMITTED, archived=talk(3))
    still_open = begin(records, thread_id, 6)
    SQLAlchemySaver(records.database).prune([thread_id], archive="drop")
    assert records.snapshot(still_open) == talk(6)
    assert records.snapshot(ended) is None


def test_a_thread_that_was_forgotten_begins_anew(records: CompactionRecords, thread_id: str) -> None:
    """The same id used again has numbers from 0 and nothing of the old thread; its key is never given again."""
    key = begin(records, thread_id)
    with records.database.write() as conn:
        old = records.store.thread(conn, thread_id)
    records.forget(thread_id)
    assert (records.snapshot(key), records.history(thread_id)) == (None, [])
    assert thread_id not in records.threads()
    with records.database.write() as conn:
        assert records.store.thread(conn, thread_id).id != old.id
        new: list[BaseMessage] = [HumanMessage("new", id="1")]
        assert records.store.put(conn, records.store.thread(conn, thread_id), new) == ((0, 1),)


def test_threads_are_listed_in_the_order_they_came(records: CompactionRecords, thread_id: str) -> None:
    """Every thread with anything in it is listed once."""
    names = [f"{thread_id}-{n}" for n in (2, 0, 1)]
    for name in names * 2:
        begin(records, name)
    assert [name for name in records.threads() if name.startswith(thread_id)] == names


def test_an_undo_takes_the_beginning_of_an_id(records: CompactionRecords, thread_id: str) -> None:
    """An id is found by any beginning that is its own, as commands show it, and refused by one that it shares."""
    names: list[str] = []
    for count in range(1, 18):  # of seventeen ids, two begin with the same digit
        key = begin(records, thread_id, count, parent_id=names[-1] if names else None)
        records.commit(key, COMMITTED, archived=talk(1))
        names.append(key.compaction_id)
    assert records.before(thread_id, talk(1), head=names[-1], compaction_id=names[-2][:12]).undone == tuple(
        names[-2:]
    )
    shared = next(name[0] for name in names if sum(other[0] == name[0] for other in names) > 1)
    with pytest.raises(UnknownAttemptError, match="several ids begin so"):
        records.before(thread_id, talk(1), head=names[-1], compaction_id=shared)
