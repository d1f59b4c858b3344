"""What a node reads: values of the state, of the run and of the model's call, and the dependencies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import StreamWriter

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.checkpoint.telemetry import annotate, span

from ..compaction_request import READ, REQUEST
from ..config.settings import CompactionSettings
from ..conversation.request import Meter, meter_of_thread, render
from ..conversation.request_size import RequestSize, size_of
from ..conversation.tokens import TokenCounter, total
from ..conversation.transcript import Transcript, system_messages
from ..conversation.view import NO_VIEW, View, changed, read_view, seen
from ..conversation.window_and_reserve import Sizes
from ..events import Counts, Phase, emit, meta_event
from ..selection.selector import Demand
from ..state import Breaker, CompactionChannel, CompactionState, Draft, as_mapping, pinned_ids, with_ids
from ..summary.fallback_chain import FallbackChain, Level
from ..transitions import check_step
from .dependencies import NO_RECORDS, Dependencies, Model, ModelFacts, window_of
from .effects import Effects, arun, blocking, is_long, querying, run
from .engine import Call, demand, words_beside
from .window_usage import WindowUsage, window_usage

T = TypeVar("T")
Update = dict[str, Any]

_OF_THREAD = frozenset({"thread_id", "checkpoint_id", "checkpoint_map", "checkpoint_ns"})
ATTEMPTS_OF_AN_EPOCH = 10_000
"""Difference between the attempt numbers of two epochs in the keys of rows; no epoch has so many attempts."""
NEW_THREAD = "new_thread"
"""The trigger of an attempt whose result is the beginning of a new thread."""


@dataclass
class Found:
    """What one execution of a node computes once, whatever context it has at that point."""

    chain: FallbackChain | None = None
    sizes: dict[tuple[int, int, bool], Sizes] = field(default_factory=dict[tuple[int, int, bool], Sizes])


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """The values that one execution of a node reads; the node returns an update."""

    state: Mapping[str, Any]
    """The state as the node was given it, also the channels of a graph around this one."""
    conversation: list[AnyMessage]
    """What was said: the state's messages, each whole and with a unique id."""
    view: View | None
    """The channel `compaction_view`; `None` if nothing was compacted."""
    seen: Transcript
    """The messages that the model sees, as rounds and tool blocks."""
    messages: list[AnyMessage]
    """The same messages."""
    compaction: CompactionChannel
    """The channel `compaction`; empty on a thread's first turn."""
    config: RunnableConfig
    runtime: Runtime[Any]
    thread_id: str | None
    """The thread id of this run; `None` if the run names no thread."""
    namespace: str
    """The checkpoint namespace of this graph within its parents, without task ids, which differ at each turn."""
    dependencies: Dependencies
    settings: CompactionSettings
    model: Model | None
    """The model of this call."""
    facts: ModelFacts
    """What the model of this call says of itself."""
    counter: TokenCounter
    """The token counter of the model of this call."""
    found: Found

    @classmethod
    def of(
        cls, given: Mapping[str, Any], config: RunnableConfig, runtime: Runtime[Any], dependencies: Dependencies
    ) -> "NodeContext":
        """Return the context of a node that is given this state; anybody may have written the view in it."""
        state = cast("CompactionState", given)
        known, said = config.get("configurable", {}), with_ids(state["messages"], derived=True)
        thread, path = known.get("thread_id"), str(known.get("checkpoint_ns") or "").split("|")[:-1]
        view = read_view(state.get("compaction_view"))
        settings, messages = dependencies.settings_for(runtime.context), seen(said, view, pinned_ids(state))
        model = dependencies.model_for(state, runtime)
        facts = dependencies.facts_for(model)
        return cls(
            state=given,
            conversation=said,
            view=view,
            seen=Transcript(messages),
            messages=messages,
            compaction=state.get("compaction") or {},
            config=config,
            runtime=runtime,
            thread_id=None if thread is None else str(thread),
            namespace="|".join([part.split(":")[0] for part in path]),
            dependencies=dependencies,
            settings=settings,
            model=model,
            facts=facts,
            counter=dependencies.counter_for(facts.name),
            found=Found(),
        )

    def after(self, update: Mapping[str, Any], messages: list[AnyMessage] | None = None) -> "NodeContext":
        """Return the context with these keys of the channel `compaction`, and with other messages in view."""
        compaction = cast("CompactionChannel", {**self.compaction, **update})
        if messages is None:
            return replace(self, compaction=compaction)
        return replace(self, compaction=compaction, seen=Transcript(messages), messages=messages)

    def seen_in(self, view: View | None) -> list[AnyMessage]:
        """Return the messages that the model sees of the conversation in this view."""
        return seen(self.conversation, view, self.pins)

    def with_view(self, view: View | None) -> "NodeContext":
        """Return the context in which the conversation is seen in this view."""
        messages = self.seen_in(view)
        return replace(self, view=view, seen=Transcript(messages), messages=messages)

    def with_forms(self, clip: Mapping[str, AnyMessage | None]) -> "NodeContext":
        """Return the context in whose view these messages are shown in another form, or hidden, by their ids."""
        source = (self.view or NO_VIEW)["source"]
        return self.with_view(changed(self.conversation, self.view, source=source, clip=clip))

    @cached_property
    def pins(self) -> frozenset[str]:
        """The ids of messages that are kept verbatim."""
        return frozenset(pinned_ids({"compaction": self.compaction}))

    @property
    def values(self) -> dict[str, Any]:
        """The state with the channels as the node has them by now."""
        return {**self.state, "compaction": self.compaction, "compaction_view": self.view}

    @property
    def request_read(self) -> Update:
        """The update that clears a `compaction_request`."""
        return {REQUEST: READ if self.dependencies.embedded or self.namespace else None}

    @property
    def breaker(self) -> Breaker:
        """What the thread has stored about failed attempts."""
        return self.compaction.get("breaker") or {}

    @property
    def draft(self) -> Draft:
        """The open draft; raises `RuntimeError` without one."""
        if (draft := self.compaction.get("draft")) is None:
            raise RuntimeError("no draft is open")
        return draft

    @property
    def writer(self) -> StreamWriter:
        """The writer of the custom stream, which takes events."""
        return self.runtime.stream_writer

    @property
    def saver(self) -> Any:
        """The run's checkpointer, which keeps the thread and lets an interrupt be answered; `None` without one."""
        return self.config.get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER)

    @property
    def configurable(self) -> dict[str, Any]:
        """What the application's config names for its run, without what belongs to the thread and to LangGraph."""
        known = self.config.get("configurable", {})
        return {name: value for name, value in known.items() if name not in _OF_THREAD and not name.startswith("__")}

    @property
    def chain(self) -> FallbackChain:
        """The levels that compactions take, one after another, under the settings and with the model of this call."""
        if (chain := self.found.chain) is None:
            chain = self.found.chain = self.dependencies.fallback_chain(self.settings, self.state, self.runtime)
        return chain

    @cached_property
    def meter(self) -> Meter:
        """The meter that measures requests: our count times the factor learned from reported usage."""
        overhead = self.dependencies.overhead(self.counter)
        if self.dependencies.embedded:  # the graph around this one has the models
            return meter_of_thread(self.compaction, self.counter, overhead)
        scale = (self.compaction.get("calibration") or {}).get(self.facts.name, 1.0)
        return Meter(self.counter, overhead, scale)

    @cached_property
    def sizes(self) -> Sizes:
        """Window, limit, trigger and aim of the model's call, in tokens."""
        return self._sizes(after_commits=self.epoch)

    def _sizes(self, *, after_commits: int) -> Sizes:
        """Return the sizes of a call; automatic recall has an archive to quote from after a commit."""
        window = self.facts.window or self.settings.context_window or window_of(self.settings, self.model)
        window = min(window, (self.compaction.get("learned") or {}).get(self.facts.name, window))
        fixed = self.meter.scaled(self.meter.overhead + total(self.counter, system_messages(self.messages)))
        parts, known = (window, fixed, after_commits > 0 and self.quotes_archive), self.found.sizes
        if parts not in known:
            known[parts] = self.dependencies.sizes_for(
                self.facts, self.settings, window=window, fixed=fixed, recalls=parts[-1]
            )
        return known[parts]

    @property
    def quotes_archive(self) -> bool:
        """Whether requests may quote the archive of this thread."""
        return self.settings.quotes_archive and self.thread_id is not None and not self.dependencies.embedded

    @property
    def owns_list(self) -> bool:
        """Whether messages may leave the state: the list is this graph's, which is no node of another one."""
        return self.dependencies.owns_list and not self.namespace

    @cached_property
    def call(self) -> Call:
        """The conditions of the model's call after a compaction, as the engine takes them."""
        here = self.thread_id is not None and self.compaction.get("trigger") != NEW_THREAD
        return Call(
            settings=self.settings,
            sizes=self._sizes(after_commits=self.epoch + 1),
            meter=self.meter,
            pins=self.pins,
            said=frozenset(self._just_said()),
            redaction=self.dependencies.redaction,
            summary_input=self.dependencies.summary_input,
            accept_summary=self.dependencies.accept_summary,
            prices=self.dependencies.prices,
            strategies=self.dependencies.strategies,
            names_handles=here and self.settings.has_recall_tool,
            fills_window=self.dependencies.fills_window,
        )

    def _just_said(self) -> list[str]:
        """Return the answer's id if the turn is over: it counts as pinned, because the caller is about to read it."""
        last = self.messages[-1] if self.messages else None
        is_newest = isinstance(last, AIMessage) and last.id == self.conversation[-1].id  # no hidden command follows
        return [str(last.id)] if last and is_newest and self.compaction.get("route") == "end" else []

    def demand(
        self,
        before: int,
        level: Level,
        key_information: Mapping[str, str] | None = None,
        *,
        reserves_words: bool = True,
    ) -> Demand:
        """Return the sizes that a compaction at this level must reach if the request has `before` tokens.

        A choice that was made earlier needs no room reserved for the user's own words: they take what is left.
        """
        return demand(
            self.call,
            trigger=self.compaction.get("trigger", "precheck"),
            before=before,
            last=level.hides,
            pins=self.call.pinned_texts(self.messages),
            max_messages=self.compaction.get("max_messages"),
            summarize_all=self.compaction.get("summarize_all", False),
            key_information=key_information,
            answered=self.compaction.get("route") == "end",
            extracted=level.is_deterministic,
            words=self._words if reserves_words and not level.hides else 0,
            left_out=self.breaker.get("failed", ()),
        )

    @cached_property
    def _words(self) -> int:
        return words_beside(self.call, self.messages)

    @cached_property
    def measured(self) -> RequestSize:
        """The size of the next request, as far as the provider has reported it."""
        usage, epoch = self.compaction.get("usage"), self.epoch
        return size_of(self.messages, usage, self.meter, model=self.facts.name, epoch=epoch)

    def usage_of(self, messages: Sequence[AnyMessage], tokens: int, *, summary: int = 0) -> WindowUsage:
        """Return what fills the window in a request of `tokens` tokens with these messages (see `window_usage`)."""
        fixed = self.dependencies.fixed_parts(self.counter)
        return window_usage(
            messages,
            self.sizes,
            tokens=tokens,
            counter=self.counter,
            fixed=fixed,
            pins=self.pins,
            summary=summary,
        )

    @property
    def size(self) -> int:
        """Tokens of the next request: the usage reported for the last answer plus a count of later messages."""
        return self.measured.tokens

    @cached_property
    def epoch(self) -> int:
        """Number of commits on this thread so far."""
        return self.compaction.get("epoch", 0)

    @property
    def records(self) -> CompactionRecords:
        """Snapshots, ledger and archive; without a thread id `NO_RECORDS`, which keep nothing."""
        return NO_RECORDS if self.thread_id is None else self.dependencies.records

    def query(self, call: Callable[[], T]) -> Effects[T]:
        """Wait for a call that uses `records`; under `arun` the call runs in an OS thread of their database."""
        if self.thread_id is None:
            return call()
        return (yield from querying(self.records, call))

    def tell(self, phase: Phase, before: int, after: int, counts: Counts, reason: str) -> None:
        """Write a `CompactionMetaEvent` about this phase of the attempt if `emit_compaction_meta_events` is set."""
        if self.settings.emit_compaction_meta_events:
            emit(self.writer, meta_event(phase, before, after, counts, reason))

    def now(self) -> float:
        """Return the wall clock's time in seconds."""
        return self.dependencies.now()

    def base_fingerprint(self) -> str:
        """Return the fingerprint of the messages in view."""
        return fingerprint_all(self.messages)

    def key(self, base_fingerprint: str, level: int, attempt: int) -> AttemptKey:
        """Return the key of an attempt's rows; `attempt` is a number that `attempt_in_epoch` has returned."""
        return AttemptKey(self.thread_id or "", self.namespace, base_fingerprint, level, attempt)

    def attempt_in_epoch(self, number: int) -> int:
        """Return the number in the keys of an attempt's rows, which is another one after each commit.

        After an undo the conversation is again the one with which the undone attempt began. An attempt that begins
        with it once more is another one: the number of commits, which an undo does not reduce, tells them apart.
        """
        return number + ATTEMPTS_OF_AN_EPOCH * self.epoch

    @property
    def draft_key(self) -> AttemptKey:
        """The key of the open draft's rows."""
        draft = self.draft
        return self.key(draft["base_fingerprint"], draft["level"], draft["attempt"])


