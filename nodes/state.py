"""The state of a thread: `messages` and two small channels, `compaction` and `memory`."""

from collections.abc import Collection, Sequence
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
from langgraph.channels import BinaryOperatorAggregate
from langgraph.graph import MessagesState
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Overwrite
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from .compaction_request import CompactionRequest, Memory, RequestChannel
from .errors import InvalidMessagesError

STATE_VERSION = 1

EMBEDDED = "langgraph_compaction_embedded"
"""Key in a run's configuration under which `as_node` puts the parent's state, for providers of key information."""

EMBEDDED_IN = "langgraph_compaction_embedded_in"
"""Key in a run's configuration under which `as_node` puts the namespace of its node. Graphs nested deeper inherit
both keys; by the namespace a graph sees that the state is not its own parent's."""

FOCUS_CHARACTERS = 500
"""Maximum number of characters that the state stores of a `focus`, what a person asked the summary to keep."""

Route = Literal["model", "end"]
"""Where a turn goes after a compaction: to the model (checked before the call) or to its end (after the answer)."""

Step = Literal["model", "tools", "confirm", "selective_compaction", "summarize", "commit", "rollback", "end"]
"""The node that runs next. Each node chooses and stores the next step; routers only read the stored step."""

STEPS = frozenset[str](get_args(Step))


_OVERWRITE = "__overwrite__"  # LangGraph's name


class Counted(TypedDict):
    """Our own count of a request whose usage was reported, from which the count of a later request continues."""

    counter: str
    """Name of the counter."""
    tokens: int
    """Tokens of the request, without the correction by reported usage."""


class Usage(TypedDict):
    """The usage that the provider reported for the last answer: the size of the conversation up to it.

    It is used to measure later requests as long as nothing before the answer changes.
    """

    message_id: str
    fingerprint: str
    before: str
    """Outline of the messages before the answer."""
    tokens: int
    """Input and output tokens as the provider reported them, without reasoning tokens."""
    model: str
    epoch: int
    fixed: int
    """Tokens of system prompt and tool schemas at that call; if they have changed, the usage no longer holds."""
    counted: NotRequired[Counted]


class Draft(TypedDict):
    """A compaction under way. `messages` does not change until `commit` has checked the draft."""

    snapshot_id: str
    base_fingerprint: str
    level: int
    attempt: int
    count: int
    """Number of messages in the snapshot; all messages after these arrived later."""
    levels: NotRequired[str]
    """Names of the levels of the fallback chain in which `level` is an index."""
    strategy: str
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
    needed: NotRequired[list[list[str]]]
    """For each fact that the summary's message shows, the words that the gate requires in the next request."""
    unrestored: NotRequired[bool]
    """Whether the rollback could not read the snapshot. The next check reads it again, whoever owns the draft."""
    prepared: NotRequired[str]
    """Id of the preparation whose choice and summary the draft uses."""
    key_information: NotRequired[dict[str, str]]
    """Key information that the summary's message will carry, by name."""
    counts: NotRequired[dict[str, int]]
    seen: NotRequired[dict[str, Any]]
    calls: NotRequired[int]
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    model: NotRequired[str | None]


