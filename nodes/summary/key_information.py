"""Key information: texts added to every summary's message, whatever the summarizer wrote.

The first half holds the providers, built in or given by an application. The second half orders the texts, cuts them
to a budget and renders them as quotations.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, cast, runtime_checkable

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore, SearchItem

from langgraph_compaction.checkpoint.patterns import Pattern

from ..config.base_model import nearest
from ..config.settings import CompactionSettings
from ..conversation.message_marks import is_real_user, is_summary, marks
from ..conversation.tokens import TokenCounter
from ..errors import SettingsError

SHARE = 0.1
"""Share of the room that key information may take, not counting the pinned texts."""
ORDER = ("goal", "pins", "memories", "git_diff", "tasks")
"""The order of the built-in key information in a message; the application's own follows, in the setting's order."""

BEFORE_SUMMARY = frozenset({"goal", "pins", "memories"})
"""The key information that stands before the summary, the goal first; all other texts follow the summary."""

TITLES: Mapping[str, str] = {
    "goal": "What the user asked for at the beginning; it holds throughout:",
    "memories": "Recent memories, for reference:",
    "git_diff": "Changes in the repository, for reference:",
    "tasks": "Tasks and how far they are, for reference:",
}

MIN_CUT = 8
"""Minimum number of tokens kept of a text that is cut; if fewer tokens fit, the text is left out."""

_PLACES = (
    *("--show-toplevel", "--absolute-git-dir"),
    *("--path-format=absolute", "--git-path", "objects", "--show-object-format"),
)
_STATISTICS = ("--stat", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
_CONFIG = "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = {}\n"

_UNPRINTABLE = Pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_GOAL, _GOAL_END = f'{TITLES["goal"]}\n<key name="goal">\n', "\n</key>"

CollectedText = str | None | Awaitable[str | None]
"""The type of `collect`'s result: a text, `None` for no information, or an awaitable of a text or `None`."""


@dataclass(frozen=True, kw_only=True)
class KeyContext:
    """What a provider of key information can read about the thread and the run."""

    state: Mapping[str, Any]
    """The graph's state; inside a parent graph, also the parent's channels."""
    config: RunnableConfig
    settings: CompactionSettings
    store: BaseStore | None = None
    goal: str = ""
    """The user's first input."""


@runtime_checkable
class KeyInformation(Protocol):
    """Provides one text for the summary's message at each compaction.

    If it raises or exceeds its time, its text is left out and a `KeyInformationEvent` says so.
    """

    @property
    def name(self) -> str:
        """The name that the setting `key_information` lists to switch this provider on."""
        ...

    def collect(self, context: KeyContext, /) -> CollectedText:
        """Return the text for the summary's message. A function runs in an OS thread; a coroutine is awaited."""
        ...


@dataclass(frozen=True)
class Memories:
    """The newest memories of a LangGraph `Store`."""

    namespace: tuple[str, ...] = ("memories",)
    """The namespace in the store; `{name}` is replaced by `config["configurable"][name]`."""
    keep: int = 10
    """Number of the newest memories that are shown."""
    looked_at: int = 1_000
    """Number of memories read to find the newest memories: not every store returns the newest first."""
    name: str = "memories"

    def collect(self, context: KeyContext) -> str:
        """Return one line for each memory, the newest last."""
        if context.store is None:
            return ""
        known = context.config.get("configurable", {})
        place = tuple(part.format_map(known) for part in self.namespace)
        found = sorted(context.store.search(place, limit=self.looked_at), key=lambda item: item.updated_at)
        return "\n".join(f"- {_remembered(item)}" for item in found[-self.keep :])


def _remembered(item: SearchItem) -> str:
    """Return a memory on one line: the text under a usual key such as `content`, else the whole value."""
    value = next((item.value[key] for key in ("content", "text", "memory", "data") if key in item.value), item.value)
    return " ".join(str(value).split())


