from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.graph import CompactionSettings, create_compaction_graph
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
