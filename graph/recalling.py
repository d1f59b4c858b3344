"""`recall`: get back what left the view of a thread, in the words it had."""

from typing import Unpack

from langchain_core.runnables import RunnableConfig

from langgraph_compaction.nodes.effects import Step, arun

from .builder import Graph
from .recall_tool import Wanted, Where, recalled
from .threads import run_sync, team_of, thread_of


def recall(graph: Graph, config: RunnableConfig, query: str = "", **wanted: Unpack[Where]) -> str:
    """What the archive of a thread has on a query, as text; a sentence where it has nothing.

    `handle`, `since`, `until` and `max_tokens` are those of `Wanted`. Raises `SettingsError` where neither a query
    nor a handle is given.
    """
    return run_sync(graph, "arecall", _recall(graph, config, Wanted(query=query, **wanted)))


async def arecall(graph: Graph, config: RunnableConfig, query: str = "", **wanted: Unpack[Where]) -> str:
    """`recall`, asynchronously."""
    return await arun(_recall(graph, config, Wanted(query=query, **wanted)))


def _recall(graph: Graph, config: RunnableConfig, wanted: Wanted) -> Step[str]:
    team = team_of(graph)
    return (yield from recalled(team.records, thread_of(config), wanted, team.counter_for(team.fixed_model)))
