from typing import Any

import pytest

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.selection.breaker import (
    BreakerHistory,
    in_cooldown,
    is_too_frequent,
    suspension_reason,
)

NOW = 1_000.0
SETTINGS = CompactionSettings(breaker_frequency_compactions=3, breaker_frequency_calls=6)


def past(**known: Any) -> BreakerHistory:
    """Return a thread's past at the time `NOW`."""
    return BreakerHistory(now=NOW, **known)


@pytest.mark.parametrize(
    ("until", "runs"),
    [(0.0, False), (NOW, False), (NOW + 0.001, True), (NOW + 8.0, True), (NOW + 8.001, False), (NOW * 9, False)],
)
def test_a_cooldown_ends_and_never_outlasts_its_length(until: float, *, runs: bool) -> None:
    """A clock that was set back cannot stretch it."""
    assert in_cooldown(past(cooldown_until=until), 8.0) is runs
    assert not in_cooldown(past(cooldown_until=NOW + 1), 0.0)


def test_the_default_cooldown_is_eight_seconds() -> None:
    """The seed's figure."""
    assert CompactionSettings().breaker_cooldown_s == 8.0


@pytest.mark.parametrize(
    ("recent", "calls", "too_many"),
    [
        ((), 0, False),
        ((1, 2), 2, False),
        ((1, 2, 3), 3, True),
        ((1, 2, 3), 6, True),
        ((1, 2, 3), 7, False),
        ((1, 5, 6, 7), 10, True),
        ((1, 5, 6, 7), 11, False),
        ((9, 9, 9), 9, True),
    ],
)
def test_so_many_compactions_in_so_few_calls_are_too_many(
    recent: tuple[int, ...], calls: int, *, too_many: bool
) -> None:
    """Three within six calls of the model; the oldest of the three counts."""
    assert is_too_frequent(past(recent=recent, calls=calls), SETTINGS) is too_many


def test_the_frequency_can_be_left_out() -> None:
    """No calls, no bound."""
    settings = CompactionSettings(breaker_frequency_calls=0)
    assert not is_too_frequent(past(recent=(9, 9, 9), calls=9), settings)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, ""),
        ({"failures": 2}, ""),
        ({"failures": 2, "cooldown_until": NOW + 8}, "failures"),
        ({"cooldown_until": NOW + 8}, "ineffective"),
        ({"cooldown_until": NOW}, ""),
        ({"recent": (1, 1, 1), "calls": 1}, "frequency"),
        ({"recent": (1, 1, 1), "calls": 1, "failures": 2, "cooldown_until": NOW + 1}, "failures"),
    ],
)
def test_the_breaker_says_why(known: dict[str, Any], reason: str) -> None:
    """The reason stands in the ledger; once the cool-down is over, one attempt is let through (half-open)."""
    assert suspension_reason(past(**known), SETTINGS) == reason
