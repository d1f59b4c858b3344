"""`key_events`: keep messages about key events verbatim and summarize the others."""

from collections.abc import Iterator

from langchain_core.messages import AnyMessage

from ...conversation.message_marks import is_real_user
from ...conversation.transcript import calls_of
from ..selector import Choice, Demand, Selector
from .importance import drop_unimportant
from .keywords import CALLING, DECISION, EXECUTION, PROBLEM, STARTED_OR_DONE, USERS_MARK, searchable_text

EVENT_WORDS = (STARTED_OR_DONE, PROBLEM, CALLING, EXECUTION, USERS_MARK)
"""A message that contains one of these words is a key event."""
KEEP_OTHER = 5
"""Number of the newest other messages that stay."""
LONG_MESSAGE = 100
"""Number of characters above which a message that contains a word for a decision is a key event."""


def key_events(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep user messages, calls, problems, decisions and completions, and the newest of the other messages."""
    messages = selector.view.messages
    key = {index for index in selector.non_system if is_key(messages[index])}
    whole = {i for index in key if (block := selector.view.block_of.get(index)) for i in block.indexes}
    others = [index for index in selector.non_system if index not in key | whole]
    yield from drop_unimportant(selector, others, keep=KEEP_OTHER)


def is_key(message: AnyMessage) -> bool:
    """Whether a message is a key event."""
    if is_real_user(message) or calls_of(message):
        return True
    text = searchable_text(message)
    if any(words.within(text) for words in EVENT_WORDS):
        return True
    return len(message.text) > LONG_MESSAGE and DECISION.within(text)
