"""`model`: render the request, call the model, keep the reported usage, and check the size again."""

from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint
from langgraph_compaction.checkpoint.telemetry import annotate_usage

from .ahead.prepare import prepare_if_due
from .compaction_request import NO_REQUEST
from .config.triggers import Marker
from .confirm import by_hand, room_made
from .conversation.bound_history import with_history_changed
from .conversation.message_marks import refusal
from .conversation.request import calibration_factor, is_plausible, render
from .conversation.request_size import Counted, Usage
from .conversation.tokens import total
from .errors import ContextExhaustedError, MessageRefusedError, RequestError
from .events import PreCompactEvent, emit, log
from .providers.overflow import is_context_overflow, overflow_sizes
from .runtime.archive_quotation import quoted_archive
from .runtime.bill import billed, usage_of_answer
from .runtime.effects import Effects, either
from .runtime.ledger_io import note
from .runtime.node_context import NodeContext, Update, rendered_request
from .runtime.trigger_and_warning import check
from .selection.compaction_marker import remove_marker
from .summarize import summarize
from .summary.prompt_cache import with_cache_markers


def model(context: NodeContext) -> Effects[Update]:
    """Call the model and check the size after its answer.

    If the provider refuses the request as too long and the hook `on_overflow` is set, the conversation is
    compacted once and the call is repeated. Other errors of the model are raised unchanged.

    Raises `RequestError` for an invalid `compaction_request`, `MessageRefusedError` for a refused input under
    `on_refusal="raise"`, and `ContextExhaustedError` if the request is over the limit or the provider refuses the
    request a second time.
    """
    last = (context.compaction.get("last") or {}) if context.compaction.get("route") == "end" else {}
    if last.get("verdict") == "refused":
        raise MessageRefusedError(refusal(context.messages))
    if last.get("reason") == NO_REQUEST:
        raise RequestError(last["detail"])
    called = context.model
    if called is None:
        msg = "a graph without a model has no model node"
        raise RuntimeError(msg)
    _check_limit(context)
    quoted = (yield from quoted_archive(context)) if context.quotes_archive else None
    request, cached = with_cache_markers(called, rendered_request(context, quoted))
    try:
        answer = yield from either(
            lambda: called.invoke(request, **cached), lambda: cast("Any", called.ainvoke(request, **cached))
        )
    except Exception as error:
        handled = context.settings.enabled and "on_overflow" in context.settings.policy.hooks
        if not (handled and is_context_overflow(error)):
            raise
        return _overflow(context, error)
    answer = _own(context, answer)
    if quoted is None:
        return (yield from _answered(context, answer, 0))
    [answer] = with_history_changed([answer])  # the next request does not hold the quotation
    return (yield from _answered(context, cast("AIMessage", answer), context.counter.message(quoted)))


def _check_limit(context: NodeContext) -> None:
    if context.size <= context.sizes.limit:
        return
    if context.compaction.get("awaiting_choice") and not room_made(context):
        raise ContextExhaustedError(by_hand(context))
    size = context.meter.request(context.messages)
    if size > context.sizes.limit:
        why = (
            "Nothing is compacted while a tool call waits for its result: give the missing results, or a new message "
            "instead."
            if context.settings.enabled
            else "Nothing compacts by itself with enabled=False: call CompactionThread(graph, config).compact(), or "
            "set it True."
        )
        raise ContextExhaustedError(
            f"the request holds {size} tokens and the limit is {context.sizes.limit}; it was not sent. {why}"
        )


def _own(context: NodeContext, answer: Any) -> AIMessage:
    """Return the answer as a whole message with a new id, and with an id for every call.

    LangGraph replaces an older message with the same id, and runs no tool for a call without an id.
    """
    if isinstance(answer, AIMessageChunk):
        answer = message_chunk_to_message(answer)
    if answer.id is None or answer.id in [message.id for message in (*context.conversation, *context.messages)]:
        answer = answer.model_copy(update={"id": f"lc_run--{uuid4()}"})
    if not all(call["id"] for call in answer.tool_calls):
        named = [{**call, "id": call["id"] or f"call_{uuid4().hex}"} for call in answer.tool_calls]
        answer = answer.model_copy(update={"tool_calls": named})
    return cast("AIMessage", answer)


def _answered(context: NodeContext, given: AIMessage, extra: int) -> Effects[Update]:
    answer, marked = _heard(context, given)
    compaction: dict[str, Any] = {"trigger": "", "calls": context.compaction.get("calls", 0) + 1}
    compaction |= _measured(context, answer, extra)
    spent = usage_of_answer(context, answer)
    compaction["bill"] = billed(context, [spent])
    annotate_usage(spent)
    if marked and not answer.tool_calls and not render([answer]):
        return (yield from _marker_alone(context, given, compaction, marked))
    if marked:
        compaction["marked"] = marked
    if context.compaction.get("draft"):  # another run is compacting this thread
        compaction |= {"step": "tools"} if answer.tool_calls else {"step": "end", "route": "end"}
        return {"messages": [answer], "compaction": compaction}
    usage: Usage = compaction["usage"]
    size = usage["tokens"] or context.size + context.meter.scaled(total(context.counter, render([answer])))
    now = context.after(compaction)
    if answer.tool_calls:
        compaction["step"] = "tools"
    else:
        compaction |= yield from check(now, size, "check", "end")
    if compaction["step"] in ("tools", "end"):
        yield from prepare_if_due(now, size, summarize, answer)
    return {"messages": [answer], "compaction": compaction}


