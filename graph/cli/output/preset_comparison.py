"""The comparison of several presets that `replay` prints: a chart of their requests, and a row for each preset."""

from collections.abc import Iterator, Sequence
from itertools import cycle

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...control_characters import in_line
from ...lab.replay.replay_report import Report
from .replay_page import UNASKED
from .size_chart import SHARED, Line, lines

_SIGNS = "●▲■◆○△□◇▼"
_COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red", "white", "bright_black")
_LEGEND = (
    "Kept: of the identifiers in the calls' arguments that were said before, those still in the request that the "
    "call answers."
)


def comparison(reports: Sequence[Report], *, width: int) -> RenderableType:
    """Return the comparison of a conversation's reports, one report for each preset, in `width` columns."""
    first = reports[0]
    drawn = [
        Line(sign=sign, color=color, sizes=one.sizes, trigger=one.trigger)
        for one, (sign, color) in zip(reports, _styles(), strict=False)
    ]
    figures = f": {first.recorded} messages in {first.turns} turns, under {first.limit:,} tokens"
    parts: list[RenderableType] = [
        Text.assemble((in_line(first.file), "bold"), figures),
        "",
        lines(drawn, first.limit, width) if any(one.sizes for one in reports) else Text("No request was sent."),
        Text(f"Tokens of the requests over time; {SHARED} is where several presets are alike.\n", "dim"),
        _table(reports),
        Text("\n" + _LEGEND, "dim"),
        *_flaws(reports),
    ]
    if any(one.asks for one in reports):
        parts.append(Text(UNASKED, "dim"))
    return Group(*parts, "")


def _styles() -> Iterator[tuple[str, str]]:
    return zip(cycle(_SIGNS), cycle(_COLORS))


def _table(reports: Sequence[Report]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("preset", no_wrap=True)
    for heading in ("trigger", "commits", "requests", "sent", "kept", "in view", "rounds"):
        table.add_column(heading, justify="right")
    for one, (sign, color) in zip(reports, _styles(), strict=False):
        table.add_row(
            Text.assemble((sign, color), f" {one.preset}"),
            f"{one.trigger:,}",
            str(one.committed),
            str(one.requests),
            _short(one.tokens_sent),
            f"{one.kept / one.needed:.0%}" if one.needed else "",
            str(one.messages),
            str(one.rounds),
        )
    return table


def _short(tokens: int) -> str:
    """Format a count for a narrow column; counts from 100,000 on are shown in thousands."""
    return f"{tokens:,}" if tokens < 100_000 else f"{tokens // 1_000:,} k"  # noqa: PLR2004 -- five digits still fit


def _flaws(reports: Sequence[Report]) -> Iterator[Text]:
    for one in reports:
        if not one.flawless:
            figures = f"{one.lost_messages} lost, {one.invalid_requests} requests invalid"
            yield Text(f"{one.preset}: {figures}, {one.over_window_requests} over the limit", "red")
