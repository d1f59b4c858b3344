"""`selective_compaction`: begin the transaction and choose what leaves."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from .compaction_request import WISHES
from .config.triggers import Unit
from .conversation.transcript import message_id
from .effects import Step
from .errors import ContextExhaustedError
from .events import CompactionEvent, Counts, emit, log, meta_event
from .gate.invariants import Finding
from .runtime.engine import needs_summary
from .runtime.failure_description import failure
from .runtime.key_information_collection import key_information
from .runtime.key_information_room import Proposal, bare, wants_key_information, with_key_information
from .runtime.ledger_io import begin, close, outcome_of, recallable
from .runtime.node_context import Turn, Update, failed
from .selection.selector import Demand, Selection
from .selection.trigger_evaluation import counted
from .state import Draft
from .summary.fallback_chain import strategy

RESTARTING = WISHES | {"turns", "marker"}
"""Triggers after which turns are counted anew, also where there was nothing to compact."""


def selective_compaction(turn: Turn) -> Step[Update]:
    """Write the snapshot, then a draft; `messages` is not touched.

    Takes the thread's rung, or the next one whose strategy was not yet tried on this very conversation. Raises
    `ContextExhaustedError` where none is left and the request is over the limit.
    """
    if turn.compaction.get("draft") and turn.draft.get("unrestored"):
        return {"compaction": {"step": "rollback"}}  # the provider refused what could not be restored before
    base, trigger = turn.base_digest(), turn.compaction.get("trigger", "precheck")
    ladder, rung = turn.ladder, _untried(turn, base)
    if rung is None:
        return _nothing_left(turn)
    name = strategy(turn.settings, ladder[rung])
    before = turn.meter.request(turn.messages)
    draft = _opened(turn, base, rung=rung, name=name, trigger=trigger, before=before)
    log.info("Starting a selective compaction (开始选择性压缩): %s, %d tokens", name, before)
    turn.tell(meta_event("selective_start", before, before, Counts(), "started"))
    try:
        key = turn.key(base, rung, draft["attempt"])
        yield from begin(turn, key, strategy=name, trigger=trigger, tokens_before=before)
        proposal = yield from _proposal(turn, rung, before)
        chosen = proposal.chosen
        if not isinstance(chosen, Finding):
            chosen = replace(chosen, clip=recallable(turn, chosen.clip))
        draft["key_information"] = dict(proposal.told)
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict, and the turn goes on
        return failed(draft, failure(error, "selective"))
    if isinstance(chosen, Finding):
        # in the soft zone nothing to gain now is no failure: the next turn may have more to leave
        return failed(draft, chosen) if urgent(turn) else (yield from _noop(turn, draft, chosen.reason))
    turn.tell(meta_event("selective_done", before, chosen.tokens, chosen.counts, "done"))
    return _proposed(turn, draft, chosen, proposal.goal)


def _proposal(turn: Turn, rung: int, before: int) -> Step[Proposal]:
    """What leaves, with room for the key information; that is collected only where something can leave."""

    def demanded(told: Mapping[str, str]) -> Demand:
        return turn.demand(before, last=rung == len(turn.ladder) - 1, key_information=told)

    first = bare(turn.call, turn.messages, turn.ladder[rung], demanded)
    if not wants_key_information(turn.settings, turn.ladder[rung], first):
        return first
    texts = yield from key_information(turn)
    return with_key_information(turn.call, turn.messages, turn.ladder[rung], demanded, first=first, texts=texts)


def urgent(turn: Turn) -> bool:
    """The hard zone: the model is to be called and the request is over the limit, or the provider said overflow.

    After the answer nothing is urgent: with the next input the answered round is old, and can be summarised.
    """
    called_next = turn.compaction.get("route", "model") == "model"
    return (called_next and turn.size > turn.sizes.limit) or turn.compaction.get("trigger") == "overflow"


def _untried(turn: Turn, base: str) -> int | None:
    ladder, tried = turn.ladder, turn.compaction.get("tried") or []
    for rung in range(min(turn.compaction.get("rung", 0), len(ladder) - 1), len(ladder)):
        if [base, strategy(turn.settings, ladder[rung])] not in tried:
            return rung
    return None


def _nothing_left(turn: Turn) -> Update:
    """On along the route, or the error where the request is too large by the anchor and by our own count of it."""
    refused = turn.compaction.get("trigger") == "overflow"
    if not urgent(turn) or (not refused and turn.meter.request(turn.messages) <= turn.sizes.limit):
        return {"compaction": {"step": turn.compaction.get("route", "model"), "draft": None}}
    sizes = turn.sizes
    raise ContextExhaustedError(
        f"the request needs {turn.size} tokens and the limit is {sizes.limit} (window {sizes.window}, output "
        f"reserve {sizes.reserve}, system prompt, system messages and tools {sizes.fixed}), and everything that "
        "may leave has left. Use a model with a larger window, shorten the system prompt, remove pins, or let a "
        "long input go into the summary (long_input='summarise')."
    )


def _opened(turn: Turn, base: str, *, rung: int, name: str, trigger: str, before: int) -> Draft:
    return Draft(
        snapshot_id=turn.key(base, rung, 0).compaction_id,
        base_digest=base,
        count=len(turn.messages),
        rung=rung,
        attempt=0,
        strategy=name,
        trigger=trigger,
        drop=[],
        clip={},
        summary=None,
        tokens_before=before,
        tokens_selected=before,
        opened_at=turn.now(),
        owner=turn.team.owner(),
        failure=[],
    )


def _proposed(turn: Turn, draft: Draft, chosen: Selection, goal: Demand) -> Update:
    ids = [message_id(message) for message in turn.messages]
    draft["drop"] = [ids[index] for index in sorted(chosen.drop)]
    draft["clip"] = {ids[index]: message for index, message in chosen.clip.items()}
    draft["floor"], draft["ceiling"] = chosen.floor, chosen.ceiling
    draft["sections"] = [[ids[index] for index in sorted(part)] for part in chosen.sections]
    summary = needs_summary(turn.settings, chosen, goal)
    draft["strategy"] = strategy(turn.settings, turn.ladder[draft["rung"]], chosen.name, summary=summary)
    draft["counts"] = asdict(chosen.counts)
    draft["tokens_selected"] = chosen.tokens
    return {"compaction": {"step": "summarize" if summary else "commit", "draft": draft}}


def _noop(turn: Turn, draft: Draft, reason: str) -> Step[Update]:
    """Nothing can be gained now: no transaction, no failure."""
    before = draft["tokens_before"]
    turn.tell(meta_event("selective_done", before, before, Counts(), reason))
    key = turn.key(draft["base_digest"], draft["rung"], draft["attempt"])
    yield from close(turn, key, outcome_of(turn, draft, "noop", reason=reason, tokens_after=before))
    emit(
        turn.writer,
        CompactionEvent(
            verdict="noop",
            reason=reason,
            strategy=draft["strategy"],
            tokens_before=before,
            tokens_after=before,
            blocks_dropped=0,
            compaction_id=None,
        ),
    )
    last = {"verdict": "noop", "reason": reason, "tokens_before": before, "tokens_after": before}
    step = turn.compaction.get("route", "model")
    return {"compaction": {"step": step, "draft": None, "last": last, **_counted_anew(turn)}}


def _counted_anew(turn: Turn) -> dict[str, Any]:
    """After a count or a wish that found nothing to compact: it does not fire again at every turn.

    Turns are counted from here, as after a commit; of what is counted in the view, the number now is kept.
    """
    trigger = turn.compaction.get("trigger", "")
    if trigger in RESTARTING:
        return {"turns_then": turn.compaction.get("turns", 0)}
    unit = next((one for one in get_args(Unit) if one == trigger), None)
    if unit is None:
        return {}
    known = turn.compaction.get("in_vain") or {}
    return {"in_vain": {**known, unit: counted(turn.messages, unit)}}
