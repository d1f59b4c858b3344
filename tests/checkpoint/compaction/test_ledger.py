"""What the records of compactions say of each attempt."""

import pytest

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint, fingerprint_all
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


def test_an_open_attempt_is_in_the_ledger_with_its_snapshot(records: CompactionRecords, thread_id: str) -> None:
    """Begin writes one row with what was known, and no verdict; the snapshot comes back byte for byte."""
    batch = list(EVERY_KIND.values())
    key = key_of(thread_id, batch)
    assert records.snapshot(key) is None
    records.begin(key, batch, now=10.0, **opening(parent_id="0" * 16, checkpoint_id=None, epoch=3, trigger="manual"))
    (row,) = records.history(thread_id)
    assert (row.thread_id, row.namespace, row.compaction_id) == (thread_id, "", key.compaction_id)
    assert (row.base_fingerprint, row.level, row.attempt) == (key.base_fingerprint, 0, 0)
    assert (row.parent_id, row.checkpoint_id, row.epoch, row.trigger) == ("0" * 16, None, 3, "manual")
    assert (row.strategy, row.tokens_before, row.counter) == ("selective", 1000, "tiktoken:o200k_base")
    assert (row.verdict, row.reason, row.started_at, row.ended_at) == (None, "", 10.0, None)
    found = records.snapshot(key)
    assert found == batch
    assert fingerprint_all(found) == key.base_fingerprint


def test_an_attempt_is_begun_once(records: CompactionRecords, thread_id: str) -> None:
    """With other messages, as when one arrived meanwhile, row and snapshot stay; an abandoned one is opened again."""
    key = begin(records, thread_id)
    before = records.history(thread_id)
    records.begin(key, talk(9), now=99.0, **opening(epoch=5))
    assert records.history(thread_id) == before
    assert records.abandon_open(thread_id, "", keep=None, now=15.0) == 1
    records.begin(key, talk(5), now=30.0, **opening(epoch=2))
    (row,) = records.history(thread_id)
    assert (row.verdict, row.started_at, row.ended_at, row.epoch) == (None, 30.0, None, 2)
    for verdict in ("committed", "rejected_empty", "undone"):
        records.close(key, Outcome(verdict=verdict, now=12.0))
        begin(records, thread_id)
        assert records.history(thread_id)[0].verdict == verdict
    assert records.snapshot(key) == talk(5)


def test_only_open_rows_of_the_namespace_are_abandoned(records: CompactionRecords, thread_id: str) -> None:
    """Closed rows, the one to keep, other namespaces and other threads are left alone."""
    closed, kept, lost = (begin(records, thread_id, count) for count in (1, 2, 3))
    records.close(closed, Outcome(verdict="committed", now=11.0))
    for key in (key_of(thread_id, talk(4), namespace="sub"), key_of(f"{thread_id}-other", talk(4))):
        records.begin(key, talk(4), now=10.0, **opening())
    assert records.abandon_open(thread_id, "", keep=kept, now=40.0) == 1
    found = {row.compaction_id: (row.verdict, row.ended_at) for row in records.history(thread_id, "")}
    assert found[lost.compaction_id] == ("abandoned", 40.0)
    assert found[kept.compaction_id] == (None, None)
    assert found[closed.compaction_id] == ("committed", 11.0)
    assert records.history(thread_id, "sub")[0].verdict is None
    assert records.history(f"{thread_id}-other")[0].verdict is None
    assert records.abandon_open("nobody", "", keep=None, now=40.0) == 0


def test_a_commit_writes_archive_and_verdict(records: CompactionRecords, thread_id: str) -> None:
    """The row holds every field of the outcome, and the archive what left the view.

    A fork that commits the same attempt with other messages takes nothing out of the archive; a later verdict keeps
    what it does not know.
    """
    key = begin(records, thread_id)
    records.commit(key, COMMITTED, archived=talk(2))
    (row,) = records.history(thread_id)
    for name in Outcome.__dataclass_fields__:
        assert getattr(row, "ended_at" if name == "now" else name) == getattr(COMMITTED, name)
    records.commit(key, COMMITTED, archived=talk(2, start=1))
    assert [records.recall(thread_id, fingerprint(message)) for message in talk(4)] == [*talk(3), None]
    records.close(key, Outcome(verdict="recovered", now=50.0, reason="killed"))
    (row,) = records.history(thread_id)
    assert (row.verdict, row.reason, row.detail, row.ended_at) == ("recovered", "killed", "", 50.0)
    assert (row.tokens_after, row.summary, row.seen) == (400, COMMITTED.summary, COMMITTED.seen)


def test_a_verdict_needs_an_attempt(records: CompactionRecords, thread_id: str) -> None:
    """Closing or committing what was never begun is an error and creates neither thread nor archive."""
    key = key_of(thread_id, talk(5))
    with pytest.raises(UnknownAttemptError, match=key.compaction_id):
        records.close(key, COMMITTED)
    with pytest.raises(UnknownAttemptError, match=key.compaction_id):
        records.commit(key, COMMITTED, archived=talk(2))
    assert thread_id not in records.threads()


def test_a_note_never_hides_an_attempt(records: CompactionRecords, thread_id: str) -> None:
    """What never began is in the ledger, closed at once; an attempt that then begins opens the row.

    A later note of its key closes it, unless it has ended.
    """
    key = key_of(thread_id, talk(5))
    for now, verdict in enumerate(["deferred_cooldown", "declined"]):
        records.note(key, Outcome(verdict=verdict, now=float(now), reason=verdict), **opening())
    (row,) = records.history(thread_id)
    assert (row.verdict, row.reason, row.started_at, row.ended_at) == ("declined", "declined", 0.0, 1.0)
    assert records.snapshot(key) is None
    begin(records, thread_id, epoch=1)
    (row,) = records.history(thread_id)
    assert (row.verdict, row.reason, row.epoch, row.started_at) == (None, "", 1, 10.0)
    noop = Outcome(verdict="noop", now=12.0)
    records.note(key, noop, **opening())
    assert records.history(thread_id)[0].verdict == "noop"
    records.commit(key, COMMITTED, archived=[])
    records.note(key, noop, **opening())
    assert records.history(thread_id)[0].verdict == "committed"


def test_history_is_in_the_order_of_beginning_whatever_the_clock_says(
    records: CompactionRecords, thread_id: str
) -> None:
    """A clock that steps back does not reorder attempts; namespaces can be told apart."""
    for count, now in enumerate((30.0, 10.0, 20.0), start=1):
        records.begin(key_of(thread_id, talk(count)), talk(count), now=now, **opening())
    records.begin(key_of(thread_id, talk(1), namespace="a|b"), talk(1), now=0.0, **opening())
    assert [row.started_at for row in records.history(thread_id)] == [30.0, 10.0, 20.0, 0.0]
    assert [row.started_at for row in records.history(thread_id, "")] == [30.0, 10.0, 20.0]
    assert [row.namespace for row in records.history(thread_id, "a|b")] == ["a|b"]
    assert records.history("nobody") == []


def test_text_no_database_can_hold_is_shown_with_replacements(records: CompactionRecords, thread_id: str) -> None:
    """A NUL or an unpaired surrogate in what people read does not stop a rollback from being recorded."""
    key = begin(records, thread_id)
    records.close(key, Outcome(verdict="failed_permanent", now=1.0, detail="a\0b\ud800c", summary="x" * 100_000))
    (row,) = records.history(thread_id)
    assert (row.detail, row.summary) == ("a\ufffdb?c", "x" * 100_000)


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
