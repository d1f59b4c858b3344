"""A summary over its limit, cut where a line or a sentence ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_compaction.nodes.conversation.clipping import clip_at_sentence_end
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from tests.graph.harness import WORDS

SAID = "The user asked for a fix. The tests were red.\nNow they are green; one is slow."


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (len(SAID), SAID),
        (len(SAID) - 1, "The user asked for a fix. The tests were red.\nNow they are green;"),
        (60, "The user asked for a fix. The tests were red."),
        (45, "The user asked for a fix. The tests were red."),
        (44, "The user asked for a fix."),
        (25, "The user asked for a fix."),
        (24, "The user asked for a fix"),
        (3, "The"),
    ],
)
def test_too_many_characters_are_cut_at_an_end(most: int, left: str) -> None:
    """Of a line, a sentence or a part of one; in its middle where no end comes in the second half."""
    assert clip_at_sentence_end(SAID, counter=WORDS, characters=most) == left


@pytest.mark.parametrize(("most", "left"), [(17, SAID), (9, SAID[:25]), (10, SAID[:45]), (2, "The user")])
def test_too_many_tokens_are_counted_as_tokens(most: int, left: str) -> None:
    """And not as characters."""
    assert clip_at_sentence_end(SAID, counter=WORDS, tokens=most) == left


def test_chinese_sentences_end_too() -> None:
    """With marks of their own, and no blank behind them."""
    assert (
        clip_at_sentence_end("用户要求修复登录。助手改动了文件！然后", counter=WORDS, characters=18)
        == "用户要求修复登录。助手改动了文件！"
    )


def test_a_point_within_a_name_is_no_end() -> None:
    """Nor is one in a number."""
    assert (
        clip_at_sentence_end("see src/app.py at 3.14 now", counter=WORDS, characters=24) == "see src/app.py at 3.14 n"
    )


@given(st.text(max_size=300), st.none() | st.integers(1, 200), st.none() | st.integers(1, 60))
def test_any_text_fits_and_is_its_own_beginning(text: str, characters: int | None, tokens: int | None) -> None:
    """What fits stays as it is, and a second cut changes nothing."""
    counter = approximate_counter()
    short = clip_at_sentence_end(text, counter=counter, tokens=tokens, characters=characters)
    assert text.startswith(short)
    assert characters is None or len(short) <= characters
    assert tokens is None or counter.text(short) <= tokens
    fits = (characters is None or len(text) <= characters) and (tokens is None or counter.text(text) <= tokens)
    assert (short == text) or not fits
    assert clip_at_sentence_end(short, counter=counter, tokens=tokens, characters=characters) == short
