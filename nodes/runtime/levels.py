"""Which level of the fallback chain an attempt takes.

The breaker and an open draft hold the index of a level. The chain itself depends on the settings of the run and on
the model of the call, so the names of the levels are stored beside each index, and an index of another chain is not
used.
"""

from ..conversation.message_marks import NAMED_CHARACTERS
from ..gate.invariants import Finding
from ..selection.breaker import with_cooldown
from ..state import Breaker
from ..summary.fallback_chain import Level, after_failure, names_of
from .ledger_io import REFUSAL
from .node_context import NodeContext

FULL = "full"
"""Name of the complete summary among the strategies."""


def at_level(context: NodeContext, index: int) -> Breaker:
    """Return the breaker with which the next attempt begins at this index of the chain."""
    return {**context.breaker, "level": index, "levels": names_of(context.chain)}


def draft_level(context: NodeContext) -> Level | None:
    """Return the level of the open draft; `None` if settings or model changed since, and with them the levels."""
    draft, chain = context.draft, context.chain
    known = draft.get("levels") in (None, names_of(context.chain)) and draft["level"] < len(chain)
    return chain[draft["level"]] if known else None


def stored_level(context: NodeContext) -> int:
    """Return the level at which the next compaction begins: the stored one if it is of this call's chain, else 0."""
    return min(_next_level(context), len(context.chain) - 1)


def _next_level(context: NodeContext) -> int:
    """Return the stored level; after a failure of the last level, it is the number of levels."""
    breaker = context.breaker
    return breaker.get("level", 0) if breaker.get("levels", names_of(context.chain)) == names_of(context.chain) else 0


def untried_level(context: NodeContext, base_fingerprint: str) -> int | None:
    """Return the level of an attempt on these messages; `None` if the last level has failed on them.

    If a failed summary changes nothing, return a level with a model. If the compaction has no time left for
    summarizers, return a level without a model.
    """
    chain, first, breaker = context.chain, stored_level(context), context.breaker
    if keeps_everything(context):
        return 0 if chain[first].is_deterministic else first
    if breaker.get("messages") == base_fingerprint[:NAMED_CHARACTERS]:
        first = _next_level(context)
    is_late = breaker.get("seconds_left", 1.0) <= 0
    return next((n for n in range(first, len(chain)) if chain[n].is_deterministic or not is_late), None)


def attempt_number(context: NodeContext) -> int:
    """Return the number in the key of an attempt: 0, or a number of its own after failures."""
    failures = context.breaker.get("failures", 0)
    return context.attempt_in_epoch(REFUSAL + failures if failures else 0)


def count_failure(
    context: NodeContext, base_fingerprint: str, level: int, finding: Finding, selected: str = ""
) -> Breaker:
    """Return the breaker after a failed attempt: the next level and, after several failures, the cool-down's end.

    `selected` names the strategies of the attempt. If the next strategy follows, the level stays, and `failed` names
    those that have failed.
    """
    failed, failures = _failed_strategies(context, selected, finding), context.breaker.get("failures", 0) + 1
    counted = at_level(context, level if failed else after_failure(context.chain, level, finding))
    counted |= {"failures": failures, "messages": base_fingerprint[:NAMED_CHARACTERS], "failed": failed}
    return with_cooldown(counted, failures, context.now())


def over(breaker: Breaker) -> Breaker:
    """Return the breaker without what holds for one compaction only: its failed strategies, and the time it has."""
    kept = breaker.copy()
    kept.pop("failed", None)
    kept.pop("seconds_left", None)
    return kept


def _failed_strategies(context: NodeContext, selected: str, finding: Finding) -> list[str]:
    """Return the strategies that have failed, if the next one follows in the same turn; else an empty list.

    None follows after the complete summary, or if the summarizer does not answer.
    """
    is_last = selected in ("", FULL) or finding.kind == "transient"
    if is_last or not context.settings.policy.next_after_failure or not keeps_everything(context):
        return []
    return [*context.breaker.get("failed", ()), *selected.split(">")]


def keeps_everything(context: NodeContext) -> bool:
    """Whether a model's summary that fails leaves everything as it is, because the request fits all the same."""
    chosen = context.settings.on_summary_failure == "nothing"
    return chosen and not context.chain[0].is_deterministic and not urgent(context)


def urgent(context: NodeContext) -> bool:
    """Whether the turn is in the hard zone: the next request is over the limit, or the provider refused a request.

    After the answer nothing is urgent: at the next input the answered round is old and can be summarized.
    """
    called_next = context.compaction.get("route", "model") == "model"
    return (called_next and context.size > context.sizes.limit) or context.compaction.get("trigger") == "overflow"