class CompactionChannel(TypedDict, total=False):
    """The channel `compaction`: what the nodes know of a thread; every step may change it."""

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
    streak: int
    """Number of failed attempts in a row."""
    level: int
    """Index of the level in the fallback chain that the next attempt takes."""
    levels: str
    """Names of the levels in which `level` is an index; other settings can make another chain."""
    seconds_left: float | None
    """Seconds that are left for summarizers in a compaction whose next level follows in the same turn."""
    tried: list[list[str]]
    """The last eight pairs `[fingerprint of the messages, strategy]`; a pair is never tried again."""
    cooldown_until: float
    turns: int
    """Number of inputs so far."""
    turns_at_commit: int
    """The value of `turns` at the last commit, or when a request or a count found nothing to compact."""
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
    recent: list[int]
    """The value of `calls` at the last commits."""
    ineffective: int
    """Number of commits in a row after which the provider still reported as many tokens as the trigger or more."""
    sizes: dict[str, int]
    """`trigger` and `limit`, in tokens, at the last commit, for programs that do not know the model, and `fixed`, the
    tokens of system prompt and tool schemas by our count, if there are any. In LangChain's agent also `window`."""
    unproven: bool
    """Whether no usage has been reported since the last commit, so that it is not known yet whether the commit
    helped."""
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
    pending: dict[str, Any] | None
    """In LangChain's agent: the changes of a committed compaction, which `after_agent` writes into `messages` when
    the agent ends."""
    held: bool
    """Whether automatic compactions are held off in the soft zone after an undo, until `release` or a request to
    compact."""
    own_marks: list[str]
    """Fingerprints of the messages of this state whose marks the nodes have written. Other messages with such marks
    come from a client, and lose them."""
    admitted: list[str]
    """Fingerprints of the system messages and pins of this state, which stay as they are. Others are new, and are
    admitted if there is room for them."""
    head: str | None
    """Id of the last committed compaction of this state."""


def merge(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Reducer of the channels `compaction` and `memory`: top-level keys of the new value replace the old ones."""
    return {**(old or {}), **(new or {})}


class MessagesChannel(BinaryOperatorAggregate[Any]):
    """LangGraph's channel `messages`, which also keeps what other nodes write in the step of an `Overwrite`.

    LangGraph drops these other writes, whatever their order. Here the list is replaced first, and the other writes
    are applied to the new list. A removal of a message that the new list does not hold has nothing left to do.
    """

    __slots__ = ()

    def __init__(self, typ: Any, operator: Any = add_messages) -> None:
        super().__init__(typ, operator)

    def update(self, values: Sequence[Any]) -> bool:
        """Apply the writes of one step."""
        whole = [value for value in values if _is_overwrite(value)]
        others = [value for value in values if not _is_overwrite(value)]
        if not whole or not others:
            return super().update(values)
        super().update(whole)
        for value in others:
            held = {message.id for message in cast("list[AnyMessage]", self.value)}
            given: list[Any] = value if isinstance(value, list) else [value]
            super().update([[one for one in given if not _removes_another(one, held)]])
        return True


def _is_overwrite(value: Any) -> bool:
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}  # as JSON of the server holds it
    return isinstance(value, Overwrite) or _OVERWRITE in known or known.get("type") == _OVERWRITE


def _removes_another(message: Any, held: Collection[str | None]) -> bool:
    return isinstance(message, RemoveMessage) and message.id not in {*held, REMOVE_ALL_MESSAGES}


class CompactionState(MessagesState):
    """State of a compacting graph. A parent graph's state inherits it to keep the two channels between runs."""

    messages: Annotated[list[AnyMessage], MessagesChannel]
    compaction: Annotated[CompactionChannel, merge]
    memory: Annotated[Memory, merge]
    compaction_request: Annotated[CompactionRequest | None, RequestChannel]


def compaction_count(state: dict[str, Any]) -> int:
    """Return how many compactions this thread has committed."""
    return int((state.get("compaction") or {}).get("epoch", 0))


def replace(messages: Sequence[Any]) -> Overwrite:
    """Return an update that replaces the list of messages as a whole.

    The update keeps order and ids and is not streamed as new messages. Raises `InvalidMessagesError` for an item that
    is no message or is a chunk, and for a missing or repeated id.
    """
    seen: set[str] = set()
    for position, message in enumerate(messages):
        if not isinstance(message, BaseMessage) or isinstance(message, BaseMessageChunk):
            raise InvalidMessagesError(f"item {position} is a {type(message).__name__}, not a whole message")
        if message.id is None or message.id in seen:
            problem = "no id" if message.id is None else f"the id {message.id!r} of an earlier message"
            raise InvalidMessagesError(f"message {position} has {problem}; every message needs its own")
        seen.add(message.id)
    return Overwrite(list(messages))


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


class EmbeddedState(CompactionState):
    """State of the compaction graph that runs inside a parent."""

    applied: dict[str, Any] | None
    """What this run changed, `{drop, clip, summary}`, which `as_node` applies to the parent's messages; `None` if
    nothing."""
