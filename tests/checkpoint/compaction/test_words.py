import pytest

from langgraph_compaction.checkpoint.compaction.recall_search import folded, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Cat sat", ["the", "cat", "sat"]),
        ("src/app.py", ["src/app.py", "src", "app", "py"]),
        ("ABC-123", ["abc-123", "abc", "123"]),
        ("readFile2", ["readfile2", "read", "file", "2"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("取消订单", ["取消", "消订", "订单"]),
        ("单", ["单"]),
        ("订单12号", ["订单", "12", "号"]),
        ("Straße ＡＢＣ", ["strasse", "stra", "ss", "e", "abc"]),
        ("don't stop", ["don't", "don", "t", "stop"]),
        ('"quoted" (x) OR NOT * ^ NEAR(', ["quoted", "x", "or", "not", "near"]),
        ("", []),
        ("!!! --- ...", []),
    ],
)
def test_words_are_what_a_person_would_look_for(text: str, found: list[str]) -> None:
    """Folded, identifiers whole and in parts, wide characters in pairs."""
    assert words(text) == found


@pytest.mark.parametrize("text", ["The Cat", "readFile2 ＡＢＣ", "Straße ÆON", "取消订单12号", "ǅungla ﬁne İstanbul"])
def test_every_word_stands_in_the_folded_text(text: str) -> None:
    """A text that does not hold a word letter for letter need not be taken apart."""
    assert all(word in folded(text) for word in words(text))


def test_only_the_start_of_a_long_text_is_compared() -> None:
    """Its first 20,000 tokens."""
    assert words("a " * 30_000) == ["a"] * 20_000
