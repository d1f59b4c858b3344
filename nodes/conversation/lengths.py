"""The lengths of messages: what a pass over a long conversation can read of each message without reading its text."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from .transcript import ASSISTANT, is_assistant

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


def outlines(messages: Sequence[Any], index: int) -> tuple[str, str]:
    """Return a hash of the ids and lengths of the messages before `index`, and one of those of all messages.

    A hash is another one where a message was added, moved, or rewritten to another length.
    """
    # most messages are a plain text, whose length needs no call of a function
    calls = [ASSISTANT[type(one)] and (one.tool_calls or one.invalid_tool_calls) for one in messages]
    plain = [type(one.content) is str and not has for one, has in zip(messages, calls, strict=True)]
    both = zip(messages, plain, strict=True)
    lengths = [_MESSAGE_CHARS + len(one.content) if short else length_of(one) for one, short in both]
    lines = [f"{message.id}:{length}," for message, length in zip(messages, lengths, strict=True)]
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
            length += len(_number(one)) if isinstance(one, int | float) else _MESSAGE_CHARS
    return length


def _number(value: float) -> str:
    """Return a number as every client writes it: JavaScript returns 1.0 as 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
