"""DeltaChannel: values rebuilt from the writes of earlier steps, compared with a channel that keeps them whole."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite

from tests.checkpoint.contract.steps import Saver
from tests.checkpoint.samples import talk


def joined(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Append one write."""
    return [*left, *right]


def folded(left: Sequence[Any], writes: Sequence[Sequence[Any]]) -> list[Any]:
    """Append several writes."""
    return [*left, *(each for write in writes for each in write)]


class Plain(TypedDict, total=False):
    """Channels that are stored whole."""

    turn: int
    notes: Annotated[list[str], BinaryOperatorAggregate(list, joined)]
    messages: Annotated[list[AnyMessage], BinaryOperatorAggregate(list, joined)]


class Delta(TypedDict, total=False):
    """The same channels, of which only every third update is stored whole."""

    turn: int
    notes: Annotated[list[str], DeltaChannel(folded, snapshot_frequency=3)]
    messages: Annotated[list[AnyMessage], DeltaChannel(folded, snapshot_frequency=4)]


def graph_of(state: Any, saver: Saver) -> Any:
    """Build a graph whose two middle nodes write the same channels in one step; order matters."""
    builder = StateGraph(state)
    builder.add_node("first", lambda state: {"notes": [f"first {state['turn']}"]})
    builder.add_node("zeta", lambda state: {"notes": ["z1", "z2"], "messages": talk(1, start=10 * state["turn"] + 2)})
    builder.add_node("alpha", lambda state: {"notes": ["a"], "messages": talk(1, start=10 * state["turn"] + 3)})
    builder.add_node("last", lambda state: {"notes": [f"last {len(state['notes'])}"]})
    builder.add_edge(START, "first")
    builder.add_edge("first", "zeta")
    builder.add_edge("first", "alpha")
    builder.add_edge(["zeta", "alpha"], "last")
    builder.add_edge("last", END)
    return builder.compile(checkpointer=saver)


def turn(graph: Any, config: RunnableConfig, number: int) -> None:
    """Run one turn."""
    graph.invoke({"turn": number, "messages": talk(1, start=10 * number)}, config, durability="sync")


def history(graph: Any, config: RunnableConfig) -> list[dict[str, Any]]:
    """Return the values of every checkpoint, newest first, without channels that hold nothing."""
    return [
        {name: value for name, value in each.values.items() if value != []}
        for each in graph.get_state_history(config)
    ]


def forked(graph: Any, config: RunnableConfig) -> None:
    """A turn on an old checkpoint, then one on the end of each branch."""
    for number in range(3):
        turn(graph, config, number)
    states = list(graph.get_state_history(config))
    abandoned = states[0].config
    turn(graph, states[6].config, 7)
    turn(graph, config, 8)
    turn(graph, abandoned, 9)


def edited(graph: Any, config: RunnableConfig) -> None:
    """State changed from outside, now and in the past, and overwritten."""
    turn(graph, config, 0)
    turn(graph, config, 1)
    graph.update_state(config, {"notes": ["by hand"]}, as_node="last")
    turn(graph, config, 2)
    old = list(graph.get_state_history(config))[4].config
    graph.update_state(old, {"notes": ["in the past"], "messages": talk(1, start=90)}, as_node="last")
    turn(graph, config, 3)
    graph.update_state(config, {"notes": Overwrite(["all new"])}, as_node="last")
    turn(graph, config, 4)


Story = Callable[[Any, RunnableConfig], None]


def config_of(thread_id: str, kind: str) -> RunnableConfig:
    """Return the config of the thread of a kind of channel."""
    return {"configurable": {"thread_id": f"{thread_id}-{kind}"}}


@pytest.mark.parametrize("story", [forked, edited], ids=lambda story: story.__name__)
def test_every_state_is_that_of_a_channel_kept_whole(saver: Saver, thread_id: str, story: Story) -> None:
    """Each checkpoint has the same values whether a channel is rebuilt or stored whole, forks included."""
    graphs = [(graph_of(state, saver), config_of(thread_id, state.__name__)) for state in (Plain, Delta)]
    for graph, config in graphs:
        story(graph, config)
    plain, delta = (history(graph, config) for graph, config in graphs)
    assert delta == plain
