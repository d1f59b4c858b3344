"""What `recall` finds in long threads by the user's own words, what that costs, and `auto_recall` turn by turn.

    python benchmarks/recall.py [--questions 60] [--runs 12]

Writes `results/recall.json`. Needs the recordings of tau-bench (`make data`).
"""

import argparse
import json
import os
import time
from pathlib import Path
from random import Random
from statistics import mean, quantiles
from typing import Any

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.graph.lab.evaluation.long_threads import FIGURES, measured, questions, thread_of
from langgraph_compaction.graph.lab.evaluation.online_scores import replayed
from langgraph_compaction.graph.lab.evaluation.policies import COUNTER
from langgraph_compaction.graph.lab.recordings import Recording, read_recordings
from langgraph_compaction.graph.lab.replay.online_runs import run_of, through_the_graph
from langgraph_compaction.graph.lab.replay.user_parts import UserParts
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.summary.recall_answer import MOST_FOUND, quotation

DATA = Path(os.environ.get("COMPACTION_DATA", "../shared/data"))
TAU = DATA / "tau-bench-airline" / "gpt-4o-airline-tasks-00-24.json"
RESULTS = Path(__file__).parent / "results" / "recall.json"
LONG = 100_000
WINDOWS = (0.25, 0.5)


def task_of(run: Recording) -> str:
    """Return the task of a recording that is named `file#task-trial`."""
    return run.name.rpartition("#")[2].partition("-")[0]


def found(runs: list[Recording], most: int) -> list[dict[str, Any]]:
    """Measure what is found, in threads with eight other tasks and in threads of 100,000 tokens.

    The query of `auto_recall` was chosen with the first questions, so that the others are measured apart.
    """
    rows = []
    with Database.open("memory") as database:
        database.setup()
        named = [(task_of(run), run) for run in runs]
        for thread, tokens in (("eight other tasks", 0), ("100,000 tokens", LONG)):
            for part, skipped, size in (("tuned with", 0, most), ("others", most, len(runs) * 100)):
                records = CompactionRecords(database)
                for row in measured(records, named, tokens=tokens, most=size, skipped=skipped):
                    rows.append({"thread": thread, "part": part, **row})
                    shares = "  ".join(f"{name} {100 * row[name]:5.1f}" for name in FIGURES)
                    print(f"{thread:18} {part:10} {row['query']:12} {row['search']:22} {shares}", flush=True)
    return rows


def cost(runs: list[Recording], most: int) -> dict[str, float]:
    """Measure the CPU time of searching 100,000 tokens and of writing the quotation, index and counter warm."""
    every = [question for run in runs for question in questions(run, task_of(run))]
    drawn = Random(1)  # noqa: S311 - a draw that can be repeated
    drawn.shuffle(every)
    messages, _ = thread_of(every[0], [(task_of(run), run) for run in runs], LONG, drawn)
    with Database.open("memory") as database:
        database.setup()
        records = CompactionRecords(database)
        records.archive("t", "", "0" * 16, messages, now=0.0)
        begun = time.thread_time()
        records.search("t", "first", limit=1)
        first = time.thread_time() - begun
        spent = []
        for question in every[: most + 5]:
            begun = time.thread_time()
            hits = records.search("t", question.words, limit=MOST_FOUND)
            quotation(hits, question.words, max_tokens=1_000, counter=COUNTER)
            spent.append(1_000 * (time.thread_time() - begun))
    warm = spent[5:]
    row = {"first_ms": 1_000 * first, "mean_ms": mean(warm), "p95_ms": quantiles(warm, n=20)[-1]}
    row = {name: round(value, 1) for name, value in row.items()}
    print("CPU of a turn that recalls, 100,000 tokens:", row, flush=True)
    return row


def online(runs: list[Recording], most: int) -> list[dict[str, Any]]:
    """Play runs turn by turn through `faithful`, with and without `auto_recall`."""
    chosen = runs[:: max(1, len(runs) // most)][:most]
    policies = {
        name: (through_the_graph(CompactionSettings(preset="faithful", auto_recall=on), chosen, UserParts()),)
        for name, on in (("faithful", True), ("faithful, auto_recall=False", False))
    }
    rows = []
    for row in replayed([run_of(one) for one in chosen], policies, WINDOWS):
        row.pop("course")
        rows.append(row)
        print(
            f"window {row['window']:.0%} {row['policy']:28} available {100 * row['available']:5.1f}  "
            f"cost {row['cost']:.3f}  over {row['over_window']:.3f}",
            flush=True,
        )
    return rows


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--runs", type=int, default=12)
    given = parser.parse_args()
    runs = read_recordings(TAU)
    results = {
        "found": found(runs, given.questions),
        "cpu": cost(runs, given.questions),
        "online": online(runs, given.runs),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
