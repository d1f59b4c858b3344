"""What happens to the state of a graph: messages, the ways a list of them changes, and values made of them."""

from itertools import zip_longest
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, TASKS, _DeltaSnapshot
from langgraph.types import Interrupt, Overwrite, Send

LONG = 70
"""How many messages come at once where a list grows fast: more than a pack holds."""


def message(kind: int, text: str, number: int | None) -> BaseMessage:
    """Return a message; the same number may stand for another text, as the same text may for another number."""
    ident = None if number is None else f"m{number}"
    call = {"name": "read", "args": {"path": "a.py", "lines": [1, None]}, "id": "call_1"}
    kinds: tuple[BaseMessage, ...] = (
        HumanMessage(text, id=ident),
        AIMessage(text, id=ident),
        AIMessage([{"type": "text", "text": text}], id=ident, tool_calls=[call]),
        ToolMessage(text, id=ident, tool_call_id="call_1", name="read", artifact={"raw": b"\0\xff"}),
        SystemMessage(text, id=ident, additional_kwargs={"pinned": True}),
    )
    return kinds[kind]


texts = st.sampled_from(["ok", "", "Grüße, 世界 \0 \U0001f600", "a long text " * 120])
idents = st.none() | st.integers(0, 9)
messages = st.lists(st.builds(message, st.integers(0, 4), texts, idents), min_size=1, max_size=2)

GROWTH = ("append", "append many")
IN_PLACE = ("rewrite", "mark")
_OTHERS = ("insert", "replace", "rename", "unname", "remove", "repeat", "reverse", "compact", "clear")
changes = st.tuples(st.sampled_from((*GROWTH, *IN_PLACE, *_OTHERS)), st.integers(0, 200), messages)
"""Ways a list of messages changes; those in place leave the objects what they are."""


def change(held: list[BaseMessage], how: str, at: int, new: list[BaseMessage]) -> None:
    """Change a list of messages, unless it is empty and the change is none of growth."""
    if how == "append":
        held += new
    elif how == "append many":
        held += [new[0].model_copy(update={"id": f"long-{at}-{n}"}) for n in range(LONG)]
    elif held and how in IN_PLACE:
        _change_in_place(held[at % len(held)], how, new)
    elif held:
        _rearrange(held, how, at % len(held), new)


def _rearrange(held: list[BaseMessage], how: str, at: int, new: list[BaseMessage]) -> None:
    match how:
        case "insert":
            held[at:at] = new
        case "replace":
            held[at] = new[0].model_copy(update={"id": held[at].id})
        case "rename":
            held[at] = held[at].model_copy(update={"id": f"again-{held[at].id}"})
        case "unname":
            held.append(held[at].model_copy(update={"id": None}))
        case "remove":
            del held[at]
        case "repeat":
            held.append(held[at])
        case "reverse":
            held[at:] = reversed(held[at:])
        case "compact":
            held[: at + 1] = [SystemMessage(f"summary of {at + 1}: {new[0].text}", id=f"summary-{at}")]
        case _:
            held.clear()


def _change_in_place(one: BaseMessage, how: str, new: list[BaseMessage]) -> None:
    if how == "rewrite":
        one.content = new[0].content
    else:  # deep inside; the second time to a value of the same size
        calls = one.tool_calls if isinstance(one, AIMessage) else []
        (calls[0]["args"] if calls else one.additional_kwargs)["mark"] = {"times": len(new)}


CHANNELS = ("small", "big", "nested", "alone", "delta", TASKS)


def value_of(channel: str, held: list[BaseMessage], number: int) -> Any:
    """Return a value for a channel, made of the messages that the graph holds now."""
    match channel:
        case "small":
            return (None, True, 1, 1.5, "text", b"\0\xff", {"a": [1, {}]}, 2**40)[number]
        case "big":
            return {"page": f"{number % 3} and more of it " * 100}
        case "nested":
            return {
                "tasks": [{"history": [*held], "last": held[-1:], "n": number}],
                "none": [],
                "mixed": [1, *held[:2]],
            }
        case "alone":
            return held[number % len(held)] if held else None
        case "delta":
            return _DeltaSnapshot([*held])
        case _:
            return [Send("tools", {"messages": held[-LONG * n :], "n": n}) for n in range(number % 3)]


SPECIAL = (ERROR, INTERRUPT, RESUME)
NORMAL = ("messages", "delta", "last", "bare", "small", "big", "whole", TASKS)
normal_writes = st.lists(st.sampled_from(NORMAL), min_size=1, max_size=3)
special_writes = st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=2)
mixed_writes = st.lists(st.sampled_from((*NORMAL, *SPECIAL)), min_size=1, max_size=4)


def write_of(what: str, held: list[BaseMessage], new: list[BaseMessage]) -> tuple[str, Any]:
    """Return the channel and the value that a task writes."""
    text = str(new[0].text)
    values: dict[str, Any] = {
        "messages": new,
        "delta": new,
        "last": new[0],
        "bare": new[0].model_copy(update={"id": None}),
        "whole": Overwrite([*held, *new]),
        "small": len(new),
        "big": text + "b" * 2_000,
        TASKS: Send("tools", {"state": {"messages": [*held]}, "call": new[0]}),
        INTERRUPT: [Interrupt(value={"ask": new}, id="i1")],
        RESUME: text,
        ERROR: text,
    }
    return "messages" if what in {"last", "bare", "whole"} else what, values[what]


def exact(value: Any) -> Any:
    """Return a value with the types of what is in it, so that 1, 1.0 and True differ, and a list and a tuple."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is dict:
        return {key: exact(inner) for key, inner in value.items()}
    if kind is list:
        return [exact(inner) for inner in value]
    match value:
        case BaseMessage():
            inside = exact(value.__dict__)
        case Send(node=node, arg=inner) | Interrupt(id=node, value=inner):
            inside = node, exact(inner)
        case Overwrite(value=inner):
            inside = exact(inner)
        case tuple():
            inside = [exact(inner) for inner in value]
        case _:
            inside = value
    return kind, inside


def difference(found: Any, wanted: Any, at: str = "") -> str:
    """Say where two results of `exact` begin to differ."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        pairs = [(f"{at}.{key}", found[key], wanted[key]) for key in found]
    elif isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        pairs = [(f"{at}[{n}]", *both) for n, both in enumerate(zip_longest(found, wanted, fillvalue="nothing"))]
    else:
        return f"{at}: {found!r:.300} is not {wanted!r:.300}"
    return next(difference(one, other, where) for where, one, other in pairs if one != other)


def shown(found: CheckpointTuple | None) -> Any:
    """Return everything of a checkpoint that a reader can see."""
    if found is None:
        return None
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    at, parent = (
        config and [config["configurable"].get(name) for name in names]
        for config in (found.config, found.parent_config)
    )
    return at, parent, exact(found.checkpoint), exact(found.metadata), exact(found.pending_writes)
