"""Prepare a summary in the background, before a compaction needs it.

When the size of a request nears a trigger, the choice and the summary of the next compaction are made on a snapshot
of the conversation. The messages that arrive meanwhile do not matter: they stay behind what the draft removes.
`use_prepared.py` has the compaction make exactly this choice.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import AIMessage
from langchain_core.tracers.langchain import LangChainTracer
from langgraph.runtime import Runtime

from langgraph_compaction.checkpoint.checkpoints.write_guards import acting_for, current_run
from langgraph_compaction.checkpoint.compaction.ledger import PREPARED, PREPARING, READY
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.checkpoint.telemetry import span

from ..conversation.tokens import total
from ..conversation.transcript import Transcript
from ..events import PreparationEvent, emit, log
from ..gate.invariants import Finding
from ..runtime.effects import Effect, Effects, either, run
from ..runtime.finish_attempt import outcome_of
from ..runtime.ledger_io import opening_of
from ..runtime.levels import over, stored_level, untried_level
from ..runtime.node_context import Found, NodeContext, Update
from ..runtime.propose_draft import choose_messages, opened_draft, summary_name
from ..runtime.summarizer_call import SummaryAbandonedError, context_without_run
from ..runtime.trigger_and_warning import suspended_by
from ..selection.selector import Choice
from ..state import Draft
from ..summary.fallback_chain import names_of
from .preparations import PREPARATIONS, Place, Prepared

EARLIEST = 0.75
"""Share of the trigger below which nothing is prepared, however fast the conversation grows."""
STEPS_AHEAD = 4
"""Number of steps of a tool loop that a preparation begins ahead of the trigger."""
_LOOK_S = 0.05
"""Seconds after which an OS thread that waits for an asynchronous summarizer looks whether the loop still runs."""
_ASYNCHRONOUS_ONLY = ("No synchronous function provided", "Cannot invoke a coroutine function synchronously")
"""Texts of the `TypeError` of a node of LangGraph, and of a `RunnableLambda`, with only an asynchronous function."""
Node = Callable[[NodeContext], Effects[Update]]

ATTEMPT = -1
"""The attempt number in the key of a preparation; an attempt at a level has another."""


def prepare_if_due(
    context: NodeContext, size: int, summarize: Node, answer: AIMessage | None = None
) -> Effects[None]:
    """Start to prepare a summary in the background if the next compaction is near; `size` is that of the request.

    `summarize` is the node that writes the summary of a draft, `answer` the model's answer to the messages in view.
    This reads no database, and far below the trigger it compares numbers only.
    """
    trigger, place = context.sizes.trigger, place_of(context)
    is_near = context.settings.summary_ahead and EARLIEST * trigger <= size < trigger
    if not is_near or place is None:
        return
    if answer is not None:
        context = context.after({}, [*context.messages, answer])
    if not (PREPARATIONS.may_start(place, context.epoch) and _may(context) and _is_due(context, size)):
        return
    turn = current_run()

    def launch(loop: asyncio.AbstractEventLoop | None) -> None:
        ahead = _in_background(context)

        def work() -> Prepared | None:
            with acting_for(turn), span("compaction.prepare", {"gen_ai.conversation.id": place[1]}):
                return run(_prepared(ahead, summarize), partial(_called, loop))

        PREPARATIONS.start(place, context.epoch, work)

    async def alaunch() -> None:
        launch(asyncio.get_running_loop())

    yield from either(lambda: launch(None), alaunch)
    emit(context.writer, PreparationEvent(state="preparing"))


def place_of(context: NodeContext) -> Place | None:
    """Return the place of a preparation; `None` without a thread, because nothing is stored then."""
    thread = context.thread_id
    return None if thread is None else (context.records.database.identity, thread, context.namespace)


def _may(context: NodeContext) -> bool:
    """Whether the next compaction will start by itself, at a trigger by tokens, with a summary of a model."""
    settings, compaction = context.settings, context.compaction
    asks = settings.require_confirmation or not settings.enabled or compaction.get("held") or compaction.get("draft")
    checked = settings.token_triggers and {"pre_input", "pre_model", "post_model"} & set(settings.policy.hooks)
    if asks or not checked or suspended_by(context):
        return False
    return not context.chain[stored_level(context)].is_deterministic


def _is_in_loop(context: NodeContext) -> bool:
    last = context.messages[-1]
    return isinstance(last, AIMessage) and bool(last.tool_calls)


def _growth(context: NodeContext) -> int:
    """Return the tokens of the larger of the last two rounds; in a loop of tool calls, of the last two steps."""
    messages = context.messages
    if _is_in_loop(context):
        starts = [index + 1 for index, one in enumerate(messages) if isinstance(one, AIMessage)][-3:]
    else:
        starts = [*Transcript(messages).round_starts, len(messages)][-3:]
    grown = [total(context.counter, messages[one:other]) for one, other in pairwise(starts)]
    return context.meter.scaled(max(grown, default=0))


def _is_due(context: NodeContext, size: int) -> bool:
    """Whether to prepare now: the trigger is near, and the prepared summary will probably fit when it fires.

    Near is one round, since a person takes time to write the next input, or a few steps of a loop. The messages that
    arrive until the trigger fires stay beside the summary: as many tokens as are missing to the trigger, and up to
    one more round or step.
    """
    grown = _growth(context)
    near = grown * STEPS_AHEAD if _is_in_loop(context) else grown
    return size + near >= context.sizes.trigger and size > context.sizes.aim + grown


def _in_background(turn: NodeContext) -> NodeContext:
    """Return the context of a preparation: that of a turn's node, without its streams, but with its tracers."""
    known, kept = turn.config.get("configurable", {}), ("thread_id", "checkpoint_ns")
    due = turn.after(
        {
            "trigger": "precheck",
            "route": "model",
            "focus": None,
            "draft": None,
            "breaker": over(turn.breaker),
            "summarize_all": False,
            "max_messages": None,
        }
    )
    return replace(
        due,
        found=Found(chain=turn.chain),
        config={
            "configurable": {**turn.configurable, **{name: known[name] for name in kept if name in known}},
            "callbacks": _tracers(turn.config.get("callbacks")),
        },
        runtime=Runtime(context=turn.runtime.context, store=turn.runtime.store),
    )


