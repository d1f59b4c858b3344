from collections import deque
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
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

COMPARED: list[tuple[Any, Any, str | None]] = [
    (float("nan"), float("nan"), None),
    ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, None),
    (Basket({*_NAMES}), Basket({*reversed(_NAMES)}), None),
    (Send("node", {"n": [1]}), Send("node", {"n": [1]}), None),
    (UUID(_LONG), UUID(_LONG), None),
    (1, True, "value"),
    (1, 1.0, "value"),
    (0.0, 1e-300, "value"),
    ([1], (1,), "value"),
    ([1], [1, 2], "value (1 items against 2)"),
    ({"a": [1, {"b": 2}]}, {"a": [1, {"b": True}]}, "value.a[1].b"),
    ({"a": None}, {}, "value.a"),
    (deque([1]), deque([2]), "value"),
    (AIMessage("x", id="1"), AIMessageChunk("x", id="1"), "value"),
    (HumanMessage("x", id="1", extra=1), HumanMessage("x", id="1", extra=True), "value.extra"),
    (HumanMessage("x", id="1", n={"k": 1}), HumanMessage("x", id="1", n={"k": 2}), "value.n.k"),
    (UUID(_LONG), UUID("02" * 16), "value"),
]


@pytest.mark.parametrize(("one", "other", "place"), COMPARED)
def test_the_first_difference_is_named(one: Any, other: Any, place: str | None) -> None:
    """Stricter than `==`, with the place where it stands, whichever way round; in sets and dicts no order counts."""
    assert difference(one, other, "value") == place
    assert (difference(other, one, "value") is None) is (place is None)


def _versions(channels: dict[str, Any], seen: dict[str, dict[str, Any]]) -> Checkpoint:
    return {**empty_checkpoint(), "channel_versions": channels, "versions_seen": seen}


def test_versions_become_the_numbers_they_begin_with() -> None:
    """In the channels and in what nodes have seen alike; two that differ never become one."""
    version = "00000000000000000000000000000012.0.4567"
    old = _versions({"a": version, "b": 3, "c": 1.5}, {"node": {"a": version}, "__interrupt__": {"b": 2}})
    new = with_int_versions(old)
    assert new["channel_versions"] == {"a": 12, "b": 3, "c": 1.5}
    assert new["versions_seen"] == {"node": {"a": 12}, "__interrupt__": {"b": 2}}
    for seen, told in (("0012.0.9", "two versions with the number 12"), ("twelve", "is not a channel version")):
        with pytest.raises(ValueTypeError, match=told):
            with_int_versions(_versions({"a": "0012.0.4"}, {"node": {"a": seen}}))


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
