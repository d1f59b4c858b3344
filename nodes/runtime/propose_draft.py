"""Open the draft of a compaction, and choose the messages that it removes or shortens."""

from dataclasses import replace
from functools import partial
from hashlib import blake2b

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all

from ..conversation.transcript import message_id
from ..conversation.view import View, changed, unarchived
from ..gate.invariants import Finding
from ..selection.selector import Choice, Demand, Selection
from ..state import Draft
from ..summary.fallback_chain import Level, names_of, strategy
from .collect_key_information import Choosing, Proposal, key_information
from .effects import Effects
from .engine import needs_summary, shortened_blocks
from .ledger_io import recallable
from .node_context import NodeContext, Update


def opened_draft(context: NodeContext, base: str, *, level: int, attempt: int, before: int) -> Draft:
    """Return the empty draft of an attempt on these messages; `before` is the size of the request in tokens."""
    left = context.breaker.get("seconds_left")
    return Draft(
        base_fingerprint=base,
        count=len(context.messages),
        level=level,
        levels=names_of(context.chain),
        attempt=attempt,
        strategy=strategy(context.settings, context.chain[level]),
        trigger=context.compaction.get("trigger", "precheck"),
        drop=[],
        clip={},
        summary=None,
        tokens_before=before,
        tokens_selected=before,
        opened_at=context.now(),
        seconds_left=context.settings.summary_deadline_s if left is None else left,
        owner=context.dependencies.owner(),
        failure=[],
    )


def _proposed(context: NodeContext, draft: Draft, chosen: Selection, goal: Demand) -> Update:
    ids = [message_id(message) for message in context.messages]
    draft["drop"] = [ids[index] for index in sorted(chosen.drop)]
    draft["clip"] = {ids[index]: message for index, message in chosen.clip.items()}
    draft["floor"], draft["ceiling"] = chosen.floor, chosen.ceiling
    draft["sections"] = [[ids[index] for index in sorted(part)] for part in chosen.sections]
    draft["selected"] = chosen.name
    summary = needs_summary(context.settings, chosen, goal)
    draft["strategy"] = strategy(context.settings, context.chain[draft["level"]], chosen.name, summary=summary)
    draft["counts"] = chosen.counts
    draft["tokens_selected"] = chosen.tokens
    return {"compaction": {"step": "summarize" if summary else "commit", "draft": draft}}


def choose_messages(
    context: NodeContext, draft: Draft, prepared: Choice | None = None
) -> Effects[tuple[Selection, Update] | Finding]:
    """Choose the messages to remove or shorten, and complete the draft; a `Finding` if nothing can be chosen.

    With `prepared`, exactly these messages are chosen, or none.
    """
    proposal = yield from _proposal(context, context.chain[draft["level"]], draft["tokens_before"], prepared)
    if isinstance(proposal.chosen, Finding):
        return proposal.chosen
    chosen = replace(proposal.chosen, clip=recallable(context, proposal.chosen.clip))
    draft["key_information"] = dict(proposal.key_information)
    return chosen, _proposed(context, draft, chosen, proposal.goal)


def _proposal(context: NodeContext, level: Level, before: int, prepared: Choice | None) -> Effects[Proposal]:
    """Choose the messages to remove; collect key information only if the choice needs a summary that carries it."""
    demanded = partial(context.demand, before, level, reserves_words=prepared is None)
    choosing = Choosing(context.call, context.messages, level, demanded, prepared)
    first = choosing.bare()
    if not choosing.wants_key_information(first):
        return first
    return choosing.with_key_information(first, (yield from key_information(context)))


def view_of(context: NodeContext, draft: Draft, summary: AnyMessage | None) -> View:
    """Return the view that a draft with this summary makes of the conversation."""
    return changed(
        context.conversation,
        context.view,
        source=context.key(draft["base_fingerprint"], draft["level"], draft["attempt"]).compaction_id,
        drop=[*unarchived(context.view), *draft["drop"]],
        clip=draft["clip"],
        summary=summary,
    )


def dropped(context: NodeContext, draft: Draft) -> frozenset[int]:
    """Return the indexes of the messages to be removed."""
    gone = set(draft["drop"])
    return frozenset(index for index, message in enumerate(context.messages) if message_id(message) in gone)


def summary_name(context: NodeContext, draft: Draft) -> str:
    """Return the name under which the summary is recorded: a hash of all that determines it, such as the messages."""
    drop = dropped(context, draft)
    covered = drop | shortened_blocks(context.messages, drop, draft["clip"])
    old = fingerprint_all([context.messages[index] for index in sorted(covered)])
    chosen, focus = context.settings, context.compaction.get("focus")
    asked = (draft["strategy"], focus, chosen.prompt, chosen.language)
    return blake2b(f"{old}|{asked}".encode(), digest_size=16).hexdigest()
