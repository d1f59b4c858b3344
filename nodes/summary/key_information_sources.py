"""Key information that stays beside every summary: who tells it, built in or an application's own."""

import os
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore, SearchItem

from ..config.base_model import hint
from ..config.settings import CompactionSettings
from ..errors import SettingsError

Told = str | None | Awaitable[str | None]
"""Text, or nothing to tell; a coroutine function may find it."""


@dataclass(frozen=True, kw_only=True)
class KeyContext:
    """What a provider may look at."""

    state: Mapping[str, Any]
    """The graph's state; inside a parent, with the parent's channels."""
    config: RunnableConfig
    settings: CompactionSettings
    store: BaseStore | None = None
    goal: str = ""
    """What the user asked for first."""


@runtime_checkable
class KeyInformation(Protocol):
    """Tells one piece of key information at each compaction. May raise or stall: it is then left out."""

    @property
    def name(self) -> str:
        """The name by which the setting `key_information` switches it on."""
        ...

    def collect(self, context: KeyContext) -> Told:
        """The text that stands beside the summary; runs on a thread of its own unless it is a coroutine function."""
        ...


@dataclass(frozen=True)
class Goal:
    """The first run's user input."""

    name: str = "goal"

    def collect(self, context: KeyContext) -> str:
        """The whole of it, where it is still known."""
        return context.goal


@dataclass(frozen=True)
class Pins:
    """The place of the pinned texts, which the summary carries in any case."""

    name: str = "pins"

    def collect(self, context: KeyContext) -> None:
        """Nothing more than the summary carries."""


@dataclass(frozen=True)
class Memories:
    """The newest memories of a LangGraph `Store`."""

    namespace: tuple[str, ...] = ("memories",)
    """Where they are; `{name}` stands for `config["configurable"][name]`."""
    looked_at: int = 1_000
    """Memories of which the newest are chosen: not every store returns the newest first."""
    name: str = "memories"

    def collect(self, context: KeyContext) -> str:
        """One line each, the newest last."""
        if context.store is None:
            return ""
        known = context.config.get("configurable", {})
        place = tuple(part.format_map(known) for part in self.namespace)
        found = sorted(context.store.search(place, limit=self.looked_at), key=lambda item: item.updated_at)
        return "\n".join(
            f"- {_remembered(item)}" for item in found[-context.settings.key_information_memories_keep :]
        )


def _remembered(item: SearchItem) -> str:
    """A memory on one line: its text where it has one under a usual key, else all of it."""
    value = next((item.value[key] for key in ("content", "text", "memory", "data") if key in item.value), item.value)
    return " ".join(str(value).split())


@dataclass(frozen=True)
class Tasks:
    """A list of tasks that a state channel holds, such as langchain's `TodoListMiddleware` writes."""

    channel: str = "todos"
    """A channel with a list of `{"content": text, "status": text}`."""
    name: str = "tasks"

    def collect(self, context: KeyContext) -> str:
        """How many tasks there are in each status, then a line each."""
        tasks = cast("Sequence[Mapping[str, Any]]", context.state.get(self.channel) or ())
        states = Counter(str(task.get("status", "pending")) for task in tasks)
        counted = ", ".join(f"{count} {status}" for status, count in states.items())
        lines = [f"- [{task.get('status', 'pending')}] {task.get('content', '')}" for task in tasks]
        return "\n".join([f"{len(tasks)} tasks: {counted}", *lines]) if tasks else ""


@dataclass(frozen=True)
class GitDiff:
    """`git diff --stat` of a repository's working tree."""

    repository: str | os.PathLike[str] | None = None
    """A folder of it; without one there is nothing to tell."""
    since: str = "HEAD"
    """The commit that the working tree is compared with."""
    timeout_s: float = 3.0
    name: str = "git_diff"

    def collect(self, context: KeyContext) -> str:  # noqa: ARG002 - the protocol's
        """The statistics; raises where git fails or takes longer than `timeout_s`."""
        if self.repository is None:
            return ""
        command = ["git", "-C", os.fspath(self.repository), "diff", "--stat", "--no-ext-diff", "--no-textconv"]
        command += ["--no-color", "--end-of-options", self.since, "--"]
        done = subprocess.run(  # noqa: S603 - no shell, and no argument that a model or a tool has written
            command, check=True, capture_output=True, timeout=self.timeout_s, stdin=subprocess.DEVNULL
        )
        return done.stdout.decode(errors="replace").strip("\n")


@dataclass(frozen=True)
class _Own:
    """A function of the application as a provider."""

    name: str
    collect: Callable[[KeyContext], Told]


BUILT_IN: Mapping[str, KeyInformation] = {
    provider.name: provider for provider in (Goal(), Pins(), Memories(), Tasks(), GitDiff())
}
"""What settings may name without anything given to a builder."""

Given = Sequence[KeyInformation] | Mapping[str, KeyInformation | Callable[[KeyContext], Told]] | None
"""A builder's `key_information`: objects of the protocol, or objects and functions by name."""


def providers_of(given: Given) -> dict[str, KeyInformation]:
    """All providers by name; one given under a built-in's name stands in for it, as `GitDiff(repository)` does.

    Raises `SettingsError` for what is no provider.
    """
    if isinstance(given, Mapping):
        told: Mapping[str, Any] = given
        own: list[Any] = [_Own(name, getattr(tell, "collect", tell)) for name, tell in told.items()]
    else:
        own = list(given or ())
    for provider in own:
        if not isinstance(provider, KeyInformation) or not callable(provider.collect):
            raise SettingsError(
                f"key_information holds {provider!r}: give objects with `name` and `collect(context)`, or functions "
                "of the context by name"
            )
    return {**BUILT_IN, **{provider.name: provider for provider in own}}


def check_known(names: Sequence[str], known: Mapping[str, KeyInformation]) -> None:
    """Raise `SettingsError` for a name of `key_information` that nobody provides, with the nearest one."""
    for name in names:
        if name not in known:
            raise SettingsError(
                f"nobody provides the key information {name!r}: {hint(name, known)}; pass "
                "your own to the builder as key_information=[...]"
            )
