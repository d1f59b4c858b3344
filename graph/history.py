"""What compactions did to a thread, what one would do, and how to erase all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import CompactionRecords, LedgerRow, UnknownAttemptError
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.presets import Preset
from langgraph_compaction.nodes.config.settings import effective
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.sizes import meter_of_thread, sizes_of
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, total
from langgraph_compaction.nodes.effects import Effects, arun, blocking, either, querying
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.runtime.dependencies import Dependencies, answer_tokens, window_of
from langgraph_compaction.nodes.runtime.engine import Call, demand, needs_summary
from langgraph_compaction.nodes.runtime.key_information_room import foreseen
from langgraph_compaction.nodes.selection.selector import Demand
from langgraph_compaction.nodes.selection.strategies.registry import BUILT_IN, Strategy
from langgraph_compaction.nodes.state import with_ids
from langgraph_compaction.nodes.summary.fallback_chain import Level, strategy

from .builder import Graph
from .notebook_display import Parts, card
from .threads import dependencies_of, records_of, run_sync, state_of, thread_of


@dataclass(frozen=True, kw_only=True)
class Diff:
    """What is different between two lists of messages; each list in the order of its conversation."""

    dropped: list[AnyMessage]
    """Only in the first."""
    clipped: list[tuple[AnyMessage, AnyMessage]]
    """In both under one id, but not alike: before and after."""
    summaries: list[AnyMessage]
    """Summaries that only the second has."""
    added: list[AnyMessage]
    """Other messages that only the second has."""
    kept: int
    """Messages that both hold alike."""

    def _repr_html_(self) -> str | None:
        gone: Parts = [("dropped", self.dropped), ("shortened", self.clipped)]
        come: Parts = [("summaries", self.summaries), ("added", self.added)]
        return card("Two conversations compared", [("kept as they were", self.kept)], [*gone, *come])


def diff(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> Diff:
    """Compare two conversations message by message, by their ids: what was dropped, clipped, summarized, added."""
    old = {message.id: cast("AnyMessage", message) for message in before}
    new = {message.id: cast("AnyMessage", message) for message in after}
    fresh = [message for name, message in new.items() if name not in old]
    both = [(old[name], message) for name, message in new.items() if name in old]
    clipped = [(earlier, later) for earlier, later in both if earlier != later]
    return Diff(
        dropped=[message for name, message in old.items() if name not in new],
        clipped=clipped,
        summaries=[message for message in fresh if is_summary(message)],
        added=[message for message in fresh if not is_summary(message)],
        kept=len(both) - len(clipped),
    )


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """One attempt at a compaction, with the messages that it was about."""

    row: LedgerRow
    """Its row of the ledger."""
    began_with: list[AnyMessage]
    """The snapshot; empty where the attempt never began."""
    dropped: list[AnyMessage]
    """What left the view, in its original form."""
    clipped: list[AnyMessage]
    """What was shortened, in its original form."""
    on_this_branch: bool
    """Whether the thread's state rests on it; a commit that it does not rest on is one of another branch."""

    def _repr_html_(self) -> str | None:
        row = self.row
        figures = [("reason", f"{row.reason} {row.detail}".strip()), ("strategy", row.strategy)]
        sizes = [("tokens before", row.tokens_before), ("tokens after", row.tokens_after)]
        standing = [("in force", "yes" if self.on_this_branch else "no")]
        parts = [("dropped", self.dropped), ("shortened", self.clipped), ("it began with", self.began_with)]
        title = f"Compaction {row.compaction_id}: {row.verdict or 'open'}"
        return card(title, [*figures, *sizes, *standing], parts, row.summary or "")


def history(graph: Graph, config: RunnableConfig) -> list[LedgerRow]:
    """Every attempt at a compaction of a thread, in the order in which they began."""
    return run_sync(graph, "ahistory", _history(graph, config))


async def ahistory(graph: Graph, config: RunnableConfig) -> list[LedgerRow]:
    """`history`, asynchronously."""
    return await arun(_history(graph, config))


