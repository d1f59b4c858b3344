"""Collect key information for a summary, each provider in its own time: a failing one is left out."""

import asyncio
from collections.abc import Mapping
from inspect import isawaitable, iscoroutinefunction
from typing import Any, cast

from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)

from ..conversation.transcript import is_pinned, is_real_user
from ..digest.required_texts import first_inputs
from ..effects import Step, either, querying
from ..events import KeyInformationEvent, emit, log
from ..state import EMBEDDED
from ..summary.key_information_sources import KeyContext, KeyInformation
from ..summary.key_information_text import ordered, original_request
from ..summary.summarizer_call import SummaryTimeoutError, abounded, bounded
from .ledger_io import stored
from .node_context import Turn


def key_information(turn: Turn) -> Step[dict[str, str]]:
    """What the providers tell for the next summary: texts by name, in their order, however long."""
    names = ordered(turn.settings.key_information)
    if not names:
        return {}
    context = KeyContext(
        state={**_parent(turn), **turn.state},
        config=turn.config,
        settings=turn.settings,
        store=turn.runtime.store,
        goal=(yield from _goal(turn)) if "goal" in names else "",
    )
    found: dict[str, str] = {}
    for name in names:
        text = yield from _collected(turn, turn.team.key_information[name], context)
        if text or name == "pins":
            found[name] = text
    return found


def _parent(turn: Turn) -> Mapping[str, Any]:
    """The state of the parent graph, where `as_node` runs this one."""
    given = turn.config.get("configurable", {}).get(EMBEDDED)
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}


def _goal(turn: Turn) -> Step[str]:
    """The first input: from the state, the archive or the earlier summary; else what `memory` keeps of it."""
    known, pins = turn.memory.get("goal"), turn.memory.get("pins") or ()
    if any(is_pinned(message, pins) for message in first_inputs(turn.messages)):
        return ""  # it stays at the very front, word for word
    if not known:
        return original_request(turn.messages)
    name, thread = turn.memory.get("goal_handle"), turn.thread_id
    if name is not None:
        here = next((m for m in turn.messages if is_real_user(m) and handle(stored(turn, m)) == name), None)
        try:
            records = turn.team.records
            archived = thread and (yield from querying(records, lambda: records.recall(thread, name)))
        except Exception:  # noqa: BLE001 - what is kept of it will do
            log.exception("The first input of thread %r could not be read from the archive", thread)
            archived = None
        if (first := here or archived) and first.text:
            return first.text
    return known


def _collected(turn: Turn, provider: KeyInformation, context: KeyContext) -> Step[str]:
    """What one provider tells, as a summariser may know it; empty where it fails or stalls."""
    seconds = turn.settings.key_information_timeout_s

    def call() -> Any:
        found = provider.collect(context)
        return asyncio.run(_awaited(found)) if isawaitable(found) else found

    async def acall() -> Any:
        if iscoroutinefunction(provider.collect):
            return await abounded(lambda: cast("Any", provider.collect(context)), seconds)
        return await asyncio.to_thread(bounded, call, seconds)

    try:
        found = yield from either(lambda: bounded(call, seconds), acall)
        text = _text(found)
        redaction = turn.team.redaction
        return redaction.hook(text) if redaction and text else text
    except Exception as error:  # noqa: BLE001 - a compaction goes on without it
        reason = "timeout" if isinstance(error, SummaryTimeoutError) else type(error).__name__
        log.warning("A provider failed: the key information %r is left out (%s)", provider.name, reason)
        emit(turn.writer, KeyInformationEvent(name=provider.name, reason=reason))
        return ""


def _text(found: Any) -> str:
    if not isinstance(found, str | None):
        raise TypeError(f"collect returned a {type(found).__name__}, not a text or None")
    return found or ""


async def _awaited(found: Any) -> Any:
    return await found
