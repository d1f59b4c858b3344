"""Access to a thread of a graph: reading its state, updating a thread at rest, and the graph's dependencies."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.types import StateSnapshot, StateUpdate

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, CompactionRecords
from langgraph_compaction.checkpoint.db.workers import on_event_loop
from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.compaction_request import REQUEST
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects, arun, blocking, either, run
from langgraph_compaction.nodes.state import named, own_names

from .build_dependencies import dependencies_of, node_of_compaction
from .builder import Graph
from .exclusive_runs import aturn, check_thread, turn
from .open_work import check_no_work, open_nodes, waiting_nodes

T = TypeVar("T")

AS_NODE = "commit"
"""Name of the node that `update_state` is told to have written a change, if the thread's turn is over."""


def settled(graph: Graph, config: RunnableConfig) -> Effects[Dependencies]:
    """Return the graph's dependencies after their blocking set-up, such as loading the tokenizer, is done."""
    dependencies = dependencies_of(graph, config)
    if dependencies.due:
        yield from blocking(dependencies.settle)
    return dependencies


def records_of(graph: Graph, config: RunnableConfig | None = None) -> CompactionRecords:
    """Return snapshots, ledger and archive of a graph made by this package; raise `TypeError` for another graph."""
    return dependencies_of(graph, config).records


def run_sync(graph: Graph, twin: str, step: Effects[T]) -> T:
    """Run an operation synchronously. `twin` is the name of the method that runs it asynchronously.

    Raises `CompactionError`, which names the twin, on a running event loop with an asynchronous checkpointer: other
    packages' checkpointers refuse synchronous calls there, and a call to this package's would block the loop.
    """
    if isinstance(graph.checkpointer, AsyncSQLAlchemySaver) and on_event_loop():
        raise _refused(graph, twin)
    try:
        return run(step)
    except asyncio.InvalidStateError as error:
        raise _refused(graph, twin) from error


def change_sync(graph: Graph, config: RunnableConfig, twin: str, change: Callable[[RunnableConfig], Effects[T]]) -> T:
    """Change a thread synchronously, while no run works on it; `change` is called with a config for its calls.

    Raises what `run_sync` raises, and `ThreadBusyError` if a run on the thread does not end in time.
    """
    with turn(graph, config) as held:
        return run_sync(graph, twin, change(held))


async def change_async(graph: Graph, config: RunnableConfig, change: Callable[[RunnableConfig], Effects[T]]) -> T:
    """`change_sync`, asynchronously."""
    async with aturn(graph, config) as held:
        return await arun(change(held))


def _refused(graph: Graph, twin: str) -> CompactionError:
    saver = type(graph.checkpointer).__name__
    return CompactionError(
        f"{saver} cannot be called synchronously on a running event loop: use `await thread.{twin}(...)` there"
    )


def state_of(graph: Graph, config: RunnableConfig, *, subgraphs: bool = False) -> Effects[StateSnapshot]:
    """Return a thread's state; raise `SettingsError` if the config names no thread."""
    check_thread(graph, config)
    state = yield from either(
        lambda: graph.get_state(config, subgraphs=subgraphs), lambda: graph.aget_state(config, subgraphs=subgraphs)
    )
    return state._replace(values=own_names(state.values, dependencies_of(graph, config).channel))


def at_rest(graph: Graph, config: RunnableConfig, *, or_failed: bool = False) -> Effects[StateSnapshot]:
    """Return the state of a thread whose turn is over; raise `CompactionError` if it has nodes to run.

    With `or_failed` the turn may also have ended with an error, if nothing of it waits.
    """
    state = yield from state_of(graph, config, subgraphs=True)
    failed = or_failed and all(task.error for task in state.tasks)
    check_no_work(waiting_nodes(state) if failed else open_nodes(state))
    return state


def written(graph: Graph, config: RunnableConfig, update: dict[str, Any], *, ends: bool = True) -> Effects[None]:
    """Update a thread whose turn is over, in the name of a node that ends turns, so that no node runs next.

    With `ends=False` the turn has failed, and the node that failed runs next if the turn is resumed.
    Both graphs of this package have the node `commit`. In LangChain's agent it is the node after which a run ends: in
    the name of another one, for example `model`, the edges of that node would be followed. A parent graph may have no
    such node, because a function chooses what follows each node that ends a run. The change is then made in the name
    of a node without such a function, which would be called with an unusual state, and what is due next is dropped.
    """
    node = AS_NODE if AS_NODE in graph.builder.nodes else _last_node(graph) if ends else None
    update = named(update, dependencies_of(graph, config).channel)
    steps = [[StateUpdate(update, node)]]
    if node is None and ends and (passing := _node_without_choice(graph)):
        steps = [[StateUpdate(update, passing)], [StateUpdate(None, END)]]
    yield from either(
        lambda: graph.bulk_update_state(config, steps),
        lambda: graph.abulk_update_state(config, steps),
    )


def _last_node(graph: Graph) -> str | None:
    """Return a node that only the end follows; `None`, with which LangGraph takes the last one that ran, if none."""
    builder = graph.builder
    edges = [*builder.edges, *((source, target) for sources, target in builder.waiting_edges for source in sources)]
    goes_on = {source for source, target in edges if target != END}
    goes_on |= {source for source, found in builder.branches.items() if found}
    return next((source for source, target in edges if target == END and source not in goes_on), None)


def _node_without_choice(graph: Graph) -> str | None:
    """Return a node after which no function chooses what follows, the node of the compaction if it is one."""
    nodes = dict.fromkeys([node_of_compaction(graph), *graph.builder.nodes])
    return next(
        (node for node in nodes if node in graph.builder.nodes and not graph.builder.branches.get(node)), None
    )


def compacted(graph: Graph, config: RunnableConfig, focus: str | None, *, full: bool) -> Effects[dict[str, Any]]:
    """Compact a thread now and return its new state; raise `CompactionError` if something of it waits."""
    check_no_work(waiting_nodes((yield from state_of(graph, config, subgraphs=True))))
    asked = {"messages": [], REQUEST: {"focus": focus, "full": full, "abandon": True}}
    wish = named(asked, dependencies_of(graph, config).channel)
    result: Any = yield from either(lambda: graph.invoke(wish, config), lambda: graph.ainvoke(wish, config))
    return cast("dict[str, Any]", result)


def handed_over(graph: Graph, config: RunnableConfig) -> Effects[dict[str, Any]]:
    """Return the input for the thread that a person chose to open; raise `CompactionError` without this choice."""
    state = yield from state_of(graph, config)
    found = (state.values.get("compaction") or {}).get("handoff")
    if found is None:
        raise CompactionError("there is no handoff: nobody has answered this thread's question with new_thread")
    given: dict[str, Any] = found
    return given
