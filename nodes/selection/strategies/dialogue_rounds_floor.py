"""The floor of dialogue rounds that `tool_blocks` keeps, and the plans by which it gives way: 12 rounds, 6, 3, 1.

Before the floor is halved, plans keep fewer tool blocks and clip their fields.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ...config.policies import Selective


@dataclass(frozen=True)
class Plan:
    """How much to keep: rounds, older messages of each type, tool blocks, and whether fields are cut to fit."""

    floor: int
    beyond: int
    blocks: int
    tight: bool = False
    spare: bool = False
    """Whether results and skills that the model has not read yet are kept whole."""


def plans(settings: Selective, *, spare: bool = True) -> Iterator[Plan]:
    """Yield every plan, the one that keeps most first; the number of rounds is halved each time (12, 6, 3, 1)."""
    blocks, floor = settings.tool_blocks_keep_recent, settings.dialogue_rounds_keep_min
    if spare:
        yield Plan(floor, settings.dialogue_beyond_keep, blocks, spare=True)
        yield Plan(floor, 0, blocks, spare=True)
    yield Plan(floor, settings.dialogue_beyond_keep, blocks)
    while True:
        for kept in dict.fromkeys((blocks, min(2, blocks), min(1, blocks))):
            yield Plan(floor, 0, kept)
        yield Plan(floor, 0, min(1, blocks), tight=True)
        if floor <= 1:
            return
        floor //= 2
