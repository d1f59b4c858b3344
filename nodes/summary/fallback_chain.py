"""The levels of a compaction, from the configured summarizer to the one that needs no model."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config.settings import CompactionSettings
from ..gate.invariants import Finding
from .summarizers import DigestSummarizer, NoticeSummarizer, Summarizer, is_deterministic

LESS_HELPS = frozenset({"rejected_truncated", "rejected_not_a_summary", "max_tokens_no_content", "overflow"})
"""Verdict, reason or kind of a failure after which the same summarizer is asked with less to read."""


@dataclass(frozen=True)
class Level:
    """One way to summarize."""

    summarizer: Summarizer
    name: str
    in_pieces: bool = False
    """Whether smaller pieces are summarized each by itself, and then together."""

    @property
    def is_deterministic(self) -> bool:
        """Whether it needs no model."""
        return is_deterministic(self.summarizer)

    @property
    def hides(self) -> bool:
        """Whether it is the last level, which hides the oldest blocks."""
        return isinstance(self.summarizer, NoticeSummarizer)


FallbackChain = tuple[Level, ...]


def fallback_chain_of(summarizer: Summarizer, fallbacks: Sequence[Summarizer] = ()) -> FallbackChain:
    """The summarizer, the same with smaller pieces, the fallbacks, the deterministic digest, the notice."""
    digest, notice = DigestSummarizer(), NoticeSummarizer()
    first = [Level(summarizer, summarizer.name)]
    if not is_deterministic(summarizer):
        first.append(Level(summarizer, f"{summarizer.name}-pieces", in_pieces=True))
    others = [Level(other, f"fallback-{place}") for place, other in enumerate(fallbacks, 1)]
    last = [] if summarizer.name == digest.name else [Level(digest, digest.name)]
    return (*first, *others, *last, Level(notice, notice.name))


def strategy(settings: CompactionSettings, level: Level, selected: str = "", *, summary: bool = True) -> str:
    """Name of an attempt's strategy, as ledger and events have it.

    With the selective strategies that made the selection, where the settings leave a choice, and with who
    summarizes, where there is a summary.
    """
    scope = "" if settings.summary_scope == "old_part" else "-all"
    taken = f"/{selected}" if selected and settings.strategies != (selected,) else ""
    by = f"+{level.name}" if summary else ""
    return level.name if level.hides else f"{settings.preset}{scope}{taken}{by}"


def after_failure(fallback_chain: FallbackChain, level: int, finding: Finding) -> int:
    """Index of the level to take next; smaller pieces only where they can help."""
    helps = not LESS_HELPS.isdisjoint({finding.verdict, finding.reason, finding.kind})
    following = range(level + 1, len(fallback_chain))
    return next(
        (index for index in following if helps or not fallback_chain[index].in_pieces), len(fallback_chain) - 1
    )


COMMITTED = frozenset({"committed", "degraded_deterministic"})
"""The verdicts of a commit."""


def verdict_of(fallback_chain: FallbackChain, level: int) -> str:
    """The verdict of a commit on this level: it says so where a deterministic one stood in for another."""
    return "degraded_deterministic" if level and fallback_chain[level].is_deterministic else "committed"
