"""The state of a thread: `messages`, which stay as they were said, and small channels beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Annotated, Any, Literal, NotRequired, TypeGuard, cast, get_args
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.graph import MessagesState
from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from .compaction_request import REQUEST, CompactionRequest, RequestChannel
from .conversation.request import render
from .conversation.request_size import Usage
from .conversation.view import View, movable, read_view, seen
from .errors import EmbeddingError
from .events import Counts

STATE_VERSION = 1

FOCUS_CHARACTERS = 500
"""Maximum number of characters that the state stores of a `focus`, what a person asked the summary to keep."""

Route = Literal["model", "end"]
"""Where a turn goes after a compaction: to the model (checked before the call) or to its end (after the answer)."""

Step = Literal["model", "tools", "confirm", "selective_compaction", "summarize", "commit", "rollback", "end"]
"""The node that runs next. Each node chooses and stores the next step; routers only read the stored step."""

STEPS = frozenset[str](get_args(Step))


class Breaker(TypedDict, total=False):
    """Failed attempts at a compaction: how long to wait, and with which level to go on.

    A commit ends all but `recent`.
    """

    failures: int
    """Number of failed attempts in a row."""
    cooldown_until: float
    level: int
    """Index of the level in the fallback chain that the next attempt takes; the number of levels if the last one has
    failed."""
    levels: str
    """Names of the levels in which `level` is an index; other settings can make another chain."""
    messages: str
    """Beginning of the fingerprint of the messages of the last failed attempt."""
    failed: list[str]
    """Names of the strategies whose summaries failed in a compaction whose next strategy follows in the same turn."""
    seconds_left: float
    """Seconds that are left for summarizers in a compaction whose next level follows in the same turn."""
    recent: list[int]
    """The number of the model's calls at the last commits."""


class Draft(TypedDict):
    """A compaction under way. The view does not change until `commit` has checked the draft."""

    base_fingerprint: str
    level: int
    attempt: int
    count: int
    """Number of messages in the snapshot; all messages after these arrived later."""
    levels: NotRequired[str]
    """Names of the levels of the fallback chain in which `level` is an index."""
    strategy: str
    selected: NotRequired[str]
    """Names of the strategies that led to the choice, joined by `>`."""
    trigger: str
    drop: list[str]
    """Ids of the messages to be removed from the conversation."""
    clip: dict[str, AnyMessage]
    """Shortened forms of messages that are kept, by message id."""
    sections: NotRequired[list[list[str]]]
    """For each part that is summarized separately, the ids of its messages; empty for one summary of everything."""
    summary: AnyMessage | None
    tokens_before: int
    tokens_selected: int
    """Tokens of the request with the draft applied, without the summary."""
    opened_at: float
    seconds_left: NotRequired[float]
    """Seconds that are left for the summarizers of this compaction, at this level and the next ones."""
    owner: str
    failure: list[str]
    """Verdict, reason, detail and kind of the failure; empty if the attempt has not failed."""
    floor: NotRequired[int]
    ceiling: NotRequired[int]
    """Most tokens of a request that the gate accepts as the result."""
    prepared: NotRequired[str]
    """Id of the preparation whose choice and summary the draft uses."""
    key_information: NotRequired[dict[str, str]]
    """Key information that the summary's message will carry, by name."""
    counts: NotRequired[Counts]
    seen: NotRequired[dict[str, Any]]
    window: NotRequired[list[dict[str, Any]]]
    """What filled the window before and, with a commit, after."""
    usage: NotRequired[dict[str, Any]]
    """What the summary took, as `Usage.named` returns it."""
    model: NotRequired[str | None]


