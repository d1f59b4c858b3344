"""The transition table: which step may follow which node.

A node stores the step that runs next. The graph's edges are made from this table, and the wrapper of every node
checks the stored step against it, so that a misspelled step raises an error instead of ending the turn without an
answer.
"""

from collections.abc import Mapping
from typing import Any

from .errors import StepError
from .state import Step

NEXT: Mapping[str, Mapping[Step, str]] = {
    "token_check": {
        "model": "fits",
        "confirm": "asks first",
        "selective_compaction": "too large",
        "summarize": "interrupted, summary at hand",
        "rollback": "interrupted",
        "end": "nothing to answer",
    },
    "confirm": {"selective_compaction": "accepted", "model": "declined", "end": "ends the turn"},
    "selective_compaction": {
        "summarize": "summary due",
        "commit": "no summary due",
        "rollback": "failed",
        "model": "nothing leaves",
        "end": "nothing leaves, answered",
    },
    "summarize": {"commit": "draft", "rollback": "failed"},
    "commit": {"model": "proved", "end": "proved, answered", "rollback": "refused by the gate"},
    "rollback": {"model": "view as before", "end": "view as before, answered", "selective_compaction": "tries again"},
    "model": {
        "tools": "calls tools",
        "end": "answered",
        "confirm": "asks first",
        "selective_compaction": "too large",
    },
}
"""For each node, the steps that are allowed to follow it, each with the label of its edge in a drawing of the
graph."""


def check_step(node: str, update: Mapping[str, Any]) -> None:
    """Raise `StepError` if a node's update has no step, or a step that must not follow this node."""
    step = (update.get("compaction") or {}).get("step")
    if step not in NEXT[node]:
        named = "no next step" if step is None else f"the next step {step!r}"
        raise StepError(f"the node {node!r} named {named}; allowed are {', '.join(map(repr, NEXT[node]))}")
