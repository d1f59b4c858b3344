"""Give each message a type, a segment and a priority, by which settings decide what may be removed first."""

from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from ..config.strategy_settings import PRIORITIES
from .message_marks import marks
from .tokens import TokenCounter
from .transcript import Transcript, calls_of, message_id

Segment = Literal["header", "conversation"]
"""Part of the conversation that a message belongs to. `header`: system messages, which are never changed.
`conversation`: every other message."""

TOOL_CALL = "tool_call"
"""The type of an assistant message with tool calls; the message and its results are removed together."""

SKILLS = frozenset({"skill_prompt", "skill_metadata"})


@dataclass(frozen=True, kw_only=True)
class Item:
    """One message with its type, segment, size in tokens, and priority (lower priorities are removed earlier)."""

    id: str
    type: str
    segment: Segment
    message: AnyMessage
    tokens: int
    priority: int

    @property
    def text(self) -> str:
        """The message's text, without tool calls."""
        return self.message.text


def item_type(message: AnyMessage) -> str:
    """Return a message's type: `tool_call`, else the `kind` in its mark, else a type derived from its role."""
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
    """Return the priority of a message type; messages of a lower priority are removed earlier.

    A tool call has the priority of a tool result, and an unknown type has the highest priority.
    """
    return PRIORITIES["tool_result"] if kind == TOOL_CALL else PRIORITIES.get(kind, max(PRIORITIES.values()))


def is_skill(message: AnyMessage) -> bool:
    """Whether this is a skill's prompt or description, which the application can supply again."""
    return item_type(message) in SKILLS


def unread(view: Transcript) -> frozenset[int]:
    """Return the indexes of the messages after the last assistant message, which the model has not read yet."""
    answers = [index for index, message in enumerate(view.messages) if isinstance(message, AIMessage)]
    return frozenset(range(answers[-1] + 1 if answers else 0, len(view.messages)))


def items(view: Transcript, counter: TokenCounter) -> tuple[Item, ...]:
    """Return every message of a conversation as an item, in order."""
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
