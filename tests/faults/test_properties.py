"""Random conversations, settings and faults: every promise after every node.

`COMPACTION_SOAK_CASES=100000 pytest tests/faults/test_properties.py -s` plays as many cases.
"""

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from langgraph_compaction.nodes import CompactionSettings
from tests.faults.cases import Case, NodeContext, Reply, Writer, cases
from tests.faults.playing import play
from tests.graph.harness import rounds

SOAK = int(os.environ.get("COMPACTION_SOAK_CASES", "0"))
PART = 1_000
"""Cases of one test of the soak: Hypothesis remembers all that it has tried."""
PROFILE = (
    settings(max_examples=min(SOAK, PART), derandomize=False, deadline=None)
    if SOAK
    else settings(max_examples=200, derandomize=True, deadline=None)
)


def _said(words: int, *replies: Reply, during: Writer | None = None) -> NodeContext:
    turn = {"before": None, "pause": "rollback", "during": during, "seconds": 1.0, "agrees": True}
    return NodeContext(kind="say", words=words, replies=replies, **turn)  # type: ignore[arg-type] # as they stand above


SMALL = CompactionSettings(context_window=1_000, output_reserve=0, summary_backoff_s=0)
FOUND = {
    "thoughts that are not sent again counted": Case(
        history=[],
        settings=SMALL.model_copy(
            update={
                "trigger_ratio": 0.5,
                "target_ratio": 0.2,
                "dialogue_rounds_keep_min": 0,
                "facts_beside_summary": False,
                "breaker_cooldown_after": 1,
            }
        ),
        summaries=(),
        turns=(_said(1), _said(1), _said(1, Reply(move="thinking", words=400, calls=())), _said(300)),
        reports=1.6,
    ),
    "the model was called with what a rollback had made too large": Case(
        history=rounds(1, words=1_200),
        settings=SMALL,
        summaries=("refusal",),
        turns=(_said(1, during=Writer(move="delete", place=0)),),
        reports=None,
    ),
}
"""What random cases have found, kept as small as it can be."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(name: str) -> None:
    """Each of these was red once."""
    assert play(FOUND[name], Counter()) == []


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """Count the cases and how their turns ended, and say so at the end."""
    counted = Counter[str]()
    yield counted
    sys.stdout.write(f"\n{counted.pop('cases')} cases: {dict(sorted(counted.items()))}\n")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: every fault is logged, and pytest keeps every record."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("_part", range(max(1, SOAK // PART)))
def test_every_invariant_holds_after_every_node(tally: Counter[str], _part: int) -> None:
    """Whatever was said, set and broken: all ten invariants, bounded calls, an answer or a documented error."""

    @settings(PROFILE, suppress_health_check=[HealthCheck.too_slow])
    @given(cases())
    def every(case: Case) -> None:
        tally["cases"] += 1
        assert play(case, tally) == []

    every()
    for happened in ("committed", "rolled back", "restored", "put off", "answered", "compacted", "refused"):
        assert SOAK or tally[happened] > 5, f"hardly ever {happened}: {tally}"
