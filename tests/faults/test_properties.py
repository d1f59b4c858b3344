"""Random conversations, settings and faults: every promise after every node (DESIGN §6).

`COMPACTION_SOAK_CASES=100000 pytest tests/faults/test_properties.py -s` plays as many cases.
"""

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from tests.faults.cases import Case, cases
from tests.faults.playing import play

SOAK = int(os.environ.get("COMPACTION_SOAK_CASES", "0"))
PART = 1_000
"""Cases of one test of the soak: Hypothesis remembers all that it has tried."""
PROFILE = (
    settings(max_examples=min(SOAK, PART), derandomize=False, deadline=None)
    if SOAK
    else settings(max_examples=200, derandomize=True, deadline=None)
)


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
    for happened in ("committed", "rolled back", "restored", "answered", "compacted", "refused"):
        assert SOAK or tally[happened] > 5, f"hardly ever {happened}: {tally}"
