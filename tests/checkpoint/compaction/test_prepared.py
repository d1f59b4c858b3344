import pytest

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome, SummaryRecord
from langgraph_compaction.checkpoint.compaction.ledger import PREPARED, PREPARING, READY, SWAPPED
from langgraph_compaction.checkpoint.usage import Usage
from tests.checkpoint.samples import COMMITTED, opening

READY_NOW = Outcome(verdict=PREPARED, reason=READY, now=20.0, usage=Usage(calls=1, input_tokens=9))
PAID = SummaryRecord("ab" * 16, "a text", "model", Usage(calls=1, input_tokens=9, output_tokens=8))


@pytest.fixture
def key(records: CompactionRecords, thread_id: str) -> AttemptKey:
    """Return the key of a summary that was prepared."""
    key = AttemptKey(thread_id, "", "base", 0, -1)
    records.record_summary(key, PAID)
    records.note(key, READY_NOW, **opening(trigger=PREPARING))
    return key


def test_a_commit_takes_the_cost_of_a_prepared_summary(records: CompactionRecords, key: AttemptKey) -> None:
    """The ledger tells the cost once, and the compaction finds the summary."""
    attempt = AttemptKey(key.thread_id, "", "base", 0, 0)
    assert records.find_summary(attempt, input_digest=PAID.input_digest) == PAID
    records.begin(attempt, [], now=30.0, **opening())
    records.commit(attempt, COMMITTED, archived=[], used=key.compaction_id)
    row, _ = records.history(key.thread_id)
    assert (row.verdict, row.reason, row.summary_calls, row.summary_input_tokens) == (PREPARED, SWAPPED, 0, 0)


@pytest.mark.parametrize("verdict", ["stale", "rejected_empty"])
def test_a_prepared_summary_that_is_not_used_keeps_its_cost(
    records: CompactionRecords, key: AttemptKey, verdict: str
) -> None:
    """One that the gate has rejected is not found again."""
    records.settle_preparation(key.thread_id, key.compaction_id, verdict=verdict, reason="x")
    (row,) = records.history(key.thread_id)
    assert (row.verdict, row.reason, row.summary_calls) == (verdict, "x", 1)
    found = records.find_summary(key, input_digest=PAID.input_digest)
    assert found == (PAID if verdict == "stale" else None)
