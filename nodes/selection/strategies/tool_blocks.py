"""`tool_blocks`: keep the newest tool blocks and the dialogue of the newest rounds, and clip the blocks' fields.

The plan that keeps most is tried first (by default five blocks and twelve rounds), then plans with fewer blocks, then
with shorter fields, and at last with fewer rounds.
"""

from collections.abc import Iterator

from langchain_core.messages import AIMessage

from ...config.policies import Selective
from ...conversation.item_types import is_skill, unread
from ...conversation.message_marks import is_real_user
from ..selector import Choice, Demand, Selector
from .dialogue_rounds_floor import Plan, plans


def tool_blocks(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield each plan's choice. A choice with fewer rounds than configured is enough only if it reaches the aim."""
    own = selector.settings.of(Selective)
    full = own.dialogue_rounds_keep_min
    for plan in plans(own, spare=selector.settings.policy.tool_blocks_keep_unread):
        yield planned(selector, plan, demand, enough=demand.roomy if plan.floor >= full else demand.aim)


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
    fewer = [Plan(1, 0, kept) for kept in dict.fromkeys((blocks, min(2, blocks), min(1, blocks)))]
    for plan in (*fewer, Plan(1, 0, min(1, blocks), tight=True), Plan(0, 0, 0, tight=True)):
        yield planned(selector, plan, demand, enough=demand.roomy)
