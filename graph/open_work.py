"""The work that a thread has to go on with: a question to a person, tool calls, or a turn that did not end."""

from collections.abc import Collection

from langgraph.types import PregelTask, StateSnapshot

from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.conversation.transcript import Transcript


def open_nodes(state: StateSnapshot) -> list[str]:
    """Return the nodes that a resumed turn begins with.

    They include a node that has run but whose writes are in no checkpoint yet, as after a killed process.
    `StateSnapshot.next` does not.
    """
    return [task.name for task in state.tasks]


def waiting_nodes(state: StateSnapshot) -> list[str]:
    """Return the open nodes that wait for an answer, also in a subgraph; all open nodes while a tool call is open.

    `state` is a snapshot with its subgraphs.
    """
    calls_open = Transcript(state.values.get("messages") or ()).has_open_call
    return [task.name for task in state.tasks if calls_open or _asks(task)]


def check_no_work(nodes: Collection[str]) -> None:
    """Raise `CompactionError` if there are nodes that a new run, or a write to the thread's state, would abandon."""
    if nodes:
        raise CompactionError(
            f"this thread has work to go on with ({', '.join(nodes)}): resume it first, with Command(resume=...) "
            "where it asks, else with invoke(None)"
        )


def _asks(task: PregelTask) -> bool:
    inside = task.state.tasks if isinstance(task.state, StateSnapshot) else ()
    return bool(task.interrupts and not task.error) or any(map(_asks, inside))
