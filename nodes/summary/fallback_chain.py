"""The chain of summarizers tried one after the other, from the configured summarizer to one without a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..config.settings import CompactionSettings
from ..gate.invariants import Finding
from .summarizers import DigestSummarizer, NoticeSummarizer, Summarizer, is_deterministic

SMALLER_INPUT_HELPS = frozenset({"rejected_truncated", "rejected_not_a_summary", "max_tokens_no_content", "overflow"})
"""Verdicts, reasons and error kinds of failed attempts after which the same summarizer may succeed with smaller
pieces."""


@dataclass(frozen=True)
class Level:
    """One link of the fallback chain: a summarizer, and whether it reads the conversation in small pieces."""

    summarizer: Summarizer
    name: str
    in_pieces: bool = False
    """Whether small pieces are summarized one by one, and the pieces' summaries are then summarized together."""

    @property
    def is_deterministic(self) -> bool:
        """Whether the level works without a model, and so cannot fail."""
        return is_deterministic(self.summarizer)

    @property
    def hides(self) -> bool:
        """Whether this is the last level, which hides the oldest blocks instead of summarizing them."""
        return isinstance(self.summarizer, NoticeSummarizer)


FallbackChain = tuple[Level, ...]


def fallback_chain_of(summarizer: Summarizer, fallbacks: Sequence[Summarizer] = ()) -> FallbackChain:
    """Return the levels: the summarizer, the same with smaller pieces, the fallbacks, the digest, and the notice."""
    digest, notice = DigestSummarizer(), NoticeSummarizer()
    first = [Level(summarizer, summarizer.name)]
    if not is_deterministic(summarizer):
        first.append(Level(summarizer, f"{summarizer.name}-pieces", in_pieces=True))
    others = [Level(other, f"fallback-{place}") for place, other in enumerate(fallbacks, 1)]
    last = [] if summarizer.name == digest.name else [Level(digest, digest.name)]
    return (*first, *others, *last, Level(notice, notice.name))


def names_of(fallback_chain: FallbackChain) -> str:
    """Return the names of the levels, by which chains are told apart."""
    return " ".join([level.name for level in fallback_chain])


def strategy(settings: CompactionSettings, level: Level, selected: str = "", *, summary: bool = True) -> str:
    """Return the name of an attempt's strategy, as the ledger and the events record it.

    The name holds the preset, the selective strategies that were applied (if the settings leave a choice) and the
    level's summarizer (if there is a summary).
    """
    taken = f"/{selected}" if selected and settings.policy.strategies != (selected,) else ""
    by = f"+{level.name}" if summary else ""
    return level.name if level.hides else f"{settings.preset}{taken}{by}"


def after_failure(fallback_chain: FallbackChain, level: int, finding: Finding) -> int:
    """Return the index of the level after a failure, the number of levels after the last one.

    Smaller pieces are skipped if they cannot help.
    """
    helps = not SMALLER_INPUT_HELPS.isdisjoint({finding.verdict, finding.reason, finding.kind})
    following = range(level + 1, len(fallback_chain))
    return next((index for index in following if helps or not fallback_chain[index].in_pieces), len(fallback_chain))


def verdict_of(fallback_chain: FallbackChain, level: int) -> str:
    """Return the verdict of a commit: `degraded_deterministic` if a level without a model replaced the first one."""
    return "degraded_deterministic" if level and fallback_chain[level].is_deterministic else "committed"
