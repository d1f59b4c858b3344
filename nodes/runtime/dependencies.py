"""The dependencies of the nodes: models, counters, the database. A builder makes them once, outside the state."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Lock
from time import time
from typing import Any, NamedTuple, cast

from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.db.owner import owner
from langgraph_compaction.checkpoint.db.workers import on_event_loop

from ..config.prices import PRICES, Price
from ..config.settings import CompactionOverrides, CompactionSettings, effective
from ..conversation.redaction import Redaction
from ..conversation.tokens import (
    TokenCounter,
    messages_counter,
    tiktoken_counter,
    total,
)
from ..conversation.window_and_reserve import Sizes, sizes_of
from ..errors import SettingsError, UnknownWindowError
from ..events import log
from ..selection.strategies.registry import BUILT_IN, Strategy, check_named
from ..selection.trigger_evaluation import OwnTrigger, check_own_triggers
from ..summary.bindings import core, with_bindings
from ..summary.fallback_chain import FallbackChain, fallback_chain_of
from ..summary.key_information import BUILT_IN as KEY_INFORMATION
from ..summary.key_information import KeyInformation, check_known
from ..summary.summarizers import AcceptSummary, DigestSummarizer, RunnableSummarizer, Summarizer, summarizer_of
from .window_usage import Part

Model = Runnable[Any, Any]
ModelSource = Model | Callable[[Any, Any], Model] | None
"""A chat model, or a function of (state, runtime) that chooses one for each call."""


_LOADING = Lock()
"""Lock held while a tokenizer's vocabulary is read, so that two OS threads do not read it at once."""


_FORCED = frozenset({"tool_choice", "response_format", "function_call"})
"""Keyword arguments of a model's call that say what it has to answer with."""

TOOL_ARGUMENTS = frozenset({"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"})
"""Keyword arguments of a model's call that `bind_tools` binds."""


def with_tools(model: Model, tools: Sequence[Any]) -> Model:
    """Return the model with these tools in place of tools bound before, and with all its other bindings.

    The tools are bound inside arguments, retries and fallbacks: `bind_tools` of a binding would drop the binding.
    """
    return _rebound(model, lambda inner: _bind_tools(inner, tools), frozenset({"tools"}))


def _bind_tools(model: Any, tools: Sequence[Any]) -> Model:
    bound: Model = model.bind_tools(tools) if hasattr(model, "bind_tools") else model
    return bound


def without_tools(model: Model) -> Model:
    """Return the model without the tools that are bound to it or to its fallbacks, and with its other bindings."""
    return _rebound(model, lambda inner: inner, TOOL_ARGUMENTS)


def _rebound(model: Model, change: Callable[[Model], Model], dropped: frozenset[str]) -> Model:
    """Return the model with the chat model inside its bindings changed, and without these bound arguments."""
    if isinstance(model, RunnableWithFallbacks):
        first, *others = (_rebound(one, change, dropped) for one in model.runnables)
        return model.model_copy(update={"runnable": first, "fallbacks": others})
    if not isinstance(model, RunnableBindingBase):
        return change(model)
    kept = {name: value for name, value in model.kwargs.items() if name not in dropped}
    return model.model_copy(update={"bound": _rebound(model.bound, change, dropped), "kwargs": kept})


def own_summarizer(model: Model | None, agent_model: Model | None = None) -> Summarizer:
    """Return the summarizer that calls the agent's own model; the digest without a model, and for a stand-in.

    `agent_model` is the same model as the agent calls it, unless it has to call a tool or to fill in a form.
    A stand-in, such as a model that replays a recording, has the attribute `writes_summaries` with the value false.
    """
    if model is None or not getattr(core(model), "writes_summaries", True):
        return DigestSummarizer()
    bindings = [binding for *outer, _ in with_bindings(agent_model) for binding in outer]
    free = all(_FORCED.isdisjoint(getattr(binding, "kwargs", ())) for binding in bindings)
    return RunnableSummarizer(without_tools(model), is_graph=False, agent_model=agent_model if free else None)


