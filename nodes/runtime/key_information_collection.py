"""Collect key information for a summary, each provider in its own time: a failing one is left out."""

import asyncio
from collections.abc import Mapping
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)

from ..conversation.message_marks import first_inputs, is_pinned, is_real_user
from ..effects import Effects, either, querying
from ..events import KeyInformationEvent, emit, log
from ..state import EMBEDDED
from ..summary.key_information_sources import KeyContext, KeyInformation
from ..summary.key_information_text import ordered, original_request
from ..summary.summarizer_call import SummaryTimeoutError, abounded, bounded
from .ledger_io import stored
from .node_context import NodeContext


def key_information(context: NodeContext) -> Effects[dict[str, str]]:
    """What the providers tell for the next summary: texts by name, in their order, however long."""
    names = ordered(context.settings.key_information)
    if not names:
        return {}
    given = KeyContext(
        state={**_parent(context), **context.state},
        config=context.config,
        settings=context.settings,
        store=context.runtime.store,
        goal=(yield from _goal(context)) if "goal" in names else "",
    )
    found: dict[str, str] = {}
    for name in names:
        text = yield from _collected(context, context.dependencies.key_information[name], given)
        if text or name == "pins":
            found[name] = text
    return found


def _parent(context: NodeContext) -> Mapping[str, Any]:
    """The state of the parent graph, where `as_node` runs this one."""
    given = context.config.get("configurable", {}).get(EMBEDDED)
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}


def _goal(context: NodeContext) -> Effects[str]:
    """The first input: from the state, the archive or the earlier summary; else what `memory` keeps of it."""
    known, pins = context.memory.get("goal"), context.memory.get("pins") or ()
    if any(is_pinned(message, pins) for message in first_inputs(context.messages)):
        return ""  # it stays at the very front, word for word
    if not known:
        return original_request(context.messages)
    name, thread = context.memory.get("goal_handle"), context.thread_id
    if name is not None:
        here = next((m for m in context.messages if is_real_user(m) and handle(stored(context, m)) == name), None)
        try:
            records = context.dependencies.records
            archived = thread and (yield from querying(records, lambda: records.recall(thread, name)))
        except Exception:  # noqa: BLE001 - what is kept of it will do
            log.exception("The first input of thread %r could not be read from the archive", thread)
            archived = None
        if (first := here or archived) and first.text:
            return first.text
    return known


def _collected(context: NodeContext, provider: KeyInformation, given: KeyContext) -> Effects[str]:
    """What one provider tells, as a summarizer may know it; empty where it fails or stalls."""
    seconds = context.settings.key_information_timeout_s

    def call() -> Any:
        found = provider.collect(given)
        return asyncio.run(_awaited(found)) if isawaitable(found) else found

    async def acall() -> Any:
        if iscoroutinefunction(provider.collect):
            return await abounded(lambda: cast("Any", provider.collect(given)), seconds)
        return await asyncio.to_thread(bounded, call, seconds)

    try:
        found = yield from either(lambda: bounded(call, seconds), acall)
        text = _text(found)
        redaction = context.dependencies.redaction
        return redaction.hook(text) if redaction and text else text
    except Exception as error:  # noqa: BLE001 - a compaction goes on without it
        reason = "timeout" if isinstance(error, SummaryTimeoutError) else type(error).__name__
        log.warning("A provider failed: the key information %r is left out (%s)", provider.name, reason)
        emit(context.writer, KeyInformationEvent(name=provider.name, reason=reason))
        return ""


def _text(found: Any) -> str:
    if not isinstance(found, str | None):
        raise TypeError(f"collect returned a {type(found).__name__}, not a text or None")
    return found or ""


async def _awaited(found: Any) -> Any:
    return await found
