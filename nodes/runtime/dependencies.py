"""The dependencies of the nodes: models, counters, the database. A builder makes them once; no state holds them."""

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Lock
from time import time
from typing import Any, Protocol, cast, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.db.workers import on_event_loop

from ..config.settings import CompactionSettings
from ..conversation.redaction import Redaction
from ..conversation.sizes import Sizes, sizes_of
from ..conversation.tokens import ANCHORED, TokenCounter, messages_counter, named_counter
from ..errors import SettingsError, UnknownWindowError
from ..events import log
from ..selection.strategies.registry import BUILT_IN, Strategy, check_named
from ..selection.trigger_evaluation import OwnTrigger, check_own_triggers
from ..summary.fallback_chain import FallbackChain, fallback_chain_of
from ..summary.key_information import BUILT_IN as KEY_INFORMATION
from ..summary.key_information import KeyInformation, check_known
from ..summary.summarizers import Summarizer

Model = Runnable[Any, Any]
ModelSource = Model | Callable[[Any, Any], Model] | None
"""A chat model, or a function of (state, runtime) that chooses one for each call."""


_LOADING = Lock()
"""Held while a tokenizer's vocabulary is read, so that two threads do not both read it."""


def owner() -> str:
    """The owner of an open draft: the name of this host and the number of this process."""
    return f"{socket.gethostname()}/{os.getpid()}"


def core(model: Model) -> Any:
    """The chat model inside bindings such as `model.bind(...)` and `model.with_retry()`."""
    inner: Any = model
    while not isinstance(inner, BaseChatModel) and hasattr(inner, "bound"):
        inner = inner.bound
    return inner


def model_name(model: Model | None) -> str:
    """The provider's name of a model; its class's name where it has none; empty without a model."""
    if model is None:
        return ""
    inner = core(model)
    return str(getattr(inner, "model_name", None) or getattr(inner, "model", None) or type(inner).__name__)


class NoRecords(CompactionRecords):
    """The records of a conversation without a thread: they keep nothing and find nothing."""

    def __init__(self) -> None:
        """Open no database."""

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    begin = note = close = commit = archive = record_summary = abandon_open = _nothing  # type: ignore[assignment] # no count of rows
    snapshot = find_summary = recall = _nothing


