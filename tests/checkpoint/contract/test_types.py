"""Values of all kinds come back equal, or are refused when they are put; never as something else."""

import re
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Network
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
from tests.checkpoint.contract.conftest import Opened
from tests.checkpoint.contract.steps import Saver, Steps, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.samples import talk

VALUES: dict[str, Any] = {
    "plain": [None, False, 0, 2**64 - 1, -(2**63), -1.5e-300, ""],
    "odd numbers": [float("-inf"), float("nan")],
    "texts": ["Grüße, 世界 \U0001f600 \u2028", "a \0 b"],
    "long": "ü" * 200_000,
    "bytes": b"\x00\xff",
    "long bytes": bytes(range(256)) * 1000,
    "keys": {1: "a", "1": "b", None: "c", False: "d", 2.5: "e"},
    "deep": [[[[[[{"a": [{"b": [{"c": [1]}]}]}]]]]]],
    "empties": [[], {}, "", None, [[]], {"": {}}],
    "collections": [{1, 2, 3}, frozenset({"a"}), deque([1, 2])],
    "times": [datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=UTC), date(2026, 11, 22), time(1, 2, 3), timedelta(-1, 5)],
    "of the library": [ZoneInfo("Europe/Berlin"), UUID(int=7), Decimal("1.10"), re.compile("a+", re.IGNORECASE)],
    "addresses": [IPv4Address("127.0.0.1"), IPv6Network("::/64")],
    "of LangGraph": [Document("text", metadata={"page": 1}), Interrupt(value={"ask": "go on?"}, id="ab")],
    "send": Send("node", {"arg": 1}),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(saver: Saver, thread_id: str, name: str) -> None:
    """As a channel's value, nested, and as a write, whatever may be stored comes back equal, to the last type."""
    value = VALUES[name]
    expected = {"x": value, "nested": {"list": [value, value]}, "messages": talk(1)}
    head = Steps(saver, thread_id).put(expected)
    saver.put_writes(head, [("x", value), ("nested", [value])], "task")
    assert repr(values_of(saver, head)) == repr(expected)
    assert repr(writes_of(saver, head)) == repr([("task", "x", value), ("task", "nested", [value])])


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


@pytest.mark.parametrize("name", FOREIGN)
def test_a_class_that_is_not_allowed_is_named_and_nothing_is_stored(saver: Saver, thread_id: str, name: str) -> None:
    """A put and a put_writes of such a class are errors that name it, and the thread stays as it was."""
    steps = Steps(saver, thread_id)
    head = steps.put({"messages": talk(1)})
    for store in (
        lambda: steps.put({"x": FOREIGN[name], "messages": talk(2)}),
        lambda: saver.put_writes(head, [("y", talk(3)), ("x", FOREIGN[name])], "task"),
    ):
        with pytest.raises(ValueTypeError, match=r"Order|Model|Point|Color|OwnMessage"):
            store()
    assert read(saver, where(thread_id)).config == head
    assert writes_of(saver, head) == []
    assert ids(saver.list(where(thread_id))) == [id_of(head)]


def test_an_allowlist_holds_for_the_clone_alone(saver: Saver, thread_id: str) -> None:
    """`with_allowlist` gives a saver that takes the class; the saver it was made from still refuses it."""
    clone = saver.with_allowlist([(Order.__module__, "Order")])
    head = Steps(clone, thread_id).put({"x": Order(1)})
    assert values_of(clone, head) == {"x": Order(1)}
    with pytest.raises(ValueTypeError, match="Order"):
        Steps(saver, f"{thread_id}-2").put({"x": Order(1)})
    with pytest.raises(CheckpointError, match="Order"):
        read(saver, head)


class Sealed(JsonPlusSerializer):
    """A serializer of an application that derives from LangGraph's, and writes nothing in plain."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Hide what the base class writes."""
        kind, data = super().dumps_typed(obj)
        return f"sealed {kind}", bytes(byte ^ 0xAA for byte in data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read what `dumps_typed` wrote."""
        return super().loads_typed((data[0].removeprefix("sealed "), bytes(byte ^ 0xAA for byte in data[1])))


@pytest.mark.parametrize("value", [True, 5, "a secret", ["a secret"], {"key": "a secret"}], ids=repr)
def test_a_serializer_of_the_application_writes_every_value(opened: Opened, thread_id: str, value: Any) -> None:
    """What derives from LangGraph's serializer gets also the values that msgpack knows, and the metadata."""
    written: list[Any] = []
    serde = Sealed()
    serde.dumps_typed = lambda obj: (written.append(obj), Sealed.dumps_typed(serde, obj))[1]  # type: ignore[method-assign]
    saver = opened(serde=serde)
    head = Steps(saver, thread_id).put({"x": value}, note=value)
    saver.put_writes(head, [("x", value)], "task")
    assert [one for one in written if one == value] == [value, value]
    assert any(isinstance(one, dict) and one.get("note") == value for one in written)
    assert values_of(saver, head) == {"x": value}
    assert writes_of(saver, head) == [("task", "x", value)]
