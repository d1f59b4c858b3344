"""`incremental`: keep the last chunk of the conversation and summarize each earlier chunk separately."""

from collections.abc import Iterator
from itertools import pairwise

from ...config.policies import ProgressivePolicy
from ..selector import Choice, Demand, Selector


def incremental(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Yield one choice with chunks of `incremental_summary_chunk_size` turns; nothing for up to two chunks.

    Chunks are counted from the end, so that the last one, which stays, is full.
    """
    units, size = _units(selector), selector.settings.of(ProgressivePolicy).incremental_summary_chunk_size
    if len(units) <= 2 * size:
        return
    first = len(units) % size or size
    cuts = [0, *range(first, len(units), size)]
    earlier = tuple(frozenset(i for unit in units[start:end] for i in unit) for start, end in pairwise(cuts))
    yield Choice(drop=frozenset().union(*earlier), sections=earlier, summarize=True)


def _units(selector: Selector) -> list[list[int]]:
    """Return the turns that chunks consist of; the first one includes the messages before the first user message."""
    starts, units = frozenset(selector.view.round_starts[1:]), list[list[int]]()
    for index in selector.non_system:
        if not units or index in starts:
            units.append([])
        units[-1].append(index)
    return units
