"""Make room for a step of the model that alone is larger than the limit: shorten its texts, then drop it whole."""

from collections.abc import Iterator

from .selector import Choice, Demand, Selection, Selector
from .strategy_chain import fitting


def forced(selector: Selector, demand: Demand) -> Selection | None:
    """Return a selection that keeps only what must stay, for a request that cannot be sent otherwise.

    `None` if `Demand.must_fit` is false or if nothing fits.
    """
    return fitting(selector, demand, _last_resorts(selector, demand)) if demand.must_fit else None


def _last_resorts(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield choices that drop all that need not stay, clip texts next to calls, and drop more and more steps.

    A step is a tool block that is unread or was interrupted; the oldest steps are dropped first. A message with very
    many calls, or with reasoning blocks, cannot be clipped enough: the conversation can continue only without that
    message.
    """
    takes = (False, True) if selector.yielding_input else (False,)
    steps = [frozenset(block.indexes) for block in selector.view.blocks if block.start in selector.steps]
    for count in sorted({0, len(steps), *(1 << power for power in range(len(steps).bit_length()))}):
        gone = frozenset[int]().union(*steps[:count])
        least = demand.least + (0 if gone.isdisjoint(selector.view.unseen) else demand.step_notice)
        for takes_input in takes:
            must = selector.untouchable - gone - (selector.yielding_input if takes_input else frozenset())
            drop = frozenset(range(len(selector.view.messages))) - must
            yield Choice(
                drop=drop,
                clip=selector.tight_clip(must, drop, demand.ceiling - least, texts=True),
                summary=least,
                summarize=True,
                takes_input=takes_input,
                takes_steps=count > 0,
                name="forced",
            )
