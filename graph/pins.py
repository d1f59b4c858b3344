"""Pins: messages and texts that a user wants kept word for word."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.conversation.item_types import without_pin_mark
from langgraph_compaction.nodes.conversation.message_marks import MARK, is_pinned, marks
from langgraph_compaction.nodes.conversation.pin_tags import pins_in, without_pin
from langgraph_compaction.nodes.conversation.request import Meter, meter_of_thread
from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.conversation.view import in_forms, seen, shown_again, with_pins
from langgraph_compaction.nodes.conversation.window_and_reserve import most_pinned
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effects, blocking
from langgraph_compaction.nodes.selection.selector import Selector
from langgraph_compaction.nodes.state import conversation, messages_in_view, pinned_ids, stored_view

from .builder import Graph
from .open_work import open_nodes
from .thread_state import at_rest, settled, state_of, written


@dataclass(frozen=True)
class Pin:
    """A message or a text that every request holds word for word."""

    text: str
    message_id: str
    """Id of the message that is pinned, or that holds the pinned text."""
    whole: bool
    """Whether the whole message is pinned, together with its tool block; if false, only a text in it is pinned."""


def pinned(graph: Graph, config: RunnableConfig, message_id: str | None, text: str | None) -> Effects[str]:
    """Pin a message of a thread at rest, or a text; return the id of the pinned message."""
    _one_of(message_id, text)
    state = yield from at_rest(graph, config)
    if text is not None and (same := _whole_pin(state.values, text)):
        return str(same.id)
    new = _message(text) if text is not None else None
    name = str(new.id) if new is not None else str(message_id)
    update, messages = pinning(state.values, name, new)
    dependencies = yield from settled(graph, config)
    compaction = state.values.get("compaction") or {}
    yield from blocking(lambda: _check_room_of(dependencies, compaction, messages, [*pinned_ids(state.values), name]))
    yield from written(graph, config, update)
    return name


def pinning(
    values: Mapping[str, Any], name: str, new: AnyMessage | None = None
) -> tuple[dict[str, Any], list[AnyMessage]]:
    """Return the update by which a thread pins a message, which may be new, and what the model sees then.

    Raise `SettingsError` if the thread does not hold the message.
    """
    said, view, known = conversation(values), stored_view(values), pinned_ids(values)
    if new is None and not any(message.id == name for message in said):
        raise SettingsError(f"the thread holds no message {name!r}: CompactionThread.pins() and get_state show ids")
    had = seen(said, view, known)
    view = with_pins(said, shown_again(said, view, [name]), had, [*known, name])
    messages = [*seen(said, view, [*known, name]), *([new] if new else [])]
    pins: dict[str, Any] = {"compaction": {"pins": [*dict.fromkeys([*known, name])]}}
    return {**(pins if new is None else {"messages": [new]}), "compaction_view": view}, messages


def unpinned(graph: Graph, config: RunnableConfig, message_id: str | None, text: str | None) -> Effects[None]:
    """Remove the pin of a message or text of a thread at rest, or of one whose turn failed.

    A failed turn then has to begin with the check of its size again: pins may have been all that did not fit.
    """
    _one_of(message_id, text)
    state = yield from at_rest(graph, config, or_failed=True)
    update = unpinning(state.values, message_id) if text is None else _unpinning_text(state.values, text)
    yield from written(graph, config, update, ends=not open_nodes(state))


def unpinning(values: Mapping[str, Any], message_id: str | None) -> dict[str, Any]:
    """Return the update by which a thread no longer pins a message; raise `SettingsError` if it is not pinned."""
    said, known, had = conversation(values), pinned_ids(values), messages_in_view(values)
    found = next((message for message in had if message.id == message_id and is_pinned(message, known)), None)
    if found is None:
        raise SettingsError(f"the message {message_id!r} is not pinned")
    left, view = [name for name in known if name != message_id], stored_view(values)
    if marks(found).get("pinned"):
        view = in_forms(said, view, [without_pin_mark(found)])
    return {"compaction": {"pins": left}, "compaction_view": with_pins(said, view, had, left)}


def _unpinning_text(values: Mapping[str, Any], text: str) -> dict[str, Any]:
    if whole := _whole_pin(values, text):
        return unpinning(values, whole.id)
    found = [without_pin(message, text) for message in messages_in_view(values) if text in pins_in(message)]
    if not found:
        raise SettingsError(f"the text {text!r} is not pinned: CompactionThread.pins() shows those that are")
    return {"compaction_view": in_forms(conversation(values), stored_view(values), found)}


def _whole_pin(values: Mapping[str, Any], text: str) -> AnyMessage | None:
    known = pinned_ids(values)
    return next((m for m in messages_in_view(values) if is_pinned(m, known) and m.text == text), None)


def pins_of(graph: Graph, config: RunnableConfig) -> Effects[list[Pin]]:
    """Return all pins of a thread, in the order of its messages."""
    state = yield from state_of(graph, config)
    known, found = pinned_ids(state.values), list[Pin]()
    for message in messages_in_view(state.values):
        name = str(message.id)
        if is_pinned(message, known):
            found.append(Pin(message.text, name, whole=True))
        found += [Pin(text, name, whole=False) for text in pins_in(message)]
    return found


def _one_of(message_id: str | None, text: str | None) -> None:
    if (message_id is None) == (text is None):
        raise SettingsError("give either message_id or text")


def _message(text: str) -> HumanMessage:
    return HumanMessage(text, id=str(uuid4()), additional_kwargs={MARK: {"pinned": True, "is_meta": True}})


def _check_room_of(
    dependencies: Dependencies, compaction: Mapping[str, Any], messages: list[AnyMessage], pins: list[str]
) -> None:
    counter = dependencies.counter_for(dependencies.facts.name)
    meter = meter_of_thread(compaction, counter, dependencies.overhead(counter))
    sizes = dependencies.sizes(compaction)
    if sizes is not None:  # else each call chooses the model, and so the window
        check_room(messages, pins, dependencies.settings, meter, sizes.limit)


def check_room(
    messages: list[AnyMessage], pins: list[str], settings: CompactionSettings, meter: Meter, limit: int
) -> None:
    """Raise `SettingsError` if pins, with the texts in `<Pin>` tags, would hold more of the room than they may."""
    selector = Selector(Transcript(messages), settings, meter, frozenset(pins))
    system = total(meter.counter, [message for message in messages if isinstance(message, SystemMessage)])
    room = limit - meter.scaled(meter.overhead + system)
    texts = dict.fromkeys(text for message in messages for text in pins_in(message))
    held = selector.pinned_tokens + meter.scaled(sum(map(meter.counter.text, texts)))
    if held > (most := most_pinned(room)):
        raise SettingsError(f"pins would hold {held} tokens, and may hold {most} of a room of {room}: pin less")
