"""Several presets side by side: the chart of lines, and the page."""

import pytest
from rich.console import Console

from langgraph_compaction.graph.cli.output.preset_comparison import comparison
from langgraph_compaction.graph.cli.output.replay_page import UNASKED
from langgraph_compaction.graph.cli.output.size_chart import SHARED, Line, lines
from langgraph_compaction.graph.lab.replay.replay_report import Report
from langgraph_compaction.nodes.config.presets import PRESETS
from tests.graph.cli.test_replay_page import attempt


def line(*sizes: int, sign: str = "o", trigger: int = 80) -> Line:
    """A line with these requests."""
    return Line(sign=sign, color="cyan", sizes=sizes, trigger=trigger)


def drawn(*several: Line, width: int = 40) -> list[str]:
    """The rows of the chart under a limit of 140, ten tokens a row."""
    return lines(several, 140, width).plain.splitlines()


def places(rows: list[str], sign: str, margin: int = len("trigger 80 ")) -> dict[int, int]:
    """Row, from below, by column of each sign behind the labels."""
    return {c: 14 - r for r, row in enumerate(rows) for c, cell in enumerate(row[margin:]) if cell == sign}


def test_a_sign_stands_as_high_as_its_request() -> None:
    """The limit is the top row, and the trigger a line across."""
    rows = drawn(line(0, 50, 140, 80))
    assert places(rows, "o") == {0: 0, 1: 5, 2: 14, 3: 8}
    assert rows[0] == "limit 140 ".rjust(11) + "┄┄o┄"
    assert rows[6] == "trigger 80 ┄┄┄o"
    assert len(rows) == 15


def test_lines_of_several_presets_have_each_their_sign_and_trigger() -> None:
    """Where they meet there is one sign for all."""
    rows = drawn(line(10, 20, 30), line(10, 40, 30, sign="x", trigger=100))
    found = [places(rows, sign, len("trigger 100 ")) for sign in (SHARED, "o", "x")]
    assert found == [{0: 1, 2: 3}, {1: 2}, {1: 4}]
    marked = lines([line(10, 20, 30), line(10, 40, 30, sign="x", trigger=100)], 140, 40)
    styles = {marked.plain[span.start : span.end]: str(span.style) for span in marked.spans}
    assert (styles["o"], styles["x"], styles["┄"]) == ("cyan", "cyan", "dim")
    assert SHARED not in styles, "it has the color of none"
    assert [row.split("┄")[0].strip() for row in rows if "┄" in row] == ["limit 140", "trigger 100", "trigger 80"]


def test_a_line_is_as_wide_as_the_chart_however_many_requests_it_has() -> None:
    """The longest gives the width, up to the terminal's; no peak is hidden."""
    few, many = line(10, 60, sign="x"), line(*[20] * 90, 120)
    rows = drawn(few, many, width=31)
    assert {len(row) for row in rows} <= {31}
    assert sorted(places(rows, "x")) == list(range(20))
    assert places(rows, "o")[19] == 12


def test_one_without_requests_is_no_line() -> None:
    """The others are drawn."""
    assert places(drawn(line(), line(30)), "o") == {0: 3}


def report(preset: str, **figures: object) -> Report:
    """A report with these figures."""
    usual: dict[str, object] = {"sizes": [10, 60, 30], "limit": 140, "trigger": 112, "recorded": 9, "turns": 3}
    return Report(file="[bold]talk[/].json", thread=f"t-{preset}", preset=preset, **{**usual, **figures})  # type: ignore[arg-type] # by name


def shown(*reports: Report, width: int = 80) -> list[str]:
    """The lines of the page."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(comparison(reports, width=width))
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [80, 160])
def test_the_page_fits_with_every_preset(width: int) -> None:
    """A row each with its figures, none cut."""
    sizes = [90_000] * 99
    figures = {"limit": 100_000, "trigger": 90_000, "needed": 8, "kept": 7, "messages": 1_234, "rounds": 123}
    rows = shown(*(report(one, sizes=sizes, **figures) for one in PRESETS), width=width)
    assert max(map(len, rows)) <= width
    for preset in PRESETS:
        (row,) = [row.split() for row in rows if preset in row.split()]
        assert row[2:] == ["90,000", "0", "99", "8,910", "k", "88%", "1234", "123"]


def test_the_page_tells_what_became_of_each() -> None:
    """Commits count, other verdicts do not; the heading is the conversation's; names are no markup."""
    rows = [attempt("precheck", "s", verdict, "", 1, None, None, None) for verdict in ("committed", "noop")]
    several = report("selective", attempts=rows, needed=3, kept=1), report("recent_rounds", asks=True)
    page = shown(*several)
    assert page[0] == "[bold]talk[/].json: 9 messages in 3 turns, under 140 tokens"
    assert [row.split()[-1] for row in page[2:17] if SHARED in row] == [SHARED, SHARED, SHARED]
    assert page[18] == f"Tokens of the requests over time; {SHARED} is where several presets are alike."
    assert [row.rstrip() for row in page[20:24]] == [
        "preset           trigger  commits  requests  sent  kept  in view  rounds",
        "─" * 73,
        "● selective          112        1         3   100   33%        0       0",
        "▲ recent_rounds      112        0         3   100              0       0",
    ]
    assert " ".join(UNASKED.split()) in " ".join(" ".join(page).split())
    assert UNASKED.split()[0] not in " ".join(shown(several[0], report("typed_rules"))).split()


def test_what_went_wrong_is_told_with_its_preset() -> None:
    """In a line below the table; of the others nothing."""
    page = shown(report("selective"), report("typed_rules", lost_messages=2, invalid_requests=1))
    assert "typed_rules: 2 lost, 1 requests invalid, 0 over the limit" in page
    assert not any(row.startswith("selective:") for row in page)


def test_a_conversation_in_which_nobody_was_asked_has_no_chart() -> None:
    """As one that ends with its first input."""
    assert "No request was sent." in shown(report("selective", sizes=[]), report("typed_rules", sizes=[]))
