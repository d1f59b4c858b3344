"""Measures what a compaction without a model keeps of recorded runs: identifiers, their binding, calls and rules.

Usage: `python benchmarks/what_survives.py [tau-bench.json]`. Prints a table, writes `results/what_survives.json`.
"""

import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from contexts import POLICIES
from langchain_core.messages import AnyMessage
from planted import PLACES, planted, survives
from rich.console import Console
from rich.table import Table
from sentences import CONSTRAINTS

from langgraph_compaction.graph.lab.evaluation.policies import Policy, count
from langgraph_compaction.graph.lab.evaluation.ratios import Pair, interval, ratio
from langgraph_compaction.graph.lab.evaluation.scores import SAID
from langgraph_compaction.graph.lab.evaluation.survival import Cut, bound, cut, holds, text_of
from langgraph_compaction.graph.lab.recordings import read_recordings

HERE = Path(__file__).resolve().parent
RECORDINGS = Path(os.environ.get("COMPACTION_DATA") or HERE.parents[1] / "shared" / "data")
DATA = RECORDINGS / "tau-bench-airline" / "gpt-4o-airline-tasks-00-24.json"

CAPS = (0.25, 0.5)
TUNED = range(12)
"""Tasks on which the digest's figures were chosen; the others are held out."""


@dataclass
class Score:
    """Hits and trials of one policy at one cap, run by run."""

    recall: list[Pair] = field(default_factory=list[Pair])
    bound: list[Pair] = field(default_factory=list[Pair])
    calls: list[Pair] = field(default_factory=list[Pair])
    cap: list[float] = field(default_factory=list[float])
    within: list[Pair] = field(default_factory=list[Pair])
    rules: dict[str, list[Pair]] = field(default_factory=lambda: defaultdict[str, list[Pair]](list))

    def add(self, run: Cut, context: str, tokens: int, cap: int) -> None:
        """Add the score of one context."""
        before, wanted = text_of(run.old), run.identifiers
        found = {token for token in wanted if holds(context, token)}
        self.recall.append((len(found), len(wanted)))
        self.bound.append((sum(bound(context, before, token) for token in found), len(wanted)))
        self.calls.append((sum(needed <= found for needed in run.needed), len(run.needed)))
        self.cap.append(tokens / cap)
        self.within.append((int(tokens <= cap), 1))

    def figures(self) -> dict[str, Any]:
        """Return all figures in per cent, with 95 % intervals over runs for recall and bound recall."""
        return {
            "recall": _percent(ratio(self.recall)),
            "recall_interval": [_percent(edge) for edge in interval(self.recall)],
            "bound": _percent(ratio(self.bound)),
            "bound_interval": [_percent(edge) for edge in interval(self.bound)],
            "calls": _percent(ratio(self.calls)),
            "tokens_per_cap": round(sum(self.cap) / len(self.cap), 2),
            "within_cap": _percent(ratio(self.within)),
            "rules": {place: _percent(ratio(pairs)) for place, pairs in self.rules.items()},
            "runs": len(self.cap),
            "identifiers": sum(trials for _, trials in self.recall),
        }


def main() -> None:
    """Measure, print, write."""
    started = time.perf_counter()
    runs = _runs(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    splits = {
        "tuned": [run for run in runs if _task(run.name) in TUNED],
        "held_out": [run for run in runs if _task(run.name) not in TUNED],
        "all": runs,
    }
    scores = {(cap, name): _measured(policy, runs, cap) for cap in CAPS for name, policy in POLICIES.items()}
    figures = {
        split: [
            {"cap": cap, "policy": name, **_joined([scores[cap, one] for one in ones], chosen).figures()}
            for cap in CAPS
            for name, ones in _named().items()
        ]
        for split, chosen in splits.items()
        if chosen
    }
    seconds = time.perf_counter() - started
    _print(figures, seconds)
    report = {"note": SAID, "cut": 0.5, "counter": "o200k_base", "splits": figures}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "what_survives.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _runs(file: Path) -> list[Cut]:
    named = [(one.name, cast("Sequence[AnyMessage]", one.messages)) for one in read_recordings(file)]
    return [cut(name, messages, 0.5) for name, messages in named]


def _task(name: str) -> int:
    """Return the number of a run's task from its name, `file#task-trial`."""
    return int(name.rpartition("#")[2].partition("-")[0])


def _measured(policy: Policy, runs: Sequence[Cut], share: float) -> dict[str, Score]:
    """Return the score of each run, by name."""
    return {run.name: _judged(policy, run, share, seed) for seed, run in enumerate(runs)}


def _judged(policy: Policy, run: Cut, share: float, seed: int) -> Score:
    score = Score()
    cap = int(share * count(run.old))
    context = policy(run.old, cap)
    score.add(run, text_of(context), count(context), cap)
    draw = random.Random(seed)  # noqa: S311 - the same constraints for every policy
    constraints = dict(zip(PLACES, draw.sample(CONSTRAINTS, len(PLACES)), strict=True))
    old = run.old
    for place, constraint in constraints.items():
        old = planted(old, constraint, PLACES[place], before=draw.random() < 0.5)
    left = text_of(policy(old, int(share * count(old))))
    for place, constraint in constraints.items():
        score.rules[place].append((int(survives(left, constraint)), 1))
    return score


def _named() -> dict[str, list[str]]:
    """Return the rows of the table, one for all seeds of a policy."""
    rows: dict[str, list[str]] = {}
    for name in POLICIES:
        rows.setdefault(name.rstrip("0123456789 "), []).append(name)
    return rows


def _joined(scores: Sequence[dict[str, Score]], runs: Sequence[Cut]) -> Score:
    whole = Score()
    for one in (score[run.name] for score in scores for run in runs):
        whole.recall += one.recall
        whole.bound += one.bound
        whole.calls += one.calls
        whole.cap += one.cap
        whole.within += one.within
        for place, pairs in one.rules.items():
            whole.rules[place] += pairs
    return whole


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _print(figures: dict[str, list[dict[str, Any]]], seconds: float) -> None:
    runs = figures["all"][0]["runs"]
    table = Table(
        title=f"tau-bench airline, cut at 50 %: {runs} runs, {figures['all'][0]['identifiers']} identifiers"
    )
    for column in (
        "cap",
        "policy",
        "recall",
        "95 %",
        "bound",
        "calls",
        "tokens/cap",
        "rules top/mid/bottom",
        "held out",
    ):
        table.add_column(column, justify="left" if column == "policy" else "right")
    held = {(row["cap"], row["policy"]): row for row in figures.get("held_out", [])}
    for row in figures["all"]:
        other = held.get((row["cap"], row["policy"]))
        table.add_row(
            f"{row['cap']:.0%}",
            row["policy"],
            f"{row['recall']:.1f}",
            "-".join(f"{edge:.0f}" for edge in row["recall_interval"]),
            f"{row['bound']:.1f}",
            f"{row['calls']:.1f}",
            f"{row['tokens_per_cap']:.2f}",
            " / ".join(f"{share:.0f}" for share in row["rules"].values()),
            f"{other['recall']:.1f} / {other['bound']:.1f}" if other else "",
            end_section=row["policy"] == list(_named())[-1],
        )
    Console(width=140).print(table)
    print("held out: recall / bound recall on the tasks that were not used to choose the digest's figures.")
    print(SAID)
    print(f"{seconds:.1f} s")


if __name__ == "__main__":
    main()
