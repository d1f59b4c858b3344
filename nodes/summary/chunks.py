"""Divide the messages to be summarized into chunks of text that the summarizer can read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from ..config.prompts import InputGuard
from ..conversation.message_marks import is_summary
from ..conversation.tokens import TokenCounter, call_texts, media_of, texts_of
from ..conversation.transcript import message_id
from ..digest.digest import digest

MAX_EXTRACTED = 2_000
"""Maximum size, in tokens, of the digest that replaces the characters left out by an `InputGuard`."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive messages as quoted text, and how much of each message was cut."""

    messages: tuple[AnyMessage, ...]
    text: str
    cut: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """For each message that was cut, by id: the number of tokens shown, and its number of tokens. All others are
    shown in full."""


def old_part(messages: Sequence[AnyMessage], drop: frozenset[int]) -> list[AnyMessage]:
    """Return the messages that a summary replaces, in order, without the earlier summaries."""
    return [messages[index] for index in sorted(drop) if not is_summary(messages[index])]


def chunks(
    messages: Sequence[AnyMessage], budget: int, counter: TokenCounter, guard: InputGuard | None = None
) -> list[Chunk]:
    """Divide messages into chunks of at most `budget` tokens, so that the summarizer sees all of them.

    Of a message that alone exceeds the budget, only the beginning, the end and a digest are shown. If the
    conversation has more characters than `guard` allows, the same three parts are shown of the conversation.
    """
    whole = [Chunk((message,), quoted(message)) for message in messages]
    groups: list[list[Chunk]] = []
    size = 0
    for chunk in _guarded(whole, guard, budget, counter) if guard else whole:
        shown = _shown(chunk, budget, counter)
        tokens = counter.text(shown.text) + 1
        if not groups or size + tokens > budget:
            groups.append([])
            size = 0
        groups[-1].append(shown)
        size += tokens
    return [_joined(group) for group in groups]


def _guarded(whole: Sequence[Chunk], guard: InputGuard, budget: int, counter: TokenCounter) -> Sequence[Chunk]:
    """Replace the characters that the guard hides, between beginning and end, with a digest of their messages.

    Characters are counted in the quoted messages joined by line breaks.
    """
    hidden = guard.hidden(sum(len(chunk.text) + 1 for chunk in whole) - 1)
    if not hidden:
        return whole
    before, after, cut, begin = list[Chunk](), list[Chunk](), dict[str, tuple[int, int]](), 0
    partly: list[AnyMessage] = []
    for chunk in whole:
        end = begin + len(chunk.text)
        if end <= hidden.start:
            before.append(chunk)
        elif begin >= hidden.stop:
            after.append(chunk)
        else:
            head, tail = chunk.text[: max(0, hidden.start - begin)], chunk.text[max(0, hidden.stop - begin) :]
            before += [Chunk((), head)] if head else []
            after += [Chunk((), tail)] if tail else []
            partly += chunk.messages
            shown = counter.text(head) + counter.text(tail), counter.text(chunk.text)
            cut.update((message_id(message), shown) for message in chunk.messages)
        begin = end + 1
    found = digest(partly, budget=min(budget // 5, MAX_EXTRACTED), counter=counter).text
    left_out = f"[... {len(hidden)} characters left out; extracted from their messages:\n{found}\n...]"
    return [*before, Chunk(tuple(partly), left_out, cut), *after]


def _shown(chunk: Chunk, budget: int, counter: TokenCounter) -> Chunk:
    tokens = counter.text(chunk.text)
    if tokens <= budget:
        return chunk
    short = _ends(chunk, budget, counter)
    if (left := counter.text(short)) >= tokens:  # the digest would not be shorter than the hidden text
        return chunk
    cut = {message_id(message): (left, tokens) for message in chunk.messages}
    return Chunk(chunk.messages, short, {**cut, **chunk.cut})


def _joined(group: Sequence[Chunk]) -> Chunk:
    return Chunk(
        tuple(message for part in group for message in part.messages),
        "\n".join(part.text for part in group),
        {key: shown for part in group for key, shown in part.cut.items()},
    )


def _ends(chunk: Chunk, budget: int, counter: TokenCounter) -> str:
    """Return the beginning and the end of a quoted message, and between them a digest of the whole message."""
    text = chunk.text
    head, tail = counter.head(text, budget * 2 // 5), counter.head(text[::-1], budget // 5)[::-1]
    found = digest(chunk.messages, budget=budget // 5, counter=counter).text
    return f"{head}\n[... cut; extracted from the whole message:\n{found}\n...]\n{tail}"


def quoted(message: AnyMessage) -> str:
    """Return a message as escaped text in a tag with its role; the text cannot close the tag."""
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    name = f' name="{escape(message.name)}"' if isinstance(message, ToolMessage) and message.name else ""
    lines = [escape(text, quote=False) for text in _spoken(message)]
    if isinstance(message, AIMessage):
        lines += [f"<call>{escape(text, quote=False)}</call>" for text in call_texts(message)]
    return f'<message role="{role}"{name}>\n' + "\n".join(lines) + "\n</message>"


def _spoken(message: AnyMessage) -> list[str]:
    """Return the texts of a message, and the kind of each of its media, such as `[image]`.

    The reasoning of an answer is left out, because it would fill the request.
    """
    texts = [message.text] if isinstance(message, AIMessage) else texts_of(message)
    named = [f"[{one.kind}]" for one in media_of(message) if one.kind != "data"]
    return [*filter(None, texts), *named]
