"""Values of all kinds come back equal, or are refused when they are put; never as something else."""

import re
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Network
from pathlib import PurePosixPath
from textwrap import dedent
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

from langgraph_compaction.checkpoint.errors import CheckpointError, ValueTypeError
from langgraph_compaction.checkpoint.messages.strict_serde import StrictSerializer
from tests.checkpoint.contract.conftest import Opened
from tests.checkpoint.contract.savers import Kind, Saver
from tests.checkpoint.contract.steps import Steps, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.samples import talk

VALUES: dict[str, Any] = {
    "none": None,
    "false": False,
    "zero": 0,
    "largest": 2**64 - 1,
    "smallest": -(2**63),
    "float": -1.5e-300,
    "empty": "",
    "text": "Grüße, 世界 \U0001f600 \u2028",
    "long": "ü" * 200_000,
    "bytes": b"\x00\xff",
    "long bytes": bytes(range(256)) * 1000,
    "keys": {1: "a", "1": "b", None: "c", False: "d", 2.5: "e"},
    "deep": [[[[[[{"a": [{"b": [{"c": [1]}]}]}]]]]]],
    "empties": [[], {}, "", None, [[]], {"": {}}],
    "set": {1, 2, 3},
    "frozenset": frozenset({"a"}),
    "deque": deque([1, 2]),
    "datetime": datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=UTC),
    "date": date(2026, 11, 22),
    "time": time(1, 2, 3),
    "timedelta": timedelta(days=-1, seconds=5),
    "zone": ZoneInfo("Europe/Berlin"),
    "uuid": UUID(int=7),
    "decimal": Decimal("1.10"),
    "pattern": re.compile("a+", re.IGNORECASE),
    "addresses": [IPv4Address("127.0.0.1"), IPv6Network("::/64")],
    "document": Document("text", metadata={"page": 1}),
    "interrupt": [Interrupt(value={"ask": "go on?"}, id="ab")],
    "send": Send("node", {"arg": 1}),
}


def keeps(saver: Saver, thread_id: str, value: Any) -> None:
    """Put a value as a channel's, nested, and as a write; what is read is equal, to the last type."""
    expected = {"x": value, "nested": {"list": [value, value]}, "messages": talk(1)}
    head = Steps(saver, thread_id).put(expected)
    saver.put_writes(head, [("x", value), ("nested", [value])], "task")
    assert repr(values_of(saver, head)) == repr(expected)
    assert repr(writes_of(saver, head)) == repr([("task", "x", value), ("task", "nested", [value])])


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(saver: Saver, thread_id: str, name: str) -> None:
    """Whatever may be stored comes back equal and of its type."""
    keeps(saver, thread_id, VALUES[name])


@pytest.mark.parametrize("value", ["a \0 b", float("-inf"), float("nan")], ids=repr)
def test_a_value_that_json_does_not_know_comes_back(saver: Saver, thread_id: str, value: Any) -> None:
    """A text with a NUL in it, an infinite number and one that is none are values like others."""
    keeps(saver, thread_id, value)


@dataclass
class Order:
    """A class of the application."""

    number: int


class Model(BaseModel):
    """A pydantic class of the application."""

    number: int


class Point(NamedTuple):
    """A tuple with names."""

    x: int


class Color(Enum):
    """A choice."""

    RED = "red"


class OwnMessage(HumanMessage):
    """A message class of the application."""


_NAMES = r"Order|Model|Point|Color|OwnMessage"
FOREIGN: dict[str, Any] = {
    "dataclass": Order(1),
    "pydantic": Model(number=1),
    "named tuple": Point(1),
    "enum": Color.RED,
    "message": OwnMessage("x", id="1"),
    "in a list": [1, {"deep": [Order(1)]}],
    "among messages": [*talk(2), OwnMessage("x", id="1")],
    "in an artifact": [ToolMessage("x", id="1", tool_call_id="1", artifact={"color": Color.RED})],
    "sent": Send("node", {"messages": talk(1), "order": Order(1)}),
}
STRICT = JsonPlusSerializer(allowed_msgpack_modules=None)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_class_that_is_not_allowed_never_becomes_another_value(
    kind: Kind, opened: Opened, thread_id: str, name: str
) -> None:
    """With strict reading, a class that may not be loaded is refused when it is put, or comes back as it was."""
    saver = opened(kind) if kind.ours else opened(kind, serde=STRICT)
    try:
        head = Steps(saver, thread_id).put({"x": FOREIGN[name]})
    except CheckpointError:
        assert saver.get_tuple(where(thread_id)) is None
    else:
        assert repr(values_of(saver, head)) == repr({"x": FOREIGN[name]})


