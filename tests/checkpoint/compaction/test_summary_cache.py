"""Paid summaries: found again for the same input, level and namespace, each in a row of its own."""

from dataclasses import replace

import pytest

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import Outcome, SummaryRecord
from tests.checkpoint.samples import SUMMARY, begin, key_of, opening, talk


def test_a_summary_is_found_for_its_input_and_rung_only(records: CompactionRecords, thread_id: str) -> None:
    """A summary that was paid for comes back exactly, for the same thread, namespace, level and input alone."""
    key = begin(records, thread_id)
    records.record_summary(key, SUMMARY)
    assert records.find_summary(key, input_digest=SUMMARY.input_digest) == SUMMARY
    assert records.find_summary(key, input_digest="cd" * 16) is None
    unknown = key_of(f"{thread_id}-unknown", talk(5))
    assert records.find_summary(unknown, input_digest=SUMMARY.input_digest) is None
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


def test_a_summary_replaces_no_other(records: CompactionRecords, thread_id: str) -> None:
    """One of another thread, of another attempt or of another input stays, with what it cost."""
    key, fork = begin(records, thread_id), begin(records, thread_id, 6)
    other = begin(records, f"{thread_id}-other")
    sub = key_of(thread_id, talk(5), namespace="sub")
    records.begin(sub, talk(5), now=1.0, **opening())
    kept = [
        (other, replace(SUMMARY, text="of another thread")),
        (sub, replace(SUMMARY, text="of another attempt")),
        (key, replace(SUMMARY, input_digest="cd" * 16, text="of another input")),
    ]
    for owner, record in kept:
        records.record_summary(owner, record)
    for text in ("first", "second"):
        records.record_summary(key, replace(SUMMARY, text=text))
    for owner, record in [*kept, (fork, replace(SUMMARY, text="second"))]:
        assert records.find_summary(owner, input_digest=record.input_digest) == record
