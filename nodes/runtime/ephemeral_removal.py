"""Remove older ephemeral messages before each call of the model: a compaction of its own, without a summary."""

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome

from ..conversation.transcript import message_id
from ..conversation.view import changed
from ..errors import SettingsError
from ..events import Counts, log
from ..gate.invariants import Finding
from ..selection.ephemeral_items import outdated
from . import ledger_io
from .effects import Effects
from .engine import judge
from .finish_attempt import failure, finish_attempt, outcome_of
from .node_context import NodeContext, Update

NAME = "ephemeral"
"""The name under which the ledger records these compactions, as trigger and as strategy. It is also the key in a
tool's metadata that says how many of its results stay."""


def ephemeral_tools(tools: Iterable[Any]) -> dict[str, int]:
    """Return, for tools with `metadata={"ephemeral": n}`, this n by name; raise `SettingsError` if it is invalid."""
    found: dict[str, int] = {}
    for tool in tools:
        keep = (getattr(tool, "metadata", None) or {}).get(NAME)
        if keep is None:
            continue
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
            raise SettingsError(
                f"the tool {tool.name!r} has metadata ephemeral={keep!r}: give the number of its newest results "
                "that stay in view, 0 or more"
            )
        found[str(tool.name)] = keep
    return found


def expire(context: NodeContext) -> Effects[Update]:
    """Return the update that removes older ephemeral messages; empty if there are none to remove.

    These messages are archived before they are removed, and the gate has to accept the result; if either fails,
    nothing changes.
    """
    selector, before = context.call.selector(context.messages), context.messages
    chosen = outdated(selector, context.dependencies.ephemeral)
    if not chosen.clip:
        return {}
    key = context.key(context.base_fingerprint(), 0, context.attempt_in_epoch(ledger_io.EPHEMERAL))
    forms = {message_id(before[index]): message for index, message in chosen.clip.items()}
    view = changed(context.conversation, context.view, source=key.compaction_id, clip=forms)
    after = context.seen_in(view)
    size, left = context.meter.request(before), context.meter.request(after)
    finding = judge(context.call, before, after, ceiling=size - 1, floor=0)
    if finding is None:
        leaving = [before[index] for index in sorted(chosen.clip)]
        done = _done(context, left, selector.count(frozenset(), chosen.clip))
        finding = yield from _recorded(context, key, size, done, leaving)
    _tell(context, key, size, left, finding)
    if finding:
        return {}
    return {"compaction_view": view, "compaction": {"epoch": context.epoch + 1, "head": key.compaction_id}}


def _done(context: NodeContext, after: int, counts: Counts) -> Outcome:
    draft = {"strategy": NAME, "counts": {**counts, "blocks_dropped": 0, "calls_clipped": 0}, "floor": 0}
    return outcome_of(context, draft, "committed", tokens_after=after)


def _recorded(
    context: NodeContext, key: AttemptKey, before: int, done: Outcome, leaving: list[AnyMessage]
) -> Effects[Finding | None]:
    """Write snapshot, archive and verdict; return a finding if they cannot be written."""
    try:
        yield from ledger_io.begin(context, key, strategy=NAME, trigger=NAME, tokens_before=before)
        yield from ledger_io.commit(context, key, done, leaving)
    except Exception as error:  # noqa: BLE001 - what is not archived must not leave the view
        finding = failure(error, "archive")
        lost = outcome_of(context, {"strategy": NAME}, finding.verdict, reason=finding.reason)
        yield from ledger_io.close(context, key, lost)
        return finding
    return None


def _tell(context: NodeContext, key: AttemptKey, before: int, after: int, finding: Finding | None) -> None:
    verdict, reason = (finding.verdict, finding.reason) if finding else ("committed", "success")
    log.info("Removing ephemeral messages: %s, %d -> %d tokens", verdict, before, after)
    left = before if finding else after
    finish_attempt(
        context, verdict, reason=reason, strategy=NAME, before=before, after=left, compaction_id=key.compaction_id
    )
