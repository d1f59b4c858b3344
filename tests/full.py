"""Which cases run by default, and which run in a full run only (`make test-full`, which sets `COMPACTION_FULL`).

A default run takes a part of a table where the cases repeat one path through the code. The part is the same in every
run, so that a failure can be repeated.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

FULL = bool(os.environ.get("COMPACTION_FULL"))
Case = TypeVar("Case")


def part(cases: Sequence[Case], every: int) -> Sequence[Case]:
    """Return all cases in a full run, else each `every`-th one, beginning with the first."""
    return cases if FULL else cases[::every]


def examples(default: int, *, full: int) -> int:
    """Return how many examples a property test draws."""
    return full if FULL else default
