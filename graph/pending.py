"""A compaction inside an agent's model call, kept in the `compaction` channel until the agent ends and writes it.

The agent's model node writes the answer to `messages` itself. A second write to the channel `messages` in this step
makes LangGraph split the node's entry in `stream_mode="updates"`, so the changes wait in `compaction`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

KEY = "pending"
"""The key in the channel `compaction` under which the changes wait."""


def pending(given: Sequence[AnyMessage], view: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return the changes that turn the state's messages into `view`; every message must have a unique id."""
    held, order = {message.id: message for message in given}, [message.id for message in view]
    placed = set(order)
    return {
        "order": order,
        "drop": [message.id for message in given if message.id not in placed],
        "clip": {m.id: m for m in view if m.id in held and m != held[m.id]},
        "new": {m.id: m for m in view if m.id not in held},
    }


def in_view(messages: Sequence[AnyMessage], compaction: Mapping[str, Any]) -> list[AnyMessage]:
    """Return the state's messages with the pending changes applied; an equal list if no changes are pending.

    Messages that arrived after the changes were made keep their place: at the end, or after the same neighbor.
    Messages that were removed after the changes were made stay removed. Applying the changes twice has no further
    effect.
    """
    change = compaction.get(KEY)
    if not change:
        return list(messages)
    held, placed, gone = {message.id: message for message in messages}, set(change["order"]), set(change["drop"])
    known = max((n for n, message in enumerate(messages) if message.id in placed or message.id in gone), default=-1)
    found, neighbor = {**change["new"], **held, **_only(change["clip"], held)}, None
    between: dict[str | None, list[AnyMessage]] = {}
    for message in messages[: known + 1]:
        if message.id in placed:
            neighbor = message.id
        elif message.id not in gone:
            between.setdefault(neighbor, []).append(message)
    view = list(between.get(None, ()))
    for name in change["order"]:
        view += [*([found[name]] if name in found else []), *between.get(name, ())]
    return [*view, *messages[known + 1 :]]


def _only(clipped: Mapping[str, AnyMessage], held: Mapping[str | None, AnyMessage]) -> dict[str, AnyMessage]:
    return {name: message for name, message in clipped.items() if name in held}
