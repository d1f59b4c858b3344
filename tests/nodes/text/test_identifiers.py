"""What an identifier is worth."""

import pytest

from langgraph_compaction.nodes.text.identifiers import (
    is_id_key,
    is_name_key,
    key_worth,
    kind_worth,
)


def test_an_identifier_is_worth_what_its_shape_tells() -> None:
    """The order is: dates, paths, ids, codes, quantities, joined words, words in capitals, points in time."""
    falling = [
        {"2024-05-20"},
        {"src/app", "app.py", "NOTES.MD"},
        {"123456", "KX-12", "a1.b"},
        {"JFK", "ABCDE"},
        {"12,50", "12345"},
        {"well-known", "notes.xyz"},
        {"WINDOW"},
        {"10:45", "2024-05-20T10:45"},
    ]
    worths = [{kind_worth(one) for one in alike} for alike in falling]
    assert [len(one) for one in worths] == [1] * len(falling)
    found = [max(one) for one in worths]
    assert found == sorted(set(found), reverse=True)


@pytest.mark.parametrize(
    ("key", "is_id", "is_name"),
    [
        ("orderId", True, False),
        ("reservation.code", True, False),
        ("first_name", False, True),
        ("jobTitle", False, True),
        ("id_of", False, False),
        ("", False, False),
    ],
)
def test_the_last_word_of_a_key_tells_what_its_value_is(key: str, *, is_id: bool, is_name: bool) -> None:
    """The words of a key may be joined in any way; ids are worth most, and points in time least."""
    assert (is_id_key(key), is_name_key(key)) == (is_id, is_name)
    assert (key_worth(key) > key_worth("status")) == is_id
    assert key_worth("created_at") < key_worth("status")
