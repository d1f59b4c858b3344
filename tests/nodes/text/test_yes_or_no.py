"""A person's answer: a clear yes, a clear no, or neither."""

from typing import get_args

import pytest

from langgraph_compaction.nodes.config.prompts import Language
from langgraph_compaction.nodes.text.yes_or_no import NO, YES, yes_or_no


def test_every_language_of_the_settings_has_both() -> None:
    """And no word is both."""
    assert set(YES) == set(NO) == set(get_args(Language))
    assert not {word for words in YES.values() for word in words} & {word for words in NO.values() for word in words}
    assert all(yes_or_no(word) is True for words in YES.values() for word in words)
    assert all(yes_or_no(word) is False for words in NO.values() for word in words)


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (" Yes! ", True),
        ("ＹＥＳ", True),
        ("Yes, please.", True),
        ("是的。", True),
        ("No, thanks.", False),
        ("Don’t!", False),
        ("不要！", False),
        ("", None),
        ("yes, but not now", None),
        ("the prices", None),
        ("是否", None),
        ("no " * 10_000, None),
    ],
)
def test_only_a_whole_answer_counts(answer: str, read: bool | None) -> None:
    """Case, width and punctuation aside."""
    assert yes_or_no(answer) is read
