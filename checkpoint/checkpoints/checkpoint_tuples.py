"""Checkpoints as LangGraph sees them, and the configs that name them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple

from ..messages.decode import Reading
from . import checkpoint_rows
from .checkpoint_rows import CheckpointRow
from .pending_writes import Write


def build(reading: Reading, stored: Sequence[CheckpointRow]) -> list[CheckpointTuple]:
    """Build checkpoints with their writes."""
    writes = checkpoint_rows.written(reading.conn, reading.thread, stored)
    name = reading.thread.codec.describe
    for one in stored:
        reading.expect(name(one.row), one.values.values())
        for write in writes[one.key]:
            reading.expect(name(write.row), [write.node])
    reading.fetch()
    return [_tuple(reading, one, writes[one.key]) for one in stored]


def metadata(reading: Reading, stored: CheckpointRow) -> CheckpointMetadata:
    """Return a checkpoint's metadata, with the id of the run that made it."""
    about: dict[str, Any] = reading.load(stored.metadata, reading.thread.codec.describe(stored.row))
    return cast("CheckpointMetadata", about if stored.run is None else {**about, "run_id": stored.run})


def matches(reading: Reading, stored: CheckpointRow, wanted: Mapping[str, Any]) -> bool:
    """Say whether a checkpoint's metadata has these values under these keys."""
    about: Mapping[str, Any] = metadata(reading, stored)
    return all(about.get(key) == value for key, value in wanted.items())


def place_of(config: RunnableConfig) -> tuple[str, str]:
    """Return (thread id, namespace) of a config; ValueError where it names no thread."""
    named = configurable(config)
    return str(named["thread_id"]), named.get("checkpoint_ns") or ""


def configurable(config: RunnableConfig) -> Mapping[str, Any]:
    """Return what a config says of a thread; ValueError where it names none."""
    found = config.get("configurable", {})
    if found.get("thread_id") is None:
        raise ValueError('a checkpointer needs a thread: pass config={"configurable": {"thread_id": "..."}}')
    return found


def config_of(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _tuple(reading: Reading, stored: CheckpointRow, writes: Sequence[Write]) -> CheckpointTuple:
    thread, name = reading.thread.thread_id, reading.thread.codec.describe
    checkpoint = Checkpoint(
        v=stored.v,
        id=stored.id,
        ts=stored.ts,
        channel_values={channel: reading.build(node, name(stored.row)) for channel, node in stored.values.items()},
        channel_versions=stored.versions,
        versions_seen=stored.seen,
        updated_channels=stored.updated,
    )
    if stored.rest:
        checkpoint.update(reading.load(stored.rest, name(stored.row)))
    return CheckpointTuple(
        config_of(thread, stored.namespace, stored.id),
        checkpoint,
        metadata(reading, stored),
        config_of(thread, stored.namespace, stored.parent) if stored.parent else None,
        [(one.task, one.channel, reading.build(one.node, name(one.row))) for one in writes],
    )
