"""What every checkpointer answers, in dicts and whole lists: nothing is shared, packed or remembered."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

COUNTERS = "counters_since_delta_snapshot"


class Key(NamedTuple):
    """Where a checkpoint lies."""

    thread: str
    ns: str
    id: str


class Kept(NamedTuple):
    """A checkpoint as it was put."""

    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent: str | None


class Reference(BaseCheckpointSaver[int]):
    """The contract; `get_delta_channel_history` is the base class's own walk."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Key, Kept] = {}  # in the order of arrival: a repeated put stays where the first one was
        self.writes: dict[Key, dict[tuple[str, int], tuple[str, str, Any]]] = {}

    def copy(self) -> "Reference":
        """Return a reference that holds the same, and goes on by itself."""
        other = Reference()
        other.kept, other.writes = dict(self.kept), {key: dict(held) for key, held in self.writes.items()}
        return other

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - every value is kept, changed or not
    ) -> RunnableConfig:
        """Keep a checkpoint; its parent is the one that the config names."""
        key = Key(*_place(config), checkpoint["id"])
        described = get_checkpoint_metadata(config, metadata)
        self.kept[key] = deepcopy(Kept(checkpoint, described, get_checkpoint_id(config)))
        return _config(*key)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what is not there yet; if all of it is special, replace what is."""
        held = self.writes.setdefault(Key(*_place(config), config["configurable"]["checkpoint_id"]), {})
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        for number, (channel, value) in enumerate(writes):
            where = (task_id, WRITES_IDX_MAP.get(channel, number))
            if replaces or where not in held:
                held[where] = (task_path, channel, deepcopy(value))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the named checkpoint, or the one of a new id that arrived last."""
        if wanted := get_checkpoint_id(config):
            return self._tuple(Key(*_place(config), wanted))
        return next(self.list(_config(*_place(config)), limit=1), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the interface
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield what matches, the newest arrival first; of all threads, the largest id first."""
        wanted = config["configurable"] if config else {}
        arrived = [*self.kept] if config else sorted(self.kept, key=lambda key: (key.id, key.thread))
        if before:
            arrived = arrived[: arrived.index(Key(*_place(before), before["configurable"]["checkpoint_id"]))]
        keys = [
            key
            for key in reversed(arrived)
            if key.thread == wanted.get("thread_id", key.thread)
            and key.ns == wanted.get("checkpoint_ns", key.ns)
            and key.id == (wanted.get("checkpoint_id") or key.id)
            and self._matches(key, filter or {})
        ]
        yield from (self._tuple(key) for key in keys[:limit])

    def delete_thread(self, thread_id: str) -> None:
        """Forget all namespaces of a thread, and writes without a checkpoint too."""
        self.kept = {key: kept for key, kept in self.kept.items() if key.thread != thread_id}
        self.writes = {key: held for key, held in self.writes.items() if key.thread != thread_id}

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget what these runs made, in every thread."""
        self._forget({key for key, kept in self.kept.items() if kept.metadata.get("run_id") in run_ids})

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Repeat everything of one thread in another, in the order of arrival."""
        for made in (self.kept, self.writes):
            ours = {key: held for key, held in made.items() if key.thread == source_thread_id}
            made |= {key._replace(thread=target_thread_id): copy(held) for key, held in ours.items()}

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", keep_last: int = 1) -> None:
        """Forget all, or all but each namespace's newest and what their delta channels are rebuilt from.

        What a call of a subgraph left goes with the checkpoint that the call started from.
        """
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            spared: set[Key] = set()
            for ns in sorted({key.ns for key in self.kept if key.thread == thread}):
                newest = [key for key in reversed(self.kept) if key[:2] == (thread, ns)]
                caller = Key(thread, "", self.kept[newest[0]].metadata["parents"].get("", ""))
                if caller in spared or caller not in self.kept:
                    spared.update(ancestor for key in newest[:keep_last] for ancestor in self._rebuilt_from(key))
            self._forget({key for key in self.kept if key.thread == thread} - spared)

    def _rebuilt_from(self, key: Key) -> Iterator[Key]:
        """Yield a checkpoint, and those ancestors that hold or wrote to what it does not hold itself."""
        yield key
        missing = {*self.kept[key].metadata.get(COUNTERS, {})} - {*self.kept[key].checkpoint["channel_values"]}
        while missing and (key := key._replace(id=self.kept[key].parent or "")) in self.kept:
            held = {*self.kept[key].checkpoint["channel_values"]}
            if missing & (held | {channel for _, channel, _ in self.writes.get(key, {}).values()}):
                yield key
            missing -= held

    def _forget(self, gone: set[Key]) -> None:
        """Let what stood on forgotten checkpoints stand on what these stood on."""
        for key in self.kept:
            while (parent := key._replace(id=self.kept[key].parent or "")) in gone:
                self.kept[key] = self.kept[key]._replace(parent=self.kept[parent].parent)
        for key in gone:
            del self.kept[key]
            self.writes.pop(key, None)

    def _matches(self, key: Key, wanted: Mapping[str, Any]) -> bool:
        metadata = self.kept[key].metadata
        return all(metadata.get(name) == value for name, value in wanted.items())

    def _tuple(self, key: Key) -> CheckpointTuple | None:
        if not (kept := self.kept.get(key)):
            return None
        held = self.writes.get(key, {})
        ordered = sorted(held, key=lambda where: (held[where][0], *where))
        pending = [(task, *held[task, number][1:]) for task, number in ordered]
        parent = _config(*key._replace(id=kept.parent)) if kept.parent else None
        return CheckpointTuple(_config(*key), kept.checkpoint, kept.metadata, parent, pending)


def _place(config: RunnableConfig) -> tuple[str, str]:
    return config["configurable"]["thread_id"], config["configurable"].get("checkpoint_ns", "")


def _config(thread: str, ns: str, checkpoint: str = "") -> RunnableConfig:
    named = {"checkpoint_id": checkpoint} if checkpoint else {}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **named}}
