"""`sliding_window`: the newest messages stay, the earlier ones become a summary (S2.20, S2.21, I8)."""

from collections.abc import Iterator

from ..selection import Choice, Demand, Selector


def sliding_window(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep the newest `sliding_window_size`; none where there are not more than twice as many.

    Blocks at the edge stay whole, as every choice leaves them.
    """
    spoken, size = selector.spoken, selector.settings.sliding_window_size
    if len(spoken) > 2 * size:
        yield Choice(drop=frozenset(spoken[:-size]), summarise=True)
