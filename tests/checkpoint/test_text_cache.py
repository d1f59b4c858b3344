from langgraph_compaction.checkpoint.text_cache import SHORTEST, TextCache


def test_results_of_the_last_texts_are_remembered_up_to_a_number_of_characters() -> None:
    """A text is read again once others have taken its place; one longer than the limit is read each time.

    Texts of models and tools may hold lone surrogates, which UTF-8 cannot encode.
    """
    read = list[str]()

    def last(text: str) -> str:
        read.append(text[-1])
        return text[-1]

    cache = TextCache[str](3 * SHORTEST)
    a, b, c, d = ("\ud800" * (SHORTEST - 1) + letter for letter in "abcd")
    assert [cache.get(text, last) for text in (a, b, c, a, d, a, b, a)] == [*"abcadaba"]
    assert read == [*"abcdb"]
    read.clear()
    huge = "." * (3 * SHORTEST) + "h"
    assert [cache.get(text, last) for text in (huge, huge, a)] == [*"hha"]
    assert read == [*"hh"]
