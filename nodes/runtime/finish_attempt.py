"""How an attempt ends: from an exception or a finding to its verdict, ledger row, event and `compaction["last"]`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.checkpoint.compaction.attempt import COMMITTED, Outcome
from langgraph_compaction.checkpoint.compaction.ledger import ABANDONED
from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.checkpoint.telemetry import annotate, count_attempt, record
from langgraph_compaction.checkpoint.usage import Usage

from ..conversation.message_marks import is_summary
from ..conversation.redaction import masked
from ..conversation.tokens import call_texts
from ..events import CompactionEvent, emit, log
from ..gate.invariants import Finding
from ..providers.error_kind import classify
from ..state import FOCUS_CHARACTERS, Draft
from ..text.quoting import clip, one_line, quoted
from .node_context import NodeContext, Update
from .summarizer_call import SummaryAbandonedError

MEASURED = ("verdict", "reason", "strategy", "tokens_before", "tokens_after", "summary_calls", "summary_cost")
"""Fields of a `CompactionEvent` that a span shows."""
SHOWN_LEFT = (2, 30)
"""How many of the messages that left `compaction["last"]` shows, and how many characters of each."""
_TURNED = Pattern("[\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the direction of what follows."""


def failure(error: Exception, reason: str) -> Finding:
    """Return the verdict of an attempt that this error ended; API keys that the error quotes are masked."""
    if isinstance(error, SummaryAbandonedError):
        return Finding(ABANDONED, "loop_ended", str(error))
    kind = classify(error)
    verdict = "failed_transient" if kind == "transient" else "failed_permanent"
    return Finding(verdict, f"{reason}:{type(error).__name__}", masked(str(error)), kind)


def failed(draft: Draft, finding: Finding) -> Update:
    """Return the update that makes `rollback` the next step, with the finding that ends the draft's attempt."""
    found = [finding.verdict, finding.reason, finding.detail, finding.kind]
    return {"compaction": {"step": "rollback", "draft": {**draft, "failure": found}}}


def outcome_of(
    context: NodeContext,
    draft: Draft | Mapping[str, Any],
    verdict: str,
    *,
    reason: str = "",
    detail: str = "",
    tokens_after: int | None = None,
) -> Outcome:
    """Return the closing fields of the ledger row of a draft's attempt."""
    counts: Mapping[str, Any] = draft.get("counts") or {}
    summary = draft.get("summary")
    return Outcome(
        verdict=verdict,
        now=context.now(),
        reason=reason,
        detail=_told_text(context, detail) or "",
        strategy=draft["strategy"],
        tokens_after=tokens_after,
        blocks_kept=counts.get("blocks_kept"),
        blocks_dropped=counts.get("blocks_dropped"),
        calls_clipped=counts.get("calls_clipped"),
        results_clipped=counts.get("results_clipped"),
        floor=draft.get("floor"),
        seen=draft.get("seen"),
        window=draft.get("window"),
        summary=_told_text(context, summary.text) if summary is not None else None,
        model=draft.get("model"),
        usage=Usage.read(draft["usage"]) if "usage" in draft else None,
        duration_s=max(0.0, context.now() - draft.get("opened_at", context.now())),
    )


def window_before(context: NodeContext, draft: Draft) -> list[dict[str, Any]]:
    """Return what filled the window when a draft's attempt began, as `Outcome.window` holds it."""
    return [asdict(context.usage_of(context.messages, draft["tokens_before"]))]


def _told_text(context: NodeContext, text: str | None) -> str | None:
    """Return the text, redacted for ledger and log; if the redaction hook fails, return a notice instead."""
    redaction = context.dependencies.redaction
    if redaction is None or not text:
        return text
    try:
        return redaction.hook(text)
    except Exception:  # noqa: BLE001 - the hook is the application's; a text that it did not pass stays secret
        log.error("The redaction hook failed; the text is left out")  # a traceback might quote it
        return "[left out: the redaction hook failed]"


