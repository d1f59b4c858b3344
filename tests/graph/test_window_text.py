"""How a person writes a window: in tokens, or as a share of the model's own."""

import pytest

from langgraph_compaction.graph.cli.options import window_tokens
from langgraph_compaction.graph.window_text import part_of, tokens_or_share, window_label
from langgraph_compaction.nodes import SettingsError


@pytest.mark.parametrize(
    ("text", "value"),
    [("32000", 32_000), ("8_000", 8_000), ("1", 1), ("25%", 0.25), ("0.25", 0.25), ("1.0", 1.0), ("100%", 1.0)],
)
def test_a_window_is_a_number_of_tokens_or_a_share(text: str, value: float) -> None:
    """A number with a point or a percent sign is a share, and any other number is tokens."""
    found = tokens_or_share(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["0", "-5", "0.0", "0%", "1.5", "nan%", "inf%", "eight", "", "8,000"])
def test_other_texts_are_no_window(text: str) -> None:
    """The error names the text and shows the forms that are understood."""
    with pytest.raises(SettingsError, match=r"write 32000, 25% or 0\.25"):
        tokens_or_share(text)


def test_a_part_of_a_window_is_rounded_up_and_shown_as_it_was_written() -> None:
    """A share of a window is rounded up to whole tokens, and a number of tokens is the same for each window."""
    assert [part_of(text, 220) for text in ("25%", "0.251", "8_000")] == [55, 56, 8_000]
    assert [window_label(tokens_or_share(text)) for text in ("8_000", "0.25", "1.0")] == [
        "8,000 tokens",
        "25%",
        "100%",
    ]


def test_a_share_is_taken_of_the_window_of_the_model() -> None:
    """A number of tokens needs no known window, and a share without one is a usage error."""
    assert window_tokens(None, known=8_000) is None
    assert window_tokens("25%", known=8_000) == 2_000
    assert [window_tokens("500", known=known) for known in (None, 8_000)] == [500, 500]
    with pytest.raises(SettingsError, match="is a share"):
        window_tokens("25%", known=None)
