"""Ratios of hits to trials over all runs, with bootstrap intervals."""

import random
from collections.abc import Iterable, Sequence

Pair = tuple[int, int]
"""Number of hits, and number of trials."""


def ratio(samples: Iterable[Pair]) -> float:
    """Return all hits divided by all trials; 0 without trials."""
    hits, trials = summed(samples)
    return hits / trials if trials else 0.0


def summed(pairs: Iterable[Pair]) -> Pair:
    """Return the sum of the hits and the sum of the trials."""
    listed = list(pairs)
    return sum(hits for hits, _ in listed), sum(trials for _, trials in listed)


def interval(samples: Sequence[Pair], seed: int = 0, draws: int = 1_000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of `sum(hits) / sum(trials)` over runs."""
    draw = random.Random(seed)  # noqa: S311 - a statistic
    ratios = sorted(ratio(draw.choices(samples, k=len(samples))) for _ in range(draws))
    return ratios[int(0.025 * draws)], ratios[int(0.975 * draws)]


def rounded(share: float) -> float:
    """Return a share rounded to four decimals, as the JSON output shows it."""
    return round(share, 4)


def edges(pairs: Sequence[Pair]) -> list[float]:
    """Return the two ends of the bootstrap interval, rounded for JSON."""
    return [rounded(edge) for edge in interval(pairs)]
