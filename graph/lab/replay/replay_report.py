"""What became of a recorded conversation: the figures, as they are printed and as `--json` writes them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_compaction.checkpoint import LedgerRow
from langgraph_compaction.nodes.summary.fallback_chain import COMMITTED

from ...visible_text import json_line

_CONVERSATION = (
    "file",
    "preset",
    "turns",
    "requests",
    "limit",
    "max_request_tokens",
    "invalid_requests",
    "over_window_requests",
    "refused_turns",
    "lost_messages",
    "trigger",
    "tokens_sent",
    "needed",
    "kept",
    "messages",
    "rounds",
)
_COMPACTION = ("trigger", "strategy", "verdict", "reason", "tokens_before", "tokens_after", "blocks_dropped")


@dataclass(kw_only=True)
class Report:
    """One conversation's figures. Tokens are o200k."""

    file: str
    thread: str
    recorded: int = 0
    """Messages of the recording."""
    turns: int = 0
    """Recorded user inputs."""
    preset: str = "selective"
    asks: bool = False
    """Whether the settings ask a person first; nobody is there to answer a replay."""
    sizes: list[int] = field(default_factory=list[int])
    """Tokens of each request, in order."""
    limit: int = 0
    trigger: int = 0
    """Fewest tokens at which a compaction starts."""
    invalid_requests: int = 0
    over_window_requests: int = 0
    lost_messages: int = 0
    """Recorded messages, by content, that are at the end neither in the state nor in the archive."""
    needed: int = 0
    """Identifiers in the calls' arguments that somebody had said before."""
    kept: int = 0
    """Those of them that stood in the request that the call answered."""
    messages: int = 0
    """Messages in the state at the end."""
    rounds: int = 0
    """Rounds in the state at the end."""
    archived: int = 0
    """Messages that only the archive holds."""
    attempts: Sequence[LedgerRow] = field(default_factory=list[LedgerRow])
    """The thread's ledger."""

    @property
    def requests(self) -> int:
        """How many were sent."""
        return len(self.sizes)

    @property
    def max_request_tokens(self) -> int:
        """The largest; 0 where none was sent."""
        return max(self.sizes, default=0)

    @property
    def tokens_sent(self) -> int:
        """All requests together."""
        return sum(self.sizes)

    @property
    def committed(self) -> int:
        """Compactions that stand."""
        return sum(row.verdict in COMMITTED for row in self.attempts)

    @property
    def refused_turns(self) -> int:
        """Inputs that alone were over the limit."""
        return sum(row.verdict == "refused" for row in self.attempts)

    @property
    def flawless(self) -> bool:
        """Whether every request was valid and within the limit, and nothing was lost."""
        return not (self.invalid_requests or self.over_window_requests or self.lost_messages)

    def as_json(self) -> str:
        """The figures as one line."""
        figures = {name: getattr(self, name) for name in _CONVERSATION}
        return json_line({**figures, "compactions": compaction_figures(self.attempts)})


def compaction_figures(rows: Iterable[LedgerRow]) -> list[dict[str, Any]]:
    """Return the figures of ledger rows as `--json` prints them."""
    figures = [{name: getattr(row, name) for name in _COMPACTION} for row in rows]
    return [{**row, "blocks_dropped": row["blocks_dropped"] or 0} for row in figures]
