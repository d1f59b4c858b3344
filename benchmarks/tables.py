"""The tables of docs/benchmarks.md and of the README, from the results; `python -m tests.write_pages` writes them."""

import json
from collections.abc import Iterable, Iterator

from tests.kept_results import RESULTS, read

TURN_COSTS = ("compacting_ms", "create_agent_ms", "summarization_ms")
LONG_THREADS = {"put_last_ms": "`put`", "get_ms": "`get_state`", "turn_ms": "a turn"}
SHORT_SAVERS = {
    "SQLAlchemySaver, SQLite": "ours, SQLite",
    "SqliteSaver": "`SqliteSaver`",
    "SqliteSaver, DeltaChannel(50)": "with `DeltaChannel`",
    "SQLAlchemySaver, PostgreSQL": "ours, PostgreSQL",
    "PostgresSaver": "`PostgresSaver`",
    "PostgresSaver, DeltaChannel(50)": "with `DeltaChannel`",
}
PLAYED = {
    "faithful": "`faithful`",
    "selective": "`selective`",
    "random exchanges": "random exchanges",
    "trim_messages": "`trim_messages`",
    "no compaction": "no compaction",
}


def peers() -> list[str]:
    """Return the README's table of packages."""
    rows = read("peers")["rows"]
    names = list(rows[0]["cells"])
    lines = [f"| | {' | '.join(names)} |", f"|---|{'|'.join([':-:'] * len(names))}|"]
    return [
        *lines,
        *(f"| {row['claim']} | {' | '.join(cell['cell'] for cell in row['cells'].values())} |" for row in rows),
    ]


def peer_versions() -> str:
    """Return the versions of the packages in the README's table, as it names them."""
    versions = read("peers")["versions"]
    return f"langchain {versions['langchain']}, deepagents {versions['deepagents']} and langmem {versions['langmem']}"


def tables() -> Iterator[list[str]]:
    """Return each table as lines; the first cell of its first line is in no other table of the page."""
    yield _whole_runs()
    yield _savers()
    yield _distance()
    yield _turns()
    yield _suites()


def _whole_runs() -> list[str]:
    lines = (RESULTS / "online.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["policy"]: row for row in map(json.loads, lines)}
    found = ((name, rows[policy]) for policy, name in PLAYED.items())
    return _table(
        ("what limits the requests", "available", "cost"),
        ((name, f"{100 * row['available']:.1f} %", f"{row['cost']:.2f}") for name, row in found),
    )


def _savers() -> list[str]:
    found = read("checkpoints")
    long = {row["saver"]: row for row in found["long_threads"]}
    short = {row["saver"]: row for row in found["rows"] if row["turns"] == 10}
    at_once = {row["saver"]: row for row in found["concurrent"]}
    rows = [
        [f"{name} at 4,000 messages, ms", *(f"{long[saver][field]:,.3g}" for saver in SHORT_SAVERS)]
        for field, name in LONG_THREADS.items()
    ]
    walls = [1_000 * short[saver]["wall_s"] for saver in SHORT_SAVERS]
    rates = [at_once[saver]["turns_per_s"] for saver in SHORT_SAVERS]
    rows.append(["ten turns of a new thread, ms", *(f"{wall:.0f}" for wall in walls)])
    rows.append(["eight conversations, turns/s", *(f"{rate:.0f}" for rate in rates)])
    return _table(("calls and turns", *SHORT_SAVERS.values()), rows)


def _distance() -> list[str]:
    rows: list[list[str]] = []
    for row in read("distance")["rows"]:
        if row["round_trip_ms"] in (0, 20) and row["conversations"] in (1, 64):
            pair = row["ours"], row["AsyncPostgresSaver"]
            figures = (("turns_per_s", ".0f"), ("p99_ms", ".0f"), ("cpu_ms_per_turn", ".1f"))
            cells = (" / ".join(f"{one[field]:{form}}" for one in pair) for field, form in figures)
            rows.append([f"{row['round_trip_ms']} ms, {row['conversations']}", *cells])
    return _table(("round trip, conversations at once", "turns/s", "p99 of a turn, ms", "CPU ms per turn"), rows)


def _turns() -> list[str]:
    rows = ((f"{row['turns']:,}", *(f"{row[name]:.1f} ms" for name in TURN_COSTS)) for row in read("turn_cost")[::3])
    return _table(("earlier turns", "our agent", "`create_agent`", "with `SummarizationMiddleware`"), rows)


def _suites() -> list[str]:
    theirs, ours = dict[str, str](), dict[str, str]()
    for row in read("foreign"):
        (theirs if row["column"] == "theirs" else ours)[row["suite"]] = f"{row['passed']}/{row['failed']}"
    rows = ((f"`{suite}`", figures, ours[suite]) for suite, figures in theirs.items() if figures != ours[suite])
    return _table(("suite, passed/failed", "theirs", "ours"), rows)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(heads)
    lines = [names, ["---", *["--:"] * (len(names) - 1)], *map(list, rows)]
    return [f"| {' | '.join(cells)} |" if at != 1 else f"|{'|'.join(cells)}|" for at, cells in enumerate(lines)]
