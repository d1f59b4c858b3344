"""The figures that the checkpoints are judged by, out of the rows of a run, and the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]
SHORT_TURNS = 10

OURS = {
    "sqlite": "SQLAlchemySaver, SQLite",
    "postgresql": "SQLAlchemySaver, PostgreSQL",
    "mariadb": "SQLAlchemySaver, MariaDB",
}
OFFICIAL = {"sqlite": "SqliteSaver", "postgresql": "PostgresSaver"}
DELTA = {database: f"{name}, DeltaChannel(50)" for database, name in OFFICIAL.items()}
LONG = "long thread"


Place = tuple[str, int | str, str]
"""Saver, number of turns (or LONG), field."""


@dataclass(frozen=True)
class Wanted:
    """A figure: one cell, or one divided by another. `target` is None where the issue sets none."""

    what: str
    ours: str
    beside: str
    above: Place
    below: Place | None
    target: float | None
    at_least: bool = False

    def row(self, cells: Mapping[Place, float]) -> Row:
        """With its value and whether that is as it should be: None where this run did not measure it."""
        value = cells.get(self.above)
        if self.below is not None:
            below = cells.get(self.below)
            value = round(value / below, 3) if value is not None and below else None
        reached = None
        if value is not None and self.target is not None:
            reached = value >= self.target if self.at_least else value <= self.target
        return {
            "what": self.what,
            "ours": self.ours,
            "beside": self.beside,
            "value": value,
            "target": self.target,
            "at_least": self.at_least,
            "reached": reached,
        }


def ratios(rows: Sequence[Row], long: Sequence[Row]) -> list[Row]:
    """Every figure with its target and whether it is reached, computed from the rows."""
    placed = [(row["turns"], row) for row in rows] + [(LONG, row) for row in long]
    cells = {
        (row["saver"], place, field): float(value)
        for place, row in placed
        for field, value in row.items()
        if isinstance(value, int | float)
    }
    return [wanted.row(cells) for wanted in WANTED]


def _more(what: str, peers: Mapping[str, str], at: int | str, field: str, target: float | None) -> list[Wanted]:
    """They have so many times more than ours of the same database."""
    said = f"{what}: theirs / ours"
    return [
        Wanted(said, OURS[database], peer, (peer, at, field), (OURS[database], at, field), target, at_least=True)
        for database, peer in peers.items()
    ]


def _less(what: str, peers: Mapping[str, str], at: int, field: str, target: float) -> list[Wanted]:
    """Ours has at most so many times what they of the same database have."""
    said = f"{what}: ours / theirs"
    return [
        Wanted(said, OURS[database], peer, (OURS[database], at, field), (peer, at, field), target)
        for database, peer in peers.items()
    ]


def _own(what: str, beside: str, at: int | str, fields: tuple[str, str | None], target: float) -> list[Wanted]:
    """One field of ours, or one divided by another, is at most the target."""
    above, below = fields
    return [
        Wanted(what, ours, beside, (ours, at, above), (ours, at, below) if below else None, target)
        for ours in OURS.values()
    ]


SQLITE, POSTGRES = ({database: peer} for database, peer in OFFICIAL.items())
WANTED = (
    *_more("bytes at 300 turns", SQLITE, 300, "bytes", 400),
    *_more("bytes at 300 turns", POSTGRES, 300, "bytes", 150),
    *_own("bytes at 1,000 turns", "payload once", 1_000, ("bytes", "payload_bytes"), 1.5),
    *_more("bytes at 1,000 turns", DELTA, 1_000, "bytes", 25),
    *_more("put at 3,900-4,040 messages", OFFICIAL, LONG, "put_last_ms", 10),
    *_own("put at 3,900-4,040 messages", "at 100-240", LONG, ("put_last_ms", "put_first_ms"), 1.5),
    *_more("get_state at 4,040 messages", OFFICIAL, LONG, "get_ms", 1.3),
    *_more("get_state at 4,040 messages", DELTA, LONG, "get_ms", 1.3),
    *_less("get_state at 1,200 messages", OFFICIAL, 300, "get_ms", 1.1),
    *_less("get_state at 1,200 messages", DELTA, 300, "get_ms", 1.1),
    *_more("newest 20 states at 300 turns", OFFICIAL, 300, "history20_ms", 20),
    *_more("newest 20 states at 4,040 messages", OFFICIAL, LONG, "history20_ms", 20),
    *_more("whole history at 100 turns", OFFICIAL, 100, "history_all_s", None),
    *_more("whole history at 300 turns", OFFICIAL, 300, "history_all_s", 100),
    *_own("bytes of a rollback at 1,000 turns", "1 kB", 1_000, ("rollback_bytes", None), 1_000),
    *_less("wall time of a 10-turn thread", OFFICIAL, SHORT_TURNS, "wall_s", 1.5),
)


def print_report(console: Console, rows: Sequence[Row], long: Sequence[Row], found: Sequence[Row]) -> None:
    """The rows by number of turns, the long threads, and the figures."""
    rows = sorted(rows, key=lambda row: row["turns"])
    table = _table("one thread", ("saver", *(column for column, _, _ in _COLUMNS)))
    for row, following in zip_longest(rows, rows[1:]):
        ends = following is None or following["turns"] != row["turns"]
        cells = [_figure(row.get(field), form) for _, field, form in _COLUMNS]
        table.add_row(row["saver"], *cells, end_section=ends)
    console.print(table)
    if long:
        table = _table("long threads: 4,040 messages", ("saver", *(column for column, _, _ in _LONG_COLUMNS)))
        for row in long:
            table.add_row(row["saver"], *(_figure(row.get(field), form) for _, field, form in _LONG_COLUMNS))
        console.print(table)
    table = _table("targets", ("figure", "saver", "beside", "value", "target", "reached"), left=3)
    for row in found:
        if row["value"] is None:
            continue
        sign = "≥" if row["at_least"] else "≤"
        target = "" if row["target"] is None else f"{sign} {row['target']:,g}"
        table.add_row(row["what"], row["ours"], row["beside"], _figure(row["value"], ",.2f"), target, _said(row))
    console.print(table)
    if missing := list(dict.fromkeys(row["what"] for row in found if row["value"] is None)):
        console.print("Not measured in this run: " + "; ".join(missing))


_COLUMNS = (
    ("turns", "turns", ",d"),
    ("bytes", "bytes", ",d"),
    ("put first ms", "put_first_ms", ",.2f"),
    ("put last ms", "put_last_ms", ",.2f"),
    ("get ms", "get_ms", ",.1f"),
    ("20 ms", "history20_ms", ",.1f"),
    ("all s", "history_all_s", ",.2f"),
    ("wall s", "wall_s", ",.2f"),
    ("+rollback", "rollback_bytes", ",d"),
    ("+compaction", "compaction_bytes", ",d"),
)
_LONG_COLUMNS = (
    ("put at 100-240 ms", "put_first_ms", ",.2f"),
    ("put at 3,900-4,040 ms", "put_last_ms", ",.2f"),
    ("turn ms", "turn_ms", ",.1f"),
    ("get ms", "get_ms", ",.1f"),
    ("20 ms", "history20_ms", ",.1f"),
)


def _table(title: str, columns: Sequence[str], *, left: int = 1) -> Table:
    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    return table


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _said(row: Row) -> str:
    return {None: "", True: "yes", False: "NO"}[row["reached"]]
