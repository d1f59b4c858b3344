"""Which replies repeat a conversation instead of summarizing it."""

import pytest

from langgraph_compaction.nodes.text.non_prose import is_transcript


@pytest.mark.requirement("S0.24")
@pytest.mark.parametrize(
    "text",
    [
        "User: book it\nAssistant: booked\nUser: thanks",
        "Assistant: hello\n\n**User:** book it\n\nAssistant (10:02): booked",
        "用户：改到明天\n助手：好的\n用户：谢谢",
        "User: book it\nfor two\nAssistant: booked\nas asked\nUser: thanks\nbye",
        'Here it is.\n<message role="user">',
        "<|user|>book it",
    ],
)
def test_labeled_turns_and_quoting_tags_are_a_transcript(text: str) -> None:
    """Three turns of both sides that begin half of the lines, in either language, or one tag."""
    assert is_transcript(text)


@pytest.mark.requirement("S0.24")
@pytest.mark.parametrize(
    "text",
    [
        "The user asked for a booking; the assistant made it.",
        "User: wants a booking\nAssistant: has made it",
        "User: wants a booking\nUser: pays by card\nUser: leaves on Monday",
        "Assistant: made the booking\nTool: confirmed it\nAssistant: sent the receipt",
        "User: a booking\nTask\nAssistant: made it\nState\nUser: a receipt\nOpen points\nThe receipt is missing.",
    ],
)
def test_a_summary_that_names_the_sides_is_none(text: str) -> None:
    """Two labels, labels of one side only, or fewer than half of the lines."""
    assert not is_transcript(text)
