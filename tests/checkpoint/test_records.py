from dataclasses import replace

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction import archive, snapshots
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome, SummaryRecord
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint,
    fingerprint_all,
)
from tests.checkpoint.samples import COMMITTED, EVERY_KIND, SUMMARY, begin, key_of, opening, talk


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


@pytest.mark.requirement("S0.20")
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


def test_a_summary_is_found_for_its_input_and_rung_only(records: CompactionRecords, thread_id: str) -> None:
    """A summary that was paid for comes back exactly, for the same thread, namespace, level and input alone."""
    key = begin(records, thread_id)
    records.record_summary(key, SUMMARY)
    assert records.find_summary(key, input_digest=SUMMARY.input_digest) == SUMMARY
    assert records.find_summary(key, input_digest="cd" * 16) is None
    for other in (
        key_of(thread_id, talk(5), level=1),
        key_of(thread_id, talk(5), namespace="sub"),
        key_of(f"{thread_id}-other", talk(5)),
    ):
        records.begin(other, talk(5), now=1.0, **opening())
        assert records.find_summary(other, input_digest=SUMMARY.input_digest) is None


def test_a_summary_serves_the_attempt_that_is_made_again(records: CompactionRecords, thread_id: str) -> None:
    """An attempt on more messages, made after one that died, finds the newest summary of the same input."""
    first, second = begin(records, thread_id, 5), begin(records, thread_id, 6)
    records.record_summary(second, replace(SUMMARY, text="newer"))
    records.record_summary(first, SUMMARY)
    records.abandon_open(thread_id, "", keep=None, now=11.0)
    third = begin(records, thread_id, 7)
    found = records.find_summary(third, input_digest=SUMMARY.input_digest)
    assert found == replace(SUMMARY, text="newer")


@pytest.mark.parametrize("verdict", ["rejected_inflated", "rejected_facts_lost"])
def test_a_summary_that_the_gate_rejected_is_not_used_again(
    records: CompactionRecords, thread_id: str, verdict: str
) -> None:
    """What was paid for and turned out bad is asked for anew, by the same attempt and by later ones."""
    key = begin(records, thread_id)
    records.record_summary(key, SUMMARY)
    records.close(key, Outcome(verdict=verdict, now=12.0))
    for later in (key, begin(records, thread_id, 6)):
        assert records.find_summary(later, input_digest=SUMMARY.input_digest) is None


def test_an_attempt_may_pay_for_several_summaries(records: CompactionRecords, thread_id: str) -> None:
    """Chunks and retries have other inputs and are kept beside each other; the same input is replaced."""
    key = begin(records, thread_id)
    kept = [SummaryRecord(f"{n:032x}", f"chunk {n}", None, n, n, n) for n in range(3)]
    kept.append(SummaryRecord(f"{0:032x}", "chunk 0, once more", "m", 1, 1, 1))
    for record in kept:
        records.record_summary(key, record)
    assert [records.find_summary(key, input_digest=f"{n:032x}") for n in range(3)] == [kept[3], kept[1], kept[2]]


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
