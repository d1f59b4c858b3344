"""`chat --confirm` after a no, over the limit: what a person can choose."""

import pytest

from tests.graph.cli.test_chat import STORY, full, heard, of_kind, talk


@pytest.mark.requirement("S4.39")
@pytest.mark.parametrize(
    ("answer", "last", "seen"),
    [
        ("drop_oldest", "degraded_deterministic", ""),
        ("new_thread", "none", "Going on as chat-2"),
        ("raise", "declined", ""),
    ],
)
def test_over_the_limit_the_chat_offers_what_is_left(answer: str, last: str, seen: str) -> None:
    """After a no the next question has choices; a new thread is opened at once, with the message that waits."""
    said = heard(*full(), "no", f"Now {STORY}", answer, "/status", args=["--confirm"])
    first, second = of_kind(said, "question")
    assert first["answers"] != second["answers"] == ["compact", "drop_oldest", "new_thread", "raise"]
    assert any(seen in each["text"] for each in of_kind(said, "note"))
    assert of_kind(said, "status")[0]["last"] == last
    assert len(of_kind(said, "answer")) == len(full()) + (answer != "raise")
    assert ["update_state" in each["text"] for each in of_kind(said, "error")] == (
        [True] if answer == "raise" else []
    )


def test_in_a_terminal_the_choices_are_the_prompt() -> None:
    """A person sees what can be answered."""
    output = talk(*full(), "no", f"Now {STORY}", "compact", args=["--confirm"]).output
    assert "compact, drop_oldest, new_thread, raise> " in output
    assert "The conversation is over the limit." in output