def given_summarizer(given: Any) -> Summarizer:
    """Return the summarizer for a builder's `summarizer=`, with what its profile says if it is a chat model."""
    summarizer = summarizer_of(given)
    if not isinstance(summarizer, RunnableSummarizer) or not (window := told_window(summarizer.runnable)):
        return summarizer
    answer = answer_tokens(summarizer.runnable, window) or 0
    return replace(summarizer, max_input_tokens=max(0, window - answer))


def model_name(model: Model | None) -> str:
    """Return the provider's name of a model, or else the name of the model's class; empty without a model."""
    if model is None:
        return ""
    inner = core(model)
    return str(getattr(inner, "model_name", None) or getattr(inner, "model", None) or type(inner).__name__)


class NoRecords(CompactionRecords):
    """The records of a conversation without a thread id, which keep nothing and find nothing."""

    def __init__(self) -> None:
        """Open no database."""

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    begin = note = close = commit = archive = record_summary = abandon_open = _nothing  # type: ignore[assignment] # no count of rows
    snapshot = find_summary = recall = _nothing


NO_RECORDS = NoRecords()


class ModelFacts(NamedTuple):
    """What a model says of itself."""

    name: str
    window: int | None
    """Tokens that it accepts (`told_window`)."""
    answer: int | None
    """Tokens of that window which its answer takes (`answer_tokens`)."""
    other_answer: int | None
    """Tokens of another window which its answer takes: a smaller one, or one that it does not tell."""


