"""Measures whether a small real model would use what a compacted context shows.

    PYTHONPATH=benchmarks python -m benchmarks.model_use [--minutes 20] [--runs 40] [--seed 0]

Each run of tau-bench is cut in two, and its first half is compacted to a quarter of its tokens by each policy. The
model reads the context, the messages up to the next recorded call, and the call up to an identifier that it needs
from the first half. What is measured is the surprise, in nats, with which it would then write this identifier
(-ln of its probability), and whether each token of it is the one that the model finds most probable. Only identifiers
count that no message after the cut contains, and only runs whose whole first half fits into the model's context.

Prints a table with 95 % intervals over runs; writes `results/model_use.json`. The model is SmolLM2 with 135 million
parameters: the figures are those of a small model, which copies what stands near and reasons little.
"""

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolCall
from retention_peers import peers
from retention_runs import RUNS
from rich.console import Console
from rich.table import Table

from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, Policy, compacted, count
from langgraph_compaction.graph.lab.evaluation.ratios import Pair, interval, ratio
from langgraph_compaction.graph.lab.evaluation.survival import Cut, asked, cut, holds, text_of
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import call_texts, texts_of
from tests.kept_results import RESULTS, origin
from tests.real_model.server import LlamaServer, serving

BUDGET, WINDOW, TIMEOUT_S = 0.25, 8_192, 600
CANDIDATES = 2_000
"""The most probable tokens of which the server tells the probability; a token that is not among them counts as the
last of them, so that a large surprise is at least the one that is printed."""

WHOLE, NOTHING = "the whole first half", "nothing of the first half"
SAID = (
    "A model of 135 million parameters (SmolLM2): it shows what a context makes likely, not what a large model would "
    "do. Nats of a needed identifier: -ln of its probability, added over its tokens; extra: beyond those with the "
    "whole first half; written: every token is the most probable one."
)


