"""Read the texts that a user pins with `<Pin>`, and release them: a pinned text stays verbatim in every summary."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, MULTILINE, Pattern

from ..text.quoting import between_tags, split_code
from .message_marks import is_real_user, is_summary, marks, with_mark
from .tokens import TokenCounter, texts_of

_QUOTATION = Pattern(r"^[^\S\n]*+>[^\n]*+|`[^`\n]*+`", MULTILINE)
_TAG = Pattern("<pin>", IGNORE_CASE)


def pinned_texts(messages: Sequence[AnyMessage], most: int, counter: TokenCounter) -> tuple[str, ...]:
    """Return the texts that a user pinned with `<Pin>`, oldest first, without repetitions, in at most `most` tokens.

    Pins come from tags in real user messages, outside code and quotations, and from earlier summaries. What stands
    between the tags is pinned as it was written, code and quotations included. A text that does not fit into the
    remaining tokens is skipped.
    """
    kept: list[str] = []
    for text in dict.fromkeys(text for message in messages for text in pins_in(message)):
        size = counter.text(text)
        if size <= most:
            kept.append(text)
            most -= size
    return tuple(kept)


def pins_in(message: AnyMessage) -> list[str]:
    """Return the texts that a user message pins with `<Pin>`, or the pinned texts that a summary took over."""
    if is_summary(message):
        return [str(text) for text in marks(message).get("pins", ())]
    if not is_real_user(message):
        return []
    released = marks(message).get("unpinned", ())
    return [text for found in _tagged(message, to_end=True) if (text := found.strip()) and text not in released]


def leaves_pin_open(message: AnyMessage) -> bool:
    """Whether a user message pins its rest by a `<Pin>` without `</Pin>`."""
    if not is_real_user(message):
        return False
    closed, pinned = _tagged(message, to_end=False), _tagged(message, to_end=True)
    return any(text.strip() for text in pinned[len(closed) :])


def _tagged(message: AnyMessage, *, to_end: bool) -> list[str]:
    """Return the texts between a message's tags; with `to_end` a last tag that is not closed encloses the rest."""
    texts = [text for text in texts_of(message) if text.strip()]  # a request leaves blank texts out
    if not any(map(_TAG.search, texts)):
        return []  # without a tag, skip the far slower search of a long text for code and quotations
    own = "\n".join(map(_without_quotations, texts))
    return between_tags("\n".join(texts), "pin", tags_of=own, ignore_case=True, to_end=to_end)


def _without_quotations(text: str) -> str:
    """Return the text with empty lines in place of code and quotations; its length does not change."""
    lines = text.replace("\r", "\n")
    parts = (_empty(part) if is_code else part for is_code, part in split_code(lines))
    return _QUOTATION.sub(lambda found: _empty(found[0]), "".join(parts))


def _empty(text: str) -> str:
    return "\n" * len(text)


def without_pin(message: AnyMessage, text: str) -> AnyMessage:
    """Return the message with a mark that says that this text is no longer pinned; its content does not change."""
    known = marks(message)
    left = [pin for pin in pins_in(message) if pin != text]
    mark = {"pins": left} if is_summary(message) else {"unpinned": [*known.get("unpinned", ()), text]}
    return with_mark(message, {**known, **mark})
