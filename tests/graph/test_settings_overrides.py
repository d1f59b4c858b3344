from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from pydantic import ValidationError
from typing_extensions import TypedDict

from langgraph_compaction.graph import CompactionSettings, CompactionState, create_compaction_graph
from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.config.settings import CompactionOverrides
from tests.fakes import ScriptedModel
from tests.graph.harness import SMALL, WORDS, Drive, agent, events, full, rounds, said, standing, steps, verdicts


async def trigger(go: Drive, graph: Any, **options: Any) -> list[int]:
    """The threshold a turn of 870 tokens was measured against, if it was reached."""
    chunks = await go.stream(graph, full(), stream_mode=["custom"], **options)
    return [event["threshold"] for event in events(chunks, "PreCompactEvent")]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (None, [800]),
        ({}, [800]),
        ({"trigger_ratio": 0.7}, [700]),
        ({"trigger_ratio": 0.99}, []),
        ({"context_window": 900}, [720]),
        (CompactionOverrides(trigger_ratio=0.7), [700]),
        (CompactionOverrides().model_dump(), [800]),
    ],
)
async def test_a_run_changes_what_it_names(go: Drive, context: Any, expected: list[int]) -> None:
    """Fields of a run's context beat the builder's settings; those left out or `None` do not (a server's default)."""
    assert (await trigger(go, agent(), context=context))[:1] == expected


@pytest.mark.parametrize(
    "context", [{"hooks": []}, {"policy": {"hooks": []}}, {"policy": {"name": "selective", "hooks": []}}], ids=repr
)
async def test_a_setting_of_the_policy_in_force_needs_no_name_of_it(go: Drive, context: dict[str, Any]) -> None:
    """Flat, or in `policy`."""
    assert await trigger(go, agent(), context=context) == []
    with pytest.raises(ValidationError):
        await trigger(go, agent(), context={"policy": {"trigger_ratio": 0.5}})


async def test_a_change_holds_for_its_run_alone(go: Drive) -> None:
    """The next run is measured by the builder's settings again."""
    graph = agent()
    assert await trigger(go, graph, context={"trigger_ratio": 0.99}) == []
    chunks = await go.stream(graph, said("more"), stream_mode=["custom"])
    assert events(chunks, "PreCompactEvent")[0]["threshold"] == 800


@pytest.mark.parametrize(
    "context", [{"trigger_ratio": 2}, {"preset": "nope"}, {"window": 5}, {"context_window": -1}], ids=repr
)
async def test_an_impossible_change_is_an_error_and_changes_nothing(go: Drive, context: dict[str, Any]) -> None:
    """A wrong field is refused when the run starts, and the thread works on without it."""
    model = ScriptedModel()
    graph = agent(model)
    with pytest.raises(ValidationError):
        await go.invoke(graph, said("hello"), context=context)
    assert model.received == []
    await go.invoke(graph, said("hello"))
    assert len(model.received) == 1


async def test_changes_that_fit_only_alone_are_refused_together(go: Drive) -> None:
    """The settings that result are validated as a whole: an aim above the trigger is no settings."""
    graph = agent(target_ratio=0.5)
    with pytest.raises(ValidationError, match="target_ratio"):
        await go.invoke(graph, said("hello"), context={"trigger_ratio": 0.4})


@pytest.mark.parametrize(
    ("context", "said_of_it"),
    [
        ({"strategies": ["mine"]}, "there is no strategy 'mine'"),
        ({"triggers": [{"kind": "own", "name": "mine"}]}, "'mine', which the builder was not given"),
        ({"key_information": ["mine"]}, "no provider of key information is named 'mine'"),
    ],
)
async def test_a_run_names_only_what_the_builder_was_given(go: Drive, context: Any, said_of_it: str) -> None:
    """An unknown strategy, trigger or provider of key information is refused before the model is called."""
    model = ScriptedModel()
    with pytest.raises(SettingsError, match=said_of_it):
        await go.invoke(agent(model), said("hello"), context=context)
    assert model.received == []
    with pytest.raises(SettingsError, match=said_of_it):
        agent(model, **context)


def test_every_setting_can_be_changed_for_a_run() -> None:
    """The context schema has the same fields, documented, and none of them is set by default."""
    fields = CompactionOverrides.model_fields
    assert fields.keys() == CompactionSettings.model_fields.keys()
    assert all(field.description for field in fields.values())
    assert set(CompactionOverrides().model_dump().values()) == {None}


def test_the_server_is_told_the_fields() -> None:
    """The graph's context schema is the overrides, with their descriptions."""
    schema: Any = agent().get_context_jsonschema()
    assert schema["properties"]["trigger_ratio"]["description"].startswith("A compaction starts when the request")
    assert schema["properties"].keys() == CompactionSettings.model_fields.keys()


class Tenant(TypedDict):
    """A context of the parent's own."""

    trigger_ratio: str


@pytest.mark.parametrize("context", [None, {"trigger_ratio": "none of your business"}])
async def test_a_parents_own_context_is_not_ours(go: Drive, context: Any) -> None:
    """Inside a parent graph only the builder's settings hold, whatever the parent's context looks like."""
    inner = create_compaction_graph(settings=CompactionSettings(**SMALL), token_counter=WORDS)
    parent = StateGraph(CompactionState, context_schema=Tenant)
    parent.add_node("compact", inner)
    parent.add_edge(START, "compact")
    result = await go.invoke(parent.compile(), {"messages": [*rounds(8), HumanMessage("and now?")]}, context=context)
    assert result["compaction"]["epoch"] == 1


async def test_confirmation_can_be_asked_for_in_one_run(go: Drive) -> None:
    """A run from a terminal may ask where the server's runs do not."""
    graph = agent()
    assert steps(await go.stream(graph, full(), context={"require_confirmation": True}))[-1] == "__interrupt__"
    assert verdicts(graph) == []
    assert standing(graph)["step"] == "confirm"
