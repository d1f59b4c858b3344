"""`key_events`: key events stay word for word, the rest becomes a summary."""

from collections.abc import Iterator

from langchain_core.messages import AnyMessage

from ...config.settings import CompactionSettings
from ...conversation.message_marks import is_real_user
from ...conversation.transcript import calls_of
from ..selector import Choice, Demand, Selector
from .importance import leaving
from .keywords import CALLING, DECISION, EXECUTION, PROBLEM, STARTED_OR_DONE, USERS_MARK, said

TELLING = (STARTED_OR_DONE, PROBLEM, CALLING, EXECUTION, USERS_MARK)
"""Words of which one makes a message a key event."""
LONG = 100
"""Characters above which a message with a word of decision is one."""


def key_events(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep what a person said, calls, troubles, decisions and completions, and the newest of the others."""
    messages, settings = selector.view.messages, selector.settings
    key = {index for index in selector.spoken if is_key(messages[index], settings)}
    whole = {i for index in key if (block := selector.view.block_of.get(index)) for i in block.indexes}
    others = [index for index in selector.spoken if index not in key | whole]
    yield from leaving(selector, others, keep=settings.key_events_keep_other)


def is_key(message: AnyMessage, settings: CompactionSettings) -> bool:
    """Whether a message tells of something that happened."""
    if is_real_user(message) or calls_of(message):
        return True
    text, languages = said(message), settings.keyword_languages
    if any(words.within(text, languages) for words in TELLING):
        return True
    return len(message.text) > LONG and DECISION.within(text, languages)
