"""`Preview` says what a compaction would do to a thread now, without calling a model or writing anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.config.settings import effective
from langgraph_compaction.nodes.conversation.request import meter_of_thread
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, total
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.runtime.collect_key_information import Choosing
from langgraph_compaction.nodes.runtime.dependencies import Dependencies, answer_tokens, window_of_thread
from langgraph_compaction.nodes.runtime.effects import Effects, blocking
from langgraph_compaction.nodes.runtime.engine import Call, demand, needs_summary, words_beside
from langgraph_compaction.nodes.runtime.summarize_chunks import expected_summary
from langgraph_compaction.nodes.runtime.window_usage import Part, WindowUsage, window_usage
from langgraph_compaction.nodes.selection.selector import Demand
from langgraph_compaction.nodes.selection.strategies.registry import BUILT_IN, Strategy
from langgraph_compaction.nodes.state import messages_in_view, pinned_ids
from langgraph_compaction.nodes.summary.fallback_chain import Level, strategy

from .build_dependencies import dependencies_of
from .builder import Graph
from .notebook_display import Figures, Parts, card
from .thread_state import state_of


@dataclass(frozen=True, kw_only=True, repr=False)
class Preview:
    """What a compaction would do now. Sizes are tokens of the whole request."""

    strategy: str
    tokens_before: int
    tokens_selected: int
    """Size of the request without the messages to be removed, before a summary is added."""
    summary: bool
    """Whether a summary would be written."""
    tokens_after_about: int
    ceiling: int
    """Largest size that the gate would accept."""
    floor: int
    """Size, in tokens, of a request with only the messages that must stay."""
    dropped: list[AnyMessage]
    clipped: list[tuple[AnyMessage, AnyMessage]]
    reason: str = ""
    """The reason why nothing would be done; empty if a compaction would run."""
    usages: tuple[WindowUsage, ...] = field(default=(), compare=False)
    """What fills the window now and, if a compaction would run, about what would fill it then."""

    def __repr__(self) -> str:
        """Return the strategy, the sizes and the numbers of messages in one line; the messages can be long."""
        if self.reason:
            return f"<Preview nothing would be done: {self.reason}, {self.tokens_before} tokens>"
        counts = f"{len(self.dropped)} dropped, {len(self.clipped)} clipped"
        return f"<Preview {self.strategy}, {self.tokens_before} -> about {self.tokens_after_about} tokens, {counts}>"

    def _repr_html_(self) -> str | None:
        sizes = [("tokens before", self.tokens_before), ("tokens after, about", self.tokens_after_about)]
        told = [("strategy", self.strategy), ("a summary", "yes" if self.summary else "no")]
        why = [("nothing would be done", self.reason)]
        parts: Parts = [("would leave the view", self.dropped), ("would be shortened", self.clipped)]
        figures: Figures = [*told, *why, *sizes, ("ceiling", self.ceiling)]
        return card("What a compaction would do", figures, parts, usages=self.usages)


def previewed_thread(
    graph: Graph, config: RunnableConfig, preset: Preset | None, settings: dict[str, Any] | None
) -> Effects[Preview]:
    """Return what a compaction of a thread would do, with its own settings, another preset or changed settings."""
    state = yield from state_of(graph, config)
    # on a worker thread: counting the tokens of a long conversation would block an event loop
    return (yield from blocking(lambda: _previewed(dependencies_of(graph, config), state.values, preset, settings)))


def _previewed(
    dependencies: Dependencies, values: Mapping[str, Any], preset: Preset | None, settings: dict[str, Any] | None
) -> Preview:
    model = dependencies.fixed_model
    chosen = effective(dependencies.settings, {**({"preset": preset} if preset else {}), **(settings or {})})
    counter = dependencies.counter_for(dependencies.facts.name)
    call = call_on(
        values,
        chosen,
        counter=counter,
        overhead=dependencies.overhead(counter),
        window=(window := window_of_thread(chosen, model, values.get("compaction"))),
        max_tokens=answer_tokens(model, window),
        strategies=dependencies.strategies,
    )
    fixed = dependencies.fixed_parts(counter)
    return previewed(call, messages_in_view(values), dependencies.fallback_chain(chosen)[0], fixed)


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
    """Return settings and sizes for a compaction of this state; `overhead` is the tokens of prompt and tool schemas.

    Raise `SettingsError` if no tokens are left for messages.
    """
    meter = meter_of_thread(values.get("compaction") or {}, counter, overhead)
    system = [message for message in messages_in_view(values) if message.type == "system"]
    fixed = meter.scaled(overhead + total(counter, system))
    recalls = settings.quotes_archive and (values.get("compaction") or {}).get("epoch", 0) > 0
    sizes = sizes_of(settings, window=window, fixed=fixed, max_tokens=max_tokens, recalls=recalls)
    pins = frozenset(pinned_ids(values))
    last = next(iter((values.get("messages") or [])[-1:]), None)
    said = frozenset([str(last.id)] if isinstance(last, AIMessage) else [])  # a compaction keeps the newest answer
    return Call(settings=settings, sizes=sizes, meter=meter, pins=pins, said=said, strategies=strategies)


def previewed(
    call: Call, messages: Sequence[AnyMessage], level: Level, fixed: Mapping[Part, int] | None = None
) -> Preview:
    """Return what a compaction of these messages would do at this level of the fallback chain.

    `fixed` are the parts of `call.meter.overhead`, if they are known.
    """
    chosen, before = call.settings, call.meter.request(messages)
    pins, words = call.pinned_texts(messages), words_beside(call, messages)

    def demanded(texts: Mapping[str, str]) -> Demand:
        return demand(
            call,
            trigger="manual",
            before=before,
            last=False,
            pins=pins,
            key_information=texts,
            extracted=level.is_deterministic,
            words=words,
        )

    proposal = Choosing(call, messages, level, demanded).foreseen()
    found, goal = proposal.chosen, proposal.goal
    usage = partial(
        window_usage,
        sizes=call.sizes,
        counter=call.meter.counter,
        fixed=fixed or {"prompt and tools": call.meter.overhead},
        pins=call.pins,
    )
    now = usage(messages, tokens=before)
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
            usages=(now,),
        )
    summary = needs_summary(chosen, found, goal)
    expected = expected_summary(call, level, messages, goal, found) if summary else 0
    after = found.tokens + expected
    return Preview(
        strategy=strategy(chosen, level, found.name, summary=summary),
        tokens_before=before,
        tokens_selected=found.tokens,
        summary=summary,
        tokens_after_about=after,
        ceiling=found.ceiling,
        floor=found.floor,
        dropped=[messages[index] for index in sorted(found.drop)],
        clipped=[(messages[index], found.clip[index]) for index in sorted(found.clip)],
        usages=(now, usage(found.applied(messages), tokens=after, summary=expected)),
    )
