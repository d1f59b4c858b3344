import pytest

from langgraph_compaction.checkpoint.compaction.search_terms import identifier_terms, language_of, query_terms, terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Cats sat", ["the", "cat", "sat"]),
        ("src/app.py", ["src/app.py", "src", "app", "py"]),
        ("ABC-123", ["abc-123", "abc", "123"]),
        ("readFile2", ["readfile2", "read", "file", "2"]),
        ("取消订单", ["取消", "消订", "订单"]),
        ("单", ["单"]),
        ("订单12号", ["订单", "12", "号"]),
        ("Straße ＡＢＣ", ["strass", "abc"]),
        ("ɏcats ɐcats", ["ɏcat", "ɐcats"]),
        ("don’t stop", ["don't", "don", "t", "stop"]),
        ('"quoted" (x) OR NOT * ^ NEAR(', ["quot", "x", "or", "not", "near"]),
        ("x" * 50, ["x" * 50]),
    ],
)
def test_terms_are_what_a_person_would_look_for(text: str, found: list[str]) -> None:
    """Folded and stemmed, identifiers whole and in parts, wide characters in pairs."""
    assert terms(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("send PX-1 and px-1 to mia_li_3668", ["px-1", "mia_li_3668", "3668"]),
        ("src/app.py on 2024-05-17, JFK, 486", ["src/app.py", "2024-05-17", "2024", "jfk", "486"]),
        ("don't doesn’t OK 12 Oslo 订单编号 I", []),
        ("", []),
    ],
)
def test_identifiers_are_told_from_words(text: str, found: list[str]) -> None:
    """As terms; contractions, short tokens and wide characters are none."""
    assert identifier_terms(text) == found
    assert set(found) <= set(terms(text))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Please book the flight for my mother and me", "en"),
        ("Bitte buche den Flug für meine Mutter und mich", "de"),
        ("Por favor reserva el vuelo para mi madre y para mí", "es"),
        ("Réserve le vol pour ma mère et pour moi", "fr"),
        ('{"flight": "HAT170", "status": "available"}', "en"),
        ("die", "en"),
    ],
)
def test_the_language_of_a_text_is_told_by_its_frequent_words(text: str, language: str) -> None:
    """English where there are too few."""
    assert language_of(text) == language


def test_a_query_leaves_out_frequent_words_unless_it_has_no_others() -> None:
    """In each language of the thread; every word is stemmed in each of them."""
    assert query_terms("What is the status of my reservations?", ["en"]) == ["status", "reserv"]
    assert query_terms("die Buchungen und the flights", ["en", "de"]) == ["buchungen", "buchung", "flight"]
    assert query_terms("who are you", ["en"]) == ["who", "are", "you"]
