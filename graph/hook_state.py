"""The state that an agent's hook reads, and the update that it returns."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.runtime import Runtime

from langgraph_compaction.nodes.compaction_request import REQUEST, request_in
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.node_context import NodeContext, Update
from langgraph_compaction.nodes.state import named

STORED = ("compaction", "compaction_view")
"""The channels that the nodes of a hook change, beside the request."""
READ = "__pregel_read"
"""Key in a run's configuration under which LangGraph puts a function that reads a channel."""


def config_of_run() -> RunnableConfig:
    """Return the configuration of the current run; an empty one if the hook is called outside of a run."""
    try:
        return get_config()
    except RuntimeError:
        return {}


def has_channel(config: RunnableConfig, name: str) -> bool | None:
    """Return whether the graph that runs with this configuration has such a channel; None outside of a run."""
    read = config.get("configurable", {}).get(READ)
    if read is None:
        return None
    try:
        read(name)
    except KeyError:
        return False
    return True


def context_of_hook(
    state: Mapping[str, Any], runtime: Runtime[Any] | None, dependencies: Dependencies
) -> NodeContext:
    """Return the context for a hook's nodes; `state` has the names that the nodes know."""
    return NodeContext.of(state, config_of_run(), runtime or Runtime(), dependencies)


def update_of_hook(context: NodeContext, had: Mapping[str, Any]) -> Update:
    """Return a hook's update after its nodes: the changed channels, and the messages that the nodes have said.

    `had` is the state before, by the names that the nodes know.
    """
    update, known = channels_update(context, had), {message.id for message in had["messages"]}
    said = [message for message in context.state["messages"] if message.id not in known]
    return {**update, "messages": [*update.get("messages", []), *said]} if said else update


def channels_update(context: NodeContext, had: Mapping[str, Any]) -> Update:
    """Return the channels that differ from those before, and the removal of the messages that have left the state."""
    state: Mapping[str, Any] = context.state
    update: Update = {key: state[key] for key in STORED if state.get(key) and state[key] is not had.get(key)}
    if REQUEST in state and request_in(state) is None:
        update[REQUEST] = state[REQUEST]  # the request was read
    if sizes := context.compaction.get("sizes"):  # after a restart, the model is not known before its first call
        update["compaction"] = {**context.compaction, "sizes": {**sizes, "window": context.sizes.window}}
    left = {message.id for message in context.state["messages"]}
    if gone := [RemoveMessage(id=message.id) for message in had["messages"] if message.id not in left]:
        update["messages"] = gone
    return named(update, context.dependencies.channel)


def answer_of(context: NodeContext, given: Sequence[Any]) -> AIMessage | None:
    """Return the model's answer of this turn, if there is one: a last message by the assistant that is new."""
    last = context.state["messages"][-1] if context.state["messages"] else None
    known = {message.id for message in given}
    return last if isinstance(last, AIMessage) and last.id not in known else None


def newest_answer(messages: Sequence[Any]) -> str:
    """Return the id of the newest assistant message, or an empty text without such a message."""
    return next((str(message.id) for message in reversed(messages) if isinstance(message, AIMessage)), "")
