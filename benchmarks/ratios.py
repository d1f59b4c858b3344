"""The figures and tables of the checkpointer benchmark, computed from the rows of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
AT_ONCE, CONVERSATIONS = "at once", 8

SAID = (
    "Each saver in a process of its own on one machine, turn by turn, one at work at a time: the ratios hold, the "
    "times are this machine's; the processor's caches are as the other savers' turns left them. Bytes of SQLite: the "
    "file after a truncating WAL checkpoint, without VACUUM; PostgreSQL: tables, indexes and TOAST after VACUUM, "
    "which also runs every 50 turns where the server's autovacuum is off; MariaDB: data and indexes after ANALYZE; "
    "InMemorySaver: its serialized values. payload_bytes: every message serialized once. wall_s at 10 turns: the "
    "median of new threads. The long threads were seeded in four large inputs and then grown by real turns from "
    "3,900 to 4,040 messages, the short ones beside them from 100 to 240; a thread that grew by turns to 3,900 "
    "messages has more checkpoints behind it. Garbage collection runs as in any process, but leaves out the "
    "benchmark's own script and imports. get_ms and history are read by the process that wrote the thread; "
    "history_all_s once of others, which take up to a minute, and of ours the median of several. A rollback's and a "
    "compaction's bytes are pages taken by many, divided by their number. concurrent: as many "
    "threads as conversations in the saver's process, each running turns of its own new conversation; the median of "
    "rounds, in which the savers take turns. In the first of them connections are opened."
)

Place = tuple[str, int | str, str]
"""Saver, number of turns (or LONG, or AT_ONCE), field."""


@dataclass(frozen=True)
class Wanted:
    """A figure: one cell, or the quotient of two cells. `target` is `None` for a figure without a target."""

    what: str
    ours: str
    beside: str
    above: Place
    below: Place | None
    target: float | None
    at_least: bool = False

    def row(self, cells: Mapping[Place, float]) -> Row:
        """Return the figure with its value and whether that reaches the target; `None` if not measured."""
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


def ratios(rows: Sequence[Row], long: Sequence[Row], concurrent: Sequence[Row]) -> list[Row]:
    """Return every figure with its target and whether the rows reach it."""
    placed: list[tuple[int | str, Row]] = [(row["turns"], row) for row in rows]
    placed += [(LONG, row) for row in long] + [(AT_ONCE, row) for row in concurrent]
    cells = {
        (row["saver"], place, field): float(value)
        for place, row in placed
        for field, value in row.items()
        if isinstance(value, int | float)
    }
    return [wanted.row(cells) for wanted in WANTED]


def _beside(
    what: str,
    peers: Mapping[str, str],
    at: int | str,
    field: str,
    target: float | None,
    *,
    more: bool,
) -> list[Wanted]:
    """Return quotients of peers and ours on the same database: theirs / ours if `more`, else ours / theirs."""
    said = f"{what}: {'theirs / ours' if more else 'ours / theirs'}"
    found: list[Wanted] = []
    for database, peer in peers.items():
        cells = (peer, at, field), (OURS[database], at, field)
        above, below = cells if more else cells[::-1]
        found.append(Wanted(said, OURS[database], peer, above, below, target, at_least=more))
    return found


_more, _less = partial(_beside, more=True), partial(_beside, more=False)


def _own(what: str, beside: str, at: int | str, fields: tuple[str, str | None], target: float) -> list[Wanted]:
    """Return figures that need no peer: one field of ours, or the quotient of two, with the target as its maximum."""
    above, below = fields
    return [
        Wanted(what, name, beside, (name, at, above), (name, at, below) if below else None, target)
        for name in OURS.values()
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
    *_less("turn at 4,000 messages", DELTA, LONG, "turn_ms", None),
    *_less(f"{CONVERSATIONS} conversations at once, turns/s", OFFICIAL, AT_ONCE, "turns_per_s", None),
)


def print_report(
    console: Console, rows: Sequence[Row], long: Sequence[Row], concurrent: Sequence[Row], found: Sequence[Row]
) -> None:
    """Print the rows by number of turns, the long threads, the parallel conversations, and the figures."""
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
    table = _table(
        f"{CONVERSATIONS} conversations at once, on threads of one process", ("saver", "turns of each", "turns/s")
    )
    for row in concurrent:
        table.add_row(row["saver"], _figure(row["turns"], ",d"), _figure(row["turns_per_s"], ",.1f"))
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
