"""Deterministic checks that the messages of a draft must pass before the model sees them."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, HumanMessage

from ..conversation.message_marks import is_summary, marks
from ..conversation.request import render
from ..conversation.tokens import texts_of
from ..conversation.transcript import Transcript, message_id
from ..conversation.view import as_said
from ..selection.selector import Selector

_SHOWN = 80
"""Maximum number of characters that a finding quotes of a pinned text that would be lost."""


@dataclass(frozen=True)
class Finding:
    """Why a proposal is rejected: a verdict, a short reason, and the details."""

    verdict: str
    reason: str
    detail: str = ""
    kind: str = ""
    """The `ErrorKind` of the exception that caused the rejection; empty if there was none."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits for the size of the whole next request, in tokens."""

    before: int
    """Size of the request before the compaction; the proposed conversation must be smaller."""
    ceiling: int
    """Maximum size of the request after the compaction."""


def broken_invariant(
    selector: Selector,
    after: Sequence[AnyMessage],
    bounds: Bounds,
    *,
    floor: int,
    pins: Sequence[str] = (),
) -> Finding | None:
    """Return the first invariant that the messages `after` break, or `None` if they break none.

    The model would see `after` in place of the messages `selector.view`. `floor` is the number of newest rounds whose
    messages must be kept verbatim; `floor` is 0 on the last fallback level. `pins` are texts that the request must
    contain.
    """
    size = selector.meter.request(after)
    if size >= bounds.before:
        return Finding("rejected_inflated", "not_smaller", f"{size} tokens in place of {bounds.before}")
    if size > bounds.ceiling:
        return Finding("rejected_insufficient", "over_ceiling", f"{size} tokens, at most {bounds.ceiling}")
    return _structure(selector, after, floor) or _lost(after, pins)


def _lost(after: Sequence[AnyMessage], pins: Sequence[str]) -> Finding | None:
    """Return a finding for the first pinned text that the next request would not contain in full."""
    sent = "\n".join(text for message in render(after) for text in texts_of(message))
    for pin in pins:
        if pin not in sent:
            return Finding("rejected_pin_lost", "pinned_text_lost", pin[:_SHOWN])
    return None


def _structure(selector: Selector, after: Sequence[AnyMessage], floor: int) -> Finding | None:
    """Return a finding if `after` reorders messages, splits a tool block, or has wrong summaries or kept messages."""
    before, positions = selector.view, {message_id(m): i for i, m in enumerate(selector.view.messages)}
    origin = [positions.get(message_id(message)) for message in after]
    kept = [index for index in origin if index is not None]
    if kept != sorted(set(kept)):
        return Finding("rejected_pairing", "order_changed")
    if not _pairs(Transcript(after)) <= _pairs(before):
        return Finding("rejected_pairing", "tool_block_broken")
    new = [message for message, index in zip(after, origin, strict=True) if index is None]
    return (
        _summaries(selector, after, new)
        or _user_message(before.messages, after)
        or _verbatim(selector, {i: m for i, m in zip(origin, after, strict=True) if i is not None}, floor)
    )


def _pairs(view: Transcript) -> set[tuple[str | None, ...]]:
    """Return each tool block, and each tool result without a call, as the ids of its messages."""
    ids = [message_id(message) for message in view.messages]
    blocks = {(ids[b.start], *(None if i is None else ids[i] for i in b.results)) for b in view.blocks}
    return blocks | {(ids[index],) for index in view.orphans}


def _summaries(selector: Selector, after: Sequence[AnyMessage], new: Sequence[AnyMessage]) -> Finding | None:
    """Return a finding unless the only new message, if any, is a summary that replaces every earlier summary.

    If there was a summary before, one must be there after the compaction. A pinned summary may stay beside the new
    one.
    """
    pinned = {message_id(selector.view.messages[index]) for index in selector.pinned}
    left = [message for message in after if is_summary(message) and message_id(message) not in pinned]
    if not all(map(is_summary, new)) or (new and len(left) > 1):
        return Finding("rejected_pairing", "foreign_message", f"{len(new)} new messages, {len(left)} summaries")
    if any(map(is_summary, selector.view.messages)) and not any(map(is_summary, after)):
        return Finding("rejected_pairing", "summary_lost")
    return None


def _user_message(before: Sequence[AnyMessage], after: Sequence[AnyMessage]) -> Finding | None:
    """Return a finding if all user messages were removed: providers refuse a request without a user message."""
    lost = any(isinstance(m, HumanMessage) for m in before) and not any(isinstance(m, HumanMessage) for m in after)
    return Finding("rejected_pairing", "no_user_message") if lost else None


def _verbatim(selector: Selector, left: dict[int, AnyMessage], floor: int) -> Finding | None:
    """Return a finding if a message that must be kept was changed or is missing.

    `left` maps the index that a message had before the compaction to the message that has the same id after it.
    """
    view = selector.view
    pending = frozenset(() if view.pending_user is None else (view.pending_user,))
    pending -= selector.yielding_input - left.keys()
    changed = frozenset(index for index, message in left.items() if as_said(message) != as_said(view.messages[index]))
    changed -= {index for index in selector.shortened_input & changed if marks(left[index]).get("clipped")}
    for indexes, verdict, reason in (
        (view.header, "rejected_pairing", "system_message_changed"),
        (pending, "rejected_pairing", "unanswered_user_message_changed"),
        (selector.pinned, "rejected_pin_lost", "pin_changed"),
        (selector.rounds(floor), "rejected_pairing", "round_floor_broken"),
        (changed - frozenset(view.block_of) - view.orphans, "rejected_pairing", "message_changed"),
    ):
        for index in sorted(indexes):
            if index in changed or index not in left:
                return Finding(verdict, reason, message_id(view.messages[index]))
    return None