def told_by(model: Model | None) -> ModelFacts:
    """Return what a model says of itself."""
    window, other = told_window(model), answer_tokens(model, 0)
    own = answer_tokens(model, window) if window and window in INPUT_LIMITS.values() else other
    return ModelFacts(model_name(model), window, own, other)


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """All objects that the nodes work with; plain data are in the settings."""

    settings: CompactionSettings
    records: CompactionRecords
    summarizer: Summarizer | None = None
    """The application's summarizer; `None` if `writer` or the policy says who writes."""
    writer: str | None = None
    """Who writes summaries, "model" or "digest"; `None` if the policy says it."""
    model: ModelSource = None
    summary_model: ModelSource = None
    """The model without the agent's tools, which writes summaries."""
    agent_model: ModelSource = None
    """The model with its tools, as the agent calls it; `None` if the agent's requests are not known here."""
    tools: Sequence[dict[str, Any]] = ()
    """Tool schemas as they are sent to the model."""
    system_prompt: SystemMessage | None = None
    added: Sequence[AnyMessage] = ()
    """Messages that an application adds to each request, but not to the conversation."""
    counter: TokenCounter | None = None
    """Token counter for every model; `None` chooses the encoding by the model's name."""
    fills_window: bool = False
    """Whether the result may be as large as the window, because no model answers it (`compact_messages`)."""
    embedded: bool = False
    """Whether the graph was built to run inside a parent graph."""
    owns_list: bool = False
    """Whether the state's messages belong to this graph, so that the hidden ones may move to the archive."""
    check_saver: Callable[[Any], None] | None = None
    """Function that raises `SettingsError` for a parent's checkpointer whose threads would outlive the records."""
    channel: str = "compaction"
    """Name of the channel `compaction` in the state, with which those of the view and of requests begin."""
    now: Callable[[], float] = time
    """Wall clock in seconds."""
    owner: Callable[[], str] = owner
    """Function that returns the owner of a new draft, called for each draft because a server can fork."""
    summary_input: int | None = None
    """Most tokens of a conversation that a summarizer is shown in one call; `None`: the models' windows decide."""
    fallbacks: tuple[Summarizer, ...] = ()
    """Summarizers to call, in order, if the first one fails."""
    redaction: Redaction | None = None
    accept_summary: AcceptSummary | None = None
    """The application's check of a model's summary."""
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: BUILT_IN)
    """Selective strategies that the settings may name."""
    prices: Mapping[str, Price] = field(default_factory=lambda: PRICES)
    """What models cost, by the beginnings of their names."""
    triggers: Mapping[str, OwnTrigger] = field(default_factory=dict[str, OwnTrigger])
    """The application's own triggers, which the settings may name."""
    ephemeral: Mapping[str, int] = field(default_factory=dict[str, int])
    """By tool, how many of its newest results are kept; older results are removed before each call of the model."""
    key_information: Mapping[str, KeyInformation] = field(default_factory=lambda: KEY_INFORMATION)
    """Providers of key information that the settings may name."""
    counters: dict[str, TokenCounter] = field(default_factory=dict[str, TokenCounter])
    warned: set[Hashable] = field(default_factory=set[Hashable])
    """What was already warned of (`warn_once`)."""
    compacted: set[tuple[str | None, str]] = field(default_factory=set[tuple[str | None, str]])
    """Threads and namespaces whose view a graph around this one is to keep, to warn if it has not kept it."""
    due: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    """Functions that block, still to be called before a node runs: they create tables, load a tokenizer and check
    sizes."""
    settling: Any = field(default_factory=Lock)
    """Lock held while the functions in `due` are called, so that two turns do not call them at once."""

    def __post_init__(self) -> None:
        check_named(self.settings.policy.strategies, self.strategies)
        check_own_triggers(self.settings, self.triggers)
        check_known(self.settings.key_information, self.key_information)

    def settle(self) -> None:
        """Call the functions in `due`. One that raises stays there, so the next turn calls it again."""
        with self.settling:
            while self.due:
                self.due[0]()
                del self.due[0]

    def settle_off_loop(self) -> None:
        """Call `settle`, unless an event loop runs in this OS thread: then the first turn calls it in another."""
        if not on_event_loop():
            self.settle()

    def fallback_chain(self, settings: CompactionSettings, state: Any = None, runtime: Any = None) -> FallbackChain:
        """Return the levels of a compaction in the order in which they are tried.

        `state` and `runtime` are those of a call of the model. Without them, a function that chooses the model is not
        called, and the levels are those of a graph without a model.
        """
        if self.summarizer is not None:
            return fallback_chain_of(self.summarizer, self.fallbacks)
        source, model = self.summary_model, None
        by_model = (self.writer or settings.policy.summarizer) == "model"
        if by_model and (isinstance(source, Runnable) or state is not None):
            model = _chosen(source, state, runtime)
        own = _chosen(self.agent_model, state, runtime) if model is not None else None
        return fallback_chain_of(own_summarizer(model, own), self.fallbacks)

    @property
    def fixed_model(self) -> Model | None:
        """The model; `None` if a function chooses the model at each call."""
        return self.model if isinstance(self.model, Runnable) else None

    @property
    def has_known_window(self) -> bool:
        """Whether the window is known before a call: not if a function chooses the model, and with it the window."""
        return self.model is None or self.fixed_model is not None or self.settings.context_window is not None

    def sizes(self, compaction: Mapping[str, Any] | None = None) -> Sizes | None:
        """Return the sizes of a call without system messages; `None` if a function chooses each call's model.

        `compaction` is the channel of a thread, whose model may accept less than it says. Raises what `window_of` and
        `sizes_of` raise.
        """
        model, settings = self.fixed_model, self.settings
        if not self.has_known_window:
            return None
        fixed = self.overhead(self.counter_for(self.facts.name))
        window = window_of_thread(settings, model, compaction)
        return self.sizes_for(self.facts, settings, window=window, fixed=fixed)

    @cached_property
    def facts(self) -> ModelFacts:
        """What the model says of itself; of a model that a function chooses at each call, nothing is known."""
        return told_by(self.fixed_model)

    def facts_for(self, model: Model | None) -> ModelFacts:
        """Return what the model of a call says of itself."""
        return self.facts if model is self.model else told_by(model)

    def sizes_for(
        self, facts: ModelFacts, settings: CompactionSettings, *, window: int, fixed: int, recalls: bool = False
    ) -> Sizes:
        """Return the sizes of a call of a model, of which `window` tokens are used.

        Warn once if the sizes differ from what the ratios alone would give. Raises what `sizes_of` raises.
        """
        most = facts.answer if window == facts.window else facts.other_answer
        sizes = sizes_of(settings, window=window, fixed=fixed, max_tokens=most, recalls=recalls)
        if self.fills_window:  # `compact_messages` uses no trigger to warn about
            return sizes
        wanted = settings.context_window
        if wanted and wanted > window and wanted != settings.policy.shared({}).get("context_window"):
            self._warn_of_sizes("capped", facts, sizes, _CAPPED, wanted, window)
        if sizes.of_limit:
            figures = sizes.reserve, sizes.window, sizes.limit, sizes.trigger
            self._warn_of_sizes("of_limit", facts, sizes, _OF_LIMIT, *figures)
        if sizes.raised:
            self._warn_of_sizes("raised", facts, sizes, _RAISED, fixed, sizes.limit, sizes.room, sizes.trigger)
        return sizes

    def _warn_of_sizes(self, about: str, facts: ModelFacts, sizes: Sizes, text: str, *figures: int) -> None:
        self.warn_once((about, facts.name, sizes.limit), text, facts.name or "no model", *figures)

    def warn_once(self, about: Hashable, text: str, *figures: Any) -> None:
        """Log a warning, unless one about the same was logged in this process before."""
        if about not in self.warned:
            self.warned.add(about)
            log.warning(text, *figures)

    def settings_for(self, overrides: Any) -> CompactionSettings:
        """Return the builder's settings with a run's overrides; another type of context is a parent graph's."""
        if not isinstance(overrides, CompactionOverrides):
            return self.settings
        changed = replace(self, settings=effective(self.settings, overrides))  # which checks the names anew
        return changed.settings

    def model_for(self, state: Any, runtime: Any) -> Model | None:
        """Return the model of this call."""
        return _chosen(self.model, state, runtime)

    def counter_for(self, name: str) -> TokenCounter:
        """Return the counter for the model of this name: the application's, or else one for each model.

        If the counter is new, loading its vocabulary is added to `due`.
        """
        if self.counter is not None:
            return self.counter
        if name not in self.counters:
            self.counters[name] = tiktoken_counter(name)
            self.due.append(partial(loaded, self.counters[name]))
        return self.counters[name]

    def overhead(self, counter: TokenCounter) -> int:
        """Return the tokens of system prompt, tool schemas, and messages that are added to each request."""
        return sum(self.fixed_parts(counter).values())

    def fixed_parts(self, counter: TokenCounter) -> dict[Part, int]:
        """Return the tokens that each request holds beside the conversation, by their part of the window."""
        schemas = counter.text(json.dumps(list(self.tools), ensure_ascii=False)) if self.tools else 0
        prompt = counter.message(self.system_prompt) if self.system_prompt else 0
        return {"system prompt": prompt + total(counter, self.added), "tools": schemas}


