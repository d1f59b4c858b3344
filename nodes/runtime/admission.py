"""Admit messages that no compaction may change only as far as they leave room for the rest of the conversation.

System messages stay as they are, and so do pins: messages with the mark `pinned` or with a `kind` of the header,
messages whose ids `pins` lists, and the tool blocks of all these. Clients may send any of them, and a thread could
not go on if they filled the window. Messages that were admitted once stay so, also if the window becomes smaller.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all

from ..conversation.item_types import without_pin_mark
from ..conversation.message_marks import NAMED_CHARACTERS, is_pinned, is_summary
from ..conversation.request import render
from ..conversation.tokens import total
from ..conversation.transcript import message_id, system_messages
from ..events import PinsRefusedEvent, emit, log
from ..selection.selector import Selector
from .engine import shortest_summary
from .node_context import NodeContext

SYSTEM_REFUSED = "system_message_over_limit"
"""Reason of the verdict `refused` if new system messages left too little room."""
LEAST_ROOM = 0.04
"""Share of the limit that a new system message must leave to the rest of the conversation."""
SHORT_QUESTION = 16
"""Tokens of a short question, for which a new system message leaves room beside the shortest summary."""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Which messages that no compaction may change are in the conversation from now on."""

    context: NodeContext
    """The context, in which messages whose pins had no room are not pinned."""
    admitted: list[str]
    """Fingerprints of the system messages, and of the pinned messages with their tool blocks."""
    refused: list[AnyMessage] = field(default_factory=list[AnyMessage])
    """New system messages that leave too little room."""
    pins: list[str] | None = None
    """The ids of pinned messages without those that had no room; `None` if they stay as they are."""
    needed: int = 0
    """Tokens of the system prompt, the tool schemas and all system messages, the refused ones included."""


def admit(context: NodeContext) -> Admission:
    """Return which new system messages and pins have room; a message whose pin has none is unpinned.

    New system messages must leave `LEAST_ROOM` of the limit, the tokens of the shortest summary and of a short
    question, and twice the tokens of the pins that the thread has admitted. Pins may hold half of the room, as with
    `CompactionThread.pin`. Those that the thread has admitted come first, then the new ones in their order.
    Raises `SettingsError` if the system prompt and the tools leave no room.
    """
    admitted = context.compaction.get("admitted") or []
    system = {unit_name([message]): message for message in system_messages(context.messages)}
    new = {name: message for name, message in system.items() if name not in admitted}
    if new and (refused := _too_large(context, system, new)):
        needed = context.meter.scaled(context.meter.overhead + total(context.counter, list(system.values())))
        return Admission(context=context, admitted=admitted, refused=refused, needed=needed)
    units, before = _pinned(context), context
    if gone := _without_room(context, units, admitted):
        context = _unpinned(context, [message for name in gone for message in units[name]])
    return Admission(
        context=context,
        admitted=[*system, *(name for name in units if name not in gone)],
        pins=None if context.pins == before.pins else list(context.pins),
    )


def admitted_with_pins(compaction: Mapping[str, Any], selector: Selector) -> list[str]:
    """Return the list `admitted` of a thread with the names of all pins in the selector's messages."""
    names = (unit_name([selector.view.messages[index] for index in unit]) for unit in selector.pinned_units)
    return [*dict.fromkeys([*(compaction.get("admitted") or []), *names])]


def unit_name(messages: Sequence[AnyMessage]) -> str:
    """Return the name of a system message, or of a pinned message with its tool block, in the list `admitted`."""
    return fingerprint_all(messages)[:NAMED_CHARACTERS]


def pinned_tokens(context: NodeContext) -> int:
    """Return the tokens that pins hold, with their tool blocks."""
    names = frozenset(context.pins)
    return _selector(context, names).pinned_tokens if _may_be_pinned(context, names) else 0


def _too_large(
    context: NodeContext, system: Mapping[str, AnyMessage], new: Mapping[str, AnyMessage]
) -> list[AnyMessage]:
    """Return the new system messages with which less than `LEAST_ROOM` of the limit is left, or too little for pins.

    What is left holds the shortest summary and a short question, also in a small window. The pins that the thread has
    admitted must leave room for these too, and must not hold more than half of what is left.
    """
    empty, held = context.after({}, []), context.meter.overhead
    limit, least = empty.sizes.limit, shortest_summary(empty.call) + context.meter.scaled(SHORT_QUESTION)
    pins = {name: unit for name, unit in _pinned(context).items() if name in context.compaction.get("admitted", ())}
    pinned = context.meter.scaled(sum(total(context.counter, render(unit)) for unit in pins.values()))
    most = limit - max(int(limit * LEAST_ROOM), pinned + least, pinned * 2)
    held += total(context.counter, [message for name, message in system.items() if name not in new])
    refused = list[AnyMessage]()
    for message in new.values():
        size = context.counter.message(message)
        if context.meter.scaled(held + size) > most:
            refused.append(message)
        else:
            held += size
    return refused


def _pinned(context: NodeContext) -> dict[str, list[AnyMessage]]:
    """Return, by fingerprint, the pinned messages, each with its tool block."""
    pins = frozenset(context.pins)
    units = _selector(context, pins).pinned_units if _may_be_pinned(context, pins) else ()
    found = [[context.messages[index] for index in unit] for unit in units]
    return {unit_name(messages): messages for messages in found}


def _may_be_pinned(context: NodeContext, pins: Collection[str]) -> bool:
    """Whether a message has a mark that could pin it, or is in `pins`: to find tool blocks costs more than this."""
    marked = [message for message in context.marked if not is_summary(message)]
    return bool(marked) or (bool(pins) and any(message.id in pins for message in context.messages))


def _selector(context: NodeContext, pins: frozenset[str]) -> Selector:
    return Selector.of(context.messages, context.settings, context.meter, pins)


def _without_room(
    context: NodeContext, units: Mapping[str, Sequence[AnyMessage]], admitted: Collection[str]
) -> list[str]:
    """Return the names of the new units with which pins would hold more of the room than they may."""
    if all(name in admitted for name in units):
        return []
    held, gone = 0, list[str]()
    for name in sorted(units, key=lambda name: name not in admitted):
        size = context.meter.scaled(total(context.counter, units[name]))
        if name not in admitted and held + size > context.sizes.most_pinned:
            gone.append(name)
        else:
            held += size
    return gone


def _unpinned(context: NodeContext, messages: Sequence[AnyMessage]) -> NodeContext:
    """Return the context in which these messages are not pinned, and report it."""
    pins, gone = context.pins, {message.id for message in messages}
    named = tuple(str(message.id) for message in messages if is_pinned(message, pins))
    log.warning(
        "Messages came with pins for which there is no room, and are not pinned: %s. Pins may hold %d tokens, half "
        "of the room",
        ", ".join(named),
        context.sizes.most_pinned,
    )
    emit(context.writer, PinsRefusedEvent(message_ids=named, most_tokens=context.sizes.most_pinned))
    forms = {message_id(message): without_pin_mark(message) for message in context.messages if message.id in gone}
    left = {"pins": [one for one in pins if one not in gone]} if pins else {}
    return context.after(left).with_view(clip=forms)