def show(graph: Graph, config: RunnableConfig, compaction_id: str) -> Compaction:
    """One attempt of a thread with its messages; raises `UnknownAttemptError` for one that the ledger has not."""
    return run_sync(graph, "ashow", _show(graph, config, compaction_id))


async def ashow(graph: Graph, config: RunnableConfig, compaction_id: str) -> Compaction:
    """`show`, asynchronously."""
    return await arun(_show(graph, config, compaction_id))


def _history(graph: Graph, config: RunnableConfig) -> Effects[list[LedgerRow]]:
    records = records_of(graph)
    return (yield from querying(records, lambda: records.history(thread_of(config))))


def _show(graph: Graph, config: RunnableConfig, compaction_id: str) -> Effects[Compaction]:
    rows = yield from _history(graph, config)
    found, thread = next((row for row in rows if row.compaction_id == compaction_id), None), thread_of(config)
    if found is None:
        raise UnknownAttemptError(f"the ledger of thread {thread!r} has no compaction {compaction_id!r}: see history")
    state = yield from state_of(graph, config)
    head = (state.values.get("compaction") or {}).get("head")
    records = records_of(graph)
    return (yield from querying(records, lambda: _shown(records, found, head)))


def _shown(records: CompactionRecords, found: LedgerRow, head: str | None) -> Compaction:
    thread, name = found.thread_id, found.compaction_id
    dropped, clipped = parted(found, cast("list[AnyMessage]", records.taken_by(thread, name)))
    began = records.began_with(thread, name) if found.verdict != "undone" and _began(found) else []
    return Compaction(
        row=found,
        began_with=cast("list[AnyMessage]", began),
        dropped=dropped,
        clipped=clipped,
        on_this_branch=name in records.line(thread, head),
    )


def parted(row: LedgerRow, taken: Sequence[AnyMessage]) -> tuple[list[AnyMessage], list[AnyMessage]]:
    """Of what a compaction archived, what left the view, earlier summaries too, and what it only shortened."""
    gone = set(row.dropped)
    left = [message.id in gone or is_summary(message) for message in taken]
    return list(compress(taken, left)), [message for message, away in zip(taken, left, strict=True) if not away]


