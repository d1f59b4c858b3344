"""One attempt at a compaction: its key, its outcome, its paid summary and its ledger row."""

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from langchain_core.messages import BaseMessage

from ..usage import Usage

COMMITTED = frozenset({"committed", "degraded_deterministic"})
"""The verdicts of attempts that changed the conversation."""


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """The key of an attempt's rows. It holds nothing random, so an attempt that is repeated has an equal key.

    `base_fingerprint` is the `fingerprint_all` of the messages with which the attempt began.
    """

    thread_id: str
    namespace: str
    base_fingerprint: str
    level: int
    attempt: int

    @property
    def compaction_id(self) -> str:
        """Hash of the whole key, as 16 hexadecimal characters."""
        whole = json.dumps([self.thread_id, self.namespace, self.base_fingerprint, self.level, self.attempt])
        return blake2b(whole.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended. If a field is None, the ledger keeps the value from an earlier outcome of the attempt.

    Token counts are in the units of the attempt's token counter. `seen` lists the ids of the removed messages that
    the summarizer received in full (`full`), cut (`cut`) or not at all (`not_seen`), and the ids of the messages that
    stay in a shortened form and whose originals the summarizer received (`shortened`). `now` is in Unix seconds.
    """

    verdict: str
    now: float
    reason: str = ""
    detail: str = ""
    strategy: str | None = None
    """Name of the strategy that was used; None keeps the name that was written when the attempt began."""
    tokens_after: int | None = None
    blocks_kept: int | None = None
    blocks_dropped: int | None = None
    calls_clipped: int | None = None
    results_clipped: int | None = None
    floor: int | None = None
    seen: dict[str, Any] | None = None
    window: list[dict[str, Any]] | None = None
    """What filled the window before and, with a commit, after; stored with `seen`."""
    summary: str | None = None
    model: str | None = None
    usage: Usage | None = None
    """What the calls of the summarizer took."""
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """A paid summary, which is reused only for an equal input at the level of the attempt that made the summary."""

    input_digest: str
    text: str
    model: str | None
    usage: Usage
    listed: str = ""
    """What the model listed next to the summary, as a text; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LedgerRow:
    """A row of the ledger: one attempt. `verdict` and `ended_at` are None while the attempt is open."""

    id: int
    thread_id: str
    namespace: str
    compaction_id: str
    base_fingerprint: str
    level: int
    attempt: int
    parent_id: str | None
    checkpoint_id: str | None
    epoch: int
    trigger: str
    strategy: str
    counter: str
    verdict: str | None
    reason: str
    detail: str
    tokens_before: int
    tokens_after: int | None
    blocks_kept: int | None
    blocks_dropped: int | None
    calls_clipped: int | None
    results_clipped: int | None
    floor: int | None
    seen: dict[str, Any] | None
    window: list[dict[str, Any]] | None
    """What filled the window before and, with a commit, after; `None` if the attempt had no draft."""
    summary: str | None
    model: str | None
    summary_calls: int | None
    summary_input_tokens: int | None
    summary_cache_read_tokens: int | None
    summary_cache_write_tokens: int | None
    summary_output_tokens: int | None
    summary_reasoning_tokens: int | None
    summary_cost: float | None
    """Dollars; `None` if the usage or the price of a call is not known."""
    duration_s: float | None
    started_at: float
    ended_at: float | None

    def __repr__(self) -> str:
        """Return the row in one line: what was tried, how it ended, and the tokens before and after it."""
        ended = f"{self.verdict or 'open'}{f' ({self.reason})' if self.reason else ''}"
        sizes = f"{self.tokens_before} -> {'?' if self.tokens_after is None else self.tokens_after} tokens"
        return f"<LedgerRow {self.compaction_id} {self.trigger} {self.strategy}: {ended}, {sizes}>"

    @property
    def is_committed(self) -> bool:
        """Whether the attempt changed the conversation: its verdict is `committed` or `degraded_deterministic`.

        It stays true after an undo. The rows of failed attempts, undos and prepared summaries are not committed.
        """
        return self.verdict in COMMITTED

    @property
    def usage(self) -> Usage:
        """What the calls of the summarizer took."""
        return Usage.read(asdict(self), "summary_")

    @property
    def dropped(self) -> tuple[str, ...]:
        """Ids of the messages that the attempt removed; earlier summaries that it replaced are not among these ids.

        Any other message that the attempt archived, except an earlier summary, was only clipped (shortened).
        """
        seen = self.seen or {}
        return tuple(name for key in ("full", "cut", "not_seen") for name in seen.get(key, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What the model saw before some compactions."""

    messages: list[BaseMessage]
    """The messages with which the first of these compactions began."""
    undone: tuple[str, ...]
    """The compaction_ids of these compactions, oldest first."""
    head: str | None
    """The compaction_id of the last compaction before them, or None."""
