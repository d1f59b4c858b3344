"""Which step may follow which node: the shape of a turn as one table.

A node names the step that runs next. The graph makes its edges of this table, and the wrapper of every node holds the
node to it, so that a wrong name is an error of the node and not a turn that ends without an answer.
"""

from collections.abc import Mapping
from typing import Any

from .errors import StepError
from .state import Step

NEXT: Mapping[str, tuple[Step, ...]] = {
    "token_check": ("model", "confirm", "selective_compaction", "summarize", "rollback", "end"),
    "confirm": ("selective_compaction", "model", "end"),
    "selective_compaction": ("summarize", "commit", "rollback", "model", "end"),
    "summarize": ("commit", "rollback"),
    "commit": ("model", "end", "rollback"),
    "rollback": ("model", "end", "selective_compaction"),
    "model": ("tools", "end", "confirm", "selective_compaction"),
}
"""By node, the steps that it may name."""


def check_step(node: str, update: Mapping[str, Any]) -> None:
    """Raise `StepError` where a node's update names no step, or one that may not follow this node."""
    step = (update.get("compaction") or {}).get("step")
    if step not in NEXT[node]:
        named = "no next step" if step is None else f"the next step {step!r}"
        raise StepError(f"the node {node!r} named {named}; allowed are {', '.join(map(repr, NEXT[node]))}")
