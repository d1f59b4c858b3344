"""The recorded runs with their cuts and planted sentences, and the rows of figures of every policy."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage
from planted import PlantedCut, measured, plant
from retention_peers import NEAR, Peer, peers

from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, Policy, compacted, count
from langgraph_compaction.graph.lab.evaluation.survival import cut
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import CompactionSettings

RUNS = Path(os.environ.get("COMPACTION_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

OURS = ("faithful", "selective")

FIGURES = (
    "policy",
    "budget",
    "runs",
    "cuts",
    "identifiers",
    "later_calls",
    "recall",
    "bound",
    "calls",
    "rules",
    "tokens_over_cap",
    "most_over_cap",
    "within_cap",
    "broken_pairs",
    "ci95",
)
"""The fields of the evaluation that a row holds."""

MOST = 2 - NEAR
"""Share of the cap up to which a context counts as one of equal tokens."""


@dataclass(frozen=True)
class DataSet:
    """Runs of one origin, where to cut them, as shares of their messages, and the caps, as shares of the tokens."""

    name: str
    files: str
    cuts: tuple[float, ...] = (0.5, 0.75)
    budgets: tuple[float, ...] = (0.1, 0.25, 0.5)


DATA = {
    one.name: one
    for one in (
        DataSet("tau-bench-airline", "*.json", cuts=(0.5,), budgets=(0.25, 0.5)),
        DataSet("pi-session", "*.jsonl"),
        DataSet("swe-agent", "*.traj"),
        DataSet("openhands", "*.jsonl"),
    )
}


@dataclass
class Watched:
    """A policy that also records which share of the cap each of its contexts fills."""

    policy: Policy
    shares: list[float] = field(default_factory=list[float])

    def __call__(self, old: Sequence[AnyMessage], cap: int) -> Sequence[BaseMessage]:
        """Return the policy's context, and record its share of the cap."""
        context = self.policy(old, cap)
        self.shares.append(count(context) / cap)
        return context


def policies() -> dict[str, Sequence[Policy]]:
    """Return our policies, the peers, and the baselines, by name."""
    ours = {name: compacted(CompactionSettings.model_validate({"preset": name})) for name in OURS}
    return {**{name: (policy,) for name, policy in {**ours, **peers()}.items()}, **BASELINES}


@lru_cache
def tasks_of(name: str) -> Sequence[PlantedCut]:
    """Return the runs of a data set, cut in two, with the same constraints inserted each time."""
    data = DATA[name]
    recordings = [one for file in sorted((RUNS / name).glob(data.files)) for one in read_recordings(file)]
    runs = [
        cut(one.name, cast("Sequence[AnyMessage]", one.messages), share) for one in recordings for share in data.cuts
    ]
    return [plant(run, seed) for seed, run in enumerate(runs) if run.old]


def row(tasks: Sequence[PlantedCut], name: str, seeds: Sequence[Policy], budget: float) -> dict[str, Any]:
    """Return the figures of one policy, with the shares of contexts within 5 % of the cap and of empty contexts."""
    watched = [Watched(policy) for policy in seeds]
    (figures,) = measured(tasks, {name: watched}, (budget,))
    shares = [share for each in watched for share in each.shares]
    return {
        **{name: figures[name] for name in FIGURES},
        "equal_tokens": round(sum(NEAR <= share <= MOST for share in shares) / len(shares), 4),
        "empty": round(sum(share == 0 for share in shares) / len(shares), 4),
        "summary_calls": sum(policy.calls for policy in seeds if isinstance(policy, Peer)),
    }


def row_of(job: tuple[str, float, str]) -> dict[str, Any]:
    """The row of a data set, a budget and a policy, by their names."""
    data, budget, name = job
    return {"data": data, **row(tasks_of(data), name, policies()[name], budget)}


def ahead(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return, for each of our policies, the policies with a higher `bound` at most 5 % over the cap."""
    bound = {row["policy"]: row["bound"] for row in rows}
    fair = [row["policy"] for row in rows if row["tokens_over_cap"] <= MOST]
    return {ours: [name for name in fair if bound[name] > bound[ours]] for ours in OURS}
