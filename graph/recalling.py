"""`recall`: get back what left the view of a thread, in the words it had."""

from typing import Unpack

from langchain_core.runnables import RunnableConfig

from langgraph_compaction.nodes.effects import Effects, arun

from .builder import Graph
from .recall_tool import Wanted, Where, recalled
from .threads import dependencies_of, run_sync, thread_of


def recall(graph: Graph, config: RunnableConfig, query: str = "", **wanted: Unpack[Where]) -> str:
    """What the archive of a thread has on a query, as text; a sentence where it has nothing.

    `handle`, `since`, `until` and `max_tokens` are those of `Wanted`. Raises `SettingsError` where neither a query
    nor a handle is given.
    """
    return run_sync(graph, "arecall", _recall(graph, config, Wanted(query=query, **wanted)))


async def arecall(graph: Graph, config: RunnableConfig, query: str = "", **wanted: Unpack[Where]) -> str:
    """`recall`, asynchronously."""
    return await arun(_recall(graph, config, Wanted(query=query, **wanted)))


def _recall(graph: Graph, config: RunnableConfig, wanted: Wanted) -> Effects[str]:
    dependencies = dependencies_of(graph)
    return (
        yield from recalled(
            dependencies.records, thread_of(config), wanted, dependencies.counter_for(dependencies.fixed_model)
        )
    )
