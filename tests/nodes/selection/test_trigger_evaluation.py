import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.triggers import Count, Unit
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes
from langgraph_compaction.nodes.selection.trigger_evaluation import Reading, TriggerHistory, decide, firing

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
    assert decide(size, SIZES, TriggerHistory(suspension_reason="failures")) == decision


@pytest.mark.requirement("S4.23", "S4.39")
@pytest.mark.parametrize(
    ("size", "decision"), [(800, "confirm"), (900, "confirm"), (901, "choose"), (9_999, "choose")]
)
def test_a_person_is_asked_whether_up_to_the_limit_and_how_over_it(size: int, decision: str) -> None:
    """Also where the conversation jumped over the limit at once, and whatever holds compactions off."""
    assert decide(size, SIZES, TriggerHistory(asks_first=True)) == decision
    if size > SIZES.limit:
        assert (
            decide(size, SIZES, TriggerHistory(asks_first=True, suspension_reason="failures", undone=True))
            == decision
        )


@pytest.mark.requirement("S4.23")
@pytest.mark.parametrize(("declined_at", "decision"), [(None, "confirm"), (800, "declined")])
def test_after_the_answer_a_person_is_asked_whether_also_over_the_limit(
    declined_at: int | None, decision: str
) -> None:
    """Nothing is about to be sent: after a no the choice waits for the next input."""
    standing = TriggerHistory(asks_first=True, declined_at=declined_at)
    assert decide(901, SIZES, standing, answered=True) == decision


def test_over_the_limit_who_is_not_to_be_asked_is_compacted_at_once() -> None:
    """Before the call and after it; nothing holds it off."""
    standing = TriggerHistory(suspension_reason="failures", undone=True, declined_at=800)
    assert [decide(901, SIZES, standing, answered=answered) for answered in (False, True)] == ["compact"] * 2


@pytest.mark.parametrize(("size", "decision"), [(800, "declined"), (849, "declined"), (850, "confirm")])
def test_a_declined_question_is_asked_again_after_growth(size: int, decision: str) -> None:
    """Five percent of the window, counted from where it was declined."""
    assert decide(size, SIZES, TriggerHistory(asks_first=True, declined_at=800)) == decision


@pytest.mark.requirement("S4.39")
@pytest.mark.parametrize(
    ("size", "answered", "decision"),
    [(900, False, "confirm"), (901, False, "choose"), (901, True, "declined"), (2_000, False, "choose")],
)
def test_after_a_no_the_question_comes_once_more_over_the_limit(size: int, decision: str, *, answered: bool) -> None:
    """At the limit itself there is still the first question; after the answer nothing is to be sent yet."""
    standing = TriggerHistory(asks_first=True, declined_at=800, suspension_reason="failures")
    suspension_reason = TriggerHistory(asks_first=True, declined_at=800)
    assert decide(size, SIZES, standing if size > 900 else suspension_reason, answered=answered) == decision


@pytest.mark.requirement("S2.4", "C2")
@pytest.mark.parametrize(("marked", "name"), [("!!!SUMMARY!!!", "marker"), ("???", None), (None, None)])
def test_a_marker_is_heard_at_any_check(marked: str | None, name: str | None) -> None:
    """Whatever the size and the hooks; only as the settings spell it, and not where nothing is enabled."""
    settings = CompactionSettings(triggers=({"kind": "marker"},), hooks=())  # type: ignore[arg-type] # as JSON has it
    reading = Reading(hook="post_model", size=1, sizes=SIZES, marked=marked)
    fired = firing(reading, settings)
    assert (fired.name if fired else None) == name
    assert fired is None or fired.summarize_all
    assert firing(reading, settings.model_copy(update={"enabled": False})) is None


def test_an_earlier_no_binds_only_while_people_are_asked() -> None:
    """With `require_confirmation` off again it means nothing."""
    assert decide(800, SIZES, TriggerHistory(declined_at=800)) == "compact"


def test_a_cooldown_comes_before_the_question() -> None:
    """Nobody is asked about what would be deferred."""
    assert decide(800, SIZES, TriggerHistory(asks_first=True, suspension_reason="frequency")) == "deferred"


@pytest.mark.requirement("S3.13")
@pytest.mark.parametrize(
    ("count", "in_vain", "fires"),
    [
        (700, None, False),
        (701, None, True),
        (702, 701, False),
        (770, 701, False),
        (771, 701, True),
        (701, 760, True),  # the conversation has shrunk since and grown again
        (700, 760, False),
    ],
)
def test_a_count_that_found_nothing_to_compact_waits_for_a_tenth_more(
    count: int, in_vain: int | None, *, fires: bool
) -> None:
    """It would fire at every turn otherwise: what it counts does not get less by itself."""
    assert Count(unit="events", limit=700, operator=">").fires(count, in_vain) == fires


def test_a_small_count_waits_for_one_more() -> None:
    """A tenth of five is less than one."""
    assert [Count(unit="rounds", limit=5).fires(count, 5) for count in (5, 6)] == [False, True]


@pytest.mark.parametrize(
    ("unit", "in_vain", "fires"),
    [("events", {}, True), ("events", {"events": 3}, False), ("messages", {"events": 3}, True)],
)
def test_each_unit_waits_by_itself(unit: Unit, in_vain: dict[Unit, int], *, fires: bool) -> None:
    """One that found nothing to compact does not hold another back."""
    messages = [SystemMessage("rules"), HumanMessage("one"), HumanMessage("two")]
    reading = Reading(hook="pre_model", size=1, sizes=SIZES, messages=messages, in_vain=in_vain)
    settings = CompactionSettings(triggers=(Count(unit=unit, limit=2),))
    assert (firing(reading, settings) is not None) == fires
