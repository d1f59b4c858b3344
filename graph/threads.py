"""What can be asked of a graph about one of its threads."""

from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.collaborators import Collaborators
from langgraph_compaction.nodes.turn import CompactionNode

from .builder import Graph


def team_of(graph: Graph) -> Collaborators:
    """Whom a graph made by this package works with; `TypeError` for any other graph."""
    spec = graph.builder.nodes.get("token_check")
    if spec is None or not isinstance(spec.runnable, CompactionNode):
        raise TypeError("this graph was not made by create_compacting_agent or create_compaction_graph")
    return spec.runnable.team


def records_of(graph: Graph) -> CompactionRecords:
    """Snapshots, ledger and archive of a graph made by this package; `TypeError` for any other graph."""
    return team_of(graph).records


def compact_now(graph: Graph, config: RunnableConfig, *, focus: str | None = None) -> dict[str, Any]:
    """Compact a thread now, whatever its size; `focus` says what to keep above all. Returns the new state.

    Raises `CompactionError` while tool calls of the thread wait to be resumed: a new run would abandon them.
    """
    _hold_open_calls(graph.get_state(config))
    result: dict[str, Any] = graph.invoke(_wish(focus), config)
    return result


async def acompact_now(graph: Graph, config: RunnableConfig, *, focus: str | None = None) -> dict[str, Any]:
    """`compact_now`, asynchronously."""
    _hold_open_calls(await graph.aget_state(config))
    result: dict[str, Any] = await graph.ainvoke(_wish(focus), config)
    return result


def _hold_open_calls(state: StateSnapshot) -> None:
    if "tools" in state.next:
        raise CompactionError(
            "tool calls of this thread are waiting: resume it first, with Command(resume=...) where it asks, else "
            "with invoke(None)"
        )


def _wish(focus: str | None) -> dict[str, Any]:
    return {"messages": [], "compaction": {"request": {"focus": focus}}}


def transcript(graph: Graph, config: RunnableConfig, *, namespace: str = "") -> list[AnyMessage]:
    """The whole conversation of a thread: archive and state, joined in order, without summaries."""
    values = graph.get_state(config).values
    head = (values.get("compaction") or {}).get("head")
    thread = str(config.get("configurable", {})["thread_id"])
    messages: list[AnyMessage] = records_of(graph).transcript(  # type: ignore[assignment] # as they were given
        thread, namespace, values.get("messages") or [], head=head
    )
    return messages
