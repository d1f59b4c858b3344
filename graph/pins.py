"""What a user wants kept verbatim: pin, release, and see what is pinned (DESIGN §8)."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from langgraph_compaction.nodes import CompactionError, SettingsError
from langgraph_compaction.nodes.policies.required import pins_in
from langgraph_compaction.nodes.policies.transcript import MARK, is_pinned, marks
from langgraph_compaction.nodes.state import with_ids

from .builder import Graph
from .threads import team_of

AS_NODE = "commit"
"""The node in whose name pins are written: both graphs have it, and from there a turn that is over stays over."""


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
    if (message_id is None) == (text is None):
        raise SettingsError("give either message_id or text")
    state = _at_rest(graph.get_state(config))
    new = _message(text) if text is not None else None
    name = str(new.id) if new is not None else str(message_id)
    messages = [*_messages(state), *([new] if new else [])]
    known = list((state.values.get("memory") or {}).get("pins") or ())
    update: dict[str, Any] = {"messages": [new]} if new else {"memory": {"pins": [*dict.fromkeys([*known, name])]}}
    found = next((message for message in messages if message.id == name), None)
    if found is None:
        raise SettingsError(f"the thread holds no message {name!r}: pins(graph, config) and get_state show their ids")
    _hold_half(graph, messages, {*known, name})
    graph.update_state(config, update, as_node=AS_NODE)
    return name


def unpin(graph: Graph, config: RunnableConfig, message_id: str) -> None:
    """Let a pinned message go again; it stays where it is until a compaction takes it.

    Raises `SettingsError` for a message that is not pinned, `CompactionError` while the thread has work to do.
    """
    state = _at_rest(graph.get_state(config))
    memory = state.values.get("memory") or {}
    known = list(memory.get("pins") or ())
    found = next((m for m in _messages(state) if m.id == message_id and is_pinned(m, known)), None)
    if found is None:
        raise SettingsError(f"the message {message_id!r} is not pinned")
    update: dict[str, Any] = {"memory": {"pins": [name for name in known if name != message_id]}}
    if marks(found).get("pinned"):
        kwargs = {**found.additional_kwargs, MARK: {**marks(found), "pinned": False}}
        update["messages"] = [found.model_copy(update={"additional_kwargs": kwargs})]
    graph.update_state(config, update, as_node=AS_NODE)


def pins(graph: Graph, config: RunnableConfig) -> list[Pin]:
    """All pins of a thread, in the order of its messages."""
    state = graph.get_state(config)
    known = list((state.values.get("memory") or {}).get("pins") or ())
    found: list[Pin] = []
    for message in _messages(state):
        name = str(message.id)
        if is_pinned(message, known):
            found.append(Pin(message.text, name, whole=True))
        found += [Pin(text, name, whole=False) for text in pins_in(message)]
    return found


def _messages(state: StateSnapshot) -> list[AnyMessage]:
    return with_ids(state.values.get("messages") or [])


def _message(text: str) -> HumanMessage:
    return HumanMessage(text, id=str(uuid4()), additional_kwargs={MARK: {"pinned": True, "is_meta": True}})


def _at_rest(state: StateSnapshot) -> StateSnapshot:
    if state.next:
        raise CompactionError(f"this thread has work to go on with ({', '.join(state.next)}): resume it first")
    return state


def _hold_half(graph: Graph, messages: list[AnyMessage], known: set[str]) -> None:
    team = team_of(graph)
    sizes = team.sizes()
    if sizes is None:  # the model, and so its window, is chosen at each call
        return
    counter = team.counter_for(team.fixed_model)
    held = sum(counter.message(message) for message in messages if is_pinned(message, known))
    if held > sizes.room // 2:
        raise SettingsError(f"pins would hold {held} tokens, more than half of the room of {sizes.room}: pin less")
