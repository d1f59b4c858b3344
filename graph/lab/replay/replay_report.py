"""The figures of a replayed conversation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow

from ...control_characters import json_line

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
    "messages",
    "rounds",
)
_COMPACTION = ("trigger", "strategy", "verdict", "reason", "tokens_before", "tokens_after", "blocks_dropped")


@dataclass(kw_only=True)
class Report:
    """The figures of one conversation. Tokens are o200k tokens."""

    file: str
    thread: str
    recorded: int = 0
    """Number of messages in the recording."""
    turns: int = 0
    """Number of recorded user inputs played."""
    preset: str = "selective"
    asks: bool = False
    """Whether the settings require a person's confirmation before a compaction; a replay does not ask."""
    sizes: list[int] = field(default_factory=list[int])
    """Tokens of each request, in order."""
    limit: int = 0
    trigger: int = 0
    """Smallest number of tokens at which a compaction starts."""
    invalid_requests: int = 0
    over_window_requests: int = 0
    lost_messages: int = 0
    """Number of recorded messages, compared by content, that neither the final state nor the archive holds."""
    messages: int = 0
    """Number of messages in the state at the end."""
    rounds: int = 0
    """Number of rounds (each begins with a user message) in the state at the end."""
    archived: int = 0
    """Number of messages that only the archive holds."""
    attempts: Sequence[LedgerRow] = field(default_factory=list[LedgerRow])
    """Rows of the thread's ledger."""

    @property
    def requests(self) -> int:
        """Number of requests sent."""
        return len(self.sizes)

    @property
    def max_request_tokens(self) -> int:
        """Size of the largest request; 0 if none was sent."""
        return max(self.sizes, default=0)

    @property
    def tokens_sent(self) -> int:
        """Tokens of all requests together."""
        return sum(self.sizes)

    @property
    def committed(self) -> int:
        """Number of committed compactions."""
        return sum(row.is_committed for row in self.attempts)

    @property
    def refused_turns(self) -> int:
        """Number of inputs refused because they alone were over the limit."""
        return sum(row.verdict == "refused" for row in self.attempts)

    @property
    def flawless(self) -> bool:
        """Whether every request was valid and within the limit, and nothing was lost."""
        return not (self.invalid_requests or self.over_window_requests or self.lost_messages)

    def as_json(self) -> str:
        """Return the figures as one line of JSON."""
        figures = {name: getattr(self, name) for name in _CONVERSATION}
        return json_line({**figures, "compactions": compaction_figures(self.attempts)})


def compaction_figures(rows: Iterable[LedgerRow]) -> list[dict[str, Any]]:
    """Return the figures of ledger rows as `--json` prints them."""
    figures = [{name: getattr(row, name) for name in _COMPACTION} for row in rows]
    return [{**row, "blocks_dropped": row["blocks_dropped"] or 0} for row in figures]