class CompactionChannel(TypedDict, total=False):
    """The channel `compaction`: what the nodes know of a thread; every step may change it.

    `goal` and `pins` survive every compaction, and change only at a commit or by the user.
    """

    v: int
    epoch: int
    """Number of commits on this thread: the compaction count."""
    step: Step
    route: Route
    trigger: str
    focus: str | None
    draft: Draft | None
    usage: Usage | None
    calibration: dict[str, float]
    """By model name, the ratio of the provider's token count to our count, at least 1.0."""
    breaker: Breaker
    turns: int
    """Number of inputs so far."""
    turns_at_commit: int
    """The value of `turns` at the last commit, or when a request or a count found nothing to compact."""
    bill: dict[str, Any]
    """What the agent's own calls of its model took so far, as `Usage.named` returns it."""
    in_vain: dict[str, int] | None
    """By unit (such as messages), the count at which its trigger found nothing to compact; cleared at a commit."""
    summarize_all: bool
    """Whether this compaction summarizes the whole conversation."""
    max_messages: int | None
    """Most messages to keep in this compaction, if a count of messages triggered it."""
    calls: int
    """Number of the model's calls so far."""
    calls_at_commit: int
    """The number of the model's calls at the last commit, or when a request or a count found nothing to compact; it
    includes the call that the turn was about to make."""
    sizes: dict[str, int]
    """`trigger` and `limit`, in tokens, at the last commit, for programs that do not know the model, and `fixed`, the
    tokens of system prompt and tool schemas by our count, if there are any. In LangChain's agent also `window`."""
    overflows: int
    """Number of overflows in a row that the provider reported for this request."""
    declined_at: int | None
    """Size of the request, in tokens, when a person declined a compaction. The person is asked again when the request
    has grown by 5 % of the window."""
    warned: bool
    """Whether a `ContextWarningEvent` was written since the last commit."""
    awaiting_choice: int
    """Tokens of the whole request when a person was asked what to do over the limit; 0 without such a question."""
    handoff: dict[str, Any] | None
    """The input for a new thread that a person chose to open instead of compacting, `{"messages",
    "compaction_request"}`; cleared at the next input."""
    marked: str | None
    """The marker in the model's last answer, until `token_check` or the check after the answer reads it."""
    marked_alone: bool
    """Whether the turn's last answer was nothing but a marker and was dropped."""
    last: dict[str, Any]
    """The last attempt's verdict, reason, strategy and figures."""
    learned: dict[str, int]
    """By model name, the tokens that the model accepts, read from the provider's refusal."""
    held: bool
    """Whether automatic compactions are held off in the soft zone after an undo, until `release` or a request to
    compact."""
    checked: str | None
    """Id of the newest message at the last check: pins and system messages behind it are new, and stay if there is
    room for them."""
    head: str | None
    """Id of the last committed compaction of this state."""
    goal: str
    """The beginning of the user's first input."""
    pins: list[str]
    """Ids of messages that are kept verbatim."""
    erasing: str | None
    """Id of a message that `CompactionThread.erase` has not erased everywhere yet."""


