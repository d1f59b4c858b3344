"""Which words in capitals are ordinary words: what a code such as an airport's is told apart from."""

import pytest

from langgraph_compaction.nodes.text.identifiers import contains_whole, is_capitalized_word


def ordinary(line: str) -> bool:
    """Whether the word of the line between the marks `<` and `>` is an ordinary one."""
    start, end = line.index("<"), line.index(">") - 1
    return is_capitalized_word(line.replace("<", "", 1).replace(">", "", 1), start, end)


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize(
    "line",
    [
        "<NOTES>: be quick",
        "## **<NOTES>: be quick",
        f"{'#' * 23} <NOTES>: be quick",
        "DO NOT <ENTER> here",
        "NO <ENTRY>",
        "<READ> THIS",
        "please <READ> THIS now",
    ],
)
def test_a_heading_or_a_word_beside_another_in_capitals_is_ordinary(line: str) -> None:
    """A colon after it and only marks before it, or a neighbor in capitals on either side."""
    assert ordinary(line)


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize(
    "line",
    [
        "fly to <JFK> soon",
        "<JFK> is fine",
        "from <JFK>",
        "fly to <JFK>: it is nearer",
        f"{'#' * 24} <NOTES>: be quick",
        "<JFK>;: two marks",
        "<JFK> A day later",
        "<ZK4471>: the booking",
        "<ZK4471> IS OPEN",
        "x-AB <JFK>",
        "<JFK> AB-7",
    ],
)
def test_a_code_is_not(line: str) -> None:
    """No neighbor in capitals, a digit in the word, or a neighbor that belongs to another identifier."""
    assert not ordinary(line)


@pytest.mark.requirement("S3.23")
@pytest.mark.parametrize(
    ("text", "part", "whole"),
    [
        ("KX-1", "KX-1", True),
        ("KX-12", "KX-1", False),
        ("KX-1-2", "KX-1", False),
        ("AKX-1", "KX-1", False),
        ("1,450", "450", False),
        ("a,450", "450", True),
        ("450,1", "450", False),
        ("450, 1", "450", True),
        ("see KX-12 and KX-1.", "KX-1", True),
        ("用450元", "450", True),
        ("", "450", False),
    ],
)
def test_an_identifier_is_found_as_a_whole(text: str, part: str, *, whole: bool) -> None:
    """At the beginning and at the end of a text, too."""
    assert contains_whole(text, part) is whole
