import pytest

from langgraph_compaction.checkpoint import CompactionRecords, UnknownAttemptError
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from tests.checkpoint.samples import COMMITTED, begin, key_of, opening, talk


def test_an_open_attempt_is_in_the_ledger(records: CompactionRecords, thread_id: str) -> None:
    """Begin writes one row with what was known, and no verdict."""
    key = begin(records, thread_id, parent_id="0" * 16, checkpoint_id=None, epoch=3, trigger="manual")
    (row,) = records.history(thread_id)
    assert (row.thread_id, row.namespace, row.compaction_id) == (thread_id, "", key.compaction_id)
    assert (row.base_fingerprint, row.level, row.attempt) == (key.base_fingerprint, 0, 0)
    assert (row.parent_id, row.checkpoint_id, row.epoch, row.trigger) == ("0" * 16, None, 3, "manual")
    assert (row.strategy, row.tokens_before, row.counter) == ("selective", 1000, "tiktoken:o200k_base")
    assert (row.verdict, row.reason, row.started_at, row.ended_at) == (None, "", 10.0, None)


def test_an_abandoned_attempt_is_opened_again(records: CompactionRecords, thread_id: str) -> None:
    """Beginning an abandoned key opens its one row with what is known now; its snapshot stays."""
    key = begin(records, thread_id)
    assert records.abandon_open(thread_id, "", keep=None, now=15.0) == 1
    records.begin(key, talk(5), now=30.0, **opening(epoch=2))
    (row,) = records.history(thread_id)
    assert (row.verdict, row.started_at, row.ended_at, row.epoch) == (None, 30.0, None, 2)
    assert records.snapshot(key) == talk(5)


@pytest.mark.parametrize("verdict", ["committed", "rejected_empty", "undone"])
def test_a_closed_attempt_is_not_opened_by_beginning(
    records: CompactionRecords, thread_id: str, verdict: str
) -> None:
    """A verdict other than abandoned stands when the node that began the attempt runs again."""
    key = begin(records, thread_id)
    records.close(key, Outcome(verdict=verdict, now=12.0))
    begin(records, thread_id)
    assert records.history(thread_id)[0].verdict == verdict


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
    assert "nobody" not in records.threads()


def test_a_later_verdict_keeps_what_it_does_not_know(records: CompactionRecords, thread_id: str) -> None:
    """A committed row that turns out recovered keeps tokens, summary and cost; verdict and reason are the new."""
    key = begin(records, thread_id)
    records.commit(key, COMMITTED, archived=[])
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


def test_a_note_is_a_row_without_a_snapshot(records: CompactionRecords, thread_id: str) -> None:
    """What never began is in the ledger, closed at once; a second note of the same key replaces it."""
    key = key_of(thread_id, talk(5))
    for now, verdict in enumerate(["deferred_cooldown", "declined"]):
        records.note(key, Outcome(verdict=verdict, now=float(now), reason=verdict), **opening())
    (row,) = records.history(thread_id)
    assert (row.verdict, row.reason, row.started_at, row.ended_at) == ("declined", "declined", 0.0, 1.0)
    assert records.snapshot(key) is None


def test_a_noted_attempt_can_begin(records: CompactionRecords, thread_id: str) -> None:
    """An attempt that was put off and is made after all opens the noted row and has its snapshot."""
    key = key_of(thread_id, talk(5))
    records.note(key, Outcome(verdict="deferred_cooldown", now=5.0, reason="cooling"), **opening())
    begin(records, thread_id, epoch=1)
    (row,) = records.history(thread_id)
    assert (row.verdict, row.reason, row.epoch, row.started_at) == (None, "", 1, 10.0)
    assert records.snapshot(key) == talk(5)


def test_a_note_never_hides_an_attempt(records: CompactionRecords, thread_id: str) -> None:
    """A closed attempt stands against a later note of its key; an open one is closed by it."""
    key = begin(records, thread_id)
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


def test_a_row_is_shown_in_one_line(records: CompactionRecords, thread_id: str) -> None:
    """What was tried, how it ended and the sizes, as far as they are known."""
    key = begin(records, thread_id)
    start = f"<LedgerRow {key.compaction_id} tokens"
    assert [*map(repr, records.history(thread_id))] == [f"{start} selective: open, 1000 -> ? tokens>"]
    records.close(key, Outcome(verdict="rejected_empty", now=12.0, reason="refusal"))
    assert [*map(repr, records.history(thread_id))] == [
        f"{start} selective: rejected_empty (refusal), 1000 -> ? tokens>"
    ]
    records.commit(key, COMMITTED, archived=[])
    assert [*map(repr, records.history(thread_id))] == [
        f"{start} selective+digest: committed (success), 1000 -> 400 tokens>"
    ]
