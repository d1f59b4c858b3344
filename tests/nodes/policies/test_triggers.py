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


@pytest.mark.requirement("S4.39")
@pytest.mark.parametrize(
    ("size", "answered", "decision"),
    [(900, False, "confirm"), (901, False, "choose"), (901, True, "declined"), (2_000, False, "choose")],
)
def test_after_a_no_the_question_comes_once_more_over_the_limit(size: int, decision: str, *, answered: bool) -> None:
    """At the limit itself there is still the first question; after the answer nothing is to be sent yet."""
    standing = Standing(asks_first=True, declined_at=800, held_off="failures")
    held_off = Standing(asks_first=True, declined_at=800)
    assert decide(size, SIZES, standing if size > 900 else held_off, answered=answered) == decision


@pytest.mark.requirement("S2.4", "C2")
@pytest.mark.parametrize(("marked", "name"), [("!!!SUMMARY!!!", "marker"), ("???", None), (None, None)])
def test_a_marker_is_heard_at_any_check(marked: str | None, name: str | None) -> None:
    """Whatever the size and the hooks; only as the settings spell it, and not where nothing is enabled."""
    settings = CompactionSettings(triggers=({"kind": "marker"},), hooks=())  # type: ignore[arg-type] # as JSON has it
    reading = Reading(hook="post_model", size=1, sizes=SIZES, marked=marked)
    fired = firing(reading, settings)
    assert (fired.name if fired else None) == name
    assert fired is None or fired.full
    assert firing(reading, settings.model_copy(update={"enabled": False})) is None


def test_an_earlier_no_binds_only_while_people_are_asked() -> None:
    """With `require_confirmation` off again it means nothing."""
    assert decide(800, SIZES, Standing(declined_at=800)) == "compact"


def test_a_cooldown_comes_before_the_question() -> None:
    """Nobody is asked about what would be deferred."""
    assert decide(800, SIZES, Standing(asks_first=True, held_off="frequency")) == "deferred"
