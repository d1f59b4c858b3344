"""What `recall` finds in long threads by the user's own words, what that costs, and automatic recall turn by turn.

    python benchmarks/recall.py [--questions 60]

Writes `results/recall.json`. Needs the recordings of tau-bench (`make data`).
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import mean, quantiles
from typing import Any

from langchain_core.messages import SystemMessage
from long_threads import FIGURES, measured, questions, task_of
from online_threads import long_threads, played_threads, with_bm25

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.compaction.search_index import INDEXES
from langgraph_compaction.graph.lab.comparison import run_of, through_the_graph
from langgraph_compaction.graph.lab.evaluation.online import DEPTH, Online, but_the_newest, turn_by_turn
from langgraph_compaction.graph.lab.evaluation.policies import (
    COUNTER,
    SEEDS,
    Policy,
    count,
    random_exchanges,
    trimmed,
)
from langgraph_compaction.graph.lab.recordings import Recording, read_recordings
from langgraph_compaction.graph.lab.replay.user_parts import UserParts
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.runtime.archive_quotation import found_for, passages_for
from langgraph_compaction.nodes.summary.quotation import quotation
from langgraph_compaction.nodes.summary.recall_answer import MOST_FOUND

DATA = Path(os.environ.get("COMPACTION_DATA", "../shared/data"))
TAU = DATA / "tau-bench-airline" / "gpt-4o-airline-tasks-00-24.json"
RESULTS = Path(__file__).parent / "results" / "recall.json"
LONG = 100_000
MILLION = 1_000_000
LIMITS = (8_000, 16_000)


def found(runs: list[Recording], most: int) -> list[dict[str, Any]]:
    """Measure what is found, in threads with eight other tasks and in threads of 100,000 tokens.

    The query of automatic recall was chosen with the first questions, so that the others are measured apart.
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


def cost(runs: list[Recording], tokens: int, most: int) -> dict[str, float]:
    """Measure the CPU time of a turn that recalls: its searches and its quotation, index and counter warm.

    The archive holds the runs, repeated until it has so many tokens.
    """
    every = [question for run in runs for question in questions(run, task_of(run))]
    Random(1).shuffle(every)  # noqa: S311 - a draw that can be repeated
    messages, size = list[Any](), 0
    for run in cycle(runs):
        if size >= tokens:
            break
        said = [message for message in run.messages if not isinstance(message, SystemMessage)]
        messages += [one.model_copy(update={"id": f"m{len(messages) + n}"}) for n, one in enumerate(said)]
        size += count(said)
    with Database.open("memory") as database:
        database.setup()
        records = CompactionRecords(database)
        records.archive("t", "", "0" * 16, messages, now=0.0)
        before = INDEXES.size
        first = _cpu_ms(lambda: records.search("t", "first", limit=1))
        turns, searches = list[float](), list[float]()
        for question in every[: most + 5]:
            turns.append(_cpu_ms(lambda view=question.view: _recalled(records, view)))
            searches.append(_cpu_ms(lambda words=question.words: records.search("t", words, limit=MOST_FOUND)))
        row = {
            "index_mb": (INDEXES.size - before) / 1e6,
            "first_ms": first,
            "search_ms": mean(searches[5:]),
            "mean_ms": mean(turns[5:]),
            "p95_ms": quantiles(turns[5:], n=20)[-1],
        }
    row = {"tokens": size, **{name: round(value, 1) for name, value in row.items()}}
    print("CPU of a turn that recalls:", row, flush=True)
    return row


def _recalled(records: CompactionRecords, view: Sequence[Any]) -> None:
    query, hits, _ = found_for(records, "t", view)
    quotation(passages_for(view, query, hits, max_tokens=1_000, counter=COUNTER))


def _cpu_ms(call: Callable[[], object]) -> float:
    begun = time.thread_time()
    call()
    return 1_000 * (time.thread_time() - begun)


def online(runs: list[Recording]) -> list[dict[str, Any]]:
    """Play all runs turn by turn in long threads, with automatic recall and without; peers with hits of BM25."""
    threads = long_threads(runs, LONG)
    recordings = [one.recording for one in threads]
    policies: dict[str, Sequence[Online]] = {
        name: (through_the_graph(CompactionSettings(preset="faithful", recall=how), recordings, UserParts()),)
        for name, how in (("faithful, recall=none", "none"), ("faithful", "automatic"))
    }
    compared = {"faithful": "faithful, recall=none"}
    peers: dict[str, tuple[tuple[Policy, ...], float]] = {
        "trim_messages": ((trimmed,), 1.0),
        "random exchanges": (tuple(but_the_newest(random_exchanges(seed)) for seed in SEEDS), DEPTH),
    }
    for name, (each, depth) in peers.items():
        policies[name] = tuple(turn_by_turn(policy, depth) for policy in each)
        policies[f"{name}, BM25"] = tuple(with_bm25(policy, depth) for policy in each)
        compared[f"{name}, BM25"] = name
    rows = []
    played = [(run_of(one.recording), one.parts) for one in threads]
    for row in played_threads(played, policies, LIMITS, compared):
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=60)
    given = parser.parse_args()
    runs = read_recordings(TAU)
    results = {
        "found": found(runs, given.questions),
        "cpu": [cost(runs, tokens, given.questions) for tokens in (LONG, MILLION)],
        "online": online(runs),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
