"""What the tests of the contract do with a saver: configs, and checkpoints in a row."""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

Saver = BaseCheckpointSaver[Any]
NOON = "2026-11-22T12:00:00+00:00"


def where(thread_id: str, checkpoint_id: str | None = None, *, namespace: str = "") -> RunnableConfig:
    """Return the config that names a thread, or one checkpoint of it."""
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, **named}}


def id_of(config: RunnableConfig) -> str:
    """Return the checkpoint id in a config."""
    return config["configurable"]["checkpoint_id"]


def checkpoint(
    values: dict[str, Any], versions: dict[str, Any], checkpoint_id: str | None = None, at: str = NOON
) -> Checkpoint:
    """Return a checkpoint of the form that LangGraph writes today."""
    return Checkpoint(
        v=4,
        id=checkpoint_id or str(uuid6()),
        ts=at,
        channel_values=values,
        channel_versions=versions,
        versions_seen={"node": dict(versions)},
        updated_channels=None,
    )


class Steps:
    """Checkpoints of one thread and namespace, each on its parent, with the versions that a graph would give."""

    def __init__(self, saver: Saver, thread_id: str, namespace: str = "") -> None:
        self.saver = saver
        self.start = where(thread_id, namespace=namespace)
        self._head = self.start
        self._known: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def put(
        self,
        changed: dict[str, Any],
        *,
        on: RunnableConfig | None = None,
        name: str | None = None,
        at: str = NOON,
        **metadata: Any,
    ) -> RunnableConfig:
        """Put a checkpoint whose parent is `on` (the last one put by default), with these values changed."""
        parent = on or self._head
        values, versions = self._known.get(parent["configurable"].get("checkpoint_id", ""), ({}, {}))
        new = {channel: self.saver.get_next_version(versions.get(channel), None) for channel in changed}
        values, versions = values | changed, versions | new
        written = checkpoint(dict(values), dict(versions), name, at)
        about: Any = {"source": "loop", "step": len(self._known), "parents": {}} | metadata
        self._head = self.saver.put(parent, written, about, new)
        self._known[id_of(self._head)] = values, versions
        return self._head


def read(saver: Saver, config: RunnableConfig) -> CheckpointTuple:
    """Return what is stored under a config; nothing there is a failure."""
    found = saver.get_tuple(config)
    assert found is not None
    return found


def values_of(saver: Saver, config: RunnableConfig) -> dict[str, Any]:
    """Return the channel values of a stored checkpoint."""
    return read(saver, config).checkpoint["channel_values"]


def writes_of(saver: Saver, config: RunnableConfig) -> list[tuple[str, str, Any]]:
    """Return the pending writes of a stored checkpoint."""
    return [(task, channel, value) for task, channel, value in read(saver, config).pending_writes or []]


def ids(found: Any) -> list[str]:
    """Return the checkpoint ids of what `list` gave."""
    return [id_of(each.config) for each in found]
