"""The lengths of messages: what a pass over a long conversation can read of each message without reading its text."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from langchain_core.messages import BaseMessage

from .transcript import is_assistant

_MESSAGE_CHARS = 100
"""Number of characters that a message counts at least, because each message takes some work."""
_MOST_VALUES = 100_000
"""Number of values inside of a message's blocks or arguments that are read."""


def length_of(message: Any) -> int:
    """Return about how many characters a message has; an equal message always has the same length."""
    content = getattr(message, "content", "")
    length = _MESSAGE_CHARS + (len(content) if isinstance(content, str) else characters_in(content))
    if is_assistant(message) and (message.tool_calls or message.invalid_tool_calls):
        length += sum(characters_in(call["args"]) for call in (*message.tool_calls, *message.invalid_tool_calls))
    return length


def outlines(messages: Sequence[BaseMessage], index: int) -> tuple[str, str]:
    """Return a hash of the ids and lengths of the messages before `index`, and one of those of all messages.

    A hash is another one where a message was added, moved, or rewritten to another length.
    """
    lines = [f"{message.id}:{length_of(message)}," for message in messages]
    hashed = blake2b("".join(lines[:index]).encode(errors="surrogatepass"), digest_size=8)
    before = hashed.hexdigest()
    hashed.update("".join(lines[index:]).encode(errors="surrogatepass"))
    return before, hashed.hexdigest()


def characters_in(value: Any) -> int:
    """Return the number of characters in a text, or in the texts and other values inside of blocks or arguments."""
    length, values = 0, [value]
    for _ in range(_MOST_VALUES):
        if not values:
            break
        one = values.pop()
        if isinstance(one, str):
            length += len(one)
        elif isinstance(one, Mapping):
            values += one.values()
        elif isinstance(one, list):
            values += one
        elif one is not None:
            length += len(str(one)) if isinstance(one, int | float) else _MESSAGE_CHARS
    return length
