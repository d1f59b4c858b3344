from typing import Any

import pytest

from langgraph_compaction.nodes.text.nested_texts import map_texts, nested_texts

VALUE: dict[str, Any] = {"a": "x", "b": ["y", 7, None, {"c": "z", "id": "x"}], "id": ["x"]}


@pytest.mark.parametrize(
    ("value", "found"),
    [("x", ["x"]), ("", [""]), (7, []), (None, []), ({}, []), (VALUE, ["x", "y", "z", "x", "x"]), ([["x"]], ["x"])],
)
def test_every_text_inside_a_value_is_found_in_order(value: Any, found: list[str]) -> None:
    """In mappings and lists, at any depth; keys and numbers are no texts."""
    assert nested_texts(value) == found


def test_every_text_is_changed_but_under_the_keys_that_are_left_out() -> None:
    """The copy has the same shape; the value given is not changed."""
    before = repr(VALUE)
    upper = {"a": "X", "b": ["Y", 7, None, {"c": "Z", "id": "X"}], "id": ["X"]}
    assert map_texts(VALUE, str.upper) == upper
    assert map_texts(VALUE, str.upper, except_keys={"id"}) == {
        **upper,
        "b": ["Y", 7, None, {"c": "Z", "id": "x"}],
        "id": ["x"],
    }
    assert repr(VALUE) == before
    assert map_texts((1, "x"), str.upper) == (1, "x")
