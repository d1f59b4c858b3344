"""The rungs of a compaction, from the configured summariser to the one that needs no model."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config.settings import CompactionSettings
from ..gate.invariants import Finding
from .summarizers import DigestSummarizer, NoticeSummarizer, Summarizer, is_deterministic

LESS_HELPS = frozenset({"rejected_truncated", "rejected_not_a_summary", "max_tokens_no_content", "overflow"})
"""Verdict, reason or kind of a failure after which the same summariser is asked with less to read."""


@dataclass(frozen=True)
class Rung:
    """One way to summarise."""

    summarizer: Summarizer
    name: str
    in_pieces: bool = False
    """Whether smaller pieces are summarised each by itself, and then together."""

    @property
    def is_deterministic(self) -> bool:
        """Whether it needs no model."""
        return is_deterministic(self.summarizer)

    @property
    def hides(self) -> bool:
        """Whether it is the last rung, which hides the oldest blocks."""
        return isinstance(self.summarizer, NoticeSummarizer)


Ladder = tuple[Rung, ...]


def ladder_of(summarizer: Summarizer, fallbacks: Sequence[Summarizer] = ()) -> Ladder:
    """The summariser, the same with smaller pieces, the fallbacks, the deterministic digest, the notice."""
    digest, notice = DigestSummarizer(), NoticeSummarizer()
    first = [Rung(summarizer, summarizer.name)]
    if not is_deterministic(summarizer):
        first.append(Rung(summarizer, f"{summarizer.name}-pieces", in_pieces=True))
    others = [Rung(other, f"fallback-{place}") for place, other in enumerate(fallbacks, 1)]
    last = [] if summarizer.name == digest.name else [Rung(digest, digest.name)]
    return (*first, *others, *last, Rung(notice, notice.name))


def strategy(settings: CompactionSettings, rung: Rung, selected: str = "", *, summary: bool = True) -> str:
    """Name of an attempt's strategy, as ledger and events have it.

    With the selective strategies that made the selection, where the settings leave a choice, and with who
    summarises, where there is a summary.
    """
    scope = "" if settings.summary_scope == "old_part" else "-all"
    taken = f"/{selected}" if selected and settings.strategies != (selected,) else ""
    by = f"+{rung.name}" if summary else ""
    return rung.name if rung.hides else f"{settings.preset}{scope}{taken}{by}"


def after_failure(ladder: Ladder, rung: int, finding: Finding) -> int:
    """Index of the rung to take next; smaller pieces only where they can help."""
    helps = not LESS_HELPS.isdisjoint({finding.verdict, finding.reason, finding.kind})
    following = range(rung + 1, len(ladder))
    return next((index for index in following if helps or not ladder[index].in_pieces), len(ladder) - 1)


COMMITTED = frozenset({"committed", "degraded_deterministic"})
"""The verdicts of a commit."""


def verdict_of(ladder: Ladder, rung: int) -> str:
    """The verdict of a commit on this rung: it says so where a deterministic one stood in for another."""
    return "degraded_deterministic" if rung and ladder[rung].is_deterministic else "committed"
