"""What a person asks for by a run's input: the channel `compaction_request`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph.channels import LastValue
from langgraph.errors import EmptyChannelError
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from .errors import RequestError

REQUEST = "compaction_request"
"""Name of the channel: the same in our graphs, in a parent of theirs, and in LangChain's agent."""

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


def requested(given: Any) -> dict[str, Any] | None:
    """A request as it is kept; `None` is none. Raises `RequestError` for what is no request."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise RequestError(f"{REQUEST}={given!r} is no request: {_NEW_FORM}, or one with {_named(KEYS)}")
    request = dict(cast("Mapping[str, Any]", given))
    if unknown := sorted(request.keys() - set(KEYS)):
        raise RequestError(f"{REQUEST} has the unknown keys {_named(unknown)}: it takes {_named(KEYS)}")
    asked = [name for name in ("undo", "release") if name in request]
    if len(asked) > 1 or (asked and request.keys() & {"focus", "full"}):
        raise RequestError(f"{REQUEST} has {_named(request)}: ask for a compaction, an undo or a release, one a run")
    return request


def _named(names: Any) -> str:
    return ", ".join(map(repr, names))


def refuse_old_form(channel: Mapping[str, Any] | None) -> None:
    """Raise `RequestError` for a request inside the channel `compaction`, where nothing would hear it."""
    if (channel or {}).get("request") is not None:
        raise RequestError(f'a request is no part of "compaction": {_NEW_FORM}')


class RequestChannel(LastValue[Any]):
    """Holds a request until the first check that hears it writes `None`; what is no request raises at once.

    LangGraph's ephemeral channel would lose it where other nodes run before that check.
    """

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take the one request of a step."""
        return super().update([requested(value) for value in values])

    def get(self) -> Any:
        """Return the request."""
        if self.value is None:
            raise EmptyChannelError
        return super().get()

    def is_available(self) -> bool:
        """Say whether there is one."""
        return self.value is not None and super().is_available()
