"""`chat --confirm` after a no, over the limit: what a person can choose."""

from pathlib import Path

import pytest

from tests.graph.cli.test_chat import STORY, full, heard, of_kind


@pytest.mark.parametrize(
    ("answer", "last", "seen"),
    [
        ("drop_oldest", "degraded_deterministic", ""),
        ("new_thread", "none", "Going on as chat-2"),
        ("raise", "declined", ""),
        ("no", "declined", ""),
    ],
)
def test_over_the_limit_the_chat_offers_what_is_left(answer: str, last: str, seen: str) -> None:
    """After a no the next question has choices; a new thread is opened at once, with the message that waits."""
    said = heard(*full(), "no", f"Now {STORY}", answer, "/status", args=["--confirm"])
    first, second = of_kind(said, "question")
    assert first["answers"] != second["answers"] == ["compact", "drop_oldest", "new_thread", "raise"]
    assert any(seen in each["text"] for each in of_kind(said, "note"))
    assert of_kind(said, "status")[0]["last"] == last
    assert len(of_kind(said, "answer")) == len(full()) + (last != "declined")
    assert ["update_state" in each["text"] for each in of_kind(said, "error")] == (
        [True] if last == "declined" else []
    )


def test_a_chat_that_moved_is_kept_as_the_new_thread_and_the_old_one_stays(tmp_path: Path) -> None:
    """The last note names the new thread.

    A chat that resumes the old thread asks the person again, and does not move the conversation again.
    """
    db = f"sqlite:///{tmp_path / 'chat.db'}"
    args = ["--confirm", "--db", db]
    moved = heard(*full(), "no", f"Now {STORY}", "new_thread", args=args)
    assert moved[-1]["text"] == f"Bye. The conversation is kept as chat-2 in {db}."
    old = heard("Hello.", args=args)
    assert [each["type"] for each in old] == ["note", "note", "note", "gauge", "event", "question", "note"]
    assert old[2]["text"] == f"Taking up chat: {2 * len(full()) + 1} messages."
    assert old[-1]["text"] == f"Bye. The conversation is kept as chat in {db}."
    new = heard("Hello.", args=[*args, "--thread", "chat-2"])
    assert "a summary of what came before) Hello." in of_kind(new, "answer")[0]["text"]