def _began(row: LedgerRow) -> bool:
    return row.verdict not in {"refused", "declined", "deferred_cooldown"}


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a compaction would do now; all sizes in tokens of the whole request."""

    strategy: str
    tokens_before: int
    tokens_selected: int
    """Without what would leave, before there is a summary."""
    summary: bool
    """Whether a summary would be written."""
    tokens_after_about: int
    ceiling: int
    """Most that the gate would let pass."""
    floor: int
    dropped: list[AnyMessage]
    clipped: list[tuple[AnyMessage, AnyMessage]]
    reason: str = ""
    """Why nothing would be done; empty where something would."""

    def _repr_html_(self) -> str | None:
        sizes = [("tokens before", self.tokens_before), ("tokens after, about", self.tokens_after_about)]
        told = [("strategy", self.strategy), ("a summary", "yes" if self.summary else "no")]
        why = [("nothing would be done", self.reason)]
        parts: Parts = [("would be dropped", self.dropped), ("would be shortened", self.clipped)]
        return card("What a compaction would do", [*told, *why, *sizes, ("ceiling", self.ceiling)], parts)


def preview(
    graph: Graph, config: RunnableConfig, preset: Preset | None = None, *, settings: dict[str, Any] | None = None
) -> Preview:
    """What a compaction of this thread would do, by its own settings, another preset or changed settings.

    Asks no model and writes nothing. Raises as `CompactionSettings` does for settings that are none.
    """
    return run_sync(graph, "apreview", _preview(graph, config, preset, settings))


async def apreview(
    graph: Graph, config: RunnableConfig, preset: Preset | None = None, *, settings: dict[str, Any] | None = None
) -> Preview:
    """`preview`, asynchronously."""
    return await arun(_preview(graph, config, preset, settings))


def _preview(
    graph: Graph, config: RunnableConfig, preset: Preset | None, settings: dict[str, Any] | None
) -> Effects[Preview]:
    state = yield from state_of(graph, config)
    # counting the tokens of a long conversation takes too long for an event loop
    return (yield from blocking(lambda: _previewed(dependencies_of(graph), state.values, preset, settings)))


def _previewed(
    dependencies: Dependencies, values: Mapping[str, Any], preset: Preset | None, settings: dict[str, Any] | None
) -> Preview:
    model = dependencies.fixed_model
    chosen = effective(dependencies.settings, {**({"preset": preset} if preset else {}), **(settings or {})})
    counter = dependencies.counter_for(model, chosen)
    call = call_on(
        values,
        chosen,
        counter=counter,
        overhead=dependencies.overhead(counter),
        window=(window := window_of(chosen, model)),
        max_tokens=answer_tokens(model, window),
        strategies=dependencies.strategies,
    )
    return previewed(call, with_ids(values.get("messages") or []), dependencies.fallback_chain[0])


def call_on(
    values: Mapping[str, Any],
    settings: CompactionSettings,
    *,
    counter: TokenCounter,
    overhead: int,
    window: int,
    max_tokens: int | None = None,
    strategies: Mapping[str, Strategy] = BUILT_IN,
) -> Call:
    """The engine's view of a call on a thread's state; `overhead` are the tokens of prompt and tool schemas.

    Raises `SettingsError` where no room is left.
    """
    meter = meter_of_thread(values.get("compaction") or {}, counter, overhead)
    system = [message for message in with_ids(values.get("messages") or []) if message.type == "system"]
    fixed = meter.scaled(overhead + total(counter, system))
    sizes = sizes_of(settings, window=window, fixed=fixed, max_tokens=max_tokens)
    pins = frozenset((values.get("memory") or {}).get("pins") or ())
    return Call(settings=settings, sizes=sizes, meter=meter, pins=pins, strategies=strategies)


def previewed(call: Call, messages: Sequence[AnyMessage], level: Level) -> Preview:
    """What a compaction of these messages would do on this level."""
    chosen, before = call.settings, call.meter.request(messages)
    pins = call.pinned_texts(messages)

    def demanded(texts: Mapping[str, str]) -> Demand:
        return demand(call, trigger="manual", before=before, last=False, pins=pins, key_information=texts)

    proposal = foreseen(call, messages, level, demanded)
    found, goal = proposal.chosen, proposal.goal
    if isinstance(found, Finding):
        return Preview(
            strategy=strategy(chosen, level),
            tokens_before=before,
            tokens_selected=before,
            summary=False,
            tokens_after_about=before,
            ceiling=goal.ceiling,
            floor=0,
            dropped=[],
            clipped=[],
            reason=found.reason,
        )
    summary = needs_summary(chosen, found, goal)
    return Preview(
        strategy=strategy(chosen, level, found.name, summary=summary),
        tokens_before=before,
        tokens_selected=found.tokens,
        summary=summary,
        tokens_after_about=found.tokens + goal.summary * summary,
        ceiling=found.ceiling,
        floor=found.floor,
        dropped=[messages[index] for index in sorted(found.drop)],
        clipped=[(messages[index], found.clip[index]) for index in sorted(found.clip)],
    )


def forget(graph: Graph, config: RunnableConfig) -> None:
    """Erase a thread everywhere: its checkpoints, snapshots, summaries, ledger and archive."""
    run_sync(graph, "aforget", _forget(graph, config))


async def aforget(graph: Graph, config: RunnableConfig) -> None:
    """`forget`, asynchronously."""
    await arun(_forget(graph, config))


def _forget(graph: Graph, config: RunnableConfig) -> Effects[None]:
    thread, saver = thread_of(config), graph.checkpointer
    if saver is not None and not isinstance(saver, bool):
        yield from either(lambda: saver.delete_thread(thread), lambda: saver.adelete_thread(thread))
    records = records_of(graph)
    yield from querying(records, lambda: records.forget(thread))
