"""The page that `replay` prints, with the longest words there are."""

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.graph.cli.output.replay_page import WIDE, page
from langgraph_compaction.graph.lab.replay.replay_report import Report

ROWS = [
    ("precheck", "selective+digest", "committed", "", 128_766, 116_844, 128, 12),
    ("overflow", "selective+model", "degraded_deterministic", "", 128_766, 7_123, 70, 3),
    ("precheck", "selective+model", "rejected_insufficient", "no_selection_fits", 128_766, None, None, None),
    ("manual", "hide", "failed_transient", "summary_exception:APIConnectionError", 900, None, 0, None),
    ("check", "", "refused", "message_over_limit", 99_999, None, None, None),
]
NAMES = ("trigger", "strategy", "verdict", "reason", "tokens_before", "tokens_after", "blocks_dropped", "floor")


def attempt(*values: Any) -> LedgerRow:
    """Return a row of the ledger with these values of `NAMES`."""
    nothing: dict[str, Any] = dict.fromkeys(LedgerRow.__dataclass_fields__)
    return LedgerRow(**{**nothing, **dict(zip(NAMES, values, strict=True))})


REPORT = Report(file="[bold]talk[/].json", thread="talk-1", attempts=[attempt(*row) for row in ROWS])


def shown(report: Report, width: int) -> list[str]:
    """Return the lines of the page in a terminal of this width."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(page(report, width=width, place="sqlite:///kept.db"))
    return capture.get().splitlines()


def colors(report: Report) -> dict[str, str]:
    """Return the style of each word of the page, in a terminal of 160 columns."""
    console = Console(width=160)
    segments = console.render(page(report, width=160))
    return {word: str(segment.style or "none") for segment in segments for word in segment.text.split()}


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_word_is_whole(width: int) -> None:
    """From 80 columns on no row is cut, no word is broken, and no line is longer than the terminal."""
    lines = shown(REPORT, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for row in ROWS:
        reason = row[3].replace(":", ": ").split()
        assert {row[0], row[2], f"{row[4]:,}", *filter(None, [row[1], *reason])} <= set(words)


@pytest.mark.parametrize(("width", "gap"), [(WIDE - 1, 0), (WIDE, 1)])
def test_in_a_wide_terminal_columns_are_further_apart(width: int, gap: int) -> None:
    """From 90 columns on, one more space stands between two columns."""
    (headings,) = (line for line in shown(replace(REPORT, attempts=[attempt(*ROWS[-1])]), width) if "floor" in line)
    assert f"blocks{' ' * (1 + gap)}floor" in headings


def test_a_reason_stands_under_its_verdict() -> None:
    """What failed says why, in the same column."""
    lines = shown(REPORT, 100)
    place = next(number for number, line in enumerate(lines) if "rejected_insufficient" in line)
    assert lines[place].index("rejected_insufficient") == lines[place + 1].index("no_selection_fits")


def test_a_row_ends_with_the_floor_that_its_attempt_kept() -> None:
    """The last column is the number of rounds that the attempt kept, or empty if it chose no messages."""
    lines = [line.split() for line in shown(REPORT, 160)]
    ends = [line[-3:] for line in lines if line and line[0] in ("1", "2", "3")]
    assert ends == [["116,844", "128", "12"], ["7,123", "70", "3"], ["rejected_insufficient", "128,766", "0"]]


def test_names_are_no_markup() -> None:
    """A file's name is printed as it is; the thread and its database are named."""
    lines = shown(REPORT, 100)
    assert lines[0] == "[bold]talk[/].json: 0 messages in 0 turns; 0 requests, the largest 0 of 0 tokens"
    assert lines[1] == "selective compacts from 0 tokens on"
    assert lines[2] == "It is thread talk-1 in sqlite:///kept.db."


def test_colors_tell_what_failed() -> None:
    """A verdict with a reason is yellow.

    The last line is green if no message was lost and no request was invalid, and otherwise red.
    """
    report = Report(file="f", thread="t", attempts=[attempt(*row) for row in (ROWS[0], ROWS[2])], messages=7)
    found = colors(report)
    assert (found["committed"], found["rejected_insufficient"], found["no_selection_fits"]) == (
        "none",
        "yellow",
        "dim",
    )
    assert (found["archive"], colors(replace(report, lost_messages=1))["archive"]) == ("green", "red")
    assert shown(report, 160)[-2] == (
        "7 messages in view, 0 in the archive only; 0 lost, 0 requests invalid, 0 over the limit, 0 inputs refused"
    )


def test_what_is_open_is_not_hidden() -> None:
    """An attempt without a verdict is shown as open."""
    report = Report(file="f", thread="t", attempts=[attempt("check", "", None, "", 1, None, None, None)])
    assert any(line.split()[:3] == ["1", "check", "open"] for line in shown(report, 100))
