from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.graph import CompactionSettings, create_compaction_graph
from langgraph_compaction.graph.routing import AGENT_EDGES, COMPACTION_EDGES
from tests.graph.harness import agent

GRAPHS: dict[str, Any] = {
    "agent": agent,
    "compaction": lambda: create_compaction_graph(settings=CompactionSettings(context_window=1_000)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_drawing_is_the_one_we_know(name: str) -> None:
    """The shape of a turn changes on purpose only: the drawing stands beside this test, as Mermaid."""
    drawn = GRAPHS[name]().get_graph().draw_mermaid()
    assert drawn == Path(__file__).with_name(f"{name}.mmd").read_text()


@pytest.mark.parametrize(("name", "edges"), [("agent", AGENT_EDGES), ("compaction", COMPACTION_EDGES)])
def test_every_edge_ends_at_a_node(name: str, edges: dict[str, dict[str, str]]) -> None:
    """Each node of the table is in the graph and reaches what the table says, by an edge with its word."""
    graph = GRAPHS[name]().get_graph()
    drawn = {(edge.source, edge.target): edge.data for edge in graph.edges if edge.source in edges}
    assert drawn.keys() == {(source, target) for source, words in edges.items() for target in words.values()}
    for (source, target), word in drawn.items():
        assert edges[source][str(word)] == target
    assert edges.keys() <= graph.nodes.keys()
