import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.triggers import Count, Unit
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes
from langgraph_compaction.nodes.selection.trigger_evaluation import Reading, count_fires, firing

SIZES = Sizes(window=1_000, reserve=100, fixed=0, trigger=800, aim=450)


@pytest.mark.requirement("S1.1")
@pytest.mark.parametrize(("size", "fires"), [(799, False), (800, True), (801, True)])
def test_the_trigger_itself_is_reached(size: int, *, fires: bool) -> None:
    """The operator is `>=`."""
    reading = Reading(hook="pre_model", size=size, sizes=SIZES)
    assert (firing(reading, CompactionSettings()) is not None) == fires


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
    assert count_fires(Count(unit="events", limit=700, operator=">"), count, in_vain) == fires


@pytest.mark.requirement("S2.34")
def test_a_small_count_waits_for_one_more() -> None:
    """A tenth of five is less than one."""
    assert [count_fires(Count(unit="rounds", limit=5), count, 5) for count in (5, 6)] == [False, True]


@pytest.mark.requirement("S2.34")
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
