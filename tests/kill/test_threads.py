from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.state import messages_in_view
from tests.kill.recovery import check_whole
from tests.kill.scenarios import SCENARIOS, Worlds
from tests.kill.sight import Around, sight
from tests.kill.world import World, tell

ANN: RunnableConfig = {"configurable": {"thread_id": "ann"}}
BEN: RunnableConfig = {"configurable": {"thread_id": "ben"}}


def rows(graph: Any) -> dict[str, int]:
    """Rows of every table of ours but the version's and the one that tells which threads were erased."""
    with records_of(graph).database.read() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for name, table in tables.METADATA.tables.items()
            if table.name not in {tables.schema.name, tables.erased.name}
        }


def test_two_threads_of_one_database_do_not_meet(tmp_path: Path) -> None:
    """Two users say the same under the same ids, in turn: each has their own summary, ledger and transcript."""
    world = World(folder=tmp_path)
    with world.opened() as graph:
        for number in range(6):
            for config in (ANN, BEN):
                tell(graph, "look", f"h{number}", config)
        tell(graph, "only ann says this", "secret", ANN)
        ann, ben = sight(graph, world, ANN), sight(graph, world, BEN)
    for found in (ann, ben):
        check_whole(found)
        assert found.verdicts == ["committed"]
    assert len(world.calls) == 2
    assert ann.ledger[0].compaction_id != ben.ledger[0].compaction_id
    assert "secret" in [name for name, _, _ in ann.transcript]
    assert "secret" not in [name for name, _, _ in ben.transcript]


def test_without_a_thread_nothing_is_written(world_of: Worlds, around: Around) -> None:
    """Whole lists passed to an agent without a checkpointer are compacted, and no row of any table is there."""
    scenario, (before, calm) = SCENARIOS["precheck"], around("precheck")
    world = replace(world_of(scenario, "unused"), url=None)
    with world.records() as database:
        graph = world.agent(None, database)
        for _user in range(2):
            ended = graph.invoke({"messages": [*before.messages, *scenario.given["messages"]]})
            assert ended["compaction"]["epoch"] == 1
            assert len(ended["messages"]) == len(calm.messages) > len(messages_in_view(ended))
        assert set(rows(graph).values()) == {0}
    assert len(world.calls) == 2
