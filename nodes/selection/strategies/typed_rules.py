"""`typed_rules`: apply a rule to each type of message, in order of priority, lowest first."""

from collections.abc import Iterator

from ...config.policies import PRIORITIES, TypedRules, TypeRule
from ...conversation.item_types import item_type, unread
from ..selector import Choice, Demand, Selector

NO_RULE = TypeRule(action="none")


def typed_rules(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Yield after each type a choice of all that the rules so far drop. The first choice that fits is enough."""
    kinds = [item_type(message) for message in selector.view.messages]
    unseen, gone = unread(selector.view), frozenset[int]()
    rules = selector.settings.of(TypedRules).type_rules
    for kind in sorted(PRIORITIES, key=lambda name: PRIORITIES[name]):
        rule = rules.get(kind, NO_RULE)
        of_type = [index for index, own in enumerate(kinds) if own == kind]
        if leaving := _leaving(of_type, rule) - unseen:
            gone |= leaving
            yield Choice(drop=_with_calls(selector, gone))


def _leaving(indexes: list[int], rule: TypeRule) -> frozenset[int]:
    """Return those of the indexes (of one type) that the type's rule drops: all, all but the newest ones, or none."""
    if rule.action == "none":
        return frozenset()
    keep = rule.keep_recent if rule.action == "truncate" else 0
    return frozenset(indexes[: max(0, len(indexes) - keep)])


def _with_calls(selector: Selector, gone: frozenset[int]) -> frozenset[int]:
    """Return `gone` and the indexes of the calls that `gone` answers; blocks with a kept result are kept later."""
    block_of = selector.view.block_of
    return gone | {block_of[index].start for index in gone if index in block_of}
