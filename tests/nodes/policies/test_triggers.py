import pytest

from langgraph_compaction.nodes.policies.sizes import Sizes
from langgraph_compaction.nodes.policies.triggers import Reading, Standing, decide, firing
from langgraph_compaction.nodes.settings import CompactionSettings

SIZES = Sizes(window=1_000, reserve=100, fixed=0, trigger=800, aim=450)


@pytest.mark.requirement("S1.1")
@pytest.mark.parametrize(("size", "fires"), [(799, False), (800, True), (801, True)])
def test_the_trigger_itself_is_reached(size: int, *, fires: bool) -> None:
    """The operator is `>=`."""
    reading = Reading(hook="pre_model", size=size, sizes=SIZES)
    assert (firing(reading, CompactionSettings()) is not None) == fires


@pytest.mark.requirement("S0.48")
@pytest.mark.parametrize(("size", "decision"), [(800, "deferred"), (900, "deferred"), (901, "compact")])
def test_a_cooldown_defers_up_to_the_limit(size: int, decision: str) -> None:
    """At the limit itself a request still fits; over it nothing is deferred."""
    assert decide(size, SIZES, Standing(held_off="failures")) == decision


@pytest.mark.requirement("S4.23")
@pytest.mark.parametrize(("size", "decision"), [(800, "confirm"), (900, "confirm"), (901, "compact")])
def test_a_person_is_asked_up_to_the_limit(size: int, decision: str) -> None:
    """Over it there is no choice left."""
    assert decide(size, SIZES, Standing(asks_first=True)) == decision


@pytest.mark.parametrize(("size", "decision"), [(800, "declined"), (849, "declined"), (850, "confirm")])
def test_a_declined_question_is_asked_again_after_growth(size: int, decision: str) -> None:
    """Five percent of the window, counted from where it was declined."""
    assert decide(size, SIZES, Standing(asks_first=True, declined_at=800)) == decision


def test_an_earlier_no_binds_only_while_people_are_asked() -> None:
    """With `require_confirmation` off again it means nothing."""
    assert decide(800, SIZES, Standing(declined_at=800)) == "compact"


def test_a_cooldown_comes_before_the_question() -> None:
    """Nobody is asked about what would be deferred."""
    assert decide(800, SIZES, Standing(asks_first=True, held_off="frequency")) == "deferred"
