"""What can be asked of a graph about one of its threads."""

import asyncio
from typing import Any, TypeVar, cast

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.types import StateSnapshot

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, CompactionRecords
from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.compaction_request import REQUEST
from langgraph_compaction.nodes.effects import Effects, arun, blocking, either, querying, run
from langgraph_compaction.nodes.runtime.dependencies import Dependencies, HasDependencies

from .builder import Graph
from .pending import KEY, in_view

T = TypeVar("T")

AS_NODE = "commit"
"""The node in whose name a thread at rest is written to."""


def dependencies_of(graph: Graph) -> Dependencies:
    """Return the dependencies of a graph made by this package, or of an agent with its middleware.

    A node that has dependencies, or whose function has, implements `HasDependencies`. Raises `TypeError` for a graph
    without such a node.
    """
    for spec in graph.builder.nodes.values():
        for node in (spec.runnable, getattr(spec.runnable, "func", None)):
            if isinstance(node, HasDependencies):
                return node.dependencies_with(graph.checkpointer)
    raise TypeError(
        "this graph was made neither by create_compacting_agent nor by create_compaction_graph, and has no "
        "CompactionMiddleware"
    )


def settled(graph: Graph) -> Effects[Dependencies]:
    """Whom a graph works with, after the blocking work that is due, so that counting reads nothing from disk."""
    dependencies = dependencies_of(graph)
    dependencies.counter_for(dependencies.fixed_model)
    if dependencies.due:
        yield from blocking(dependencies.settle)
    return dependencies


def records_of(graph: Graph) -> CompactionRecords:
    """Snapshots, ledger and archive of a graph made by this package; `TypeError` for any other graph."""
    return dependencies_of(graph).records


def thread_of(config: RunnableConfig) -> str:
    """The thread that a config names."""
    return str(config.get("configurable", {})["thread_id"])


def run_sync(graph: Graph, twin: str, step: Effects[T]) -> T:
    """Run a step synchronously. `twin` is the name of the function that runs the same step asynchronously.

    Raises `CompactionError`, which names the twin, on a running event loop with an asynchronous checkpointer: those
    of other packages refuse synchronous calls there, and a call of ours would block the loop.
    """
    if isinstance(graph.checkpointer, AsyncSQLAlchemySaver) and _on_event_loop():
        raise _refused(graph, twin)
    try:
        return run(step)
    except asyncio.InvalidStateError as error:
        raise _refused(graph, twin) from error


def _refused(graph: Graph, twin: str) -> CompactionError:
    saver = type(graph.checkpointer).__name__
    return CompactionError(
        f"{saver} cannot be called synchronously on a running event loop: use `await {twin}(graph, config)` there"
    )


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def state_of(graph: Graph, config: RunnableConfig) -> Effects[StateSnapshot]:
    """A thread's state; its messages are those in view, also while an agent has still to write a compaction."""
    state = yield from either(lambda: graph.get_state(config), lambda: graph.aget_state(config))
    compaction = state.values.get("compaction") or {}
    if not compaction.get(KEY):
        return state
    return state._replace(values={**state.values, "messages": in_view(state.values["messages"], compaction)})


def at_rest(graph: Graph, config: RunnableConfig) -> Effects[StateSnapshot]:
    """The state of a thread whose turn is over; raises `CompactionError` while it has work to go on with."""
    state = yield from state_of(graph, config)
    if state.next:
        raise CompactionError(f"this thread has work to go on with ({', '.join(state.next)}): resume it first")
    return state


def written(graph: Graph, config: RunnableConfig, update: dict[str, Any], *, new: bool = False) -> Effects[None]:
    """Write to a thread at rest, in the name of a node from which a turn that is over stays over.

    Both graphs of this package have that node; in LangChain's agent it is the one that ran last, in a `new` thread
    the one that ends a run: what is written in the name of the input loses private channels.
    """
    last = next((source for source, target in graph.builder.edges if target == END), None) if new else None
    node = AS_NODE if AS_NODE in graph.builder.nodes else last
    yield from either(
        lambda: graph.update_state(config, update, as_node=node),
        lambda: graph.aupdate_state(config, update, as_node=node),
    )


def compact_now(
    graph: Graph, config: RunnableConfig, *, focus: str | None = None, full: bool = False
) -> dict[str, Any]:
    """Compact a thread now, whatever its size. Returns the new state.

    `focus` says what to keep above all; `full` summarizes the whole conversation, whatever the strategies would
    keep. Raises `CompactionError` while tool calls of the thread wait to be resumed: a new run would abandon them.
    """
    return run_sync(graph, "acompact_now", _compact_now(graph, config, focus, full=full))


async def acompact_now(
    graph: Graph, config: RunnableConfig, *, focus: str | None = None, full: bool = False
) -> dict[str, Any]:
    """`compact_now`, asynchronously."""
    return await arun(_compact_now(graph, config, focus, full=full))


def _compact_now(graph: Graph, config: RunnableConfig, focus: str | None, *, full: bool) -> Effects[dict[str, Any]]:
    _hold_open_calls((yield from state_of(graph, config)))
    wish = _wish(focus, full=full)
    result: Any = yield from either(lambda: graph.invoke(wish, config), lambda: graph.ainvoke(wish, config))
    return cast("dict[str, Any]", result)


def _hold_open_calls(state: StateSnapshot) -> None:
    if "tools" in state.next:
        raise CompactionError(
            "tool calls of this thread are waiting: resume it first, with Command(resume=...) where it asks, else "
            "with invoke(None)"
        )


def _wish(focus: str | None, *, full: bool) -> dict[str, Any]:
    return {"messages": [], REQUEST: {"focus": focus, "full": full}}


def handoff(graph: Graph, config: RunnableConfig) -> dict[str, Any]:
    """The input for the new thread that a person chose to open instead of compacting this one.

    It is the state's `compaction["handoff"]`: `{"messages": header, summary and unanswered round,
    "compaction_request": {"memory": goal and pins}}`, which holds until the thread's next input. Raises
    `CompactionError` where nobody has chosen so.
    """
    return run_sync(graph, "ahandoff", _handoff(graph, config))


async def ahandoff(graph: Graph, config: RunnableConfig) -> dict[str, Any]:
    """`handoff`, asynchronously."""
    return await arun(_handoff(graph, config))


def _handoff(graph: Graph, config: RunnableConfig) -> Effects[dict[str, Any]]:
    state = yield from state_of(graph, config)
    found = (state.values.get("compaction") or {}).get("handoff")
    if found is None:
        raise CompactionError("this thread hands nothing over: nobody has answered its question with new_thread")
    given: dict[str, Any] = found
    return given


def transcript(graph: Graph, config: RunnableConfig, *, namespace: str = "") -> list[AnyMessage]:
    """The whole conversation of a thread: archive and state, joined in order, without summaries."""
    return run_sync(graph, "atranscript", _transcript(graph, config, namespace))


async def atranscript(graph: Graph, config: RunnableConfig, *, namespace: str = "") -> list[AnyMessage]:
    """`transcript`, asynchronously."""
    return await arun(_transcript(graph, config, namespace))


def _transcript(graph: Graph, config: RunnableConfig, namespace: str) -> Effects[list[AnyMessage]]:
    state = yield from state_of(graph, config)
    given, thread = state.values.get("messages") or [], thread_of(config)
    head, records = (state.values.get("compaction") or {}).get("head"), records_of(graph)
    messages: Any = yield from querying(records, lambda: records.transcript(thread, namespace, given, head=head))
    return cast("list[AnyMessage]", messages)
