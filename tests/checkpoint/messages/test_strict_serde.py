import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_SINGLE_ARG, EXT_METHOD_SINGLE_ARG, JsonPlusSerializer
from langgraph.types import Send

from langgraph_compaction.checkpoint import ValueTypeError
from langgraph_compaction.checkpoint.messages.strict_serde import StrictSerializer

RAN: list[object] = []


@dataclass
class ValueEncoder:
    """A class of an application."""

    steps: list[str]

    def __post_init__(self) -> None:
        """Say that an instance was built."""
        RAN.append(self)


def extension(code: int, *parts: Any) -> tuple[str, bytes]:
    """Return a value that names something to call."""
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"\x00",
        bytearray(b"x"),
        {1: [2.5, "ü"]},
        datetime(2026, 11, 22, tzinfo=UTC),
        {1, 2},
        Send("node", {"a": 1}),
    ],
)
def test_safe_values_come_back(value: object) -> None:
    """What LangGraph calls safe comes back equal, and in LangGraph's own bytes."""
    typed = StrictSerializer().dumps_typed(value)
    assert StrictSerializer().loads_typed(typed) == value
    assert typed == JsonPlusSerializer().dumps_typed(value)


def test_a_class_comes_back_where_it_is_allowed() -> None:
    """An allowed class is written and read; any other is named in the error, at both ends, and never built."""
    lax, strict, allowing = JsonPlusSerializer(), StrictSerializer(), StrictSerializer(allow=[ValueEncoder])
    plan = {"deep": [{"plan": ValueEncoder(["a"])}]}
    assert allowing.loads_typed(allowing.dumps_typed(plan)) == plan
    written = lax.dumps_typed(plan)
    RAN.clear()
    with pytest.raises(ValueTypeError, match=r"test_strict_serde\.ValueEncoder .*allow=\[ValueEncoder\]"):
        strict.dumps_typed(plan)
    with pytest.raises(ValueTypeError, match=r"test_strict_serde\.ValueEncoder"):
        strict.loads_typed(written)
    assert RAN == []


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (extension(EXT_CONSTRUCTOR_SINGLE_ARG, "os", "system", "true"), "os.system is not among the types"),
        (extension(EXT_METHOD_SINGLE_ARG, "subprocess", "os", "true", "system"), "subprocess.os.system would be"),
        (extension(EXT_METHOD_SINGLE_ARG, "datetime", "datetime", "x", "now"), "datetime.datetime.now would be"),
        (extension(99, "datetime", "date", [2026, 1, 1]), "extension 99 names no class"),
        (extension(EXT_CONSTRUCTOR_SINGLE_ARG), f"extension {EXT_CONSTRUCTOR_SINGLE_ARG} names no class"),
        (extension(EXT_CONSTRUCTOR_SINGLE_ARG, "os"), f"extension {EXT_CONSTRUCTOR_SINGLE_ARG} names no class"),
        (extension(EXT_CONSTRUCTOR_SINGLE_ARG, 1, "x"), f"extension {EXT_CONSTRUCTOR_SINGLE_ARG} names no class"),
        (("pickle", b"cos\nsystem\n(S'true'\ntR."), "the form 'pickle' is never loaded"),
        (("json", b'{"lc": 2, "type": "constructor", "id": ["os", "system"]}'), "the form 'json' is never loaded"),
        (("msgpack", b"\xc1"), "the bytes are not a serialized value"),
    ],
    ids=[
        *("call", "method", "other method", "unknown", "empty", "module alone", "no text"),
        *("pickle", "json", "no msgpack"),
    ],
)
def test_nothing_foreign_is_loaded(typed: tuple[str, bytes], why: str) -> None:
    """Bytes that name a function, a form that runs code and bytes that are nothing at all are errors."""
    with pytest.raises(ValueTypeError, match=re.escape(why)):
        StrictSerializer().loads_typed(typed)


def test_a_value_that_cannot_be_written_is_named() -> None:
    """A value without a serialized form is an error at the put, with its type."""
    with pytest.raises(ValueTypeError, match="dict cannot be serialized"):
        StrictSerializer().dumps_typed({"f": lambda: 0})


def test_an_allowed_class_that_has_changed_is_an_error() -> None:
    """A value that the class of today cannot be built from is named, and no half-built one is returned."""
    serde = StrictSerializer(allow=[ValueEncoder])
    kind, data = serde.dumps_typed(ValueEncoder(["a"]))
    with pytest.raises(ValueTypeError, match="ValueEncoder cannot be built again: TypeError"):
        serde.loads_typed((kind, data.replace(b"steps", b"stops")))


def test_a_message_within_a_value_keeps_every_field() -> None:
    """Messages are taken as they were written and not validated again, which would change some."""
    message = AIMessage("x", id="1", additional_kwargs={"tool_calls": [{"id": "c", "function": {"name": "f"}}]})
    serde = StrictSerializer()
    assert serde.loads_typed(serde.dumps_typed({"m": message})) == {"m": message}