@dataclass(frozen=True)
class Tasks:
    """The task list in a channel of the state, as langchain's `TodoListMiddleware` writes it."""

    channel: str = "todos"
    """The channel; it holds a list of `{"content": text, "status": text}`."""
    name: str = "tasks"

    def collect(self, context: KeyContext) -> str:
        """Return the number of tasks in each status, then one line for each task."""
        tasks = cast("Sequence[Mapping[str, Any]]", context.state.get(self.channel) or ())
        states = Counter(str(task.get("status", "pending")) for task in tasks)
        counted = ", ".join(f"{count} {status}" for status, count in states.items())
        lines = [f"- [{task.get('status', 'pending')}] {task.get('content', '')}" for task in tasks]
        return "\n".join([f"{len(tasks)} tasks: {counted}", *lines]) if tasks else ""


@dataclass(frozen=True)
class GitDiff:
    """`git diff --stat` of a repository's working tree.

    A tool of the agent may write the repository's configuration, which can name commands: filters, hooks, a
    file-system monitor, remotes. So no configuration of git is read for the comparison.
    """

    repository: str | os.PathLike[str] | None = None
    """A folder of the repository; with `None` the provider returns no text."""
    since: str = "HEAD"
    """The commit that the working tree is compared with."""
    timeout_s: float = 3.0
    name: str = "git_diff"

    def collect(self, context: KeyContext) -> str:  # noqa: ARG002 - the protocol passes it
        """Return the statistics; raise if git fails, or if one of its three calls takes longer than `timeout_s`."""
        if self.repository is None:
            return ""
        tree, folder, objects, kind = self._git({}, "rev-parse", *_PLACES).splitlines()
        commit = self._git({}, "rev-parse", "--verify", "--end-of-options", self.since)
        with TemporaryDirectory() as common:
            Path(common, "refs").mkdir()
            Path(common, "config").write_text(_CONFIG.format(kind), encoding="ascii")
            places = {"GIT_COMMON_DIR": common, "GIT_DIR": folder, "GIT_WORK_TREE": tree}
            places |= {"GIT_OBJECT_DIRECTORY": objects, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
            return self._git(places, "diff", *_STATISTICS, commit, "--")

    def _git(self, places: Mapping[str, str], *arguments: str) -> str:
        """Run a command of git that may neither fetch nor write, and takes nothing else from `GIT_` variables."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(  # noqa: S603 - no shell, and no argument that a model or a tool has written
            ["git", "--no-pager", "-C", os.fspath(cast("str", self.repository)), *arguments],  # noqa: S607 - found in PATH
            env={**own, **places, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0"},
            check=True,
            capture_output=True,
            timeout=self.timeout_s,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.decode(errors="replace").strip("\n")


@dataclass(frozen=True)
class _FunctionProvider:
    """A provider made from a function."""

    name: str
    collect: Callable[[KeyContext], CollectedText]


_PROVIDERS: Sequence[KeyInformation] = (
    _FunctionProvider("goal", lambda context: context.goal),
    _FunctionProvider("pins", lambda _: None),  # names a place: the summary's message has the pins anyway
    Memories(),
    Tasks(),
    GitDiff(),
)
BUILT_IN: Mapping[str, KeyInformation] = {provider.name: provider for provider in _PROVIDERS}
"""The built-in providers, which the settings can name without passing a provider to the builder."""

KeyInformationArgument = (
    Sequence[KeyInformation] | Mapping[str, KeyInformation | Callable[[KeyContext], CollectedText]] | None
)
"""What a builder takes: a list of providers, or providers and functions by name."""


def providers_of(given: KeyInformationArgument) -> dict[str, KeyInformation]:
    """Return all providers by name; a given provider replaces the built-in provider of its name.

    For example, `GitDiff(repository)` replaces the built-in `GitDiff()`. Raises `SettingsError` for an object that
    is no provider.
    """
    if isinstance(given, Mapping):
        named: Mapping[str, Any] = given
        own: list[Any] = [_FunctionProvider(name, getattr(value, "collect", value)) for name, value in named.items()]
    else:
        own = list(given or ())
    for provider in own:
        if not isinstance(provider, KeyInformation) or not callable(provider.collect):
            raise SettingsError(
                f"key_information holds {provider!r}: give objects with `name` and `collect(context)`, or a mapping "
                "of names to functions of the context"
            )
    return {**BUILT_IN, **{provider.name: provider for provider in own}}


def check_known(names: Sequence[str], known: Mapping[str, KeyInformation]) -> None:
    """Raise `SettingsError` for a listed name that no provider has; the error suggests the nearest name."""
    for name in names:
        if name not in known:
            raise SettingsError(
                f"no provider of key information is named {name!r}: {nearest(name, known)}; pass "
                "your own to the builder as extensions=Extensions(key_information=[...])"
            )


def key_share(settings: CompactionSettings, room: int) -> int:
    """Return how many of `room` tokens key information may take, not counting the pinned texts."""
    wanted = any(name != "pins" for name in settings.key_information)
    return int(room * SHARE) if wanted else 0


def ordered(names: Iterable[str]) -> list[str]:
    """Return the names, without repetitions, in the order of their texts in a message."""
    given = list(dict.fromkeys(names))
    return sorted(given, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def blocks(key: Mapping[str, str], pinned: str) -> tuple[str, str]:
    """Return the texts before and after the summary; the rendered pins, `pinned`, stand where `pins` is named."""
    parts = {name: pinned if name == "pins" else section(name, text) for name, text in key.items()}
    before = [part for name, part in parts.items() if part and name in BEFORE_SUMMARY]
    after = [part for name, part in parts.items() if part and name not in BEFORE_SUMMARY]
    return "\n".join(before), "\n".join(after)


def section(name: str, text: str) -> str:
    """Return a text as a labeled quotation, escaped so that the text cannot close the quotation."""
    title = TITLES.get(name, "Further information, for reference:")
    return f'{title}\n<key name="{name}">\n{escape(_UNPRINTABLE.sub(" ", text), quote=False)}\n</key>'


def fitted(texts: Mapping[str, str], budget: int, counter: TokenCounter) -> dict[str, str]:
    """Return the texts, cut so that their sections hold at most `budget` tokens together; earlier texts come first.

    A text that does not fit is cut and marked with a note. It takes more than half of the remaining budget only if
    the texts after it need less than the other half. `pins` is kept as an empty text that marks a position.
    """
    sizes = {name: counter.text(section(name, text)) for name, text in texts.items() if name != "pins"}
    kept, waiting = dict[str, str](), sum(sizes.values())
    for name, text in texts.items():
        if name == "pins":
            kept[name] = ""
            continue
        waiting -= sizes[name]
        if not text.strip():
            continue
        limit = max(budget // 2, budget - waiting)
        shown = text if sizes[name] <= limit else _cut(name, text, limit, counter)
        if shown:
            kept[name] = shown
            budget -= counter.text(section(name, shown))
    return kept


def _cut(name: str, text: str, limit: int, counter: TokenCounter) -> str:
    """Return the beginning of a text and a note whose section has at most `limit` tokens; empty if nothing fits."""
    note = f"[... cut; {counter.text(text)} tokens in all]"
    room = limit - counter.text(section(name, note))
    while room >= MIN_CUT:
        short = f"{counter.head(text, room).rstrip()}\n{note}"
        if counter.text(section(name, short)) <= limit:
            return short
        room = room * 3 // 4  # escaping made the text longer
    return ""


def original_request(messages: Sequence[AnyMessage]) -> str:
    """Return the user's first input, from an earlier summary if one holds the input, else the first user message."""
    for message in messages:
        if is_summary(message):
            front = message.text[: marks(message).get("front", 0)]
            goal, end, _ = front.removeprefix(_GOAL).partition(_GOAL_END)
            if front.startswith(_GOAL) and end:
                return unescape(goal)
    return next((message.text for message in messages if is_real_user(message)), "")
