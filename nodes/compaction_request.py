"""The channel `compaction_request`: a person's request to compact or to undo, given with a run's input."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, convert_to_messages
from langgraph.channels import LastValue
from langgraph.errors import EmptyChannelError
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

REQUEST = "compaction_request"
"""Name of the channel in this package's graphs, in a parent graph, and in LangChain's agent."""

NO_REQUEST = "no_request"
"""Value of `reason` in `compaction["last"]` after an invalid request."""

WISHES = frozenset({"manual", "command"})
"""Triggers by which a person asks for a compaction. No further confirmation is needed, the breaker does not delay it,
and if a level fails, the next one is tried at once until one commits, unless the settings leave everything as it is
then."""

CALLS_OPEN = (
    f"tool calls of this thread wait for an answer or a result, so that {REQUEST} was dropped: resume the checkpoint "
    'before this input, whose config get_state_history shows, or ask with "abandon": true'
)
"""The error text for a request that would abandon tool calls."""

_NEW_FORM = (
    'give {"messages": [], "compaction_request": {"undo": "last"}} to undo, or '
    '{"messages": [], "compaction_request": {"focus": "the parcels"}} to compact'
)


class Memory(TypedDict, total=False):
    """What a new thread takes over from another one."""

    goal: str
    """The beginning of the user's first input."""
    pins: list[str]
    """Ids of messages that are kept verbatim."""
    summary: AnyMessage
    """The summary of the other thread, which the model sees first."""


@with_config(ConfigDict(use_attribute_docstrings=True))
class CompactionRequest(TypedDict, total=False):
    """Compact now, undo or redo a compaction, or release the thread after an undo. An empty request compacts now."""

    focus: str | None
    """Compact now, with a summary that keeps above all what this text names."""
    full: bool
    """Compact now, and summarize the whole conversation."""
    undo: str | bool
    """Undo the compaction with this id (or the beginning of it) and all later ones; "last" is the last one."""
    redo: bool
    """Bring back the compactions that the last undo has undone."""
    force: bool
    """Undo even where the result is over the limit."""
    release: bool
    """End the pause of automatic compactions that follows an undo."""
    abandon: bool
    """Do so even if the thread waits, for example for an approval; what it waits for is abandoned."""
    memory: Memory
    """Goal and pins of the thread that this thread continues; `CompactionThread.handoff` returns them. They alone do
    not start a compaction."""


KEYS = tuple(CompactionRequest.__annotations__)


def fault_of(request: Any, channel: Mapping[str, Any], *, calls_open: bool = False) -> str:
    """Return the error text for an invalid or misplaced request; an empty text for a valid request.

    `calls_open` says that tool calls wait, which a request may not abandon unless it says so.
    """
    if channel.get("request") is not None:
        return f'a request is no part of "compaction": {_NEW_FORM}'
    if request is None:
        return ""
    if not isinstance(request, Mapping):
        return f"{REQUEST}={request!r} is no request: {_NEW_FORM}; the keys are {_named(KEYS)}"
    given = cast("Mapping[str, Any]", request)
    if unknown := sorted(given.keys() - set(KEYS)):
        return f"{REQUEST} has the unknown keys {_named(unknown)}: it takes {_named(KEYS)}"
    asked = [name for name in ("undo", "redo", "release") if name in given]
    if len(asked) > 1 or (asked and given.keys() & {"focus", "full"}):
        return f"{REQUEST} has {_named(given)}: ask for a compaction, an undo, a redo or a release, one a run"
    return _fault_of_value(given) or (CALLS_OPEN if calls_open and not given.get("abandon") else "")


def _fault_of_value(given: Mapping[str, Any]) -> str:
    """Return the error text for a value that a key does not take; an empty text if there is none."""
    undo, force = given.get("undo"), given.get("force", False)
    abandon = given.get("abandon", False)
    if "undo" in given and undo is not True and not (isinstance(undo, str) and undo.strip()):
        return f"{REQUEST} has {undo!r} under 'undo': give \"last\" or the id of a compaction"
    for name in ("redo", "release"):
        if name in given and given[name] is not True:
            return f"{REQUEST} has {given[name]!r} under {name!r}: give true, or leave the key out"
    if not isinstance(force, bool) or (force and "undo" not in given):
        return f"{REQUEST} has {force!r} under 'force': give true beside 'undo', or leave the key out"
    if not isinstance(abandon, bool):
        return f"{REQUEST} has {abandon!r} under 'abandon': give true, or leave the key out"
    if "memory" in given and not _is_memory(given["memory"]):
        return f"{REQUEST} has {given['memory']!r} under 'memory': give what CompactionThread.handoff returned there"
    return ""


def _is_memory(value: Any) -> bool:
    """Whether a value has the types of `Memory`; another one would end every later run."""
    if not isinstance(value, Mapping):
        return False
    given = cast("Mapping[str, Any]", value)
    pins, texts = given.get("pins", []), [text for name, text in given.items() if name not in ("pins", "summary")]
    return (
        given.keys() <= Memory.__annotations__.keys()
        and ("summary" not in given or _is_user_message(given["summary"]))
        and isinstance(pins, list)
        and {*map(type, [*pins, *texts])} <= {str}
    )


def _is_user_message(value: Any) -> bool:
    try:
        return not isinstance(value, str) and isinstance(convert_to_messages([value])[0], HumanMessage)
    except (ValueError, TypeError, NotImplementedError, AttributeError):  # what LangChain raises for no message
        return False


def _named(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


READ = {"read": True}
"""What a node of a parent graph writes in place of a request that it has read: the parent gets no `None`."""


def request_in(state: Mapping[str, Any]) -> Any:
    """Return the request in a state that was not read yet; `None` without one."""
    asked = state.get(REQUEST)
    return None if asked == READ else asked


class RequestChannel(LastValue[Any]):
    """A channel that holds a request until the node `token_check` has read it and writes `None`.

    LangGraph's `EphemeralValue` would lose the request if another node runs before `token_check`, or if the run dies.
    """

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Take the last value of a step: nodes that run side by side may all have read the request."""
        return super().update(values[-1:])

    def get(self) -> Any:
        """Return the request."""
        if self.value is None:
            raise EmptyChannelError
        return super().get()

    def is_available(self) -> bool:
        """Return whether there is a request."""
        return self.value is not None and super().is_available()
