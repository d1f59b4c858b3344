"""Undo or redo a compaction, or start a new thread with the messages from before a compaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.request import Meter, meter_of_thread
from langgraph_compaction.nodes.conversation.view import branched_view
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects, blocking, querying
from langgraph_compaction.nodes.runtime.undo_request import (
    Undoing,
    after_undo,
    channel_after,
    exceeds,
    over_limit,
    redoing,
    tell_ledger,
    undoing,
)
from langgraph_compaction.nodes.state import STATE_VERSION, conversation, pinned_ids, stored_view

from .builder import Graph
from .exclusive_runs import thread_of
from .notebook_display import card
from .thread_state import at_rest, records_of, settled, state_of, written


class OverLimitError(CompactionError):
    """The conversation without the compaction would not fit the model's limit."""


@dataclass(frozen=True, kw_only=True)
class Undone:
    """The result of an undo or a redo; `trigger` and `limit`, in tokens, are `None` if each call chooses a model."""

    verdict: Literal["undone", "redone"]
    compactions: tuple[str, ...]
    """Ids of the compactions that were undone, oldest first; after a redo, the id of the last one."""
    messages: int
    """Number of messages that the model sees now."""
    tokens: int
    """Size of the next request, in tokens."""
    trigger: int | None
    limit: int | None

    def _repr_html_(self) -> str | None:
        sizes = [("tokens", self.tokens), ("trigger", self.trigger), ("limit", self.limit)]
        told = [("messages in view", self.messages), *sizes]
        if self.verdict == "redone":
            return card(f"Done again: {', '.join(self.compactions)}", told)
        beside = [("to bring it back", "thread.redo()"), ("now", after_undo(self.tokens, self.limit))]
        return card(f"Undone: {', '.join(self.compactions)}", [*told, *beside])


def released(graph: Graph, config: RunnableConfig) -> Effects[None]:
    """Allow automatic compactions of a thread at rest again, after an undo."""
    yield from at_rest(graph, config)
    yield from written(graph, config, {"compaction": {"held": False}})


def undone_in(graph: Graph, config: RunnableConfig, compaction_id: str | None, *, force: bool) -> Effects[Undone]:
    """Undo a compaction of a thread at rest, by default the last one, and all that were built on it."""
    state = yield from at_rest(graph, config)
    records, thread = records_of(graph, config), thread_of(config)
    undo = yield from querying(records, lambda: undoing(records, thread, state.values, compaction_id))
    return (yield from _changed(graph, config, state, undo, force=force))


def redone_in(graph: Graph, config: RunnableConfig) -> Effects[Undone]:
    """Bring back the compactions that the last undo of a thread at rest has undone."""
    state = yield from at_rest(graph, config)
    return (yield from _changed(graph, config, state, redoing(state.values), force=True))


def _changed(
    graph: Graph, config: RunnableConfig, state: StateSnapshot, change: Undoing, *, force: bool
) -> Effects[Undone]:
    """Write an undo or a redo into the state, and into the ledger."""
    values, place = state.values, state.config.get("configurable", {}).get("checkpoint_id")
    dependencies, compaction = (yield from settled(graph, config)), values.get("compaction") or {}
    records, thread, now = dependencies.records, thread_of(config), dependencies.now()
    meter, done = yield from blocking(lambda: _sized(dependencies, change, compaction))
    if exceeds(done.tokens, done.limit) and not force:
        raise OverLimitError(f"{over_limit(change, done.tokens, done.limit)}. Use force=True to undo it all the same")
    channel = channel_after(change, compaction, tokens=done.tokens, limit=done.limit)
    yield from written(graph, config, {"compaction_view": change.view, "compaction": channel})

    def told() -> None:
        tell_ledger(records, thread, values, change, meter=meter, after=done.tokens, now=now, checkpoint_id=place)

    yield from querying(records, told)
    return done


def _sized(dependencies: Dependencies, change: Undoing, compaction: dict[str, Any]) -> tuple[Meter, Undone]:
    """Return the meter of the thread, and the result of the undo with the sizes measured by this meter."""
    sizes, counter = dependencies.sizes(compaction), dependencies.counter_for(dependencies.facts.name)
    stored: Mapping[str, int] = compaction.get("sizes") or {}  # where the model is not known before its first call
    meter = meter_of_thread(compaction, counter, dependencies.overhead(counter))
    return meter, Undone(
        verdict=change.verdict,
        compactions=change.compactions,
        messages=len(change.messages),
        tokens=meter.request(change.messages),
        trigger=sizes.trigger if sizes else stored.get("trigger"),
        limit=sizes.limit if sizes else stored.get("limit"),
    )


def branched(
    graph: Graph, config: RunnableConfig, compaction_id: str, thread_id: str | None
) -> Effects[RunnableConfig]:
    """Create a thread with the messages that a compaction of this thread began with; return its config."""
    old = yield from state_of(graph, config)
    records = records_of(graph, config)
    began = yield from querying(records, lambda: records.began_with(thread_of(config), compaction_id))
    new = RunnableConfig(configurable={"thread_id": thread_id or str(uuid4())})
    there = yield from state_of(graph, new)
    if there.values:
        raise CompactionError(f"there is a thread {thread_id!r} already: give another thread_id")
    yield from written(graph, new, branch_of(old.values, cast("list[AnyMessage]", began)))
    return new


def branch_of(values: Mapping[str, Any], began: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return the channels of a thread that stands where a compaction began, which the model saw as `began`.

    The thread holds what was said until then, if the thread of these values still holds it; else what the model saw.
    """
    said, seen_ids = conversation(values), {message.id for message in began if not is_summary(message)}
    last = max((at for at, message in enumerate(said) if message.id in seen_ids), default=-1)
    until = said[: last + 1]
    whole = seen_ids <= {message.id for message in until}
    pins = pinned_ids(values)
    start = {"v": STATE_VERSION, "step": "end", "route": "end", **({"pins": pins} if pins else {})}
    if not whole:
        return {"messages": list(began), "compaction": start}
    view = branched_view(until, stored_view(values), began)
    return {"messages": until, "compaction": start, "compaction_view": view}
