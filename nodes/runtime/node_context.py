"""The context of a node: state, sizes of the model's call, keys of the attempt's rows in SQL, and dependencies."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import StreamWriter

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.checkpoint.messages.message_codec import (
    fingerprint,
    fingerprint_all,
)
from langgraph_compaction.checkpoint.telemetry import annotate, span

from ..compaction_request import READ, REQUEST, request_in
from ..config.settings import CompactionOverrides, CompactionSettings, effective
from ..conversation.lengths import outlines
from ..conversation.message_marks import MARK
from ..conversation.request import Meter, placeholder_results, render
from ..conversation.tokens import TokenCounter, total
from ..conversation.transcript import Transcript, system_messages
from ..conversation.view import NO_VIEW, View, changed, read_view, seen
from ..conversation.window_and_reserve import Sizes
from ..events import CompactionMetaEvent, emit
from ..selection.selector import Demand
from ..selection.strategies.registry import check_named
from ..selection.trigger_evaluation import check_own_triggers
from ..state import (
    CompactionChannel,
    CompactionState,
    Counted,
    Draft,
    Route,
    Usage,
    as_mapping,
    merge,
    pinned_ids,
    with_ids,
)
from ..summary.fallback_chain import FallbackChain, Level
from ..summary.key_information import check_known
from ..transitions import check_step
from .dependencies import NO_RECORDS, Dependencies, Model, model_name, window_of
from .effects import Effects, arun, blocking, is_long, querying, run
from .engine import Call, demand, words_beside

T = TypeVar("T")
Update = dict[str, Any]

ATTEMPTS_OF_AN_EPOCH = 10_000
"""Difference between the attempt numbers of two epochs in the keys of rows; no epoch has so many attempts."""
NEW_THREAD = "new_thread"
"""The trigger of an attempt whose result is the beginning of a new thread."""


class NodeContext:
    """The read-only context of one execution of a node; the node returns an update.

    Costly values are computed once: contexts derived from this context share `messages`, `settings` and `model`.
    """

    def __init__(
        self,
        state: CompactionState,
        config: RunnableConfig,
        runtime: Runtime[Any],
        dependencies: Dependencies,
        *,
        messages: list[AnyMessage] | None = None,
        origin: "NodeContext | None" = None,
    ) -> None:
        self.state = state
        self.config = config
        self.runtime = runtime
        self.dependencies = dependencies
        self._messages = messages
        self._origin = origin

    @cached_property
    def conversation(self) -> list[AnyMessage]:
        """What was said: the state's messages, each whole and with a unique id."""
        if (origin := self._origin) and origin.state["messages"] is self.state["messages"]:
            return origin.conversation
        return with_ids(self.state["messages"], derived=True)

    @cached_property
    def messages(self) -> list[AnyMessage]:
        """The messages that the model sees: the conversation in its view."""
        return seen(self.conversation, self.view) if self._messages is None else self._messages

    @cached_property
    def view(self) -> View | None:
        """The channel `compaction_view`; `None` if nothing was compacted."""
        stored = self.state.get("compaction_view")
        if (origin := self._origin) is None:
            return read_view(stored)  # anybody may have written it
        return origin.view if stored is origin.state.get("compaction_view") else stored

    @cached_property
    def compaction(self) -> CompactionChannel:
        """The channel `compaction`; empty on a thread's first turn."""
        return self.state.get("compaction") or {}

    def after(self, update: dict[str, Any], messages: list[AnyMessage] | None = None) -> "NodeContext":
        """Return the context with these keys of the channel `compaction`, and with other messages in view."""
        compaction = merge(dict(self.compaction), update)
        return self._with({"compaction": compaction}, self.messages if messages is None else messages)

    def with_state(self, **channels: Any) -> "NodeContext":
        """Return the context with these channels of the state replaced."""
        return self._with(channels, None if channels.keys() & {"messages", "compaction_view"} else self.messages)

    def with_config(self, config: RunnableConfig) -> "NodeContext":
        """Return the context with this configuration, whose callbacks belong to a run below the node's."""
        return NodeContext(self.state, config, self.runtime, self.dependencies, messages=self.messages, origin=self)

    def with_view(
        self, *, drop: Collection[str] = (), clip: Mapping[str, AnyMessage | None] | None = None
    ) -> "NodeContext":
        """Return the context in whose view these messages are hidden, or shown in another form, by their ids."""
        source = (self.view or NO_VIEW)["source"]
        view = changed(self.conversation, self.view, source=source, drop=drop, clip=clip)
        return self.with_state(compaction_view=view)

    @property
    def given_view(self) -> View | None:
        """The view with which this node began."""
        return self.view if self._origin is None else self._origin.given_view

    def _with(self, update: dict[str, Any], messages: list[AnyMessage] | None) -> "NodeContext":
        state = cast("CompactionState", {**self.state, **update})
        return NodeContext(state, self.config, self.runtime, self.dependencies, messages=messages, origin=self)

    @property
    def pins(self) -> tuple[str, ...]:
        """The ids of messages that are kept verbatim."""
        return tuple(pinned_ids(self.state))

    @property
    def request(self) -> dict[str, Any] | None:
        """The `compaction_request` of this run's input."""
        return cast("dict[str, Any] | None", request_in(self.state))

    @property
    def request_read(self) -> Update:
        """The update that clears a `compaction_request`."""
        return {REQUEST: READ if self.dependencies.embedded or self.namespace else None}

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

    @cached_property
    def settings(self) -> CompactionSettings:
        """The builder's settings with this run's overrides; another type of context is a parent graph's."""
        if self._origin is not None:
            return self._origin.settings
        overrides = self.runtime.context
        if not isinstance(overrides, CompactionOverrides):
            return self.dependencies.settings
        found = effective(self.dependencies.settings, overrides)
        check_named(found.policy.strategies, self.dependencies.strategies)
        check_own_triggers(found, self.dependencies.triggers)
        check_known(found.key_information, self.dependencies.key_information)
        return found

    @property
    def can_ask(self) -> bool:
        """Whether an interrupt can be answered, because a checkpointer keeps the run until the answer."""
        return bool(self.config.get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER))

    @cached_property
    def model(self) -> Model | None:
        """The model of this call."""
        if self._origin is not None:
            return self._origin.model
        return self.dependencies.model_for(self.state, self.runtime)

    @cached_property
    def model_name(self) -> str:
        """The name of the model of this call."""
        return model_name(self.model) if self._origin is None else self._origin.model_name

    @property
    def must_settle(self) -> bool:
        """Whether blocking set-up is pending, such as loading the vocabulary of a new counter."""
        _ = self.counter  # a new counter adds what must be loaded
        return bool(self.dependencies.due)

    @cached_property
    def counter(self) -> TokenCounter:
        """The token counter of the model of this call."""
        origin = self._origin
        return self.dependencies.counter_for(self.model) if origin is None else origin.counter

    @cached_property
    def meter(self) -> Meter:
        """The meter that measures requests: our count times the factor learned from reported usage."""
        scale = (self.compaction.get("calibration") or {}).get(self.model_name, 1.0)
        overhead = self.dependencies.overhead(self.counter) if self._origin is None else self._origin.meter.overhead
        return Meter(self.counter, overhead, scale)

    @cached_property
    def sizes(self) -> Sizes:
        """Window, limit, trigger and aim of the model's call, in tokens."""
        if (origin := self._origin) and self._parts_of_sizes == origin._parts_of_sizes:  # noqa: SLF001 - another context
            return origin.sizes
        window, fixed, recalls = self._parts_of_sizes
        return self.dependencies.sizes_for(self.model, self.settings, window=window, fixed=fixed, recalls=recalls)

    @cached_property
    def _parts_of_sizes(self) -> tuple[int, int, bool]:
        """The model's own window, the tokens of the fixed part, and whether the archive may be quoted."""
        window = window_of(self.settings, self.model)
        window = min(window, (self.compaction.get("learned") or {}).get(self.model_name, window))
        return window, self.meter.scaled(self.meter.overhead + self._system_tokens), self.may_quote_archive

    @cached_property
    def sizes_after_commit(self) -> Sizes:
        """The sizes of the next call after a commit: from then on automatic recall has an archive to quote from."""
        if self.may_quote_archive or not self._quotes_archive:
            return self.sizes
        window, fixed, _ = self._parts_of_sizes
        return self.dependencies.sizes_for(self.model, self.settings, window=window, fixed=fixed, recalls=True)

    @property
    def owns_list(self) -> bool:
        """Whether messages may leave the state: the list is this graph's, which is no node of another one."""
        return self.dependencies.owns_list and not self.namespace

    @property
    def place(self) -> tuple[str | None, str]:
        """The thread and the namespace of this run."""
        return self.thread_id, self.namespace

    @property
    def may_quote_archive(self) -> bool:
        """Whether automatic recall is on and the thread has an archive, because a compaction was committed."""
        return self._quotes_archive and self.epoch > 0

    @property
    def _quotes_archive(self) -> bool:
        return self.settings.quotes_archive and self.thread_id is not None and not self.dependencies.embedded

    @cached_property
    def _system_tokens(self) -> int:
        if (origin := self._origin) and origin.messages is self.messages:
            return origin._system_tokens  # noqa: SLF001 - another context
        return total(self.counter, system_messages(self.messages))

    @cached_property
    def ids(self) -> frozenset[str | None]:
        """The ids of the messages."""
        return frozenset([message.id for message in self.messages])

    @cached_property
    def annotated(self) -> list[AnyMessage]:
        """The messages that have `additional_kwargs`, where marks are."""
        return [message for message in self.messages if message.additional_kwargs]

    @cached_property
    def marked(self) -> list[AnyMessage]:
        """The messages that have marks of this package, whoever wrote the marks."""
        return [message for message in self.annotated if MARK in message.additional_kwargs]

    @cached_property
    def call(self) -> Call:
        """The conditions of the model's call after a compaction, as the engine takes them."""
        return Call(
            settings=self.settings,
            sizes=self.sizes_after_commit,
            meter=self.meter,
            pins=frozenset(self.pins),
            said=frozenset(self._just_said()),
            redaction=self.dependencies.redaction,
            summary_input=self.dependencies.summary_input,
            accept_summary=self.dependencies.accept_summary,
            strategies=self.dependencies.strategies,
            names_handles=self._can_recall,
            fills_window=self.dependencies.fills_window,
        )

    def demand(self, before: int, level: Level, key_information: Mapping[str, str] | None = None) -> Demand:
        """Return the sizes that a compaction at this level must reach if the request has `before` tokens."""
        sizes = demand(
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
            words=0 if level.hides else self._words,
        )
        return replace(sizes, left_out=frozenset(self.compaction.get("failed") or ()))

    @cached_property
    def _words(self) -> int:
        return words_beside(self.call, self.messages)

    def _just_said(self) -> list[str]:
        """Return the answer's id if the turn is over: it counts as pinned, because the caller is about to read it."""
        last = self.messages[-1] if self.messages else None
        is_newest = isinstance(last, AIMessage) and last.id == self.conversation[-1].id  # no hidden command follows
        return [str(last.id)] if last and is_newest and self.compaction.get("route") == "end" else []

    @property
    def _can_recall(self) -> bool:
        """Whether removed messages can be recalled by handles: the run has a thread id and goes on in this thread."""
        here = self.thread_id is not None and self.compaction.get("trigger") != NEW_THREAD
        return here and self.settings.has_recall_tool

    @cached_property
    def fallback_chain(self) -> FallbackChain:
        """The levels that compactions take, one after another, under the settings and with the model of this call."""
        if self._origin is not None:
            return self._origin.fallback_chain
        return self.dependencies.fallback_chain(self.settings, self.state, self.runtime)

    @cached_property
    def size(self) -> int:
        """Tokens of the next request: the usage reported for the last answer plus a count of later messages.

        If that usage no longer holds, for example because the model is another one, all messages are counted.
        """
        if (anchor := self._anchor) is None:
            return self.meter.request(self.messages)
        usage, index = anchor
        return usage["tokens"] + self.meter.scaled(self._since(index))

    @cached_property
    def counted(self) -> Counted:
        """Our own count of the next request: continued from the last answer whose usage still holds, where it can be.

        All is counted if messages before that answer have changed, or if a later result belongs to an earlier call.
        """
        held, index = (None, 0) if self._anchor is None else (self._anchor[0].get("counted"), self._anchor[1])
        since, name = self.messages[index:], self.counter.name
        if held and held["counter"] == name and not Transcript(since).orphans:
            return Counted(counter=name, tokens=held["tokens"] + total(self.counter, render(since)))
        return Counted(counter=name, tokens=self.meter.overhead + total(self.counter, render(self.messages)))

    @cached_property
    def _anchor(self) -> tuple[Usage, int] | None:
        """The reported usage and the index of its answer; `None` if no usage holds for this conversation."""
        usage = self.compaction.get("usage")
        if usage is None or usage["model"] != self.model_name or usage["epoch"] != self.epoch:
            return None
        index = self._answer_index
        if usage["fixed"] != self.meter.overhead or index == len(self.messages):
            return None
        same = fingerprint(self.messages[index]) == usage["fingerprint"] and self.outlines[0] == usage.get("before")
        return (usage, index) if same else None

    @cached_property
    def outlines(self) -> tuple[str, str]:
        """The outline of the messages before the answer whose usage was reported, and that of all messages."""
        return outlines(self.messages, self._answer_index)

    @cached_property
    def _answer_index(self) -> int:
        """The index of the answer whose usage was reported; the number of messages without one."""
        usage, last = self.compaction.get("usage"), len(self.messages)
        if usage is None:
            return last
        return next((at for at in range(last - 1, -1, -1) if self.messages[at].id == usage["message_id"]), last)

    def _since(self, index: int) -> int:
        """Return the tokens of the messages after `index`, with the placeholders for missing tool results."""
        since = self.messages[index:]
        waiting = (stand_in for block in Transcript(since).blocks for stand_in in placeholder_results(since, block))
        return total(self.counter, [*since[1:], *waiting])

    @property
    def epoch(self) -> int:
        """Number of commits on this thread so far."""
        return self.compaction.get("epoch", 0)

    @property
    def turns_since_commit(self) -> int:
        """Inputs since the last compaction, or since a request or a count found nothing to compact."""
        return self.compaction.get("turns", 0) - self.compaction.get("turns_at_commit", 0)

    def calls_since_commit(self, route: Route) -> int:
        """Return the number of the model's calls since then; on the route to the model, the next call counts too."""
        return self._calls_begun(route) - self.compaction.get("calls_at_commit", 0)

    def counted_anew(self) -> dict[str, int]:
        """Return the keys of the channel `compaction` from which turns and calls of the model are counted anew."""
        route = self.compaction.get("route", "model")
        return {"turns_at_commit": self.compaction.get("turns", 0), "calls_at_commit": self._calls_begun(route)}

    def _calls_begun(self, route: Route) -> int:
        return self.compaction.get("calls", 0) + (route == "model")

    @property
    def thread_id(self) -> str | None:
        """The thread id of this run; `None` if the run names no thread."""
        thread = self.config.get("configurable", {}).get("thread_id")
        return None if thread is None else str(thread)

    @property
    def records(self) -> CompactionRecords:
        """Snapshots, ledger and archive; without a thread id `NO_RECORDS`, which keep nothing."""
        return NO_RECORDS if self.thread_id is None else self.dependencies.records

    def query(self, call: Callable[[], T]) -> Effects[T]:
        """Wait for a call that uses `records`; under `arun` the call runs in an OS thread of their database."""
        if self.thread_id is None:
            return call()
        return (yield from querying(self.records, call))

    @property
    def namespace(self) -> str:
        """The checkpoint namespace of this graph within its parents, without task ids, which differ at each turn."""
        path = str(self.config.get("configurable", {}).get("checkpoint_ns") or "").split("|")[:-1]
        return "|".join(part.split(":")[0] for part in path)

    @property
    def checkpoint_id(self) -> str | None:
        """The id of the checkpoint from which this node started."""
        info = self.runtime.execution_info
        return info.checkpoint_id or None if info else None

    @property
    def callbacks(self) -> Any:
        """The callbacks of this run, passed to the summarizer's calls."""
        return self.config.get("callbacks")

    def tell(self, event: CompactionMetaEvent) -> None:
        """Write a `CompactionMetaEvent` about this phase of the attempt if `emit_compaction_meta_events` is set."""
        if self.settings.emit_compaction_meta_events:
            emit(self.writer, event)

    def now(self) -> float:
        """Return the wall clock's time in seconds."""
        return self.dependencies.now()

    def base_fingerprint(self) -> str:
        """Return the fingerprint of the present conversation."""
        return fingerprint_all(cast("list[BaseMessage]", self.messages))

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