def _heard(context: NodeContext, answer: AIMessage) -> tuple[AIMessage, str | None]:
    """Return the answer without the markers that triggers in the settings name, and the first marker found in it."""
    marked: str | None = None
    for trigger in context.settings.triggers:
        if isinstance(trigger, Marker) and (said := remove_marker(answer, trigger.text)) is not None:
            answer, marked = said, marked or trigger.text
    return answer, marked


def _marker_alone(context: NodeContext, given: AIMessage, compaction: dict[str, Any], marked: str) -> Effects[Update]:
    """Handle an answer that is only a marker, by which the model asks for a compaction.

    The answer is dropped, the conversation is compacted, and the model is called again. If its next answer is only a
    marker again, or if nothing is compacted, the answer is kept and ends the turn.
    """
    free = not context.compaction.get("draft")  # with a draft, another run is compacting
    if context.compaction.get("marked_alone"):
        yield from note(context, "marker", "noop", context.size, reason="marker_again")
    elif free:
        decided = yield from check(context.after({**compaction, "marked": marked}), context.size, "check", "model")
        if decided["step"] in ("selective_compaction", "confirm"):
            return {"messages": [], "compaction": {**compaction, **decided, "usage": None, "marked_alone": True}}
    log.warning("The model answered with the marker %s and nothing else; the turn ends with this answer", marked)
    ended = {"step": "end", "route": "end", "usage": None, "marked": None}
    return {"messages": [given], "compaction": {**compaction, **ended}}


def _measured(context: NodeContext, answer: AIMessage, extra: int) -> dict[str, Any]:
    """Return the size of the request, from which later sizes are taken, and the ratio of reported usage to our count.

    A usage that cannot be that of this request is not used; the request is then measured by our count alone.
    `extra` is the number of tokens that this request alone had, by our count; they are not part of later sizes.
    """
    reported, counted = answer.usage_metadata, context.measured.counted + extra
    window = max(context.sizes.window, context.facts.window or 0)
    usage = Usage(
        message_id=cast("str", answer.id),
        fingerprint=fingerprint(answer),
        before=context.measured.outline,
        tokens=None,
        model=context.facts.name,
        epoch=context.epoch,
        fixed=context.meter.overhead,
        counted=Counted(counter=context.counter.name, tokens=context.measured.counted),
    )
    if not reported or not is_plausible(reported, counted, window):
        return {"usage": usage}
    sent, written = reported["input_tokens"] - context.meter.scaled(extra), reported["output_tokens"]
    thought = (reported.get("output_token_details") or {}).get("reasoning") or 0
    said = written - thought if thought <= written else written  # some servers count reasoning beside the output
    usage["tokens"] = sent + (said if render([answer]) else 0)  # reasoning alone is not resent
    scale = calibration_factor(reported["input_tokens"], counted)
    return {"usage": usage, **_calibrated(context, scale)}


def _calibrated(context: NodeContext, scale: float) -> dict[str, Any]:
    """Return the factor between the tokens of this model's provider and our count, beside those of other models."""
    return {"calibration": {**(context.compaction.get("calibration") or {}), context.facts.name: round(scale, 4)}}


def _overflow(context: NodeContext, error: Exception) -> Update:
    """Start a compaction because the provider refused the request as too long; then the model is called again.

    Raises `ContextExhaustedError` if the provider already refused this request once.
    """
    sent, allowed = overflow_sizes(error)
    if context.compaction.get("overflows", 0):
        raise ContextExhaustedError(
            f"the provider refused the request as too long again after a compaction ({context.size} tokens by our "
            f"count, limit {context.sizes.limit}): set CompactionSettings(context_window=...) to what the server "
            "really accepts"
        ) from error
    emit(
        context.writer,
        PreCompactEvent(trigger="overflow", current_tokens=sent or context.size, threshold=context.sizes.limit),
    )
    compaction: dict[str, Any] = {
        "step": "selective_compaction",
        "route": "model",
        "trigger": "overflow",
        "focus": None,
        "summarize_all": False,
        "max_messages": None,
        "overflows": 1,
        "usage": None,
    }
    if allowed:
        compaction["learned"] = {**(context.compaction.get("learned") or {}), context.facts.name: allowed}
    if sent:
        counted = context.meter.unscaled(context.meter.request(context.messages))
        compaction |= _calibrated(context, calibration_factor(sent, counted))
    return {"compaction": compaction}
