"""Which step may follow which node: the shape of a turn as one table.

A node names the step that runs next. The graph makes its edges of this table, and the wrapper of every node holds the
node to it, so that a wrong name is an error of the node and not a turn that ends without an answer.
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
    "rollback": {"model": "restored", "end": "restored, answered", "selective_compaction": "tries again"},
    "model": {
        "tools": "calls tools",
        "end": "answered",
        "confirm": "asks first",
        "selective_compaction": "too large",
    },
}
"""By node, the steps that it may name, each with the word that its edge carries in a drawing of the graph."""


def check_step(node: str, update: Mapping[str, Any]) -> None:
    """Raise `StepError` where a node's update names no step, or one that may not follow this node."""
    step = (update.get("compaction") or {}).get("step")
    if step not in NEXT[node]:
        named = "no next step" if step is None else f"the next step {step!r}"
        raise StepError(f"the node {node!r} named {named}; allowed are {', '.join(map(repr, NEXT[node]))}")
