"""`full`: the whole conversation leaves for one summary; what must stay stays."""

from collections.abc import Iterator

from ..selector import Choice, Demand, Selector


def full(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Everything; where that does not fit, with the fields of what must stay clipped."""
    everything = frozenset(range(len(selector.view.messages)))
    yield Choice(drop=everything, summarize=True)
    drop = everything - selector.untouchable
    clip = selector.tight_clip(selector.untouchable, drop, demand.aim - demand.summary)
    yield Choice(drop=drop, clip=clip, summarize=True)
