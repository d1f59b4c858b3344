from collections import deque
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot as DeltaSnapshot
from langgraph.types import Send

from langgraph_compaction.checkpoint import ValueTypeError
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import difference
from langgraph_compaction.checkpoint.maintenance.import_sources import SourceSerializer, with_int_versions


@dataclass
class Basket:
    """An application's own class."""

    fruit: set[str] = field(default_factory=set[str])


_NAMES = [f"fruit {number}" for number in range(50)]
_LONG = "01" * 16

SAME = [
    (1, 1),
    (float("nan"), float("nan")),
    ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
    ({*_NAMES}, {*reversed(_NAMES)}),
    (Basket({*_NAMES}), Basket({*reversed(_NAMES)})),
    (AIMessage("x", id="1"), AIMessage("x", id="1")),
    (Send("node", {"n": [1]}), Send("node", {"n": [1]})),
    (UUID(_LONG), UUID(_LONG)),
]
OTHER = [
    (1, True, "value"),
    (1, 1.0, "value"),
    (0.0, 1e-300, "value"),
    ([1], (1,), "value"),
    ([1], [1, 2], "value (1 items against 2)"),
    ({"a": [1, {"b": 2}]}, {"a": [1, {"b": True}]}, "value.a[1].b"),
    ({"a": None}, {}, "value.a"),
    (deque([1]), deque([2]), "value"),
    (AIMessage("x", id="1"), AIMessageChunk("x", id="1"), "value"),
    (AIMessage("x", id="1"), AIMessage("y", id="1"), "value.content"),
    (HumanMessage("x", id="1", extra=1), HumanMessage("x", id="1", extra=True), "value.extra"),
    (HumanMessage("x", id="1", n={"k": 1}), HumanMessage("x", id="1", n={"k": 2}), "value.n.k"),
    (UUID(_LONG), UUID("02" * 16), "value"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_is_the_same_is_found_to_be(one: Any, other: Any) -> None:
    """Whatever order sets and dicts have."""
    assert difference([one], [other], "value") is None


@pytest.mark.parametrize(("one", "other", "place"), OTHER)
def test_the_first_difference_is_named(one: Any, other: Any, place: str) -> None:
    """Stricter than `==`, with the place where it stands, whichever way round."""
    assert difference(one, other, "value") == place
    assert difference(other, one, "value") is not None


def _versions(channels: dict[str, Any], seen: dict[str, dict[str, Any]]) -> Checkpoint:
    return {**empty_checkpoint(), "channel_versions": channels, "versions_seen": seen}


def test_versions_become_the_numbers_they_begin_with() -> None:
    """In the channels and in what nodes have seen alike; numbers stay."""
    version = "00000000000000000000000000000012.0.4567"
    old = _versions({"a": version, "b": 3, "c": 1.5}, {"node": {"a": version}, "__interrupt__": {"b": 2}})
    new = with_int_versions(old)
    assert new["channel_versions"] == {"a": 12, "b": 3, "c": 1.5}
    assert new["versions_seen"] == {"node": {"a": 12}, "__interrupt__": {"b": 2}}
    assert old["channel_versions"]["a"] == version


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ("0012.0.9", "two versions with the number 12"),
        ("twelve", "is not a channel version"),
        ("-1.2", "is not a channel version"),
    ],
)
def test_versions_that_would_lose_their_order_are_refused(seen: str, told: str) -> None:
    """Two that differ never become one, and what is no version is told."""
    with pytest.raises(ValueTypeError, match=told):
        with_int_versions(_versions({"a": "0012.0.4"}, {"node": {"a": seen}}))


def test_an_object_that_was_read_before_is_given_out_again() -> None:
    """Also inside a delta channel's value and beside other values; another one with its id is another one."""
    plain, strict = JsonPlusSerializer(), SourceSerializer()
    one, two = HumanMessage("hello", id="1"), HumanMessage("changed", id="1")
    first = strict.loads_typed(plain.dumps_typed([one, two]))
    second = strict.loads_typed(plain.dumps_typed({"messages": DeltaSnapshot([one]), "other": two}))
    assert first == [one, two]
    assert second == {"messages": DeltaSnapshot([one]), "other": two}
    assert second["messages"].value[0] is first[0]
    assert second["other"] is first[1]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("json", b'{"lc": 2, "type": "constructor", "id": ["subprocess", "Popen"], "args": [["true"]]}'),
        ("json", b'{"lc": 1, "type": "constructor", "id": ["subprocess", "Popen"], "kwargs": {}}'),
        ("json", b'[{"lc": 2, "type": "constructor", "id": ["langgraph", "types", "Send"], "args": [1, 2, 3, 4]}]'),
        JsonPlusSerializer().dumps_typed([1, {"b": Basket()}]),
    ],
)
def test_a_type_that_is_not_allowed_is_an_error(kind: str, data: bytes) -> None:
    """However deep it stands, and in the old form too: never a dict in its place, and nothing is run."""
    with pytest.raises(ValueTypeError):
        SourceSerializer().loads_typed((kind, data))
