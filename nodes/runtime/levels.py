"""Which level of the fallback chain an attempt takes.

The state and an open draft hold the index of a level. The chain itself depends on the settings of the run and on the
model of the call, so the names of the levels are stored beside each index, and an index of another chain is not used.
"""

from typing import Any

from ..conversation.message_marks import NAMED_CHARACTERS
from ..gate.invariants import Finding
from ..selection import breaker
from ..summary.fallback_chain import Level, after_failure, strategy
from .ledger_io import REFUSAL
from .node_context import NodeContext

FULL = "full"
"""Name of the complete summary among the strategies."""
REMEMBERED = 6
"""Number of attempts that the list `tried` holds."""


def names(context: NodeContext) -> str:
    """Return the names of the levels of this call's fallback chain."""
    return " ".join(level.name for level in context.fallback_chain)


def at_level(context: NodeContext, index: int) -> dict[str, Any]:
    """Return the entries of the channel `compaction` that make the next attempt start at this index of the chain."""
    return {"level": index, "levels": names(context)}


def draft_level(context: NodeContext) -> Level | None:
    """Return the level of the open draft; `None` if settings or model changed since, and with them the levels."""
    draft, chain = context.draft, context.fallback_chain
    known = draft.get("levels", names(context)) == names(context) and draft["level"] < len(chain)
    return chain[draft["level"]] if known else None


def stored_level(context: NodeContext) -> int:
    """Return the level at which the next compaction begins: the stored one if it is of this call's chain, else 0."""
    stored = context.compaction
    first = stored.get("level", 0) if stored.get("levels", names(context)) == names(context) else 0
    return min(first, len(context.fallback_chain) - 1)


def untried_level(context: NodeContext, base_fingerprint: str) -> int | None:
    """Return the first level, from the stored one on, that was not yet tried on these messages.

    If a failed summary changes nothing, return a level with a model, whether it was tried or not. If the
    compaction has no time left for summarizers, return a level without a model.
    """
    chain, first = context.fallback_chain, stored_level(context)
    if keeps_everything(context):
        return 0 if chain[first].is_deterministic else first
    known, late = context.compaction.get("tried") or [], is_late(context)
    following = (n for n in range(first, len(chain)) if chain[n].is_deterministic or not late)
    return next((n for n in following if tried(context, base_fingerprint, n) not in known), None)


def is_late(context: NodeContext) -> bool:
    """Whether earlier levels of this compaction have used up its time for summarizers."""
    left = context.compaction.get("seconds_left")
    return left is not None and left <= 0


def tried(context: NodeContext, base_fingerprint: str, level: int) -> list[str]:
    """Return the entry that stands in the channel's list `tried` if this level was tried on these messages."""
    return [base_fingerprint[:NAMED_CHARACTERS], strategy(context.settings, context.fallback_chain[level])]


def attempt_number(context: NodeContext, base_fingerprint: str, level: int) -> int:
    """Return the number in the key of an attempt: 0, or a number of its own if the same attempt failed before."""
    again = tried(context, base_fingerprint, level) in (context.compaction.get("tried") or [])
    return context.attempt_in_epoch(REFUSAL + context.compaction.get("streak", 0) if again else 0)


def count_failure(
    context: NodeContext, base_fingerprint: str, level: int, finding: Finding, selected: str = ""
) -> dict[str, Any]:
    """Return the keys for a failed attempt: the next level and, after several failures, the cool-down's end.

    `selected` names the strategies of the attempt. If the next strategy follows, the level stays, and `failed` names
    those that have failed.
    """
    failed = _failed_strategies(context, selected, finding)
    streak = context.compaction.get("streak", 0) + 1
    known = [*(context.compaction.get("tried") or []), tried(context, base_fingerprint, level)]
    counted: dict[str, Any] = {
        "streak": streak,
        **at_level(context, level if failed else after_failure(context.fallback_chain, level, finding)),
        "tried": known[-REMEMBERED:],
    }
    if streak >= breaker.COOLDOWN_AFTER:
        counted["cooldown_until"] = context.now() + breaker.COOLDOWN_S
    if failed or context.compaction.get("failed"):
        counted["failed"] = failed
    return counted


def _failed_strategies(context: NodeContext, selected: str, finding: Finding) -> list[str] | None:
    """Return the strategies that have failed, if the next one follows in the same turn; else `None`.

    None follows after the complete summary, or if the summarizer does not answer.
    """
    is_last = selected in ("", FULL) or finding.kind == "transient"
    if is_last or not context.settings.policy.next_after_failure or not keeps_everything(context):
        return None
    return [*(context.compaction.get("failed") or []), *selected.split(">")]


def keeps_everything(context: NodeContext) -> bool:
    """Whether a model's summary that fails leaves everything as it is, because the request fits all the same."""
    chosen = context.settings.on_summary_failure == "nothing"
    return chosen and not context.fallback_chain[0].is_deterministic and not urgent(context)


def urgent(context: NodeContext) -> bool:
    """Whether the turn is in the hard zone: the next request is over the limit, or the provider refused a request.

    After the answer nothing is urgent: at the next input the answered round is old and can be summarized.
    """
    called_next = context.compaction.get("route", "model") == "model"
    return (called_next and context.size > context.sizes.limit) or context.compaction.get("trigger") == "overflow"
