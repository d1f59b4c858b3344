"""`as_node` makes the compaction graph, or an agent, a node of any graph and compacts this graph's messages."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel

from langgraph_compaction.nodes.compaction_request import CALLS_OPEN, NO_REQUEST, REQUEST, fault_of
from langgraph_compaction.nodes.conversation.bound_history import with_history_changed
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.errors import EmbeddingError, RequestError
from langgraph_compaction.nodes.inline.runner import CHANNELS
from langgraph_compaction.nodes.model import rendered_request
from langgraph_compaction.nodes.runtime.archive_quotation import quoted_archive
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects
from langgraph_compaction.nodes.runtime.engine import applied_to
from langgraph_compaction.nodes.runtime.finish_attempt import last_of
from langgraph_compaction.nodes.runtime.node_context import NodeContext
from langgraph_compaction.nodes.state import (
    EMBEDDED,
    EMBEDDED_IN,
    FOCUS_CHARACTERS,
    CompactionState,
    replace,
    with_ids,
)
from langgraph_compaction.nodes.text.quoting import clip

from .build_dependencies import dependencies_of
from .builder import Graph
from .database import check_parent
from .pending_updates import has_channel
from .thread_state import settled

Persist = Literal["parent", "subgraph"]


def as_node(compaction_graph: Graph, *, persist: Persist = "parent") -> RunnableLambda[Any, Any]:
    """Return a node that runs the compaction graph, or a compacting agent, on a parent's messages and compacts them.

    The compaction is applied to the parent's messages at the end of the node. Messages that arrived meanwhile stay,
    for example those sent with the answer to a confirmation, or by another node of the same step. `persist="parent"`
    (the default) keeps the channels of the compaction in the parent's state, which inherits `CompactionState`.
    `persist="subgraph"` keeps them in the node's own namespace, for a parent that has only `messages` and a
    checkpointer; there the node must be the only writer of `messages` in its step, because LangGraph's own channel
    drops what other nodes write, and the parent's thread has no `undo`, `compact` and `transcript`. An agent's other
    results go to the parent's channels of the same names.

    At its first run the node raises `EmbeddingError` if the parent's state lacks the channels, and `SettingsError` if
    the parent's checkpointer is durable but the compaction graph was built without `database`.
    """
    return _Node(compaction_graph, persist)


def rendered(graph: Graph, config: RunnableConfig, state: Mapping[str, Any]) -> Effects[list[AnyMessage]]:
    """Return the request of a parent's own model: the state's messages as `render` returns them, and the quotation.

    The quotation is that of automatic recall, if the graph's settings say so.
    """
    # a parent with persist="subgraph" does not know whether its messages were compacted
    known = {"compaction": {"epoch": 1}, **state, "messages": with_ids(state["messages"])}
    context = NodeContext(cast("CompactionState", known), config, Runtime(), (yield from settled(graph)))
    if context.may_quote_archive:  # any of the answers may have been given on a quotation
        context = context.after({}, with_history_changed(context.messages))
    return rendered_request(context, (yield from quoted_archive(context)))


class _Node(RunnableLambda[Any, Any]):
    """The node that `as_node` makes: a compaction graph, or a compacting agent, which a parent graph calls."""

    def __init__(self, compaction_graph: Graph, persist: Persist) -> None:
        super().__init__(self._call, afunc=self._acall, name="compact")
        self.persist, self._in_parent = persist, persist == "parent"
        self._is_agent = "applied" not in compaction_graph.channels
        self._graph = compaction_graph
        # in LangChain's agent our channels are private, so its input and output do not contain them
        self._results = [*dict.fromkeys([*compaction_graph.output_channels, *CHANNELS])]
        if not self._in_parent:
            self._graph = compaction_graph.copy(update={"checkpointer": True})

    def dependencies_with(self, _checkpointer: Any) -> Dependencies:
        """Return the dependencies of the graph inside, so that functions on threads accept the parent graph, too."""
        return dependencies_of(self._graph)

    def _call(self, given_state: Any, config: RunnableConfig) -> dict[str, Any]:
        self._check(config)
        state = as_mapping(given_state)
        messages = with_ids(state["messages"])
        given, inside = self._enter(state, messages), _embedded(config, state)
        try:
            result = self._graph.invoke(given, inside, output_keys=self._results)
        except RequestError as error:
            return self._without_request(error)
        return self._leave(state, messages, result)

    async def _acall(self, given_state: Any, config: RunnableConfig) -> dict[str, Any]:
        self._check(config)
        state = as_mapping(given_state)
        messages = with_ids(state["messages"])
        given, inside = self._enter(state, messages), _embedded(config, state)
        try:
            result = await self._graph.ainvoke(given, inside, output_keys=self._results)
        except RequestError as error:
            return self._without_request(error)
        return self._leave(state, messages, result)

    def _without_request(self, error: RequestError) -> dict[str, Any]:
        """Return the update after an invalid request to an agent: the error is told in the state and in the log.

        Raised in the parent, it would leave the request in the parent's state, where each later run would find it.
        """
        last = last_of(verdict="noop", reason=NO_REQUEST, detail=clip(str(error), FOCUS_CHARACTERS))
        return {REQUEST: None, **({"compaction": {"request": None, "last": last}} if self._in_parent else {})}

    def _check(self, config: RunnableConfig) -> None:
        """Raise an error if the parent graph cannot keep what the compactions need."""
        given = config.get("configurable", {})
        if dependencies_of(self._graph).in_memory_by_default:
            check_parent(given.get(CONFIG_KEY_CHECKPOINTER))
        lacking = next((name for name in CHANNELS if has_channel(config, name) is False), None)
        if self._in_parent and lacking:
            raise EmbeddingError(
                f"the state of the parent graph has no channel {lacking!r}, so that it would forget its "
                "compactions: let it inherit CompactionState (class State(CompactionState): ...). If you cannot "
                'change it, use as_node(graph, persist="subgraph") and a checkpointer'
            )

    def _enter(self, state: Mapping[str, Any], messages: list[AnyMessage]) -> dict[str, Any]:
        asked = {REQUEST: state[REQUEST]} if state.get(REQUEST) is not None else {}
        if fault_of(state.get(REQUEST), {}, calls_open=Transcript(messages).has_open_call) == CALLS_OPEN:
            raise RequestError(CALLS_OPEN)  # the parent would go on without the answer that its tools wait for
        if not self._in_parent:
            return {"messages": Overwrite(messages), **asked}
        return {"messages": messages, **{key: state.get(key) or {} for key in CHANNELS}, **asked}

    def _leave(
        self, state: Mapping[str, Any], messages: list[AnyMessage], result: Mapping[str, Any]
    ) -> dict[str, Any]:
        update = {key: result[key] for key in CHANNELS if self._in_parent and result.get(key)}
        if state.get(REQUEST) is not None:
            update[REQUEST] = None  # the request was read
        if self._is_agent:
            beside = {key: value for key, value in result.items() if key not in ("messages", REQUEST, *CHANNELS)}
            return {**update, **beside, "messages": _merged(messages, result["messages"])}
        if applied := result.get("applied"):
            update["messages"] = replace(_applied(messages, applied))
        return update


def as_mapping(state: Any) -> Mapping[str, Any]:
    """Return a state by the names of its channels; its class may also be a model of pydantic or a dataclass."""
    if isinstance(state, BaseModel):
        return dict(state)
    return {one.name: getattr(state, one.name) for one in fields(state)} if is_dataclass(state) else state


def _embedded(config: RunnableConfig, state: Mapping[str, Any]) -> RunnableConfig:
    configurable = config.get("configurable", {})
    place = str(configurable.get("checkpoint_ns") or "")
    return {**config, "configurable": {**configurable, EMBEDDED: state, EMBEDDED_IN: place}}


def _applied(messages: list[AnyMessage], applied: Mapping[str, Any]) -> list[AnyMessage]:
    after = applied_to(messages, drop=applied["drop"], clip=applied["clip"], summary=applied["summary"])
    return with_history_changed(after)


def _merged(messages: list[AnyMessage], result: list[AnyMessage]) -> Overwrite | list[AnyMessage]:
    """Return the messages that an agent added. If it removed some, return the whole new list and later arrivals."""
    before, after = {message.id: message for message in messages}, {message.id: message for message in result}
    last = max((n for n, message in enumerate(messages) if message.id in after), default=-1)
    arrived = messages[last + 1 :]
    if all(after.get(message.id) == message for message in messages[: last + 1]):
        return [message for message in result if message.id not in before]
    behind = next((n for n, message in enumerate(result) if last >= 0 and message.id == messages[last].id), -1) + 1
    return replace([*result[:behind], *arrived, *result[behind:]])
