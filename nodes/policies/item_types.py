"""What kind of item each message is, in which segment, and how early it may leave (S1.8-S1.11). Read-only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from .tokens import TokenCounter
from .transcript import Transcript, calls_of, marks, message_id

Segment = Literal["header", "conversation"]
"""System messages, which nothing touches, and everything else, of which items may leave (S1.8, S1.9)."""

PRIORITIES: Mapping[str, int] = {
    "tool_result": 10,
    "skill_prompt": 20,
    "assistant_message": 30,
    "skill_metadata": 40,
    "user_message": 50,
    "developer_message": 60,
    "system_reminder": 70,
    "offload_placeholder": 75,
    "compaction_summary": 80,
    "skill_strategy": 90,
    "tool_strategy": 93,
    "mcp_tool": 94,
    "subagent_strategy": 95,
    "system_env": 100,
    "git_env": 100,
    "output_style": 100,
    "memory": 100,
    "agent_loop": 100,
    "system_prompt": 100,
}
"""Every type by its name, the mark `kind` of a message (DESIGN §9); the lowest priority leaves first (S1.22)."""

TOOL_CALL = "tool_call"
"""The type of an assistant message with calls: it has no priority of its own and goes with its results (I3)."""

SKILLS = frozenset({"skill_prompt", "skill_metadata"})


@dataclass(frozen=True, kw_only=True)
class Item:
    """One message as the rules of types see it (S1.11)."""

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
    """What a message says that it is, else what its role tells (DESIGN §9)."""
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
