"""Measures which of 45 constraints survive a compaction to a quarter: 15 of the package `conpact`, and 30 others.

    python benchmarks/constraint_survival.py

Each is put at the top, the middle or the bottom of the user messages of a run: the runs of tau-bench, and those
of SWE-agent, whose user messages alone may exceed the cap. Prints a table; writes `results/constraint_survival.json`.
"""

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage
from planted import PLACES, PlantedCut, measured, plant
from retention_runs import DATA, RUNS
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sentences import CONSTRAINTS

from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, Policy, compacted, count
from langgraph_compaction.graph.lab.evaluation.scores import SAID
from langgraph_compaction.graph.lab.evaluation.survival import Cut, cut
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import CompactionSettings

RESULTS = Path(__file__).resolve().parent / "results" / "constraint_survival.json"
SETS = ("tau-bench-airline", "swe-agent")
BUDGET = 0.25
SEEDS = range(3)
"""Seeds of the random choice of constraints; each run is measured once with each seed."""

POLICIES: Mapping[str, Sequence[Policy]] = {
    **{name: (compacted(CompactionSettings(preset=name)),) for name in ("faithful", "selective")},
    **BASELINES,
}


def main() -> None:
    """Measure, print, write."""
    rows: list[dict[str, Any]] = []
    sentences = {"conpact": published(), "own": CONSTRAINTS}
    tasks = {(data, name): list(drawn(data, chosen)) for data in SETS for name, chosen in sentences.items()}
    with Progress() as progress:
        bar = progress.add_task("runs", total=len(POLICIES) * sum(map(len, tasks.values())))
        for (data, name), given in tasks.items():
            about = {"data": data, "sentences": name, "over": sum(exceeds(one) for one in given)}
            rows += [
                {**about, **row} for row in measured(given, POLICIES, [BUDGET], seen=lambda: progress.advance(bar))
            ]
    Console().print(*tables(rows), SAID)
    RESULTS.write_text(json.dumps({"note": SAID, "rows": rows}, ensure_ascii=False, indent=1) + "\n")


def published() -> tuple[str, ...]:
    """Load the constraints of `conpact` from their file alone: importing the package would import data sets."""
    package = importlib.util.find_spec("conpact")
    if package is None or package.origin is None:
        raise SystemExit("conpact is missing: pip install --no-deps conpact, or make bench-retention")
    spec = importlib.util.spec_from_file_location("constraints", Path(package.origin).parent / "constraints.py")
    if not isinstance(spec, ModuleSpec) or spec.loader is None:
        raise SystemExit("this version of conpact has no constraints.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(one["sc"] for one in module.SCS)


def drawn(data: str, sentences: Sequence[str]) -> Iterator[PlantedCut]:
    """Yield every run of a data set, cut in two, with the constraints that each seed chooses."""
    files = sorted((RUNS / data).glob(DATA[data].files))
    recordings = [one for file in files for one in read_recordings(file)]
    runs = [
        cut(one.name, cast("Sequence[AnyMessage]", one.messages), share)
        for one in recordings
        for share in DATA[data].cuts
    ]
    for seed in SEEDS:
        yield from (plant(run, 1_000 * seed + place, sentences) for place, run in enumerate(runs) if run.old)


def exceeds(run: Cut) -> bool:
    """Whether the user messages of a run alone exceed the cap."""
    return count([m for m in run.old if isinstance(m, HumanMessage)]) > BUDGET * count(run.old)


def tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield one table for each data set and list of constraints, in per cent."""
    for (data, name, cuts, over), group in groupby(rows, key=itemgetter("data", "sentences", "cuts", "over")):
        title = f"{data}, {name}: {cuts} contexts a place, users alone over the cap in {over}"
        made = Table("policy", *PLACES, "tokens", title=title)
        for row in group:
            shares = [f"{100 * row['rules'][place]:.1f}" for place in PLACES]
            made.add_row(row["policy"], *shares, f"{row['tokens_over_cap']:.2f}")
        yield made


if __name__ == "__main__":
    main()
