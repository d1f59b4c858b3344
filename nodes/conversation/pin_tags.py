"""Read the texts that a user pins with `<Pin>`, and release them: a pinned text stays verbatim in every summary."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Pattern

from ..text.quoting import between_tags, without_quotations
from .message_marks import MARK, is_real_user, is_summary, marks
from .tokens import TokenCounter, texts_of

_INLINE_CODE = Pattern(r"`[^`\n]*+`")
_TAG = Pattern("<pin>", IGNORE_CASE)


def pinned_texts(messages: Sequence[AnyMessage], most: int, counter: TokenCounter) -> tuple[str, ...]:
    """Return the texts that a user pinned with `<Pin>`, oldest first, without repetitions, in at most `most` tokens.

    Pins come from tags in real user messages, outside code and quotations, and from earlier summaries.
    A text that does not fit into the remaining tokens is skipped.
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
    texts = texts_of(message)
    if not any(map(_TAG.search, texts)):
        return []  # without a tag, skip the far slower search of a long text for code and quotations
    own = "\n".join(_INLINE_CODE.sub(" ", without_quotations(text)) for text in texts)
    return between_tags(own, "pin", ignore_case=True, to_end=to_end)


def without_pin(message: AnyMessage, text: str) -> AnyMessage:
    """Return the message with a mark that says that this text is no longer pinned; its content does not change."""
    known = marks(message)
    left = [pin for pin in pins_in(message) if pin != text]
    mark = {"pins": left} if is_summary(message) else {"unpinned": [*known.get("unpinned", ()), text]}
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, MARK: {**known, **mark}}})
