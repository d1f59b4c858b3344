"""`tool_blocks`: keep the newest tool blocks and the dialogue of the newest rounds, and clip the blocks' fields.

The plan that keeps most is tried first (by default five blocks and twelve rounds), then plans with fewer blocks, then
with shorter fields, and at last with fewer rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from langchain_core.messages import AIMessage

from ...config.policies import Selective
from ...conversation.item_types import is_skill, unread
from ...conversation.message_marks import is_real_user
from ..selector import Choice, Demand, Selector


@dataclass(frozen=True)
class Plan:
    """How much to keep: rounds, older messages of each type, tool blocks, and whether fields are cut to fit."""

    floor: int
    beyond: int
    blocks: int
    tight: bool = False
    spare: bool = False
    """Whether results and skills that the model has not read yet are kept whole."""


def tool_blocks(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield each plan's choice. A choice with fewer rounds than configured is enough only if it reaches the aim."""
    own = selector.settings.of(Selective)
    full = own.dialogue_rounds_keep_min
    for plan in plans(own, spare=selector.settings.policy.tool_blocks_keep_unread):
        yield planned(selector, plan, demand, enough=demand.roomy if plan.floor >= full else demand.aim)


def plans(settings: Selective, *, spare: bool = True) -> Iterator[Plan]:
    """Yield every plan, the one that keeps most first; the number of rounds is halved each time (12, 6, 3, 1)."""
    blocks, floor = settings.tool_blocks_keep_recent, settings.dialogue_rounds_keep_min
    if spare:
        yield Plan(floor, settings.dialogue_beyond_keep, blocks, spare=True)
        yield Plan(floor, 0, blocks, spare=True)
    yield Plan(floor, settings.dialogue_beyond_keep, blocks)
    yield from _with_fewer_blocks(floor, blocks)
    while floor > 1:
        floor //= 2
        yield from _with_fewer_blocks(floor, blocks)


def _with_fewer_blocks(floor: int, blocks: int) -> Iterator[Plan]:
    """Yield plans for a number of rounds, with ever fewer tool blocks, then with shorter fields too."""
    for kept in dict.fromkeys((blocks, min(2, blocks), min(1, blocks))):
        yield Plan(floor, 0, kept)
    yield Plan(floor, 0, min(1, blocks), tight=True)


def planned(selector: Selector, plan: Plan, demand: Demand, *, enough: int | None = None) -> Choice:
    """Return the choice of one plan."""
    chosen, keep = selector.settings.of(Selective), keeps(selector, plan)
    drop = frozenset(range(len(selector.view.messages))) - keep
    within = keep - selector.view.unseen if plan.spare else keep
    clip = selector.clip(within, chosen.tool_call_threshold, chosen.tool_result_threshold, chosen.preview_tokens)
    clip = selector.with_newest_media(clip, drop, demand.aim - demand.summary)
    if plan.tight:
        left = selector.resolve(demand, Choice(drop=drop, clip=clip)).drop
        if selector.tokens(left, clip) + demand.summary > demand.aim:
            clip = selector.tight_clip(keep, left, demand.aim - demand.summary)
    return Choice(drop=drop, clip=clip, floor=plan.floor, enough=enough)


def keeps(selector: Selector, plan: Plan) -> frozenset[int]:
    """Return the indexes that a plan keeps; tool blocks are kept whole."""
    blocks = selector.view.blocks[-plan.blocks :] if plan.blocks else ()
    in_blocks = {index for block in blocks for index in block.indexes}
    skills = {i for i in unread(selector.view) if plan.spare and is_skill(selector.view.messages[i])}
    return selector.untouchable | selector.rounds(plan.floor) | in_blocks | skills | _beyond(selector, plan)


def _beyond(selector: Selector, plan: Plan) -> frozenset[int]:
    """Return the newest `plan.beyond` user messages and as many answers before the kept rounds."""
    if not plan.beyond:
        return frozenset()
    messages, inside = selector.view.messages, selector.rounds(plan.floor)
    older = [i for i in range(len(messages)) if selector.is_dialogue(i) and i not in inside]
    people = [i for i in older if is_real_user(messages[i])]
    answers = [i for i in older if isinstance(messages[i], AIMessage)]
    return frozenset([*people[-plan.beyond :], *answers[-plan.beyond :]])


def shrunk(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield choices that keep the newest round with ever fewer blocks and shorter fields, then only what must stay.

    Strategies that keep the newest messages use these choices if even the newest round does not fit whole.
    """
    blocks = selector.settings.of(Selective).tool_blocks_keep_recent
    for plan in (*_with_fewer_blocks(1, blocks), Plan(0, 0, 0, tight=True)):
        yield planned(selector, plan, demand, enough=demand.roomy)
