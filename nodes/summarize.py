"""`summarize`: have the old part summarised; the result waits in the draft for the gate."""

from dataclasses import replace
from hashlib import blake2b

from langgraph_compaction.checkpoint import (
    AttemptKey,
)
from langgraph_compaction.checkpoint.messages.message_codec import (
    digest_all,
)

from .conversation.transcript import message_id
from .effects import Step
from .events import log, meta_event
from .runtime.engine import Beside, applied_to, beside, counts_of, demand, summary_budget
from .runtime.failure_description import failure
from .runtime.ledger_io import keep_summary, known_summary, originals_of
from .runtime.node_context import Turn, Update, failed
from .runtime.sections import summarise_by_sections
from .runtime.summarize_chunks import Work, Written, seen_of
from .state import Draft
from .summary.fallback_chain import Rung


def summarize(turn: Turn) -> Step[Update]:
    """Write the summary into the draft, or what went wrong; never raises for a summariser's failure."""
    draft = turn.draft.copy()
    rung = turn.ladder[draft["rung"]]
    if not rung.is_deterministic:
        log.info("Running the LLM summary (执行 LLM Summary): %s", draft["strategy"])
    size = draft["tokens_selected"]
    turn.tell(meta_event("summary_start", size, size, counts_of(draft.get("counts")), "always_run"))
    try:
        extra = _beside(turn, draft)
        written = yield from _written(turn, draft, rung, extra)
    except Exception as error:  # noqa: BLE001 - a failure becomes a verdict
        return failed(draft, failure(error, "summarize"))
    draft["calls"], draft["model"] = written.calls, written.model
    draft["input_tokens"], draft["output_tokens"] = written.input_tokens, written.output_tokens
    if written.finding is not None:
        return failed(draft, written.finding)
    summary = extra.message(written.body, turn.draft_key.compaction_id, written.record)
    draft["summary"], draft["seen"] = summary, dict(written.seen)
    draft["needed"] = [] if rung.hides else [list(words) for words in extra.facts.needed]
    return {"compaction": {"step": "commit", "draft": draft}}


def is_paid(turn: Turn) -> Step[bool]:
    """Whether the summary of the open draft was recorded before its run died, and the draft still fits with it."""
    draft = turn.draft
    try:
        known = yield from _known(turn, turn.draft_key, _name(turn, draft))
    except Exception:  # noqa: BLE001 - a draft whose records cannot be read is dropped
        log.exception(
            "The recorded summaries of thread %r could not be read; its open draft is dropped", turn.thread_id
        )
        return False
    if draft["failure"] or known is None:
        return False
    summary = _beside(turn, draft).message(known.body, turn.draft_key.compaction_id)
    after = applied_to(turn.messages, drop=draft["drop"], clip=draft["clip"], summary=summary)
    return turn.meter.request(after) <= draft.get("ceiling", turn.sizes.limit)


def _beside(turn: Turn, draft: Draft) -> Beside:
    return beside(
        turn.call,
        turn.ladder[draft["rung"]],
        turn.messages,
        _drop(turn, draft),
        tokens=draft["tokens_selected"],
        ceiling=draft.get("ceiling", turn.sizes.limit),
        key_information=draft.get("key_information"),
    )


def _written(turn: Turn, draft: Draft, rung: Rung, extra: Beside) -> Step[Written]:
    key, call = turn.draft_key, turn.call
    drop = _drop(turn, draft)
    goal = demand(call, trigger=draft["trigger"], before=draft["tokens_before"], last=rung is turn.ladder[-1])
    ceiling = draft.get("ceiling", goal.ceiling)
    originals = yield from originals_of(turn, [turn.messages[index] for index in drop])
    work = Work(
        call=call,
        rung=rung,
        messages=turn.messages,
        drop=drop,
        budget=summary_budget(call, rung, goal, tokens=draft["tokens_selected"], ceiling=ceiling, extra=extra),
        originals=originals,
        focus=turn.compaction.get("focus"),
        callbacks=turn.callbacks,
        sections=_sections(turn, draft),
        clip=draft["clip"],
    )
    if rung.is_deterministic:
        return (yield from summarise_by_sections(work))
    name = _name(turn, draft)
    if (known := (yield from _known(turn, key, name))) is not None:
        log.info("The summary of attempt %s was recorded by an earlier run and is used again", key.compaction_id)
        return replace(known, seen=seen_of(work.parts()))
    written = yield from summarise_by_sections(work)
    if written.finding is None:
        yield from keep_summary(turn, key, name, written)
    return written


def _known(turn: Turn, key: AttemptKey, name: str) -> Step[Written | None]:
    found = yield from known_summary(turn, key, name)
    if found is None:
        return None
    return Written(
        body=found.text,
        calls=found.calls,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        model=found.model,
    )


def _drop(turn: Turn, draft: Draft) -> frozenset[int]:
    """Indexes of the messages that leave."""
    gone = set(draft["drop"])
    return frozenset(index for index, message in enumerate(turn.messages) if message_id(message) in gone)


def _sections(turn: Turn, draft: Draft) -> tuple[frozenset[int], ...]:
    """Indexes of the parts that are summarised each by itself."""
    place = {message_id(message): index for index, message in enumerate(turn.messages)}
    return tuple(frozenset(place[name] for name in part if name in place) for part in draft.get("sections", ()))


def _name(turn: Turn, draft: Draft) -> str:
    """The name under which a summary of these messages, asked for in these words, is recorded."""
    old = digest_all([turn.messages[index] for index in sorted(_drop(turn, draft))])
    chosen, focus = turn.settings, turn.compaction.get("focus")
    asked = (draft["strategy"], focus, chosen.prompts, chosen.language, chosen.summary_instructions)
    return blake2b(f"{old}|{asked}".encode(), digest_size=16).hexdigest()
