"""Measures what compactions leave of long coding runs, when they fill 80 % of a window of 32,000 tokens.

    CODING_RUNS=folder make bench-coding-runs

The folder holds recordings of mini-swe-agent as JSON lines of `{"instance_id", "messages"}`, whose commands stand in
code blocks of the assistant; they are no part of this project. Each run is cut where it reaches 25,600 tokens and
compacted to a quarter and to a tenth of them. Commands after the cut need identifiers from before it. Peers run their
own code, as in `retention.py`. Writes benchmarks/results/coding_runs.json.
"""

import argparse
import json
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from retention import PACKAGES
from retention_peers import SUMMARIZING, Peer
from retention_runs import FIGURES, OURS, Watched
from retention_summarizer import DIGEST, NEWEST

from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, Policy, compacted, count
from langgraph_compaction.graph.lab.evaluation.scores import SAID, measured
from langgraph_compaction.graph.lab.evaluation.survival import Cut, cut
from langgraph_compaction.nodes import CompactionSettings
from tests.kept_results import RESULTS, origin

WINDOW, TRIGGER = 32_000, 0.8
BUDGETS = (0.25, 0.1)
RULES = ((NEWEST, 0.5), (DIGEST, 0.1))
"""The peers' summarizers, and the share of the cap for the messages that they keep."""
_COMMAND = re.compile(r"```(?:bash|sh)\n(.*?)\n?```", re.DOTALL)


def recordings(folder: Path) -> Iterator[tuple[str, list[AnyMessage]]]:
    """Yield the name and messages of each run, the longest first in each file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            yield run["instance_id"], list(_messages(run["messages"]))


def _messages(said: Sequence[Mapping[str, Any]]) -> Iterator[AnyMessage]:
    """Yield messages with tool calls: a command's message is a call, and the one behind it the result."""
    waiting = ""
    for place, message in enumerate(said):
        text = str(message["content"])
        if message["role"] == "assistant":
            commands = _COMMAND.findall(text)
            waiting = f"call-{place}" if commands else ""
            calls = [{"name": "bash", "args": {"command": commands[-1]}, "id": waiting}] if commands else []
            yield AIMessage(_COMMAND.sub("", text).strip(), tool_calls=calls)
        elif waiting:
            yield ToolMessage(text, tool_call_id=waiting)
            waiting = ""
        else:
            yield (SystemMessage if message["role"] == "system" else HumanMessage)(text)


def cut_at_trigger(name: str, messages: Sequence[AnyMessage]) -> Cut | None:
    """Cut a run where its messages reach the trigger; `None` if they do not, or if nothing is needed afterwards."""
    sizes = accumulate(count([message]) for message in messages)
    at = next((place for place, size in enumerate(sizes) if size >= TRIGGER * WINDOW), None)
    run = cut(name, messages, (at + 0.5) / len(messages)) if at else None
    return run if run and run.needed else None


def policies() -> dict[str, Sequence[Policy]]:
    """Return ours, each peer with each summarizer, and the baselines, by name."""
    found: dict[str, Sequence[Policy]] = {
        name: (compacted(CompactionSettings.model_validate({"preset": name})),) for name in OURS
    }
    for name, compact in SUMMARIZING.items():
        for rule, kept in RULES:
            found[f"{name}: {rule.name}"] = (Peer(compact, rule, kept),)
    return {**found, **BASELINES}


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--runs", type=int, default=1_000, help="at most so many runs, evenly chosen")
    most = options.parse_args().runs
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    every = [run for run in (cut_at_trigger(*one) for one in recordings(Path(os.environ["CODING_RUNS"]))) if run]
    chosen = every[:: max(1, -(-len(every) // most))]
    print(f"{len(chosen)} of {len(every)} runs that reach the trigger")
    rows: list[dict[str, Any]] = []
    for budget in BUDGETS:
        for name, seeds in policies().items():
            started, watched = time.perf_counter(), [Watched(policy) for policy in seeds]
            (row,) = measured(chosen, {name: watched}, (budget,))
            rows.append({key: row[key] for key in FIGURES if key in row})
            shares = f"{row['bound']:.3f} {row['ci95']['bound']}, calls {row['calls']:.3f}"
            seconds = f"{time.perf_counter() - started:.0f} s"
            print(f"{budget} {name}: {shares}, {row['tokens_over_cap']} of the cap, {seconds}", flush=True)
    if most >= len(every):
        found = {"note": SAID, "window": WINDOW, "trigger": TRIGGER, "recordings": len(every), "rows": rows}
        text = json.dumps({**found, "versions": {name: version(name) for name in PACKAGES}, **origin()}, indent=1)
        (RESULTS / "coding_runs.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
