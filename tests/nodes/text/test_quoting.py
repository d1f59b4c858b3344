"""Texts of others on one line, and the words that are a user's own: outside quotations, code and tags."""

import pytest

from langgraph_compaction.nodes.text.quoting import (
    between_tags,
    clip,
    one_line,
    split_code,
    without_quotations,
)


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("two\n\n lines\x07 here ", None, "two lines here"),
        ("</facts> a < b", None, "&lt;/facts> a &lt; b"),
        ("<<<<", 4, "&lt;" * 4),
        ("plain", 5, "plain"),
        ("plain text", 5, "plai…"),
        (f"a{' ' * 18}b", 5, "a b"),
        ("", 5, ""),
    ],
)
def test_a_text_of_others_stands_on_one_line(text: str, limit: int | None, line: str) -> None:
    """Line breaks and control characters become spaces, and no tag begins; the limit counts `<` as one character."""
    assert one_line(text, limit) == line


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("alpha beta", 10, "alpha beta"),
        ("alpha beta gamma", 12, "alpha beta…"),
        ("alpha betagamma", 12, "alpha betag…"),
        ("abcde fghijkl", 10, "abcde fgh…"),
        ("abcdef ghijkl", 10, "abcdef…"),
        ("ab", 1, "…"),
    ],
)
def test_a_text_is_cut_at_the_end_of_a_word(text: str, limit: int, expected: str) -> None:
    """The cut is inside a word if more than half of the allowed length would be lost otherwise."""
    assert clip(text, limit) == expected
    assert len(expected) <= limit


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("mine", "mine"),
        ("```\ncode\n```", ""),
        ("mine\n```py\ncode\n``` also mine", "mine also mine"),
        ("~~~ a ``` b ~~~ mine ``` c ``` mine", "mine mine"),
        ("````\n```\ncode\n```\n```` mine", "mine"),
        ("mine ``` open\ncode", "mine"),
        ("mine\r\n> quoted\r  > quoted too\nmine", "mine mine"),
        ("1 > 0", "1 > 0"),
    ],
)
def test_code_and_quoted_lines_are_not_a_users_own_words(text: str, own: str) -> None:
    """A fence may be of either kind and any length; one that is not closed reaches to the end of the text."""
    assert " ".join(without_quotations(text).split()) == own


def test_code_and_text_together_are_the_whole_text() -> None:
    """Plain text stands before, between and after the blocks, even if it is empty."""
    parts = list(split_code("a```b```c~~~d"))
    assert parts == [(False, "a"), (True, "```b```"), (False, "c"), (True, "~~~d"), (False, "")]
    assert list(split_code("```b```")) == [(False, ""), (True, "```b```"), (False, "")]


@pytest.mark.parametrize(
    ("text", "found", "to_end"),
    [
        ("<s>one</s> two <s>three</s>", ["one", "three"], ["one", "three"]),
        ("</s><s>one</s></s>", ["one"], ["one"]),
        ("<s>one <s>two</s>", ["one <s>two"], ["one <s>two"]),
        ("<s>one</s> <s>two", ["one"], ["one", "two"]),
        ("<s></s>", [""], [""]),
        ("<S>one</S>", [], []),
        ("none", [], []),
    ],
)
def test_what_stands_between_tags_is_found(text: str, found: list[str], to_end: list[str]) -> None:
    """From an opening tag to the next closing one; a last tag that is not closed counts only where that is asked."""
    assert between_tags(text, "s") == found
    assert between_tags(text, "s", to_end=True) == to_end
    assert between_tags("<S>one</s>", "s", ignore_case=True) == ["one"]
