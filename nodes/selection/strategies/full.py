"""`full`: replace the whole conversation by one summary, except messages that must stay."""

from collections.abc import Iterator

from ..selector import Choice, Demand, Selector


def full(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield a choice that drops all messages, then a choice that also clips the messages that must stay."""
    everything = frozenset(range(len(selector.view.messages)))
    yield Choice(drop=everything, summarize=True)
    drop = everything - selector.untouchable
    clip = selector.tight_clip(selector.untouchable, drop, demand.aim - demand.summary)
    yield Choice(drop=drop, clip=clip, summarize=True)
