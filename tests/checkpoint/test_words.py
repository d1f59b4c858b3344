import pytest

from langgraph_compaction.checkpoint.words import encoded, words


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


def test_an_encoded_word_is_plain_and_short() -> None:
    """Two words that differ stay different, also where only their ends do."""
    every = ["abc-123", "abc_123", "取消", "消订", "a" * 90 + "1", "a" * 90 + "2", "x"]
    plain = [encoded(word) for word in every]
    assert len(set(plain)) == len(every)
    assert all(word.isascii() and word.isalnum() and len(word) <= 40 for word in plain)
