"""Which words are identifiers, what each is worth, and which words in capitals are ordinary ones."""

import pytest

from langgraph_compaction.nodes.text.identifiers import (
    contains_whole,
    has_identifier,
    identifiers,
    is_capitalized_word,
    is_id_key,
    is_name_key,
    key_worth,
    kind_worth,
    spans,
)


def ordinary(line: str) -> bool:
    """Whether the word of the line between the marks `<` and `>` is an ordinary one."""
    start, end = line.index("<"), line.index(">") - 1
    return is_capitalized_word(line.replace("<", "", 1).replace(">", "", 1), start, end)


@pytest.mark.parametrize(
    ("line", "is_ordinary"),
    [
        ("## **<NOTES>: be quick", True),
        ("DO NOT <ENTER> here", True),
        ("NO <ENTRY>", True),
        ("please <READ> THIS now", True),
        ("fly to <JFK> soon", False),
        ("from <JFK>", False),
        ("fly to <JFK>: it is nearer", False),
        ("<JFK> A day later", False),
        ("<ZK4471> IS OPEN", False),
        ("x-AB <JFK>", False),
        ("<JFK> AB-7", False),
    ],
)
def test_a_heading_or_a_word_beside_another_in_capitals_is_ordinary(line: str, *, is_ordinary: bool) -> None:
    """A colon after it and only marks before it, or a neighbor in capitals that is no part of an identifier."""
    assert ordinary(line) is is_ordinary


@pytest.mark.parametrize(
    ("text", "part", "whole"),
    [
        ("KX-1", "KX-1", True),
        ("KX-12", "KX-1", False),
        ("AKX-1", "KX-1", False),
        ("1,450", "450", False),
        ("450, 1", "450", True),
        ("see KX-12 and KX-1.", "KX-1", True),
        ("用450元", "450", True),
        ("", "450", False),
    ],
)
def test_an_identifier_is_found_as_a_whole(text: str, part: str, *, whole: bool) -> None:
    """At the beginning and at the end of a text, too."""
    assert contains_whole(text, part) is whole


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("order KX-12 by Ann", ["KX-12"]),
        ("the JFK gate A1 or AB1", ["JFK", "AB1"]),
        ("src/app.py and a_b", ["src/app.py", "a_b"]),
        ("Never jfk", []),
        (f"{'A' * 120} {'B' * 121}", ["A" * 120]),
        ("", []),
    ],
)
def test_identifiers_have_a_digit_a_joining_mark_or_capitals_alone(text: str, found: list[str]) -> None:
    """An identifier has 3 to 120 characters: shorter ones occur by chance, longer ones are encoded data."""
    assert identifiers(text) == found
    assert has_identifier(text) == bool(found)
    assert [(text[start:end], name) for start, end, name in spans(text)] == [(name, name) for name in found]


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
