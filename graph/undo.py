"""Undo a compaction, or start a new thread with the messages from before a compaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint.compaction.attempt import Before
from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.conversation.request import Meter, meter_of_thread
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects, blocking, querying
from langgraph_compaction.nodes.runtime.undo_request import messages_after, over_limit, tell_ledger, undone
from langgraph_compaction.nodes.state import STATE_VERSION, replace

from .builder import Graph
from .exclusive_runs import thread_of
from .notebook_display import card
from .thread_state import at_rest, records_of, settled, state_of, written


class OverLimitError(CompactionError):
    """The conversation without the compaction would not fit the model's limit."""


@dataclass(frozen=True, kw_only=True)
class Undone:
    """The result of an undo. `trigger` and `limit` are tokens, `None` if the model is chosen at each call."""

    compactions: tuple[str, ...]
    """Ids of the compactions that were undone, oldest first: the named compaction and all built on it."""
    messages: int
    """Number of messages that the model sees after the undo."""
    tokens: int
    """Size of the request after the undo, in tokens."""
    trigger: int | None
    limit: int | None

    def _repr_html_(self) -> str | None:
        sizes = [("tokens", self.tokens), ("trigger", self.trigger), ("limit", self.limit)]
        return card(f"Undone: {', '.join(self.compactions)}", [("messages in view", self.messages), *sizes])


def released(graph: Graph, config: RunnableConfig) -> Effects[None]:
    """Allow automatic compactions of a thread at rest again, after an undo."""
    yield from at_rest(graph, config)
    yield from written(graph, config, {"compaction": {"held": False}})


def undone_in(graph: Graph, config: RunnableConfig, compaction_id: str | None, *, force: bool) -> Effects[Undone]:
    """Undo a compaction of a thread at rest, by default the last one, and all that were built on it."""
    state = yield from at_rest(graph, config)
    messages, compaction = state.values.get("messages") or [], state.values.get("compaction") or {}
    dependencies, thread = (yield from settled(graph)), thread_of(config)
    records = dependencies.records
    before = yield from querying(
        records, lambda: records.before(thread, messages, head=compaction.get("head"), compaction_id=compaction_id)
    )
    meter, done = yield from blocking(lambda: _sized(dependencies, before, compaction))
    if done.limit is not None and done.tokens > done.limit and not force:
        raise OverLimitError(f"{over_limit(before, done.tokens, done.limit)}. Use force=True to undo it all the same")
    channel = yield from blocking(lambda: undone(before, state.values, settings=dependencies.settings, meter=meter))
    yield from written(graph, config, {"messages": replace(messages_after(before)), "compaction": channel})
    now = dependencies.now()
    yield from querying(
        records, lambda: tell_ledger(records, thread, state.values, before, meter=meter, after=done.tokens, now=now)
    )
    return done


def _sized(dependencies: Dependencies, before: Before, compaction: dict[str, Any]) -> tuple[Meter, Undone]:
    """Return the meter of the thread, and the result of the undo with the sizes measured by this meter."""
    sizes, counter = dependencies.sizes(), dependencies.counter_for(dependencies.fixed_model)
    stored: Mapping[str, int] = compaction.get("sizes") or {}  # where the model is not known before its first call
    meter = meter_of_thread(compaction, counter, dependencies.overhead(counter))
    return meter, Undone(
        compactions=before.undone,
        messages=len(before.messages),
        tokens=meter.request(cast("list[AnyMessage]", before.messages)),
        trigger=sizes.trigger if sizes else stored.get("trigger"),
        limit=sizes.limit if sizes else stored.get("limit"),
    )


def branched(
    graph: Graph, config: RunnableConfig, compaction_id: str, thread_id: str | None
) -> Effects[RunnableConfig]:
    """Create a thread with the messages that a compaction of this thread began with; return its config."""
    old = yield from state_of(graph, config)
    records = records_of(graph)
    messages = yield from querying(records, lambda: records.began_with(thread_of(config), compaction_id))
    new = RunnableConfig(configurable={"thread_id": thread_id or str(uuid4())})
    there = yield from state_of(graph, new)
    if there.values:
        raise CompactionError(f"there is a thread {thread_id!r} already: give another thread_id")
    update: dict[str, Any] = {
        "messages": replace(messages),
        "compaction": {"v": STATE_VERSION, "step": "end", "route": "end"},
        "memory": old.values.get("memory") or {},
    }
    yield from written(graph, new, update)
    return new
