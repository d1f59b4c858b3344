"""Paid summaries: found again for the same input, level and namespace, each in a row of its own."""

from dataclasses import replace

import pytest

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from tests.checkpoint.samples import SUMMARY, begin, key_of, opening, talk


def test_a_summary_is_found_for_its_input_and_rung_only(records: CompactionRecords, thread_id: str) -> None:
    """It comes back exactly, for the same thread, namespace, level and input alone, and replaces no other."""
    key, other = begin(records, thread_id), begin(records, f"{thread_id}-other")
    sub, level = key_of(thread_id, talk(5), namespace="sub"), key_of(thread_id, talk(5), level=1)
    for one in (sub, level):
        records.begin(one, talk(5), now=1.0, **opening())
    kept = [
        (other, replace(SUMMARY, text="of another thread")),
        (sub, replace(SUMMARY, text="of another namespace")),
        (level, replace(SUMMARY, text="of another level")),
        (key, replace(SUMMARY, input_digest="cd" * 16, text="of another input")),
        (key, SUMMARY),
    ]
    for number, (owner, record) in enumerate(kept):
        assert records.find_summary(owner, input_digest=record.input_digest) is None
        records.record_summary(owner, replace(record, text="replaced"))
        records.record_summary(owner, record)
        for before, one in kept[: number + 1]:
            assert records.find_summary(before, input_digest=one.input_digest) == one


def test_a_summary_serves_the_attempt_that_is_made_again(records: CompactionRecords, thread_id: str) -> None:
    """An attempt on more messages, made after one that died, finds the newest summary of the same input."""
    first, second = begin(records, thread_id, 5), begin(records, thread_id, 6)
    records.record_summary(second, replace(SUMMARY, text="newer"))
    records.record_summary(first, SUMMARY)
    records.abandon_open(thread_id, "", keep=None, now=11.0)
    found = records.find_summary(begin(records, thread_id, 7), input_digest=SUMMARY.input_digest)
    assert found == replace(SUMMARY, text="newer")


@pytest.mark.parametrize("verdict", ["rejected_inflated", "rejected_pin_lost"])
def test_a_summary_that_the_gate_rejected_is_not_used_again(
    records: CompactionRecords, thread_id: str, verdict: str
) -> None:
    """What was paid for and turned out bad is asked for anew, by the same attempt and by later ones."""
    key = begin(records, thread_id)
    records.record_summary(key, SUMMARY)
    records.close(key, Outcome(verdict=verdict, now=12.0))
    for later in (key, begin(records, thread_id, 6)):
        assert records.find_summary(later, input_digest=SUMMARY.input_digest) is None
