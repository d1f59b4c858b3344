import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.triggers import Count, Hook, Own, Unit
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes
from langgraph_compaction.nodes.errors import SettingsError
from langgraph_compaction.nodes.selection.trigger_evaluation import (
    Firing,
    Reading,
    check_own_triggers,
    count_fires,
    counted,
    firing,
)
from tests.histories import meta

SIZES = Sizes(window=1_000, reserve=100, fixed=0, trigger=800, aim=450)


@pytest.mark.parametrize(("size", "fires"), [(799, False), (800, True), (801, True)])
def test_the_trigger_itself_is_reached(size: int, *, fires: bool) -> None:
    """The operator is `>=`."""
    reading = Reading(hook="pre_model", size=size, sizes=SIZES)
    assert (firing(reading, CompactionSettings()) is not None) == fires


@pytest.mark.parametrize(("marked", "name"), [("!!!SUMMARY!!!", "marker"), ("???", None), (None, None)])
def test_a_marker_is_heard_at_any_check(marked: str | None, name: str | None) -> None:
    """Whatever the size and the hooks; only as the settings spell it, and not where nothing is enabled."""
    settings = CompactionSettings(triggers=({"kind": "marker"},), hooks=())  # type: ignore[arg-type] # as JSON has it
    reading = Reading(hook="post_model", size=1, sizes=SIZES, marked=marked)
    fired = firing(reading, settings)
    assert (fired.name if fired else None) == name
    assert fired is None or fired.summarize_all
    assert firing(reading, settings.model_copy(update={"enabled": False})) is None


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


def test_a_small_count_waits_for_one_more() -> None:
    """A tenth of five is less than one."""
    assert [count_fires(Count(unit="rounds", limit=5), count, 5) for count in (5, 6)] == [False, True]


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


@pytest.mark.parametrize(("unit", "count"), [("rounds", 2), ("messages", 4), ("events", 5)])
def test_each_unit_counts_what_it_names(unit: Unit, count: int) -> None:
    """Rounds are user messages; messages are all but system messages; events are all messages."""
    said = [SystemMessage("rules"), HumanMessage("one"), AIMessage("a"), meta("m"), HumanMessage("two")]
    assert counted(said, unit) == count


@pytest.mark.parametrize(
    ("unit", "fired"),
    [
        ("turns", Firing(name="turns", summarize_all=True)),
        ("model_calls", None),
        ("events", Firing(name="events", summarize_all=True, max_messages=1)),
        ("messages", Firing(name="messages", summarize_all=True, max_messages=1)),
        ("rounds", Firing(name="rounds", summarize_all=True)),
    ],
)
def test_a_count_says_what_it_demands(unit: Unit, fired: Firing | None) -> None:
    """A count of messages also limits the messages that are left; turns and calls count from the last compaction."""
    said = [HumanMessage("one"), HumanMessage("two")]
    reading = Reading(hook="pre_model", size=1, sizes=SIZES, messages=said, turns=2, model_calls=1)
    assert firing(reading, CompactionSettings(triggers=(Count(unit=unit, limit=2, full=True),))) == fired


@pytest.mark.parametrize(
    ("hook", "size", "fires"),
    [
        ("pre_model", 900, False),
        ("pre_model", 901, True),
        ("pre_input", 901, True),
        ("post_model", 901, False),
    ],
)
def test_over_the_limit_a_check_that_is_switched_off_fires_before_the_call(
    hook: Hook, size: int, *, fires: bool
) -> None:
    """The trigger does not fire after the answer, because the request has been sent."""
    reading = Reading(hook=hook, size=size, sizes=SIZES)
    assert firing(reading, CompactionSettings(hooks=())) == (Firing() if fires else None)


def test_an_own_trigger_needs_its_function() -> None:
    """The trigger fires if its function says so, under its own name."""
    settings = CompactionSettings(triggers=(Own(name="mine"),))
    with pytest.raises(SettingsError, match="'mine', which the builder was not given"):
        check_own_triggers(settings, {"other": lambda _: True})
    check_own_triggers(settings, {"mine": lambda _: True})
    reading = Reading(hook="pre_model", size=1, sizes=SIZES)
    assert firing(reading, settings, {"mine": lambda _: True}) == Firing(name="mine")
    assert firing(reading, settings, {"mine": lambda _: False}) is None
