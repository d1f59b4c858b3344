import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.kill.children import is_killed
from tests.kill.fuse import Fuse
from tests.kill.recovery import check_recovered, check_resumed
from tests.kill.scenarios import SCENARIOS, Worlds
from tests.kill.sight import Around, look_at
from tests.kill.world import CONFIG, World, said

PLACES = ("token_check:leave", "sql record_summary:after", "sql commit:inside")
Given = dict[str, Any] | None


@asynccontextmanager
async def opened(world: World) -> AsyncGenerator[Any]:
    """Open the same files with LangGraph's asynchronous saver."""
    async with AsyncSqliteSaver.from_conn_string(str(world.folder / "checkpoints.db")) as saver:
        with world.records() as database:
            yield world.agent(saver, database)


async def arun(world: World, given: Given) -> None:
    """Run one turn on the event loop."""
    async with opened(world) as graph:
        await graph.ainvoke(given, CONFIG, durability="sync")


@pytest.mark.parametrize("place", PLACES)
def test_an_asynchronous_run_that_was_killed_is_recovered(world_of: Worlds, around: Around, place: str) -> None:
    """The same holds for `ainvoke`: killed and gone on with on an event loop."""
    scenario, (before, calm) = SCENARIOS["precheck"], around("precheck")
    world = world_of(scenario)

    def run() -> None:
        Fuse(place).install()
        asyncio.run(arun(world, scenario.given))

    assert is_killed(run)
    left = look_at(world)
    again = world.copied(world.folder.with_name("again"))
    asyncio.run(arun(world, said("go on", "next")))
    check_recovered(scenario, before, left, look_at(world))
    asyncio.run(arun(again, None))
    check_resumed(before, left, look_at(again), calm)
