"""What strategies that keep a tail come to where even the newest round does not fit: less of it."""

from collections.abc import Iterator

from ..selector import Choice, Demand, Selector
from .tool_blocks import Plan, planned


def shrunk(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """The newest round with fewer blocks and shorter fields; at last nothing but what must stay."""
    blocks = selector.settings.tool_blocks_keep_recent
    fewer = [Plan(1, 0, kept) for kept in dict.fromkeys((blocks, min(2, blocks), min(1, blocks)))]
    for plan in (*fewer, Plan(1, 0, min(1, blocks), tight=True), Plan(0, 0, 0, tight=True)):
        yield planned(selector, plan, demand, enough=demand.roomy)