def _chosen(source: ModelSource, state: Any, runtime: Any) -> Model | None:
    return source if source is None or isinstance(source, Runnable) else source(state, runtime)


_CAPPED = (
    "%s: context_window is %d, but the model accepts %d tokens, and the smaller number counts. If the model accepts "
    "more than its profile says, give it profile={'max_input_tokens': ...}"
)
_OF_LIMIT = (
    "%s: max_tokens or output_reserve keeps %d of %d tokens free for the answer. Ratios are taken of the limit, %d, "
    "and a compaction starts at %d. A smaller max_tokens leaves more for the conversation"
)
_RAISED = (
    "%s: system prompt, system messages and tool schemas take %d of %d tokens. So that the conversation has at least "
    "target_ratio of the %d that are left, a compaction starts at %d, later than trigger_ratio alone says"
)


def window_of(settings: CompactionSettings, model: Model | None) -> int:
    """Return the tokens that a model accepts: its profile's `max_input_tokens`, else the setting `context_window`.

    Raise `UnknownWindowError` if neither is known.
    """
    window = told_window(model) or settings.context_window
    if not window:
        raise UnknownWindowError(
            f"no context window is known for {model_name(model) or 'a model before its first call'}: "
            "set CompactionSettings(context_window=...) to the tokens that the model accepts"
        )
    return int(window)


