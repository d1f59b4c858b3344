"""Real graphs: what the application sees, and every state it can look up, is the same with every saver."""

import re
from collections.abc import Callable
from functools import cache
from pprint import pformat
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import RESUME

from tests.checkpoint.contract.steps import Saver, id_of
from tests.checkpoint.contract.stories import STORIES, Run
from tests.full import FULL

Story = Callable[[Run], Any]
DURABILITIES = ("sync", "async", "exit")
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")


def plain(value: Any) -> str:
    """Return a value as text, without the ids that are made up anew in each run."""
    return _MADE_UP.sub("*", pformat(value, width=1_000_000))


def state(snapshot: Any, numbers: dict[str, int]) -> Any:
    """Return all that a state says; checkpoints are named by their place in the thread."""

    def number(config: Any) -> Any:
        return None if config is None else numbers.get(id_of(config), "elsewhere")

    metadata = {key: value for key, value in (snapshot.metadata or {}).items() if key != "parents"}
    tasks = [
        (each.name, each.path, each.error, each.result, each.interrupts, inner(each.state, numbers))
        for each in snapshot.tasks
    ]
    said = map(plain, (snapshot.values, snapshot.next, metadata, tasks))
    return number(snapshot.config), number(snapshot.parent_config), *said


def inner(found: Any, numbers: dict[str, int]) -> Any:
    """Return what is known of a subgraph: nothing, its config or its state."""
    if found is None or isinstance(found, dict):
        return plain(found and found["configurable"]["checkpoint_ns"])
    return state(found, numbers)


def told(saver: Saver, thread_id: str, story: Story, durability: str) -> list[Any]:
    """Play a story; return what was seen, the states that can be looked up, and what is stored.

    Answers are left out: LangGraph adds to their list while it is being stored.
    """
    run = Run(saver, {"configurable": {"thread_id": thread_id}}, durability)
    graph = story(run)
    if isinstance(saver, InMemorySaver):
        sort_writes(saver)
    history = list(graph.get_state_history(run.config))
    numbers = {id_of(each.config): number for number, each in enumerate(reversed(history))}
    stored = sorted(
        plain(
            (
                each.config["configurable"]["checkpoint_ns"],
                each.metadata.get("source"),
                each.metadata.get("step"),
                each.checkpoint["channel_values"],
                [(channel, value) for _, channel, value in each.pending_writes or [] if channel != RESUME],
            )
        )
        for each in saver.list(run.config)
    )
    return [
        *map(plain, run.seen),
        *(state(each, numbers) for each in history),
        state(graph.get_state(run.config, subgraphs=True), numbers),
        *(state(graph.get_state(each.config, subgraphs=True), numbers) for each in history),
        *stored,
    ]


def sort_writes(saver: InMemorySaver) -> None:
    """Sort the pending writes of each checkpoint by path, task and index: the order in which LangGraph applies them.

    Since langgraph-checkpoint 4.3 the saver in memory returns them so, as ours does with every version.
    """
    for stored in saver.writes.values():
        in_order = sorted(stored.items(), key=lambda item: (item[1][3], *item[0]))
        stored.clear()
        stored.update(in_order)


@cache
def expected(story: Story, durability: str) -> list[Any]:
    """Return what LangGraph's saver in memory has to tell."""
    return told(InMemorySaver(), "expected", story, durability)


PLAYS = [
    pytest.param(story, durability, id=f"{story.__name__}-{durability}")
    for number, story in enumerate(STORIES)
    for durability in (DURABILITIES if FULL else [DURABILITIES[number % len(DURABILITIES)]])
]
"""Each story under each durability in a full run, else each story under one of them, in turn."""


@pytest.mark.parametrize(("story", "durability"), PLAYS)
def test_a_graph_sees_the_same_with_every_saver(saver: Saver, thread_id: str, story: Story, durability: str) -> None:
    """Results, states, history, tasks and stored values are those of LangGraph's saver in memory."""
    found = told(saver, thread_id, story, durability)
    for ours, theirs in zip(found, expected(story, durability), strict=True):
        assert ours == theirs
