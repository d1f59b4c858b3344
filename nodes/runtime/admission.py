"""Admit messages that no compaction may change only as far as they leave room for the rest of the conversation.

System messages stay as they are, and so do pins: messages with the mark `pinned` or with a `kind` of the header,
messages whose ids `pins` lists, and the tool blocks of all these. Clients may send any of them, and a thread could
not go on if they filled the window. What was there at an earlier check stays, also if the window becomes smaller.
"""

from collections.abc import Collection, Sequence
from itertools import takewhile

from langchain_core.messages import AnyMessage

from ..conversation.item_types import without_pin_mark
from ..conversation.message_marks import MARK, is_pinned, is_summary
from ..conversation.request import render
from ..conversation.tokens import total
from ..conversation.transcript import Transcript, message_id, system_messages
from ..events import PinsRefusedEvent, emit, log
from ..selection.selector import Selector
from .engine import shortest_summary
from .node_context import NodeContext

LEAST_ROOM = 0.04
"""Share of the limit that a new system message must leave to the rest of the conversation."""
SHORT_QUESTION = 16
"""Tokens of a short question, for which a new system message leaves room beside the shortest summary."""

Ids = Collection[str | None]


def new_ids(context: NodeContext) -> Ids:
    """Return the ids of the messages that were said since the last check; of all if the newest of then is gone."""
    checked = context.compaction.get("checked")
    later = list(takewhile(lambda message: message.id != checked, reversed(context.conversation)))
    return {message.id for message in later}


def without_room_for_system(context: NodeContext, new: Ids) -> list[AnyMessage]:
    """Return the new system messages with which less than `LEAST_ROOM` of the limit is left, or too little for pins.

    What is left holds the shortest summary and a short question, also in a small window. The pins that the thread
    holds already must leave room for these too, and must not hold more than half of what is left. Raises
    `SettingsError` if the system prompt and the tools leave no room.
    """
    system = system_messages(context.messages)
    if not any(message.id in new for message in system):
        return []
    empty, held = context.after({}, []), context.meter.overhead
    limit, least = empty.sizes.limit, shortest_summary(empty.call) + context.meter.scaled(SHORT_QUESTION)
    older = [unit for unit in _pinned(context) if not _is_new(unit, new)]
    pinned = context.meter.scaled(sum(total(context.counter, render(unit)) for unit in older))
    most = limit - max(int(limit * LEAST_ROOM), pinned + least, pinned * 2)
    held += total(context.counter, [message for message in system if message.id not in new])
    refused = list[AnyMessage]()
    for message in system:
        size = context.counter.message(message) if message.id in new else 0
        if size and context.meter.scaled(held + size) > most:
            refused.append(message)
        else:
            held += size
    return refused


def with_room_for_pins(context: NodeContext, new: Ids) -> NodeContext:
    """Return the context in which new messages whose pins have no room are not pinned, and report them.

    Pins may hold half of the room, as with `CompactionThread.pin`. Those that the thread holds already come first,
    then the new ones in their order.
    """
    said = [message for message in context.messages if message.id in new]
    if not any(_may_be_pinned(context, message) for message in said):
        return context
    held, gone = 0, list[AnyMessage]()
    for unit in sorted(_pinned(context), key=lambda unit: _is_new(unit, new)):
        size = context.meter.scaled(total(context.counter, unit))
        if _is_new(unit, new) and held + size > context.sizes.most_pinned:
            gone += unit
        else:
            held += size
    return _unpinned(context, gone) if gone else context


def pinned_tokens(context: NodeContext) -> int:
    """Return the tokens that pins hold, with their tool blocks."""
    return _selector(context).pinned_tokens


def _may_be_pinned(context: NodeContext, message: AnyMessage) -> bool:
    """Whether a message has a mark that could pin it, or is in `pins`: to find tool blocks costs more than this."""
    return (MARK in message.additional_kwargs and not is_summary(message)) or message.id in context.pins


def _pinned(context: NodeContext) -> list[list[AnyMessage]]:
    return [[context.messages[index] for index in unit] for unit in _selector(context).pinned_units]


def _is_new(unit: Sequence[AnyMessage], new: Ids) -> bool:
    return any(message.id in new for message in unit)


def _selector(context: NodeContext) -> Selector:
    return Selector(Transcript(context.messages), context.settings, context.meter, context.pins)


def _unpinned(context: NodeContext, messages: Sequence[AnyMessage]) -> NodeContext:
    gone, most = {message.id for message in messages}, context.sizes.most_pinned
    named = tuple(str(message.id) for message in messages if is_pinned(message, context.pins))
    log.warning(
        "Messages came with pins for which there is no room, and are not pinned: %s. Pins may hold %d tokens, half "
        "of the room",
        ", ".join(named),
        most,
    )
    emit(context.writer, PinsRefusedEvent(message_ids=named, most_tokens=most))
    forms = {message_id(message): without_pin_mark(message) for message in context.messages if message.id in gone}
    left = [name for name in context.compaction.get("pins") or () if name not in gone]
    return context.after({"pins": left} if context.pins else {}).with_forms(forms)
