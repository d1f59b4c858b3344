"""The page that `replay` prints for a conversation: its size, a row for each compaction, and the end state."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow

from ...control_characters import in_line
from ...lab.replay.replay_report import Report
from .printing import words

WIDE = 90
"""Least terminal width, in columns, at which the table has a blank between its columns.

In a narrower terminal the blank is left out, so that the table fits 80 columns.
"""

UNASKED = "require_confirmation is ignored: nobody is there to answer, so each compaction is done at once."
"""The note printed if the settings require a person's confirmation."""


def page(report: Report, *, width: int, place: str | None = None) -> RenderableType:
    """Return the page of a report for `width` columns; `place` names the database that keeps the replayed thread."""
    parts: list[RenderableType] = [_opening(report)]
    if place:
        parts.append(words(f"It is thread {report.thread} in {place}."))
    if report.attempts:
        parts += ["", _table(report, gap=int(width >= WIDE)), ""]
    if report.asks:
        parts.append(Text(UNASKED, "dim"))
    return Group(*parts, _end(report), "")


def _opening(report: Report) -> Text:
    figures = (
        f": {report.recorded} messages in {report.turns} turns; {report.requests} requests, the largest "
        f"{report.max_request_tokens:,} of {report.limit:,} tokens"
    )
    compacts = f"\n{report.preset} compacts from {report.trigger:,} tokens on"
    return Text.assemble((in_line(report.file), "bold"), figures, (compacts, "dim"))


def _table(report: Report, *, gap: int) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, padding=(0, gap, 0, 0))
    for heading in ("#", "trigger", "strategy"):
        table.add_column(heading, no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for heading in ("before", "after", "blocks", "floor"):
        table.add_column(heading, no_wrap=True, justify="right")
    for number, row in enumerate(report.attempts, start=1):
        after = "" if row.tokens_after is None else f"{row.tokens_after:,}"
        dropped, floor = str(row.blocks_dropped or 0), "" if row.floor is None else str(row.floor)
        table.add_row(
            str(number),
            row.trigger,
            Text(in_line(row.strategy)),
            _verdict(row),
            f"{row.tokens_before:,}",
            after,
            dropped,
            floor,
        )
    return table


def _verdict(row: LedgerRow) -> Text:
    """Return an attempt's verdict, with the reason, if any, on the next line."""
    reason = ("\n" + in_line(row.reason).replace(":", ":\n"), "dim") if row.reason else ""
    return Text.assemble((row.verdict or "open", "yellow" if row.reason else ""), reason)


def _end(report: Report) -> Text:
    figures = (
        f"{report.messages} messages in view, {report.archived} in the archive only; {report.lost_messages} lost, "
        f"{report.invalid_requests} requests invalid, {report.over_window_requests} over the limit, "
        f"{report.refused_turns} inputs refused"
    )
    return Text(figures, "green" if report.flawless else "red")