NO_RECORDS = NoRecords()


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """All objects that the nodes work with; what is plain data is in the settings."""

    settings: CompactionSettings
    summarizer: Summarizer
    records: CompactionRecords
    model: ModelSource = None
    tools: Sequence[dict[str, Any]] = ()
    """Tool schemas as they are sent to the model."""
    system_prompt: SystemMessage | None = None
    counter: TokenCounter | None = None
    """Counts for every model; `None` chooses the encoding by the model's name."""
    fills_window: bool = False
    """Whether a compacted list may fill the window, because no answer and no further input follow it."""
    embedded: bool = False
    """Whether the graph is meant to run inside a parent, by `as_node`."""
    now: Callable[[], float] = time
    """Wall clock in seconds."""
    owner: Callable[[], str] = owner
    """Returns the owner of a new draft; called each time, because a server may fork after the graph is built."""
    fallbacks: tuple[Summarizer, ...] = ()
    """Summarizers to call where the first one fails, in order."""
    redaction: Redaction | None = None
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: BUILT_IN)
    """Selective strategies that the settings may name."""
    triggers: Mapping[str, OwnTrigger] = field(default_factory=dict[str, OwnTrigger])
    """Triggers of the application's own that the settings may name."""
    ephemeral: Mapping[str, int] = field(default_factory=dict[str, int])
    """By tool, how many of its newest results stay in view; the others leave before each call."""
    key_information: Mapping[str, KeyInformation] = field(default_factory=lambda: KEY_INFORMATION)
    """Providers of key information that the settings may name."""
    counters: dict[str, TokenCounter] = field(default_factory=dict[str, TokenCounter])
    warned: set[tuple[str, str, int]] = field(default_factory=set[tuple[str, str, int]])
    """Warnings about a model's sizes that were logged already, so that each is logged once."""
    due: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    """Blocking set-up to do before a node runs: creating tables, loading a tokenizer, checking sizes."""
    settling: Any = field(default_factory=Lock)
    """The lock that is held during that set-up."""

    def __post_init__(self) -> None:
        check_named(self.settings.strategies, self.strategies)
        check_own_triggers(self.settings, self.triggers)
        check_known(self.settings.key_information, self.key_information)

    def settle(self) -> None:
        """Do the pending blocking set-up. A part that fails stays pending, so the next turn fails the same way."""
        with self.settling:
            while self.due:
                self.due[0]()
                del self.due[0]

    def settle_off_loop(self) -> None:
        """Call `settle`, unless an event loop runs in this thread: then the first turn does, on a worker thread."""
        if not on_event_loop():
            self.settle()

    @cached_property
    def fallback_chain(self) -> FallbackChain:
        """The levels of this graph's compactions."""
        return fallback_chain_of(self.summarizer, self.fallbacks)

    @property
    def fixed_model(self) -> Model | None:
        """The model; `None` where a function chooses it at each call."""
        return self.model if isinstance(self.model, Runnable) else None

    @property
    def has_known_window(self) -> bool:
        """Whether the window is known before a call; a function that chooses the model also determines the window."""
        return self.model is None or self.fixed_model is not None or self.settings.context_window is not None

    def sizes(self) -> Sizes | None:
        """The sizes of every call, without system messages; `None` where the window is known only at each call.

        Raises what `window_of` and `sizes_of` raise.
        """
        model, settings = self.fixed_model, self.settings
        if not self.has_known_window:
            return None
        fixed = self.overhead(self.counter_for(model))
        return self.sizes_for(model, settings, window=window_of(settings, model), fixed=fixed)

    def sizes_for(self, model: Model | None, settings: CompactionSettings, *, window: int, fixed: int) -> Sizes:
        """The sizes of a call of this model; warns once where they differ from what the ratios alone would give.

        Raises what `sizes_of` raises.
        """
        sizes = sizes_of(settings, window=window, fixed=fixed, max_tokens=answer_tokens(model, window))
        if self.fills_window:  # a list is compacted once, whatever the trigger
            return sizes
        if sizes.of_limit:
            self._warn_once("of_limit", model, sizes, _OF_LIMIT, sizes.reserve, window, sizes.limit, sizes.trigger)
        if sizes.raised:
            self._warn_once("raised", model, sizes, _RAISED, fixed, sizes.limit, sizes.room, sizes.trigger)
        return sizes

    def _warn_once(self, about: str, model: Model | None, sizes: Sizes, text: str, *figures: int) -> None:
        key = (about, model_name(model), sizes.limit)
        if key not in self.warned:
            self.warned.add(key)
            log.warning(text, key[1] or "no model", *figures)

    def model_for(self, state: Any, runtime: Any) -> Model | None:
        """The model of this call."""
        if self.model is None or isinstance(self.model, Runnable):
            return self.model
        return self.model(state, runtime)

    def counter_for(self, model: Model | None, settings: CompactionSettings | None = None) -> TokenCounter:
        """The counter for a model under these settings, by default the builder's; one per model, for its cache.

        For a new one, loading its vocabulary becomes pending set-up.
        """
        if self.counter is not None:
            return self.counter
        counted, name = (settings or self.settings).token_counter, model_name(model)
        key = f"{counted}:{name}"
        if key not in self.counters:
            self.counters[key] = named_counter(counted, name)
            self.due.append(partial(loaded, self.counters[key]))
        return self.counters[key]

    def is_anchored(self, settings: CompactionSettings) -> bool:
        """Whether the usage that the provider reports takes the place of a count."""
        return self.counter is not None or settings.token_counter == ANCHORED

    def overhead(self, counter: TokenCounter) -> int:
        """Tokens of the system prompt and the tool schemas."""
        schemas = counter.text(json.dumps(list(self.tools), ensure_ascii=False)) if self.tools else 0
        return schemas + (counter.message(self.system_prompt) if self.system_prompt else 0)


