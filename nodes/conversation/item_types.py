"""What kind of item each message is, in which segment, and how early it may leave. Read-only."""

from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from ..config.strategy_settings import PRIORITIES
from .message_marks import marks
from .tokens import TokenCounter
from .transcript import Transcript, calls_of, message_id

Segment = Literal["header", "conversation"]
"""System messages, which nothing touches, and everything else, of which items may leave."""

TOOL_CALL = "tool_call"
"""The type of an assistant message with calls: it has no priority of its own and goes with its results."""

SKILLS = frozenset({"skill_prompt", "skill_metadata"})


@dataclass(frozen=True, kw_only=True)
class Item:
    """One message as the rules of types see it."""

    id: str
    type: str
    segment: Segment
    message: AnyMessage
    tokens: int
    priority: int

    @property
    def text(self) -> str:
        """Its text, without calls."""
        return self.message.text


def item_type(message: AnyMessage) -> str:
    """What a message says that it is, else what its role tells."""
    if calls_of(message):
        return TOOL_CALL
    kind = marks(message).get("kind")
    if isinstance(kind, str):
        return kind
    if isinstance(message, SystemMessage):
        return "system_prompt"
    if isinstance(message, ToolMessage):
        return "tool_result"
    return "user_message" if isinstance(message, HumanMessage) else "assistant_message"


def priority_of(kind: str) -> int:
    """How early items of a type leave; calls with their results, types that are not known here last."""
    return PRIORITIES["tool_result"] if kind == TOOL_CALL else PRIORITIES.get(kind, max(PRIORITIES.values()))


def is_skill(message: AnyMessage) -> bool:
    """Whether this is a skill's prompt or description, which its application can give again."""
    return item_type(message) in SKILLS


def unread(view: Transcript) -> frozenset[int]:
    """Indexes behind the last assistant message: the model has not seen them yet."""
    answers = [index for index, message in enumerate(view.messages) if isinstance(message, AIMessage)]
    return frozenset(range(answers[-1] + 1 if answers else 0, len(view.messages)))


def items(view: Transcript, counter: TokenCounter) -> tuple[Item, ...]:
    """Every message of a conversation as an item, in order."""
    return tuple(
        Item(
            id=message_id(message),
            type=(kind := item_type(message)),
            segment="header" if index in view.header else "conversation",
            message=message,
            tokens=counter.message(message),
            priority=priority_of(kind),
        )
        for index, message in enumerate(view.messages)
    )
