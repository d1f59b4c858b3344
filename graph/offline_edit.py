"""Read and change a thread through its checkpoints alone, without its graph, for the command line."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, copy_checkpoint
from langgraph.checkpoint.base.id import uuid6

from langgraph_compaction.nodes import CompactionError, CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter, meter_of_thread
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from .pins import check_room, pinning, unpinning

_TASKS = ("branch:to:", "__start__")
"""Prefixes of internal channels of LangGraph that hold a value only while a node is still to run."""
_SENT = "__pregel_tasks"
"""The channel of what was sent to nodes that are still to run, such as tool calls; an empty list after that."""


def newest(saver: BaseCheckpointSaver[Any], thread: str) -> CheckpointTuple:
    """Return a thread's newest checkpoint; raise `CompactionError` if no compacting graph wrote it."""
    found = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if found is None or "compaction" not in found.checkpoint["channel_values"]:
        raise CompactionError(
            f"this database has no checkpoint of a compacting graph for thread {thread!r}: if another checkpointer "
            "stores them, use CompactionThread of langgraph_compaction.graph in Python"
        )
    return found


def at_rest(found: CheckpointTuple) -> CheckpointTuple:
    """Return the given checkpoint; raise `CompactionError` if its turn is not over."""
    values = found.checkpoint["channel_values"]
    if values.get(_SENT) or any(channel.startswith(_TASKS) for channel in values) or found.pending_writes:
        raise CompactionError(
            "this thread has work to go on with: resume it first, with the graph that it belongs to"
        )
    return found


def pin_stored(saver: BaseCheckpointSaver[Any], thread: str, message_id: str) -> None:
    """Pin a message of a thread on which no run works; raise `SettingsError` as `CompactionThread.pin` does."""
    found = at_rest(newest(saver, thread))
    values = found.checkpoint["channel_values"]
    channel: dict[str, Any] = values["compaction"]
    update, messages = pinning(values, message_id)
    if (limit := (channel.get("sizes") or {}).get("limit")) is not None:
        check_room(messages, update["compaction"]["pins"], CompactionSettings(), stored_meter(channel), limit)
    rewrite(saver, found, {**update, "compaction": {**channel, **update["compaction"]}})


def unpin_stored(saver: BaseCheckpointSaver[Any], thread: str, message_id: str) -> None:
    """Remove the pin of a message, likewise."""
    found = at_rest(newest(saver, thread))
    values = found.checkpoint["channel_values"]
    update = unpinning(values, message_id)
    rewrite(saver, found, {**update, "compaction": {**values["compaction"], **update["compaction"]}})


def stored_meter(channel: Mapping[str, Any]) -> Meter:
    """Return a meter of requests of a thread, with its system prompt and tools as they were last counted."""
    counted = channel.get("usage") or channel.get("sizes") or {}
    return meter_of_thread(channel, tiktoken_counter(), counted.get("fixed", 0))


def rewrite(saver: BaseCheckpointSaver[Any], found: CheckpointTuple, changes: Mapping[str, Any]) -> RunnableConfig:
    """Write a checkpoint after `found` with these values of channels; all other channels keep their values."""
    step = int(found.metadata.get("step", -1)) + 1
    checkpoint = copy_checkpoint(found.checkpoint)
    checkpoint["id"], checkpoint["ts"] = str(uuid6(clock_seq=step)), datetime.now(UTC).isoformat()
    checkpoint["channel_values"] |= changes
    known = checkpoint["channel_versions"]
    newer = max(known.values(), default=None)
    versions = {channel: saver.get_next_version(newer, None) for channel in changes}
    checkpoint["channel_versions"] |= versions
    checkpoint["updated_channels"] = sorted(changes)
    metadata: Any = {"source": "update", "step": step, "parents": found.metadata.get("parents") or {}}
    return saver.put(found.config, checkpoint, metadata, versions)
