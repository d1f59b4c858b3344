"""Compares what LangChain, deepagents, langmem and this package keep at equal tokens, without a model.

    python benchmarks/retention.py [--only DATA] [--budget SHARE]

Peers run their own code (`retention_peers`); each has the same summarizers (`retention_summarizer`). Prints a table
for each data set and budget; writes `results/retention.json` where everything was measured.
"""

import argparse
import json
import logging
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from retention_runs import DATA, OURS, ahead, policies, row_of
from retention_summarizer import SAID_OF_RULES
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langgraph_compaction.graph.lab.evaluation.policies import COUNTER
from langgraph_compaction.graph.lab.evaluation.scores import SAID

RESULTS = Path(__file__).resolve().parent / "results" / "retention.json"
PACKAGES = ("langchain", "deepagents", "langmem", "langgraph", "langchain-core")

SETTINGS = {
    "summarizer": "it may write what the peer's frame and the messages it keeps leave of the cap; no peer limits it",
    **{f"summarizer: {name}": said for name, said in SAID_OF_RULES.items()},
    "kept": "share of the cap for the messages that are kept; another where the context misses the cap by 5 %",
    "langchain": "SummarizationMiddleware, trim_tokens_to_summarize=None, keep in tokens, summary_prompt={messages}",
    "langchain: context editing": "ClearToolUsesEdit, keep=0, clear_at_least=what is over the cap, then "
    "clear_tool_inputs=True where that does not do",
    "deepagents": "SummarizationMiddleware as langchain's; over the cap it is told so and clips the last results. It "
    "writes what it replaces to a file: only the context counts here, with the line that names the file",
    "langmem": "SummarizationNode, max_tokens=all tokens, so that the summarizer sees all that is replaced",
    "ours": "compact_messages with the preset and the digest; empty where it says that what must stay does not fit",
    "random exchanges": "5 seeds",
}
COLUMNS = (
    "recall",
    "bound",
    "95 %",
    "calls",
    "rules",
    "tokens",
    "most",
    "equal",
    "within",
    "empty",
    "broken",
)
LEGEND = (
    "Of what calls after the cut need from before it: identifiers left (recall), near two words that gave them "
    "meaning (bound; 95 %: bootstrap over cuts), calls with all of theirs left (calls). Rules: constraints left, put "
    "at the top, middle and bottom of the user's words. Tokens: of the cap, on average and at most; equal: contexts "
    "within 5 % of the cap; within: not over it; empty: "
    "nothing in them. Broken: pairs of call and result. Ahead: higher in bound, with at most 5 % over the cap on "
    "average."
)


def main() -> None:
    """Measure, print, write."""
    options = _options()
    chosen = [options.only] if options.only else list(DATA)
    jobs = [
        (name, budget, policy)
        for name in chosen
        for budget in ([options.budget] if options.budget else DATA[name].budgets)
        for policy in policies()
    ]
    started = time.perf_counter()
    rows = _rows(jobs)
    _print(rows)
    print(f"{time.perf_counter() - started:.0f} s")
    if not options.only and not options.budget:
        RESULTS.write_text(json.dumps(_report(rows), indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=DATA, help="one data set")
    parser.add_argument("--budget", type=float, help="one cap, as a share of the tokens before the cut")
    return parser.parse_args()


def _rows(jobs: Sequence[tuple[str, float, str]]) -> list[dict[str, Any]]:
    """Return the rows in the order of the jobs, computed in one process per core."""
    workers = min(os.cpu_count() or 1, len(jobs))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_quiet) as pool:
        shown = Console(stderr=True)
        return list(
            track(pool.map(row_of, jobs), "Measuring", total=len(jobs), console=shown, transient=True),
        )


def _quiet() -> None:
    """Switch off warnings: the peers warn about the very situations that are measured."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def _tables(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, float, list[dict[str, Any]]]]:
    for (data, budget), own in groupby(rows, lambda row: (row["data"], row["budget"])):
        yield data, budget, list(own)


def _report(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "note": SAID,
        "settings": SETTINGS,
        "counter": COUNTER.name,
        "versions": {name: version(name) for name in PACKAGES},
        "cuts": {name: data.cuts for name, data in DATA.items()},
        "ahead_of_ours": [{"data": data, "budget": budget, **ahead(own)} for data, budget, own in _tables(rows)],
        "rows": rows,
    }


def _print(rows: Sequence[dict[str, Any]]) -> None:
    console = Console(width=160, highlight=False)
    for data, budget, own in _tables(rows):
        console.print(_table(data, budget, own))
        for ours, names in ahead(own).items():
            console.print(f"ahead of {ours}: {'; '.join(names) or 'nothing'}")
    for name, said in SETTINGS.items():
        console.print(f"{name}: {said}", style="dim")
    console.print(LEGEND, style="dim")
    console.print(SAID)


def _table(data: str, budget: float, rows: Sequence[dict[str, Any]]) -> Table:
    first, cuts = rows[0], " and ".join(f"{share:.0%}" for share in DATA[data].cuts)
    title = (
        f"{data}, cut at {cuts}, cap {budget:.0%}: {first['runs']} runs, {first['cuts']} cuts, "
        f"{first['identifiers']} identifiers of {first['later_calls']} later calls"
    )
    table = Table(title=title)
    table.add_column("policy", no_wrap=True)
    for heading in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row["policy"], *row_cells(row), style="bold" if row["policy"] in OURS else None)
    return table


def row_cells(row: dict[str, Any]) -> list[str]:
    """Shares in per cent, tokens as quotients of the cap."""
    return [
        _percent(row["recall"]),
        _percent(row["bound"]),
        "-".join(f"{100 * edge:.0f}" for edge in row["ci95"]["bound"]),
        _percent(row["calls"]),
        "/".join(f"{100 * share:.0f}" for share in row["rules"].values()),
        f"{row['tokens_over_cap']:.2f}",
        f"{row['most_over_cap']:.2f}",
        _percent(row["equal_tokens"]),
        _percent(row["within_cap"]),
        _percent(row["empty"]),
        str(row["broken_pairs"]),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


if __name__ == "__main__":
    main()