def rendered_request(context: NodeContext, quoted: AnyMessage | None = None) -> list[AnyMessage]:
    """Return the request: the system prompt, the conversation with every call and result paired, and `quoted`."""
    messages = [*context.messages, quoted] if quoted else context.messages
    sent = render(messages, join_user_messages=context.settings.join_user_messages)
    return [context.dependencies.system_prompt, *sent] if context.dependencies.system_prompt else sent


Body = Callable[[NodeContext], Effects[Update]]
"""The function of a node: it reads a context and returns an update."""


def executed(name: str, body: Body, context: NodeContext) -> Effects[Update]:
    """Run a node after the blocking functions in `Dependencies.due`, which under `ainvoke` run in a worker OS thread.

    Raises `StepError` if the node stores a step that must not follow this node.
    """
    with span(f"compaction.{name}", {"gen_ai.conversation.id": context.thread_id} if context.thread_id else None):
        if context.dependencies.due:
            yield from blocking(context.dependencies.settle)
        update = yield from body(context)
        check_step(name, update)
        annotate({"compaction.next_step": (update.get("compaction") or {}).get("step")})
        return update


class CompactionNode(Runnable[Any, Any]):
    """A node of a graph: one body for `invoke` and `ainvoke`, and the dependencies of this body.

    LangGraph traces each node by itself, so this class adds no run of its own to a trace.
    """

    def __init__(self, name: str, body: Body, dependencies: Dependencies) -> None:
        self.name = name
        self.dependencies = dependencies
        self._body = body

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002 - LangChain's name
        """Run the node synchronously."""
        return run(self._executed(as_mapping(input), config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002 - LangChain's name
        """Run the node asynchronously; if the messages are long, its body runs in a worker thread."""
        state = as_mapping(input)  # the class may be a dataclass or a model of pydantic
        return await arun(self._executed(state, config), off_loop=is_long(state["messages"]))

    def _executed(self, state: Mapping[str, Any], config: RunnableConfig | None) -> Effects[Update]:
        context = NodeContext.of(state, config or ensure_config(), get_runtime(), self.dependencies)
        return (yield from executed(cast("str", self.name), self._body, context))

    def dependencies_with(self, _checkpointer: Any) -> Dependencies:
        """Return the dependencies; the builder has already chosen their database by the graph's checkpointer."""
        return self.dependencies
