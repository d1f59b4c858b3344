"""Compares LangChain, deepagents, langmem and this package in conversations in which something fails.

Usage: `python benchmarks/faults.py [WORD...]`; a word chooses the scenarios that have it in their names. The same
scripted models, conversations and windows for all; each system as its documentation sets it up (`fault_peers`,
`fault_systems`). Prints a table and, where all scenarios ran, writes `results/faults.json`.
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from fault_peers import PEERS
from fault_runs import Row, measured
from fault_scenarios import SCENARIOS, WINDOW
from fault_systems import OURS
from rich.console import Console
from rich.progress import track
from rich.table import Table

RESULTS = Path(__file__).resolve().parent / "results" / "faults.json"
SYSTEMS = (*PEERS, OURS)
PACKAGES = ("langchain", "deepagents", "langmem", "langgraph", "langchain-core")


def main() -> None:
    """Measure, print, write."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    words = [word.lower() for word in sys.argv[1:]]
    chosen = [one for one in SCENARIOS if not words or any(word in one.name.lower() for word in words)]
    started = time.perf_counter()
    pairs = [(scenario, system) for scenario in chosen for system in SYSTEMS]
    console = Console(width=170)
    rows = [measured(*pair) for pair in track(pairs, "Running", console=Console(stderr=True), transient=True)]
    _print(console, rows)
    print(f"{time.perf_counter() - started:.0f} s")
    if not words:
        versions = {name: version(name) for name in PACKAGES}
        report = {"window": WINDOW, "versions": versions, "rows": [asdict(row) for row in rows]}
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _print(console: Console, rows: Sequence[Row]) -> None:
    table = Table(
        title="facts kept  turns answered  calls of the summarizer  requests refused as invalid or too large"
    )
    table.add_column("scenario")
    for system in SYSTEMS:
        table.add_column(system.name, justify="right")
    for name in dict.fromkeys(row.scenario for row in rows):
        table.add_row(name, *(_cell([row]) for row in rows if row.scenario == name))
    table.add_section()
    table.add_row("all", *(_cell([row for row in rows if row.system == system.name]) for system in SYSTEMS))
    table.add_row("facts that state or archive still holds", *(_held(rows, system.name) for system in SYSTEMS))
    console.print(table)
    for row in rows:
        if not row.turns:
            print(f"{row.system}, {row.scenario}: {row.note}")


def _cell(rows: Sequence[Row]) -> str:
    """Return the sum of a figure over rows; scenarios that do not apply to the system are left out."""
    names = ("needles", "needles_of", "answered", "turns", "summary_calls", "invalid_requests", "over_window")
    kept, of, answered, turns, calls, invalid, over = (sum(getattr(row, name) for row in rows) for name in names)
    return (
        f"{kept}/{of}  {answered:2}/{turns}  {calls:2}  {invalid + over:2}"
        if turns
        else rows[0].note.partition(":")[0]
    )


def _held(rows: Sequence[Row], system: str) -> str:
    mine = [row for row in rows if row.system == system]
    return f"{sum(row.retrievable for row in mine)}/{sum(row.needles_of for row in mine)}"


if __name__ == "__main__":
    main()
