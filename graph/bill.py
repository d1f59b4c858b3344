"""What a thread costs: the agent's own calls of its model, and the calls for summaries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.usage import FREE, Usage


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What the calls of a thread took."""

    agent: Usage
    """The agent's own calls."""
    summaries: Usage
    """The calls for summaries, with those that failed or were not used."""

    @property
    def total(self) -> Usage:
        """All calls."""
        return self.agent + self.summaries

    @classmethod
    def of(cls, values: Mapping[str, Any], rows: Iterable[LedgerRow]) -> "Bill":
        """Return the bill in a state and in the rows of the ledger."""
        own = Usage.read((values.get("compaction") or {}).get("bill"))
        return cls(agent=own, summaries=sum((row.usage for row in rows if row.summary_calls), FREE))
