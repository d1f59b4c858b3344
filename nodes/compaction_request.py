"""What a person asks for by a run's input: the channel `compaction_request`."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from langgraph.channels import LastValue
from langgraph.errors import EmptyChannelError
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

REQUEST = "compaction_request"
"""Name of the channel: the same in our graphs, in a parent of theirs, and in LangChain's agent."""

NO_REQUEST = "no_request"
"""The reason in `compaction["last"]` where a request was none."""

WISHES = frozenset({"manual", "command"})
"""Triggers that are a person's wish: nothing is asked or deferred, and the levels run on until one commits."""

_NEW_FORM = 'give {"messages": [], "compaction_request": {"focus": "the parcels"}}'


class Memory(TypedDict, total=False):
    """What outlives every compaction; changes only at a commit or by the user."""

    goal: str
    """The beginning of the first thing that the user asked for."""
    goal_handle: str
    """Its handle: where the archive has the whole of it."""
    pins: list[str]
    """Ids of messages that are kept verbatim."""


@with_config(ConfigDict(use_attribute_docstrings=True))
class CompactionRequest(TypedDict, total=False):
    """Compact now, take a compaction back, or release the thread after that. An empty request compacts now."""

    focus: str | None
    """Compact now, and keep this above all."""
    full: bool
    """Compact now, and summarize the whole conversation."""
    undo: str | bool
    """Take back the compaction with this id; "last" for the last one."""
    force: bool
    """With `undo`: even where the result is over the limit."""
    release: bool
    """After an undo: compact by itself again."""
    memory: Memory
    """Goal and pins of the thread that this one goes on from; see `handoff`. It asks for nothing by itself."""


KEYS = tuple(CompactionRequest.__annotations__)


def fault_of(request: Any, channel: Mapping[str, Any]) -> str:
    """What is wrong with a run's request, or with one inside the channel `compaction`; empty where nothing is."""
    if channel.get("request") is not None:
        return f'a request is no part of "compaction": {_NEW_FORM}'
    if request is None:
        return ""
    if not isinstance(request, Mapping):
        return f"{REQUEST}={request!r} is no request: {_NEW_FORM}, or one with {_named(KEYS)}"
    given = cast("Mapping[str, Any]", request)
    if unknown := sorted(given.keys() - set(KEYS)):
        return f"{REQUEST} has the unknown keys {_named(unknown)}: it takes {_named(KEYS)}"
    asked = [name for name in ("undo", "release") if name in given]
    if len(asked) > 1 or (asked and given.keys() & {"focus", "full"}):
        return f"{REQUEST} has {_named(given)}: ask for a compaction, an undo or a release, one a run"
    return ""


def _named(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


class RequestChannel(LastValue[Any]):
    """Holds a request until the first check that hears it writes `None`.

    LangGraph's ephemeral channel would lose it where other nodes run before that check, and a run that dies.
    """

    __slots__ = ()

    def get(self) -> Any:
        """Return the request."""
        if self.value is None:
            raise EmptyChannelError
        return super().get()

    def is_available(self) -> bool:
        """Say whether there is one."""
        return self.value is not None and super().is_available()
