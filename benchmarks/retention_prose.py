"""Measures which plain statements survive compactions, by speaker, and which rows are shown without their subject.

    python benchmarks/retention_prose.py [--half tuning|held_out]

Statements in five languages are planted into recorded runs of tau-bench, and into long chats made of the runs' prose.
Prints tables with 95 % intervals over conversations; writes `results/retention_prose.json`.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AnyMessage
from prose import (
    HALVES,
    Planted,
    after_compactions,
    chats,
    half_of,
    kept_prose,
    planted_prose,
    rows_of,
)
from prose_facts import PHRASES
from rich.console import Console
from rich.table import Table
from what_survives import DATA

from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, Policy, compacted, count
from langgraph_compaction.graph.lab.evaluation.ratios import Pair, interval, ratio, summed
from langgraph_compaction.graph.lab.evaluation.scores import SAID
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import CompactionSettings

RESULTS = Path(__file__).resolve().parent / "results" / "retention_prose.json"
AT_ONCE, AIM = 0.25, 0.5
"""Share of the tokens that is left by the one compaction, and by each of several compactions in a row."""

SEEN = (3, 5, 8)
"""After how many compactions in a row the context is examined."""

EVERY = 4
"""One of so many runs is compacted many times in a row."""

Sample = tuple[str, str, Pair]
"""What was measured, the half of the conversation, hits and trials."""


def policies() -> dict[str, Sequence[Policy]]:
    """Return our preset and the baselines, by name."""
    return {"faithful": (compacted(CompactionSettings(preset="faithful")),), **BASELINES}


@lru_cache
def runs() -> Sequence[tuple[str, Sequence[AnyMessage]]]:
    """Return the recorded runs without their system prompts, by name."""
    return [
        (one.name, [message for message in cast("Sequence[AnyMessage]", one.messages) if message.type != "system"])
        for one in read_recordings(DATA)
    ]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", choices=HALVES, help="the conversations of one half only")
    parser.add_argument("--policy", choices=policies(), help="one policy only")
    options = parser.parse_args()
    started = time.perf_counter()
    names = [options.policy] if options.policy else list(policies())
    halves = [options.half] if options.half else list(HALVES)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(names)), mp_context=spawn) as pool:
        rows = [row for found in pool.map(rows_of_policy, names) for row in found if row["half"] in halves]
    _print(rows)
    print(f"{time.perf_counter() - started:.0f} s")
    if not options.half and not options.policy:
        RESULTS.write_text(json.dumps({"note": SAID, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def rows_of_policy(name: str) -> list[dict[str, Any]]:
    """Return the figures of one policy."""
    pairs: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    for label, half, pair in _samples(policies()[name]):
        pairs[label, half].append(pair)
    return [
        {
            "measure": label,
            "half": half,
            "policy": name,
            "share": round(100 * ratio(found), 1),
            "interval": [round(100 * edge, 1) for edge in interval(found)],
            "conversations": len(found),
            "trials": sum(trials for _, trials in found),
        }
        for (label, half), found in sorted(pairs.items())
    ]


def _samples(seeds: Sequence[Policy]) -> Iterator[Sample]:
    languages = list(PHRASES)
    for number, (name, messages) in enumerate(runs()):
        language = languages[number % len(languages)]
        yield from _at_once("run", planted_prose(name, messages, language), seeds)
        if number % EVERY == 0:
            yield from _in_a_row(name, messages, languages[number // EVERY % len(languages)], seeds)
    for number, (name, messages) in enumerate(chats(runs())):
        for language in (languages[number % len(languages)], languages[(number + 2) % len(languages)]):
            yield from _at_once("chat", planted_prose(name, messages, language), seeds)


def _at_once(kind: str, planted: Planted, seeds: Sequence[Policy]) -> Iterator[Sample]:
    half, cap = half_of(planted.origin), int(AT_ONCE * count(planted.messages))
    contexts = [policy(planted.messages, cap) for policy in seeds]
    kept = [kept_prose(planted, context) for context in contexts]
    for speaker in planted.sentences:
        yield f"{kind}, {speaker}", half, summed(one[speaker] for one in kept)
    yield f"{kind}, tokens/cap", half, (sum(map(count, contexts)), cap * len(contexts))
    if kind == "run":
        rows = rows_of(planted.messages)
        yield "rows without subject", half, summed(rows.shown(context) for context in contexts)


def _in_a_row(name: str, messages: Sequence[AnyMessage], language: str, seeds: Sequence[Policy]) -> Iterator[Sample]:
    others = [one for other, own in runs() if other != name and half_of(other) == half_of(name) for one in own]
    planted = planted_prose(name, [*messages, *others[:400]], language, within=8)
    half = half_of(name)
    found: defaultdict[tuple[str, int], list[Pair]] = defaultdict(list)
    for policy in seeds:
        for number, context in after_compactions(planted, policy, share=AIM, seen=SEEN):
            for speaker, pair in kept_prose(planted, context).items():
                found[speaker, number].append(pair)
    for (speaker, number), pairs in found.items():
        yield f"in a row, {speaker}, {number}", half, summed(pairs)


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    names = list(dict.fromkeys(row["policy"] for row in rows))
    table = Table(title=f"Plain statements kept, in %: one compaction to {AT_ONCE:.0%}, several to {AIM:.0%} each")
    for heading in ("measure", "half", "conversations", "trials", *names):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    figures = {(row["measure"], row["half"], row["policy"]): row for row in rows}
    for measure, half in dict.fromkeys((row["measure"], row["half"]) for row in rows):
        shown = [figures.get((measure, half, name)) for name in names]
        first = next(row for row in shown if row)
        cells = [f"{r['share']} ({r['interval'][0]:.0f}-{r['interval'][1]:.0f})" if r else "" for r in shown]
        table.add_row(measure, half, str(first["conversations"]), str(first["trials"]), *cells)
    Console(width=150).print(table)
    print(SAID)


if __name__ == "__main__":
    main()
