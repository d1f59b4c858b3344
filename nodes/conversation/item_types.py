"""Give each message a type, a segment and a priority, by which settings decide what may be removed first."""

from typing import TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from .message_marks import marks, with_mark
from .transcript import Transcript, calls_of

M = TypeVar("M", bound=BaseMessage)

TOOL_CALL = "tool_call"
"""The type of an assistant message with tool calls; the message and its results are removed together."""

SKILLS = frozenset({"skill_prompt", "skill_metadata"})


HEADER = frozenset({"system_prompt", "subagent_strategy", "skill_strategy"})
"""Types that belong to the header of a conversation, whatever the role of their messages: what defines the agent."""


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


def without_pin_mark(message: M) -> M:
    """Return the message without the marks that pin it: `pinned`, and a `kind` of the header."""
    mark = {key: value for key, value in marks(message).items() if key != "pinned"}
    if mark.get("kind") in HEADER:
        del mark["kind"]
    return with_mark(message, mark)


def is_skill(message: AnyMessage) -> bool:
    """Whether this is a skill's prompt or description, which the application can supply again."""
    return item_type(message) in SKILLS


def unread(view: Transcript) -> frozenset[int]:
    """Return the indexes of the messages after the last assistant message, which the model has not read yet."""
    answers = [index for index, message in enumerate(view.messages) if isinstance(message, AIMessage)]
    return frozenset(range(answers[-1] + 1 if answers else 0, len(view.messages)))
