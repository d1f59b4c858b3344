"""The gate: whether a proposed conversation may take the place of the old one (DESIGN §6). Deterministic."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, HumanMessage

from .selection import Selector
from .transcript import Transcript, is_summary, message_id


@dataclass(frozen=True)
class Finding:
    """Why a proposal is rejected: a verdict of DESIGN §7, a short reason, and the detail."""

    verdict: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a proposal has to hold in tokens of the whole request."""

    before: int
    ceiling: int
    """At most this many."""


def prove(selector: Selector, after: Sequence[AnyMessage], bounds: Bounds, *, floor: int) -> Finding | None:
    """The first invariant that `after` breaks in respect of the selector's conversation, or `None`.

    `floor` is the number of rounds whose dialogue must stand verbatim; 0 on the last rung.
    """
    size = selector.meter.request(after)
    if size >= bounds.before:
        return Finding("rejected_inflated", "not_smaller", f"{size} tokens in place of {bounds.before}")
    if size > bounds.ceiling:
        return Finding("rejected_insufficient", "over_ceiling", f"{size} tokens, at most {bounds.ceiling}")
    return _structure(selector, after, floor)


def _structure(selector: Selector, after: Sequence[AnyMessage], floor: int) -> Finding | None:
    view, before = Transcript(after), selector.view
    positions = {message_id(message): index for index, message in enumerate(before.messages)}
    origin = [positions.get(message_id(message)) for message in after]
    kept = [index for index in origin if index is not None]
    if kept != sorted(set(kept)):
        return Finding("rejected_pairing", "order_changed")
    if len(view.orphans) > len(before.orphans) or _unanswered(view) > _unanswered(before):
        return Finding("rejected_pairing", "call_without_result_or_result_without_call")
    new = [after[place] for place, index in enumerate(origin) if index is None]
    if any(not is_summary(message) for message in new) or sum(map(is_summary, after)) > 1:
        return Finding("rejected_pairing", "foreign_message", f"{len(new)} new messages")
    if any(isinstance(m, HumanMessage) for m in before.messages) and not any(
        isinstance(message, HumanMessage) for message in after
    ):
        return Finding("rejected_pairing", "no_user_message")
    return _verbatim(selector, {i: m for i, m in zip(origin, after, strict=True) if i is not None}, floor)


def _unanswered(view: Transcript) -> int:
    return sum(block.results.count(None) for block in view.blocks)


def _verbatim(selector: Selector, left: dict[int, AnyMessage], floor: int) -> Finding | None:
    view = selector.view
    pending = frozenset(() if view.pending_user is None else (view.pending_user,))
    for indexes, verdict, reason in (
        (view.header, "rejected_pairing", "system_message_changed"),
        (pending, "rejected_pairing", "unanswered_user_message_changed"),
        (selector.pinned, "rejected_pin_lost", "pin_changed"),
        (selector.rounds(floor), "rejected_pairing", "round_floor_broken"),
    ):
        for index in sorted(indexes):
            if left.get(index) != view.messages[index]:
                return Finding(verdict, reason, message_id(view.messages[index]))
    return None