def finish_attempt(
    context: NodeContext,
    verdict: str,
    *,
    reason: str = "",
    strategy: str = "",
    before: int,
    after: int,
    draft: Draft | None = None,
    compaction_id: str | None = None,
    blocks_dropped: int = 0,
    detail: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Emit the `CompactionEvent` of an attempt that ended with this verdict; return its `compaction["last"]`.

    `before` and `after` are tokens of the request before and after the attempt, `compaction_id` the id of its ledger
    row. With a `draft` the cost of its summary is reported. The event's `detail` is redacted, as in the ledger, and
    is not in `compaction["last"]`, which every checkpoint stores. `more` holds further fields of `compaction["last"]`
    that the event does not have.
    """
    known: dict[str, Any] = {
        "verdict": verdict,
        "reason": reason,
        "strategy": strategy or (draft["strategy"] if draft else ""),
        "tokens_before": before,
        "tokens_after": after,
        "tokens_remaining": max(0, context.sizes.limit - after),
        **Usage.read(draft.get("usage") if draft else None).named("summary_"),
    }
    told = clip(_told_text(context, detail) or "", FOCUS_CHARACTERS)
    emit(
        context.writer,
        CompactionEvent(**known, blocks_dropped=blocks_dropped, compaction_id=compaction_id, detail=told),
    )
    _measure(context, known, draft)
    text = in_words(verdict, before=before, after=after, reason=reason)
    if draft:
        more["trigger"] = draft["trigger"]
        if verdict in COMMITTED:
            dropped = set(draft["drop"])
            left = [message for message in context.messages if message.id in dropped]
            text = "; ".join([text, *_what_left(context, draft, len(left))])
            said = [message for message in left if not is_summary(message)]
            more["left"] = beginnings(context, said, *SHOWN_LEFT)
        else:  # a commit stores them for the thread
            more |= {"trigger_tokens": context.sizes.trigger, "limit": context.sizes.limit}
    return last_of(text=text, **known, id=compaction_id, **more)


def in_words(verdict: str, *, before: int, after: int, reason: str = "") -> str:
    """Return how an attempt ended, as a person reads it; `before` and `after` are tokens of the request."""
    if verdict in COMMITTED:
        instead = " by the fallback, without a model" if verdict == "degraded_deterministic" else ""
        return f"compacted: {before:,} -> {after:,} tokens{instead}"
    if verdict == "noop":
        return "nothing to compact: every message is in the newest rounds, which are kept"
    if verdict == "refused":
        return f"your message was not sent: it needs {before:,} tokens, and the limit is {after:,}"
    return f"not compacted: {verdict}{f' ({reason})' if reason else ''}; the messages are as they were"


def _what_left(context: NodeContext, draft: Draft, left: int) -> Iterator[str]:
    """Yield how many messages left the view or became short by a commit, and how a run's input undoes it."""
    if left:
        yield f"{left:,} messages left the view"
    if short := len(draft["clip"]):
        yield f"{short:,} messages were shortened"
    if context.saver and not context.dependencies.embedded:
        force = ', "force": true' if draft["tokens_before"] > context.sizes.limit else ""
        yield f'undo with {context.dependencies.channel}_request {{"undo": "last"{force}}}'


def beginnings(context: NodeContext, messages: Sequence[AnyMessage], most: int, characters: int) -> list[str]:
    """Return the beginnings of the first `most` messages in so many characters, redacted, each with its role."""
    lines = list[str]()
    for message in messages[:most]:
        text = message.text or (" ".join(call_texts(message)) if isinstance(message, AIMessage) else "")
        line = _TURNED.sub("", one_line(_told_text(context, text) or "", characters))
        lines.append(f"{message.type}: {quoted(line.replace('](', '] ('))}")  # no link, no image
    return [*lines, *(["..."] if len(messages) > most else [])]


def _measure(context: NodeContext, known: Mapping[str, Any], draft: Draft | None) -> None:
    verdict = {"verdict": known["verdict"]}
    annotate({f"compaction.{name}": known[name] for name in MEASURED if known[name] != ""})
    count_attempt({**verdict, "strategy": known["strategy"]})
    if draft is not None and "opened_at" in draft:
        record("compaction.duration", max(0.0, context.now() - draft["opened_at"]), verdict)
    if known["verdict"] in COMMITTED:
        annotate({"gen_ai.conversation.compacted": True})
        record("compaction.tokens_saved", known["tokens_before"] - known["tokens_after"], verdict)


_RARE = frozenset({"summary_cache_read_tokens", "summary_cache_write_tokens", "summary_reasoning_tokens"})
"""Fields whose zeros `compaction["last"]` leaves out."""


def last_of(**fields: Any) -> dict[str, Any]:
    """Return `compaction["last"]` with these fields, without empty ones: every checkpoint stores the value."""
    return {name: value for name, value in fields.items() if value not in (None, "") and (value or name not in _RARE)}
