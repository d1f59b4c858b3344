"""What a thread carries between steps: the messages, and two small channels of ours."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, cast, get_args
from uuid import uuid4

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.graph import MessagesState
from langgraph.types import Overwrite
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from .compaction_request import CompactionRequest, Memory, RequestChannel
from .errors import InvalidMessagesError

STATE_VERSION = 1

EMBEDDED = "langgraph_compaction_embedded"
"""Key of a run's configuration by which `as_node` says that it stands around the compaction graph; its value is the
parent's state, for providers of key information."""

EMBEDDED_IN = "langgraph_compaction_embedded_in"
"""Key of a run's configuration: the namespace of the node that `as_node` made. What runs deeper down inherits both
keys, and is told by it."""

FOCUS_CHARACTERS = 500
"""Most characters of a person's focus: it stands in the channel, which is small."""

Route = Literal["model", "end"]
"""Where a turn goes on when its compaction is over: to the model (pre-check) or to its end (post-check)."""

Step = Literal["model", "tools", "confirm", "selective_compaction", "summarize", "commit", "rollback", "end"]
"""The node that runs next; nodes decide it, routers only read it."""

STEPS = frozenset[str](get_args(Step))


class Usage(TypedDict):
    """The last answer's real usage: an anchor for what came before it, until anything there changes."""

    message_id: str
    fingerprint: str
    tokens: int
    """Input and output tokens as the provider reported them, without reasoning tokens."""
    model: str
    epoch: int
    fixed: int
    """Tokens of prompt and tool schemas at that call: another prompt voids the anchor."""


class Draft(TypedDict):
    """A compaction under way. `messages` is untouched until `commit` has proved it."""

    snapshot_id: str
    base_fingerprint: str
    level: int
    attempt: int
    count: int
    """Messages in the snapshot: what stands behind them has arrived since."""
    strategy: str
    trigger: str
    drop: list[str]
    """Ids of the messages that leave the view."""
    clip: dict[str, AnyMessage]
    """Messages that stay in a shortened form, by id."""
    sections: NotRequired[list[list[str]]]
    """Ids of the parts of what leaves that are summarized each by itself; none: all of it together."""
    summary: AnyMessage | None
    tokens_before: int
    tokens_selected: int
    """Tokens of the request with the draft applied, before there is a summary."""
    opened_at: float
    owner: str
    failure: list[str]
    """Verdict, reason, detail and kind of what went wrong; empty while nothing has."""
    floor: NotRequired[int]
    ceiling: NotRequired[int]
    """Most tokens that the gate lets pass."""
    needed: NotRequired[list[list[str]]]
    """For each required fact, the words that the next request must hold."""
    unrestored: NotRequired[bool]
    """Whether its rollback could not read the snapshot: the next check tries again, whoever owns the draft."""
    key_information: NotRequired[dict[str, str]]
    """Key information that the summary's message will carry, by name."""
    counts: NotRequired[dict[str, int]]
    seen: NotRequired[dict[str, Any]]
    calls: NotRequired[int]
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    model: NotRequired[str | None]


class CompactionChannel(TypedDict, total=False):
    """The small channel that every step may change."""

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
    """Per model: the provider's tokens over our estimate, at least 1.0."""
    streak: int
    """Failed attempts in a row."""
    level: int
    """The level that the next attempt takes."""
    tried: list[list[str]]
    """The last eight `[base digest, strategy]` pairs; a pair is never tried again."""
    cooldown_until: float
    turns: int
    """Inputs so far."""
    turns_at_commit: int
    """The value of `turns` at the last commit, or when a wish or a count of turns last found nothing to compact."""
    in_vain: dict[str, int] | None
    """By unit, how many the view held when a count of them last found nothing to compact; until the next commit."""
    summarize_all: bool
    """Whether this compaction summarizes the whole conversation."""
    max_messages: int | None
    """Most messages in view, where their number fired."""
    calls: int
    """Calls of the model so far."""
    recent: list[int]
    """The value of `calls` at the last commits."""
    ineffective: int
    """Commits in a row after which the provider still reported the trigger or more."""
    unproven: bool
    """Whether the last commit still waits for the provider's usage to prove it."""
    overflows: int
    """Overflows in a row that the provider reported for this request."""
    declined_at: int
    """Tokens at which a person declined; asked again once the conversation has grown by 5 % of the window."""
    warned: bool
    """Whether `warn_ratio` was reached since the last commit."""
    awaiting_choice: int
    """Tokens of the request, all of it counted, when it was found over the limit and a person was to choose how to
    go on; 0: there is no such question."""
    handoff: dict[str, Any] | None
    """The input for a thread that a person chose to open instead, `{"messages", "compaction_request"}`; until the
    next input."""
    marked: str | None
    """The marker that the model wrote, until a check has heard it."""
    marked_alone: bool
    """Whether the turn's last answer was nothing but a marker, and was not kept."""
    last: dict[str, Any]
    """The last attempt's verdict, reason, strategy and figures."""
    learned: dict[str, int]
    """Per model: tokens it accepts, as its own refusal told."""
    pending: dict[str, Any] | None
    """In LangChain's agent, what its calls have compacted and its end has still to write."""
    held: bool
    """Whether an undone compaction keeps automatic ones off in the soft zone, until `release` or a person's wish."""
    head: str | None
    """Id of the last committed compaction: where this state's chain of compactions ends."""


def merge(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Reducer of both channels: the new value's top-level keys replace the old ones."""
    return {**(old or {}), **(new or {})}


class CompactionState(MessagesState):
    """State of a compacting graph; a parent graph inherits it to keep the compaction's memory."""

    compaction: Annotated[CompactionChannel, merge]
    memory: Annotated[Memory, merge]
    compaction_request: Annotated[CompactionRequest | None, RequestChannel]


def compaction_count(state: dict[str, Any]) -> int:
    """How many compactions this thread has committed."""
    return int((state.get("compaction") or {}).get("epoch", 0))


def replace(messages: Sequence[Any]) -> Overwrite:
    """The one way to replace the list of messages: checked, silent in streams, order and ids as given.

    Raises `InvalidMessagesError` for anything that is no message, for a chunk, a missing or a repeated id.
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


def with_ids(messages: Sequence[Any]) -> list[AnyMessage]:
    """Whole messages with an id each of its own; the objects given are left alone.

    What another writer left in a state is mended: dicts and chunks become messages, and a missing id or one
    that an earlier message has is replaced by a fresh one.
    """
    taken: set[str] = set()
    found: list[AnyMessage] = []
    for given in messages:
        message = _whole(given)
        if not message.id or message.id in taken:
            message = message.model_copy(update={"id": str(uuid4())})
        taken.add(cast("str", message.id))
        found.append(message)
    return found


def _whole(given: Any) -> AnyMessage:
    message = given if isinstance(given, BaseMessage) else convert_to_messages([given])[0]
    return cast("AnyMessage", message_chunk_to_message(message))


class EmbeddedState(CompactionState):
    """State of the compaction graph that runs inside a parent."""

    applied: dict[str, Any] | None
    """What this run changed, for the parent's own list: `{drop, clip, summary}`; `None` while nothing."""