def merge(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Reducer of the channel `compaction`: top-level keys of the new value replace the old ones.

    `last` stands first: a person who looks at the state reads there how the last compaction ended.
    """
    merged = {**(old or {}), **(new or {})}
    return {"last": merged["last"], **merged} if "last" in merged else merged


def newer(old: View | None, new: View | None) -> View | None:
    """Reducer of the channel `compaction_view`: a new view replaces the old one."""
    return old if new is None else new


class CompactionChannels(TypedDict):
    """The channels beside `messages`; schemas for people show only the last one, which a person fills in."""

    compaction: Annotated[SkipJsonSchema[CompactionChannel], merge]
    compaction_view: Annotated[SkipJsonSchema[View | None], newer]
    compaction_request: Annotated[CompactionRequest | None, RequestChannel]


class CompactionState(MessagesState, CompactionChannels):
    """State of a compacting graph. A parent graph's state inherits it to keep the channels between runs."""


def compaction_count(state: dict[str, Any]) -> int:
    """Return how many compactions this thread has committed."""
    return int((state.get("compaction") or {}).get("epoch", 0))


def conversation(state: Mapping[str, Any]) -> list[AnyMessage]:
    """Return what was said on a thread: the state's messages, each whole and with an id."""
    return with_ids(state.get("messages") or [], derived=True)


def pinned_ids(state: Mapping[str, Any]) -> list[str]:
    """Return the ids of the messages of a thread that are kept verbatim."""
    return [str(name) for name in (state.get("compaction") or {}).get("pins") or ()]


def stored_view(state: Mapping[str, Any]) -> View | None:
    """Return the view of a thread; `None` if nothing was compacted, or if what somebody has stored is no view."""
    return read_view(state.get("compaction_view"))


CHANNELS = ("compaction", "compaction_view", REQUEST)
"""The channels beside `messages`, as this package's own graphs name them."""


def named(values: Mapping[str, Any], channel: str) -> dict[str, Any]:
    """Return values of a state or an update with the channels named after `channel`, as an agent may ask for."""
    return _renamed(values, "compaction", channel)


def own_names(values: Mapping[str, Any], channel: str) -> dict[str, Any]:
    """Return values of a state whose channels are named after `channel`, by the names that the nodes know."""
    if channel != "compaction":
        values = {key: value for key, value in values.items() if key not in CHANNELS}  # another agent's
    return _renamed(values, channel, "compaction")


def _renamed(values: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    if old == new:
        return dict(values)
    names = {name.replace("compaction", old, 1): name.replace("compaction", new, 1) for name in CHANNELS}
    return {names.get(key, key): value for key, value in values.items()}


def moved(messages: Sequence[AnyMessage], view: View, *, keep: int) -> dict[str, Any]:
    """Return the update by which the oldest hidden messages leave the state, all but `keep`; the archive has them."""
    leaving = movable(messages, view, keep)
    if not leaving:
        return {"compaction_view": view}
    removals = [RemoveMessage(id=name) for name in leaving]
    return {"compaction_view": {**view, "moved": view.get("moved", 0) + len(leaving)}, "messages": removals}


def messages_in_view(state: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the messages that the model sees of a thread in this state, in the order of the conversation.

    The summary is a user message in the place of what is hidden.
    """
    return seen(conversation(state), stored_view(state), pinned_ids(state))


def view(state: Any, *, join_user_messages: bool = False) -> list[AnyMessage]:
    """Return the request for a model that a node of your own graph calls: what the model is to see of `state`.

    `state` is a dictionary, a dataclass or a model of pydantic with the channels of `CompactionState`. The summary is
    a user message in the place of what is hidden; each tool call has its result and each result its call.
    With `join_user_messages` adjacent user messages become one. The state does not change.

    Raises `EmbeddingError` if the state lacks the channel `compaction`.
    """
    known = as_mapping(state)
    if "compaction" not in known:
        raise EmbeddingError(
            "the state has no channel 'compaction', so that the graph would forget its compactions: let its class "
            "inherit CompactionState (class State(CompactionState): ...), and call view(state) after the node of "
            "create_compaction_graph"
        )
    return render(messages_in_view(known), join_user_messages=join_user_messages)


def as_mapping(state: Any) -> Mapping[str, Any]:
    """Return a state by the names of its channels; its class may also be a model of pydantic or a dataclass."""
    if isinstance(state, BaseModel):
        return dict(state)
    return {one.name: getattr(state, one.name) for one in fields(state)} if is_dataclass(state) else state


def with_ids(messages: Sequence[Any], *, derived: bool = False) -> list[AnyMessage]:
    """Return whole messages, each with a unique id; the given objects are not changed.

    Dictionaries and chunks that another writer stored become messages. A missing id, or the id of an
    earlier message, is replaced by a fresh id; with `derived` by one that is derived from the id of the message
    before it, so that a message which the state keeps without an id has the same id whenever the state is read.
    A list that needs none of this is returned itself.
    """
    if isinstance(messages, list) and _are_whole(messages):
        return messages
    whole = [cast("AnyMessage", message_chunk_to_message(given)) for given in convert_to_messages(messages)]
    known, taken = {message.id for message in whole}, set[str]()
    for n, message in enumerate(whole):
        if not message.id or message.id in taken:
            name = _derived_id(whole[n - 1].id if n else None, known) if derived else str(uuid4())
            whole[n] = message.model_copy(update={"id": name})
        taken.add(cast("str", whole[n].id))
    return whole


def _derived_id(before: str | None, known: set[str | None]) -> str:
    name = next(name for number in count(1) if (name := str(uuid5(NAMESPACE_OID, f"{before}/{number}"))) not in known)
    known.add(name)
    return name


def _are_whole(messages: list[Any]) -> TypeGuard[list[AnyMessage]]:
    """Whether all are whole messages with unique ids; the few distinct types are checked instead of each message."""
    if not all(
        issubclass(kind, BaseMessage) and not issubclass(kind, BaseMessageChunk) for kind in {*map(type, messages)}
    ):
        return False
    ids = {message.id for message in messages}
    return len(ids) == len(messages) and ids.isdisjoint(("", None))