@runtime_checkable
class HasDependencies(Protocol):
    """A node of a compiled graph, or the function inside a node, that tells which dependencies it works with.

    The functions that take a graph, such as `history` and `undo`, find its dependencies by this protocol. The nodes
    of this package's graphs implement it, the node that `as_node` makes, and a hook of `CompactionMiddleware`.
    """

    def dependencies_with(self, checkpointer: Any) -> Dependencies:
        """Return the dependencies in a graph that is compiled with this checkpointer (`None`: without one)."""
        ...


_OF_LIMIT = (
    "%s: max_tokens or output_reserve keeps %d of %d tokens free for the answer, more than 5 %% of the window. "
    "Ratios are taken of the limit, %d, and a compaction starts at %d. A smaller max_tokens leaves more for the "
    "conversation"
)
_RAISED = (
    "%s: system prompt, system messages and tool schemas take %d of %d tokens. The trigger's ratio (trigger_ratio) "
    "is taken of the %d that are left, and a compaction starts at %d"
)


def window_of(settings: CompactionSettings, model: Model | None) -> int:
    """Tokens the model accepts: the setting, else the profile's `max_input_tokens` (never an output limit).

    Where neither says, the fallback of the settings. Raises `UnknownWindowError` where there is none.
    """
    if settings.context_window is not None:
        return settings.context_window
    window = _told_window(model) or settings.fallback_window
    if not window:
        raise UnknownWindowError(
            f"no context window is known for {model_name(model) or 'a graph without a model'}: "
            "set CompactionSettings(context_window=...) to the tokens that the model accepts"
        )
    return int(window)


def _told_window(model: Model | None) -> int | None:
    """The `max_input_tokens` of the model's profile."""
    profile = getattr(core(model), "profile", None) if model is not None else None
    return profile.get("max_input_tokens") if profile else None


INPUT_LIMITS: Mapping[str, int] = {"gpt-5": 272_000}
"""By the beginning of a model's name: the `max_input_tokens` of its profile that limits the input alone.

A profile does not say whether `max_input_tokens` is the whole window (gpt-4o: 128,000 with the answer) or the input
alone (gpt-5: 272,000, and 128,000 more for the answer). So these models are named here. The rule holds only where
name and figure both match: a profile with another figure, such as the whole window of 400,000, is read as a window.
"""


def answer_tokens(model: Model | None, window: int) -> int | None:
    """Tokens of the window that the model's answer takes: its own `max_tokens`, where that is set; else `None`.

    0 where the window is a limit of the input alone (see `INPUT_LIMITS`).
    """
    if model is None:
        return None
    limits = [limit for known, limit in INPUT_LIMITS.items() if model_name(model).startswith(known)]
    if window in limits and window == _told_window(model):
        return 0
    value = getattr(core(model), "max_tokens", None)
    return value if isinstance(value, int) and value > 0 else None


def loaded(counter: TokenCounter) -> None:
    """Make a counter load its vocabulary from disk, by a first count."""
    with _LOADING:
        counter.text("")


def counter_of(given: Any) -> TokenCounter | None:
    """The counter that a builder's `token_counter` means: an object of the protocol, or a function on messages."""
    if given is None:
        return None
    if all(hasattr(given, name) for name in ("text", "message", "head", "name")):
        return cast("TokenCounter", given)
    if callable(given):
        return messages_counter(cast("Callable[[list[Any]], int]", given))
    raise SettingsError(
        f"token_counter={given!r} is no counter: give a function on a list of messages, as trim_messages "
        "takes it, or an object with name, text, message and head"
    )


def redaction_of(given: Redaction | Callable[[str], str] | None) -> Redaction | None:
    """The redaction that a builder's `redact` means: a function alone applies to all but archive and snapshots."""
    return given if given is None or isinstance(given, Redaction) else Redaction(hook=given)
