from benchmarks import growth
from langgraph_compaction.checkpoint.text_cache import SHORTEST, TextCache, cached_by_text


def test_results_of_the_last_texts_are_remembered_up_to_a_number_of_characters() -> None:
    """A text is read again once others have taken its place; one longer than the limit is read each time."""
    read = list[str]()

    def last(text: str) -> str:
        read.append(text[-1])
        return text[-1]

    cache = TextCache[str](3 * SHORTEST)
    a, b, c, d = ("." * (SHORTEST - 1) + letter for letter in "abcd")
    assert [cache.get(text, last) for text in (a, b, c, a, d, a, b, a)] == [*"abcadaba"]
    assert read == [*"abcdb"]
    read.clear()
    huge, short = "." * (3 * SHORTEST) + "h", "s"
    assert [cache.get(text, last) for text in (huge, huge, short, short, a)] == [*"hhssa"]
    assert read == [*"hhss"]


def test_a_text_with_half_a_character_can_be_remembered() -> None:
    """Texts of models and tools may hold lone surrogates, which UTF-8 cannot encode."""
    text = "\ud800" * SHORTEST
    cache = TextCache[int](2 * SHORTEST)
    assert [cache.get(text, len), cache.get(text, lambda _: 0)] == [SHORTEST, SHORTEST]


def test_a_measurement_reads_a_remembered_text_again() -> None:
    """Otherwise the second try of a benchmark would find every function fast."""
    read = list[int]()

    @cached_by_text
    def length(text: str) -> int:
        read.append(len(text))
        return len(text)

    text = "." * SHORTEST
    assert length(text) == length(text)
    assert len(read) == 1
    for _ in range(2):
        growth.seconds(length, text)
    assert len(read) == 3
