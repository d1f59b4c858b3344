"""Take a compaction back, or go on from before it in a thread of its own."""

from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import Before
from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.conversation.sizes import meter_of_thread
from langgraph_compaction.nodes.effects import Effects, arun, blocking, querying
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.undo import over_limit, tell_ledger, undone
from langgraph_compaction.nodes.state import STATE_VERSION, replace

from .builder import Graph
from .notebook_display import card
from .threads import at_rest, records_of, run_sync, settled, state_of, thread_of, written


class OverLimitError(CompactionError):
    """What would stand again does not fit the model's limit."""


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What became of an undo; sizes in tokens, `None` where the window is chosen at each call."""

    compactions: tuple[str, ...]
    """The compactions that were taken back, oldest first: the one named and all that were built on it."""
    messages: int
    """Messages in view now."""
    tokens: int
    trigger: int | None
    limit: int | None

    def _repr_html_(self) -> str | None:
        sizes = [("tokens", self.tokens), ("trigger", self.trigger), ("limit", self.limit)]
        return card(f"Undone: {', '.join(self.compactions)}", [("messages in view", self.messages), *sizes])


def undo(graph: Graph, config: RunnableConfig, compaction_id: str | None = None, *, force: bool = False) -> Undone:
    """Take a compaction back, the last one by default, and with it all that were built on it.

    What it replaced stands again where its summary stood, later messages follow unchanged, and what the
    application deleted since stays deleted; nothing is run again. The thread is then *held*: no automatic
    compaction below the limit until `release`, or a compaction that a person asks for. Where the redaction hook
    has `store=True`, what comes back is the redacted text.

    Raises `UnknownAttemptError` for a compaction on which the thread's state does not rest, `OverLimitError`
    where the result is over the limit (unless `force`), `CompactionError` while the thread has work to go on with.
    """
    return run_sync(graph, "aundo", _undo(graph, config, compaction_id, force=force))


async def aundo(
    graph: Graph, config: RunnableConfig, compaction_id: str | None = None, *, force: bool = False
) -> Undone:
    """`undo`, asynchronously."""
    return await arun(_undo(graph, config, compaction_id, force=force))


def release(graph: Graph, config: RunnableConfig) -> None:
    """Let automatic compactions of a thread happen again after an `undo`."""
    run_sync(graph, "arelease", written(graph, config, {"compaction": {"held": False}}))


async def arelease(graph: Graph, config: RunnableConfig) -> None:
    """`release`, asynchronously."""
    await arun(written(graph, config, {"compaction": {"held": False}}))


def branch_from(
    graph: Graph, config: RunnableConfig, compaction_id: str, *, thread_id: str | None = None
) -> RunnableConfig:
    """A new thread that stands where a compaction of this one began; returns its config.

    The compaction may be any in the thread's ledger that has a snapshot, on whatever branch. The thread itself is
    left alone. Raises `UnknownAttemptError` where there is no snapshot of it, `CompactionError` where the new
    thread exists already.
    """
    return run_sync(graph, "abranch_from", _branch(graph, config, compaction_id, thread_id))


async def abranch_from(
    graph: Graph, config: RunnableConfig, compaction_id: str, *, thread_id: str | None = None
) -> RunnableConfig:
    """`branch_from`, asynchronously."""
    return await arun(_branch(graph, config, compaction_id, thread_id))


def _undo(graph: Graph, config: RunnableConfig, compaction_id: str | None, *, force: bool) -> Effects[Undone]:
    state = yield from at_rest(graph, config)
    messages, compaction = state.values.get("messages") or [], state.values.get("compaction") or {}
    dependencies, thread = (yield from settled(graph)), thread_of(config)
    records = dependencies.records
    before = yield from querying(
        records, lambda: records.before(thread, messages, head=compaction.get("head"), compaction_id=compaction_id)
    )
    done = yield from blocking(lambda: _sized(dependencies, before, compaction))
    if done.limit is not None and done.tokens > done.limit and not force:
        raise OverLimitError(f"{over_limit(before, done.tokens, done.limit)}. Use force=True to undo it all the same")
    yield from written(graph, config, {"messages": replace(before.messages), "compaction": undone(before)})
    counter, now = dependencies.counter_for(dependencies.fixed_model), dependencies.now()
    yield from querying(records, lambda: tell_ledger(records, thread, state.values, before, counter=counter, now=now))
    return done


def _sized(dependencies: Dependencies, before: Before, compaction: dict[str, Any]) -> Undone:
    model, sizes = dependencies.fixed_model, dependencies.sizes()
    counter = dependencies.counter_for(model)
    meter = meter_of_thread(compaction, counter, dependencies.overhead(counter))
    return Undone(
        compactions=before.undone,
        messages=len(before.messages),
        tokens=meter.request(cast("list[AnyMessage]", before.messages)),
        trigger=sizes.trigger if sizes else None,
        limit=sizes.limit if sizes else None,
    )


def _branch(
    graph: Graph, config: RunnableConfig, compaction_id: str, thread_id: str | None
) -> Effects[RunnableConfig]:
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
    yield from written(graph, new, update, new=True)
    return new
