"""The edges of the graphs, made from the transition table, and the routers that choose among them.

A router reads the step that the node before it stored. It never raises, because LangGraph would then end a resumed
run without an error. A node that returns a step the table does not allow raises in its own wrapper, before any router
runs. Only `update_state`, which runs no node, can store a step that may not follow: after such an update,
`token_check` runs again and decides anew.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END
from langgraph.types import Send

from langgraph_compaction.nodes.state import Step, as_mapping
from langgraph_compaction.nodes.transitions import NEXT

Edges = dict[Hashable, str]
"""The path map of a conditional edge: for each word that a router may return, the node to run. Drawings of the graph
show the words."""

State = Mapping[str, Any]
"""All channels of a graph's state. With a narrower type, LangGraph would pass a router only the channels that the
type names."""

AGENT_EDGES: dict[str, Edges] = {
    node: {word: END if step == "end" else step for step, word in steps.items()} for node, steps in NEXT.items()
}
"""The edges that leave each node of the agent, keyed by node."""

COMPACTION_EDGES: dict[str, Edges] = {
    node: {word: END if target == "model" else target for word, target in edges.items()}
    for node, edges in AGENT_EDGES.items()
    if node != "model"
}
"""The edges of the graph without model and tools, which ends where the agent would call the model."""

TOOLS_EDGES: Edges = {"results": "token_check", "returned directly": END}


Target = str | list[Send]
"""What a router returns: a word of the path map, or tasks."""


class Router(Runnable[State, Target]):
    """A conditional edge: a function that chooses where a turn goes on.

    Under `ainvoke` LangGraph runs a plain function in an OS thread, and traces it as a run of its own. Both take
    longer than the choice, which only reads the state. This class does neither.
    """

    def __init__(self, choose: Callable[[State], Target]) -> None:
        self.name = choose.__name__
        self._choose = choose

    def invoke(self, input: State, config: RunnableConfig | None = None, **_: Any) -> Target:  # noqa: A002, ARG002 - LangChain's signature
        """Return the choice."""
        return self._choose(as_mapping(input))

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **_: Any) -> Target:  # noqa: A002, ARG002 - LangChain's signature
        """Return the choice."""
        return self._choose(as_mapping(input))


def by_step(node: str) -> Callable[[State], Target]:
    """Return the router behind `node`: it returns the word that the transition table gives to the stored step."""
    words = NEXT[node]

    def route(state: State) -> Target:
        return words.get(_step(state)) or [Send("token_check", state)]

    return route


_BEHIND_MODEL = by_step("model")


def after_model(state: State) -> Target:
    """Return one task per tool call, so that a resumed run repeats only failed calls; without calls, the step."""
    if _step(state) == "tools":
        last = state["messages"][-1]
        calls = last.tool_calls if isinstance(last, AIMessage) else []
        return [Send("tools", [{**call, "type": "tool_call"}]) for call in calls] or NEXT["model"]["end"]
    return _BEHIND_MODEL(state)


def after_tools(direct: frozenset[str]) -> Callable[[State], str]:
    """Return a router from the tools to the check, or to the end if all called tools return directly."""

    def route(state: State) -> str:
        results = _newest_results(state["messages"])
        returned = results and all(result.name in direct for result in results)
        return "returned directly" if returned else "results"

    return route


def _step(state: State) -> Step:
    """Return the stored step; "end" if no node has stored a step on the thread yet."""
    return cast("Step", (state.get("compaction") or {}).get("step", "end"))


def _newest_results(messages: list[AnyMessage]) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    return results