@dataclass(frozen=True)
class Probe:
    """A recorded call that needs identifiers from before the cut of its run."""

    run: Cut
    between: str
    """The text of the messages after the cut and before the call."""
    parts: Sequence[tuple[str, str]]
    """For each identifier that is measured, the text of the call before it, and the identifier."""


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--runs", type=int, default=40, help="at most so many runs")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which runs are taken")
    options = parser.parse_args()
    chosen = list(probes())
    random.Random(options.seed).shuffle(chosen)  # noqa: S311 - a run can be repeated by its seed
    with tempfile.TemporaryDirectory() as folder, serving(WINDOW, Path(folder) / "log") as server:
        rows = measured(chosen, Model(server), options.runs, 60 * options.minutes)
    Console(width=120, highlight=False).print(table(rows), SAID)
    results = {"note": SAID, "cap": BUDGET, "seed": options.seed, **origin(), "rows": rows}
    (RESULTS / "model_use.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def policies() -> dict[str, Policy]:
    """Return the policies by name: ours, the peers with our digest as summary, and two simple ones."""
    ours = {
        name: compacted(CompactionSettings.model_validate({"preset": name})) for name in ("faithful", "selective")
    }
    digests = {name: policy for name, policy in peers().items() if "digest, 50%" in name}
    plain = {name: seeds[0] for name, seeds in BASELINES.items()}
    return {WHOLE: lambda old, _: old, NOTHING: lambda _, __: [], **ours, **digests, **plain}


def probes() -> Iterator[Probe]:
    """Yield the next call of each run that needs an identifier which nothing after the cut contains."""
    for file in sorted((RUNS / "tau-bench-airline").glob("*.json")):
        for recording in read_recordings(file):
            run = cut(recording.name, cast("Sequence[AnyMessage]", recording.messages), 0.5)
            if run.needed and (probe := _probe(run)):
                yield probe


def _probe(run: Cut) -> Probe | None:
    for place, message in enumerate(run.later):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        for call in calls:
            if run.needed[0] <= asked(call):
                between = [*run.later[:place], *([AIMessage(message.content)] if message.content else [])]
                known = text_of(between)
                parts = _parts(call, [token for token in run.needed[0] if not holds(known, token)])
                return Probe(run, shown(between), parts) if parts else None
    return None


def _parts(call: ToolCall, tokens: Sequence[str]) -> list[tuple[str, str]]:
    (text,) = call_texts(AIMessage("", tool_calls=[call]))
    return [(text[:at], token) for at, token in sorted((text.index(token), token) for token in tokens)]


def shown(messages: Sequence[BaseMessage]) -> str:
    """Return messages as the text that the model reads: a line with the role before each part."""
    return "".join(f"{message.type}: {text}\n" for message in messages for text in texts_of(message))


class Model:
    """A model behind the server of llama.cpp, which tells the probabilities of the next token."""

    def __init__(self, server: LlamaServer) -> None:
        self._address = urlsplit(server.base_url).netloc

    def tokens(self, text: str) -> list[int]:
        """Return the ids of a text's tokens."""
        return cast("list[int]", self._post("/tokenize", {"content": text, "add_special": False})["tokens"])

    def surprise(self, before: Sequence[int], wanted: Sequence[int]) -> tuple[float, bool]:
        """Return the nats of the wanted tokens after those before, and whether each is the most probable one."""
        nats, first = 0.0, True
        for place, token in enumerate(wanted):
            best = self._next([*before, *wanted[:place]])
            found = next((one for one in best if one["id"] == token), best[-1])
            nats -= found["logprob"]
            first = first and best[0]["id"] == token
        return nats, first

    def _next(self, prompt: Sequence[int]) -> list[dict[str, Any]]:
        asked_for = {"prompt": prompt, "n_predict": 1, "n_probs": CANDIDATES, "cache_prompt": True, "temperature": 0}
        answer = self._post("/completion", asked_for)
        return cast("list[dict[str, Any]]", answer["completion_probabilities"][0]["top_logprobs"])

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        connection = HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200, text
            return cast("dict[str, Any]", json.loads(text))
        finally:
            connection.close()


def measured(chosen: Sequence[Probe], model: Model, most: int, seconds: float) -> list[dict[str, Any]]:
    """Return a row of figures for each policy, over the runs that were measured when the time was over."""
    found: defaultdict[str, list[list[tuple[float, bool]]]] = defaultdict(list)
    end, runs = time.monotonic() + seconds, 0
    for probe in chosen:
        if runs == most or time.monotonic() > end:
            break
        cap = int(BUDGET * count(probe.run.old))
        contexts = {name: shown(policy(probe.run.old, cap)) for name, policy in policies().items()}
        prompts = {name: model.tokens(text + probe.between + "ai: ") for name, text in contexts.items()}
        if max(map(len, prompts.values())) + len(model.tokens(probe.parts[-1][0])) > WINDOW - 64:
            continue
        runs += 1
        for name, prompt in prompts.items():
            parts = [([*prompt, *model.tokens(before)], model.tokens(token)) for before, token in probe.parts]
            found[name].append([model.surprise(*part) for part in parts])
        print(runs, probe.run.name, {name: [round(nats, 1) for nats, _ in of[-1]] for name, of in found.items()})
    return [_row(name, of, found[WHOLE]) for name, of in found.items()]


def _row(
    name: str, found: Sequence[Sequence[tuple[float, bool]]], whole: Sequence[Sequence[tuple[float, bool]]]
) -> dict[str, Any]:
    nats = [(round(1_000 * sum(one for one, _ in run)), len(run)) for run in found]
    least = [round(1_000 * sum(one for one, _ in run)) for run in whole]
    extra: list[Pair] = [(own - base, trials) for (own, trials), base in zip(nats, least, strict=True)]
    written = [(sum(first for _, first in run), len(run)) for run in found]
    return {
        "policy": name,
        "runs": len(found),
        "identifiers": sum(trials for _, trials in nats),
        "nats": round(ratio(nats) / 1_000, 2),
        "extra": round(ratio(extra) / 1_000, 2),
        "extra_interval": [round(edge / 1_000, 2) for edge in interval(extra)],
        "written": round(ratio(written), 3),
        "written_interval": [round(edge, 3) for edge in interval(written)],
    }


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the figures."""
    title = f"{rows[0]['runs']} runs, {rows[0]['identifiers']} identifiers, cap {BUDGET:.0%}" if rows else "no run"
    shown_table = Table(title=title)
    for heading in ("context", "nats", "extra nats", "95 %", "written", "95 %"):
        shown_table.add_column(heading, justify="left" if heading == "context" else "right")
    for row in rows:
        extra, written = row["extra_interval"], row["written_interval"]
        shown_table.add_row(
            row["policy"],
            f"{row['nats']:.2f}",
            f"{row['extra']:.2f}",
            f"{extra[0]:.2f} to {extra[1]:.2f}",
            f"{100 * row['written']:.0f}",
            f"{100 * written[0]:.0f} to {100 * written[1]:.0f}",
        )
    return shown_table


if __name__ == "__main__":
    main()