def window_of_thread(settings: CompactionSettings, model: Model | None, compaction: Mapping[str, Any] | None) -> int:
    """Return `window_of`, at most what the provider has said when it refused a request of this thread.

    If it is not known, return the window at the last commit of the thread. `compaction` is the thread's channel. In
    LangChain's agent, the model is not known before its first call in a process.
    """
    learned: Mapping[str, int] = (compaction or {}).get("learned") or {}
    try:
        window = window_of(settings, model)
        return min(window, learned.get(model_name(model), window))
    except UnknownWindowError:
        if stored := ((compaction or {}).get("sizes") or {}).get("window"):
            return int(stored)
        raise


def told_window(model: Model | None) -> int | None:
    """Return the `max_input_tokens` of the model's profile; `None` if the profile does not say.

    Of a model with fallbacks it is the least that their profiles say, because a request must fit each of them.
    """
    profiles = (getattr(inner, "profile", None) for *_, inner in with_bindings(model))
    told = (profile.get("max_input_tokens") for profile in profiles if profile)
    return min(filter(None, told), default=None)


INPUT_LIMITS: Mapping[str, int] = {"gpt-5": 272_000}
"""By the beginning of a model's name, the `max_input_tokens` in its profile that limits the input alone.

A profile does not say whether `max_input_tokens` is the whole window (gpt-4o: 128,000 with the answer) or the input
alone (gpt-5: 272,000, and 128,000 more for the answer). So these models are named here. The rule holds only where
name and figure both match: a profile with another figure, such as the whole window of 400,000, is read as a window.
"""


ANSWER_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names by which providers call the largest number of tokens of an answer: the arguments of a call and the fields."""


def answer_tokens(model: Model | None, window: int) -> int | None:
    """Return the tokens of the window that the model's answer takes: the model's `max_tokens`; `None` if not set.

    An argument that is bound to the model, as by `model.bind(max_tokens=...)`, replaces the model's own; of several
    bindings the outermost counts, and of a model and its fallbacks the largest. Return 0 if the window limits the
    input alone (see `INPUT_LIMITS`).
    """
    told = [_answer_tokens(bindings, inner, window) for *bindings, inner in with_bindings(model)]
    most = max((tokens for tokens in told if tokens is not None), default=None)
    return None if most == 0 and None in told else most


def _answer_tokens(bindings: Sequence[Any], inner: Any, window: int) -> int | None:
    limits = [limit for known, limit in INPUT_LIMITS.items() if model_name(inner).startswith(known)]
    if window in limits and window == told_window(inner):
        return 0
    for binding in bindings:
        if bound := [binding.kwargs[name] for name in ANSWER_LIMITS if name in getattr(binding, "kwargs", {})]:
            return _positive(bound[0])
    return next(filter(None, (_positive(getattr(inner, name, None)) for name in ANSWER_LIMITS)), None)


def _positive(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def loaded(counter: TokenCounter) -> None:
    """Make a first count, so that the counter loads its vocabulary from disk."""
    with _LOADING:
        counter.text("")


def counter_of(given: Any) -> TokenCounter | None:
    """Return the counter for a builder's `token_counter`, a function on messages."""
    if given is None or isinstance(given, TokenCounter):
        return given
    if callable(given):
        return messages_counter(cast("Callable[[list[Any]], int]", given))
    raise SettingsError(
        f"token_counter={given!r} is no counter: give a function on a list of messages, as trim_messages takes it"
    )


def redaction_of(given: Redaction | Callable[[str], str] | None) -> Redaction | None:
    """Return the redaction for a builder's `redact`; a bare function does not apply to archive and snapshots."""
    return given if given is None or isinstance(given, Redaction) else Redaction(hook=given)