def _tracers(callbacks: Any) -> BaseCallbackManager | None:
    """Return those of a run's callbacks that may be called after the run has ended: LangSmith's tracers.

    They put a later call below the node that started it, and write it in the background. Other handlers may belong to
    streams that are closed by then, or to an event loop that has ended.
    """
    if not isinstance(callbacks, BaseCallbackManager):
        return None
    tracers: list[BaseCallbackHandler] = [one for one in callbacks.handlers if isinstance(one, LangChainTracer)]
    kept = callbacks.copy()
    kept.set_handlers(tracers)
    return kept


def _is_asynchronous_only(error: Exception) -> bool:
    """Whether a synchronous call was refused because there is only an asynchronous side."""
    return isinstance(error, NotImplementedError) or any(text in str(error) for text in _ASYNCHRONOUS_ONLY)


def _called(loop: asyncio.AbstractEventLoop | None, effect: Effect) -> Any:
    """Make a call of a preparation synchronously; await one that has no synchronous side on the run's loop.

    Raises the call's own error if it is only asynchronous and the run has no loop, and `SummaryAbandonedError` if the
    loop ends before the reply.
    """
    try:
        return effect.call()
    except (NotImplementedError, TypeError) as error:
        if loop is None or not _is_asynchronous_only(error):
            raise
    if not loop.is_running():
        raise SummaryAbandonedError
    asked = cast("Any", effect.acall())
    try:
        reply = context_without_run().run(lambda: asyncio.run_coroutine_threadsafe(asked, loop))
    except RuntimeError as error:  # the loop was closed just now
        asked.close()
        raise SummaryAbandonedError from error
    while not reply.done() and loop.is_running():
        wait([reply], timeout=_LOOK_S)
    if not reply.done() or reply.cancelled():
        raise SummaryAbandonedError
    return reply.result()


def _prepared(context: NodeContext, summarize: Node) -> Effects[Prepared | None]:
    """Choose messages, have them summarized, and write the ledger; `None` if there is nothing to summarize yet."""
    base = context.base_fingerprint()
    level = untried_level(context, base)
    if level is None or context.chain[level].is_deterministic:
        return None
    before = context.meter.request(context.messages)
    number = context.attempt_in_epoch(ATTEMPT)
    draft = opened_draft(context, base, level=level, attempt=number, before=before)
    found = yield from choose_messages(context, draft)
    if isinstance(found, Finding) or found[1]["compaction"]["step"] != "summarize":
        return None  # later, more messages may be old enough
    key = context.key(base, level, number)
    done: Draft = (yield from summarize(context.after({"draft": draft})))["compaction"]["draft"]
    failure = Finding(*done["failure"]) if done["failure"] else None
    ended = failure or Finding(PREPARED, READY)
    outcome = outcome_of(context, done, ended.verdict, reason=ended.reason, detail=ended.detail)
    opening = opening_of(context, draft["strategy"], PREPARING, before)
    yield from context.query(lambda: context.records.note(key, outcome, **opening))
    log.info("Prepared a summary for thread %r: %s %s", context.thread_id, ended.verdict, ended.reason)
    chosen = found[0]
    covered = 1 + max(chosen.drop | chosen.clip.keys())
    return Prepared(
        compaction_id=key.compaction_id,
        base_fingerprint=base,
        level=level,
        levels=names_of(context.chain),
        summary_name=summary_name(context, draft),
        choice=Choice(
            drop=chosen.drop,
            clip=chosen.clip,
            floor=chosen.floor,
            summarize=chosen.summarize,
            sections=chosen.sections,
            name=chosen.name,
        ),
        covered=covered,
        fingerprint=fingerprint_all(context.messages[:covered]),
        seconds=outcome.duration_s or 0.0,
        failure=failure,
    )