Body = Callable[[NodeContext], Effects[Update]]
"""The function of a node: it reads a context and returns an update."""


def executed(name: str, body: Body, context: NodeContext) -> Effects[Update]:
    """Run a node after the blocking functions in `Dependencies.due`, which under `ainvoke` run in a worker OS thread.

    Raises `StepError` if the node stores a step that must not follow this node.
    """
    with span(f"compaction.{name}", {"gen_ai.conversation.id": context.thread_id} if context.thread_id else None):
        if context.must_settle:
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
        return run(self._executed(input, config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Update:  # noqa: A002 - LangChain's name
        """Run the node asynchronously; if the messages are long, its body runs in a worker thread."""
        return await arun(self._executed(input, config), off_loop=is_long(as_mapping(input)["messages"]))

    def _executed(self, given: Any, config: RunnableConfig | None) -> Effects[Update]:
        state = cast("CompactionState", as_mapping(given))  # the class may be a dataclass or a model of pydantic
        context = NodeContext(state, config or ensure_config(), get_runtime(), self.dependencies)
        return executed(cast("str", self.name), self._body, context)

    def dependencies_with(self, _checkpointer: Any) -> Dependencies:
        """Return the dependencies; the builder has already chosen their database by the graph's checkpointer."""
        return self.dependencies
