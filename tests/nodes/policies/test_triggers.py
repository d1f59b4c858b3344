from typing import Any

import pytest

from langgraph_compaction.nodes.policies.sizes import Sizes
from langgraph_compaction.nodes.policies.triggers import Standing, decide, in_cooldown

SIZES = Sizes(window=1_000, reserve=100, fixed=0, trigger=800, aim=450)
NOW = 1_000.0


def standing(**past: Any) -> Standing:
    """Return a thread's past at the time `NOW`."""
    return Standing(now=NOW, **past)


@pytest.mark.requirement("S1.1")
@pytest.mark.parametrize(("size", "decision"), [(799, "fits"), (800, "compact"), (801, "compact")])
def test_the_trigger_itself_is_reached(size: int, decision: str) -> None:
    """The operator is `>=`."""
    assert decide(size, SIZES, standing()) == decision


@pytest.mark.requirement("S0.48")
@pytest.mark.parametrize(
    ("size", "decision"), [(799, "fits"), (800, "deferred"), (900, "deferred"), (901, "compact")]
)
def test_a_cooldown_defers_up_to_the_limit(size: int, decision: str) -> None:
    """At the limit itself a request still fits; over it nothing is deferred."""
    assert decide(size, SIZES, standing(cooldown_until=NOW + 1)) == decision


@pytest.mark.requirement("S4.23")
@pytest.mark.parametrize(("size", "decision"), [(799, "fits"), (800, "confirm"), (900, "confirm"), (901, "compact")])
def test_a_person_is_asked_up_to_the_limit(size: int, decision: str) -> None:
    """Over it there is no choice left."""
    assert decide(size, SIZES, standing(asks_first=True)) == decision


@pytest.mark.parametrize(("size", "decision"), [(800, "declined"), (849, "declined"), (850, "confirm")])
def test_a_declined_question_is_asked_again_after_growth(size: int, decision: str) -> None:
    """Five percent of the window, counted from where it was declined."""
    assert decide(size, SIZES, standing(asks_first=True, declined_at=800)) == decision


def test_an_earlier_no_binds_only_while_people_are_asked() -> None:
    """With `require_confirmation` off again it means nothing."""
    assert decide(800, SIZES, standing(declined_at=800)) == "compact"


def test_a_cooldown_comes_before_the_question() -> None:
    """Nobody is asked about what would be deferred."""
    assert decide(800, SIZES, standing(asks_first=True, cooldown_until=NOW + 1)) == "deferred"


@pytest.mark.requirement("S0.47")
@pytest.mark.parametrize(
    ("until", "runs"),
    [(0.0, False), (NOW, False), (NOW + 0.001, True), (NOW + 8.0, True), (NOW + 8.001, False), (NOW * 9, False)],
)
def test_a_cooldown_ends_and_never_outlasts_its_length(until: float, *, runs: bool) -> None:
    """A clock that was set back cannot stretch it."""
    assert in_cooldown(standing(cooldown_until=until)) is runs
    assert not in_cooldown(standing(cooldown_until=NOW + 1, cooldown_s=0.0))


def test_the_default_cooldown_is_eight_seconds() -> None:
    """The seed's figure."""
    assert Standing(now=0).cooldown_s == 8.0
