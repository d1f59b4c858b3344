"""What `--window` of `replay` means."""

import math
from pathlib import Path

import pytest

from langgraph_compaction.graph.lab.replay import recorded_run
from tests.graph.cli.replaying import READ, SYSTEM, replayed, rounds, run, written
from tests.recount import request_tokens


@pytest.mark.parametrize(
    ("window", "share"), [("25%", 0.25), ("33.3%", 0.333), ("50%", 0.5), ("100%", 1), ("1e2%", 1)]
)
def test_a_share_is_of_what_is_not_fixed_rounded_up(recorded: Path, window: str, share: float) -> None:
    """System prompt and tool schemas, and that share of the tokens of the rest."""
    (line,) = replayed(recorded, "--window", window)
    fixed, rest = request_tokens([SYSTEM], [[READ]]), request_tokens(rounds(10)[1:])
    assert line["limit"] == fixed + math.ceil(rest * share)


def test_a_share_that_is_a_whole_number_stays_one() -> None:
    """2.2 % of 1,500 tokens are 33, though 1500 x 2.2 / 100 is a little more to a computer."""
    assert recorded_run.limit_of("2.2%", fixed=7, rest=1_500) == 7 + 33
    assert recorded_run.limit_of("2.201%", fixed=7, rest=1_500) == 7 + 34


def test_tokens_are_taken_as_they_are(recorded: Path) -> None:
    """A number without a percent sign is the limit itself; what is not over it is not compacted."""
    lines = replayed(recorded, "--window", "600") + replayed(recorded, "--window", "90000")
    assert [line["limit"] for line in lines] == [600, 90_000]
    assert [bool(line["compactions"]) for line in lines] == [True, False]


@pytest.mark.parametrize("window", ["0", "-5", "0%", "-5%", "ten", "", "%", "nan%", "inf%", "1.5", "25 percent"])
def test_what_is_no_window_is_a_usage_error(recorded: Path, window: str) -> None:
    """The command ends with 2 and says what a window is."""
    result = run(recorded, f"--window={window}", width=200)
    assert result.exit_code == 2
    assert f"{window!r} is neither a number of tokens nor a share: write 32000, 25% or 0.25" in result.stderr
    assert result.stdout == ""


def test_a_window_without_room_for_a_conversation_is_an_error(tmp_path: Path) -> None:
    """The error names the window and what the system message takes of it."""
    path = written(tmp_path / "talk.json", rounds(3))
    fixed = request_tokens([SYSTEM])
    result = run(path, "--window", fixed + 5, width=200)
    assert result.exit_code == 1
    assert f"no room for a conversation: window {fixed + 5}" in result.stderr
    assert "Give a larger window" in result.stderr


def test_a_window_in_which_no_input_fits_ends(tmp_path: Path) -> None:
    """Every input is refused, the recorded answers follow all the same, and nothing is lost."""
    said = [{**one, "content": "and so on " * 300} if one["role"] == "user" else one for one in rounds(3)]
    path = written(tmp_path / "talk.json", said)
    (line,) = replayed(path, "--window", request_tokens([SYSTEM]) + 160)
    assert (line["turns"], line["refused_turns"], line["lost_messages"]) == (3, 3, 0)
    assert ("refused", "message_over_limit") in {(row["verdict"], row["reason"]) for row in line["compactions"]}
    assert {row["blocks_dropped"] for row in line["compactions"] if row["verdict"] == "refused"} == {0}