@pytest.mark.parametrize("name", FOREIGN)
def test_a_class_that_is_not_allowed_is_named_and_nothing_is_stored(ours: Any, thread_id: str, name: str) -> None:
    """A put and a put_writes of such a class are errors that name it, and the thread stays as it was."""
    steps = Steps(ours, thread_id)
    head = steps.put({"messages": talk(1)})
    for store in (
        lambda: steps.put({"x": FOREIGN[name], "messages": talk(2)}),
        lambda: ours.put_writes(head, [("y", talk(3)), ("x", FOREIGN[name])], "task"),
    ):
        with pytest.raises(ValueTypeError, match=_NAMES):
            store()
    assert read(ours, where(thread_id)).config == head
    assert writes_of(ours, head) == []
    assert ids(ours.list(where(thread_id))) == [id_of(head)]


@pytest.mark.parametrize(
    "name", ["dataclass", "pydantic", "named tuple", "enum", "message", "among messages", "sent"]
)
def test_a_class_that_is_allowed_comes_back(our_kind: Kind, opened: Opened, thread_id: str, name: str) -> None:
    """A class of the application that the saver was told of comes back as an instance of it."""
    saver = opened(our_kind, allow=(Order, Model, Point, Color, OwnMessage))
    head = Steps(saver, thread_id).put({"x": FOREIGN[name]})
    saver.put_writes(head, [("x", FOREIGN[name])], "task")
    assert repr(values_of(saver, head)) == repr({"x": FOREIGN[name]})
    assert repr(writes_of(saver, head)) == repr([("task", "x", FOREIGN[name])])
    getattr(saver, "inner", saver).serde = StrictSerializer()
    with pytest.raises(CheckpointError, match=_NAMES):
        read(saver, head)


def test_an_allowlist_holds_for_the_clone_alone(ours: Any, thread_id: str) -> None:
    """`with_allowlist` gives a saver that takes the class; the saver it was made from still refuses it."""
    clone = ours.with_allowlist([(Order.__module__, "Order")])
    head = Steps(clone, thread_id).put({"x": Order(1)})
    assert values_of(clone, head) == {"x": Order(1)}
    with pytest.raises(ValueTypeError, match="Order"):
        Steps(ours, f"{thread_id}-2").put({"x": Order(1)})
    with pytest.raises(CheckpointError, match="Order"):
        read(ours, head)


def test_a_value_that_would_need_pickle_is_refused(ours: Any, thread_id: str) -> None:
    """A value without a serialized form is an error at the put; there is no pickle to fall back on."""
    for value in (lambda: None, object(), {"f": open}, 2**70, complex(1, 2), PurePosixPath("a/b")):
        with pytest.raises(ValueTypeError):
            Steps(ours, thread_id).put({"x": value})
    assert ours.get_tuple(where(thread_id)) is None


STRICT_GRAPH = dedent("""
    import sys
    from dataclasses import dataclass
    from typing import Annotated, TypedDict
    from langchain_core.messages import AnyMessage, HumanMessage
    from langgraph.graph import END, START, StateGraph, add_messages
    from langgraph_compaction.checkpoint import SQLAlchemySaver

    @dataclass
    class Order:
        number: int

    class State(TypedDict, total=False):
        messages: Annotated[list[AnyMessage], add_messages]
        order: Order

    builder = StateGraph(State)
    builder.add_node("node", lambda state: {"order": Order(len(state["messages"])), "messages": [HumanMessage("b")]})
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    with SQLAlchemySaver.from_url(sys.argv[1]) as saver:
        saver.setup()
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "strict"}}
        graph.invoke({"messages": [HumanMessage("a")]}, config)
        graph.invoke({"messages": [HumanMessage("c")]}, config)
        values = graph.get_state(config).values
        print(values["order"], [each.content for each in values["messages"]])
""")


def test_langgraph_allows_the_types_of_a_strict_graph(own_url: str) -> None:
    """With LANGGRAPH_STRICT_MSGPACK a graph's own state classes are stored without being named to the saver."""
    done = subprocess.run(
        [sys.executable, "-c", STRICT_GRAPH, own_url],
        env={"LANGGRAPH_STRICT_MSGPACK": "true", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("Order(number=3) ['a', 'b', 'c', 'b']\n", "")
