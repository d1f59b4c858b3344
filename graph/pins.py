"""What a user wants kept verbatim: pin, release, and see what is pinned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.conversation.message_marks import MARK, is_pinned, marks, pins_in, without_pin
from langgraph_compaction.nodes.effects import Effects, arun, blocking
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.state import with_ids

from .builder import Graph
from .threads import at_rest, run_sync, settled, state_of, written


@dataclass(frozen=True)
class Pin:
    """Something that every request holds word for word."""

    text: str
    message_id: str
    """The message that is pinned, or that holds the pinned text."""
    whole: bool
    """Whether the whole message is pinned, its tool block with it, or only a text in it."""


def pin(graph: Graph, config: RunnableConfig, *, message_id: str | None = None, text: str | None = None) -> str:
    """Pin a message of a thread, or a text; returns the pinned message's id.

    A pinned message stays verbatim with its tool block. A text becomes a user message of its own that is pinned.
    Raises `SettingsError` for a message that the thread does not hold, for neither or both, and where pins would
    take more than half of the room; `CompactionError` while the thread has work to go on with.
    """
    return run_sync(graph, "apin", _pin(graph, config, message_id, text))


async def apin(
    graph: Graph, config: RunnableConfig, *, message_id: str | None = None, text: str | None = None
) -> str:
    """`pin`, asynchronously."""
    return await arun(_pin(graph, config, message_id, text))


def unpin(graph: Graph, config: RunnableConfig, message_id: str | None = None, *, text: str | None = None) -> None:
    """Let a pinned message go again, or one text that a user pinned with `<Pin>`, whichever message carries it.

    What is released stays where it is until a compaction takes it. Raises `SettingsError` for what is not pinned
    and for neither or both, `CompactionError` while the thread has work to go on with.
    """
    run_sync(graph, "aunpin", _unpin(graph, config, message_id, text))


async def aunpin(
    graph: Graph, config: RunnableConfig, message_id: str | None = None, *, text: str | None = None
) -> None:
    """`unpin`, asynchronously."""
    await arun(_unpin(graph, config, message_id, text))


def pins(graph: Graph, config: RunnableConfig) -> list[Pin]:
    """All pins of a thread, in the order of its messages."""
    return run_sync(graph, "apins", _pins(graph, config))


async def apins(graph: Graph, config: RunnableConfig) -> list[Pin]:
    """`pins`, asynchronously."""
    return await arun(_pins(graph, config))


def _pin(graph: Graph, config: RunnableConfig, message_id: str | None, text: str | None) -> Effects[str]:
    _one_of(message_id, text)
    state = yield from at_rest(graph, config)
    new = _message(text) if text is not None else None
    name = str(new.id) if new is not None else str(message_id)
    messages, known = [*_messages(state), *([new] if new else [])], _pinned(state)
    update: dict[str, Any] = {"messages": [new]} if new else {"memory": {"pins": [*dict.fromkeys([*known, name])]}}
    if not any(message.id == name for message in messages):
        raise SettingsError(f"the thread holds no message {name!r}: pins(graph, config) and get_state show their ids")
    dependencies = yield from settled(graph)
    yield from blocking(lambda: _hold_half(dependencies, messages, {*known, name}))
    yield from written(graph, config, update)
    return name


def _unpin(graph: Graph, config: RunnableConfig, message_id: str | None, text: str | None) -> Effects[None]:
    _one_of(message_id, text)
    state = yield from at_rest(graph, config)
    yield from written(graph, config, _releasing(state, message_id) if text is None else _releasing_text(state, text))


def _releasing(state: StateSnapshot, message_id: str | None) -> dict[str, Any]:
    known = _pinned(state)
    found = next((m for m in _messages(state) if m.id == message_id and is_pinned(m, known)), None)
    if found is None:
        raise SettingsError(f"the message {message_id!r} is not pinned")
    update: dict[str, Any] = {"memory": {"pins": [name for name in known if name != message_id]}}
    if marks(found).get("pinned"):
        update["messages"] = [_marked(found, {**marks(found), "pinned": False})]
    return update


def _releasing_text(state: StateSnapshot, text: str) -> dict[str, Any]:
    messages, known = _messages(state), _pinned(state)
    if whole := next((m for m in messages if is_pinned(m, known) and m.text == text), None):
        return _releasing(state, whole.id)
    found = [without_pin(message, text) for message in messages if text in pins_in(message)]
    if not found:
        raise SettingsError(f"the text {text!r} is not pinned: pins(graph, config) shows those that are")
    return {"messages": found}


def _pins(graph: Graph, config: RunnableConfig) -> Effects[list[Pin]]:
    state = yield from state_of(graph, config)
    known, found = _pinned(state), list[Pin]()
    for message in _messages(state):
        name = str(message.id)
        if is_pinned(message, known):
            found.append(Pin(message.text, name, whole=True))
        found += [Pin(text, name, whole=False) for text in pins_in(message)]
    return found


def _one_of(message_id: str | None, text: str | None) -> None:
    if (message_id is None) == (text is None):
        raise SettingsError("give either message_id or text")


def _messages(state: StateSnapshot) -> list[AnyMessage]:
    return with_ids(state.values.get("messages") or [])


def _pinned(state: StateSnapshot) -> list[str]:
    return list((state.values.get("memory") or {}).get("pins") or ())


def _message(text: str) -> HumanMessage:
    return HumanMessage(text, id=str(uuid4()), additional_kwargs={MARK: {"pinned": True, "is_meta": True}})


def _marked(message: AnyMessage, mark: Mapping[str, Any]) -> AnyMessage:
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, MARK: dict(mark)}})


def _hold_half(dependencies: Dependencies, messages: list[AnyMessage], known: set[str]) -> None:
    sizes = dependencies.sizes()
    if sizes is None:  # the model, and so its window, is chosen at each call
        return
    counter = dependencies.counter_for(dependencies.fixed_model)
    held = sum(counter.message(message) for message in messages if is_pinned(message, known))
    if held > sizes.room // 2:
        raise SettingsError(f"pins would hold {held} tokens, more than half of the room of {sizes.room}: pin less")
