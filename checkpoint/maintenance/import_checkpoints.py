"""Carrying the threads of LangGraph's own savers over into another saver, verified state by state."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, Checkpoint, CheckpointTuple

from ..checkpoints.write_guards import allow_recreation
from ..errors import CheckpointError, DatabaseError
from .import_sources import PendingWrite, Source, SourceCheckpoint, SourceError, configurable, open_source
from .import_values import Comparison

__all__ = [
    "Begun",
    "Failed",
    "Found",
    "Source",
    "SourceError",
    "Verified",
    "Written",
    "import_checkpoints",
    "open_source",
]

_GONE_ON = (
    "it is not in the target, whose thread has gone on with checkpoints of its own: delete the thread there and run "
    "the import again, or keep it as it is"
)
_TAKEN_OUT = (
    "it is not in the target, where later ones are (was the thread pruned?): delete the thread there and run the "
    "import again, or keep it as it is"
)
_PAGE = 8
"""Checkpoints of the target in memory at once; the messages they share are there once."""


@dataclass(frozen=True, slots=True)
class Found:
    """The first event: how much there is to carry over."""

    threads: int
    checkpoints: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A thread is next; so many of its checkpoints stand in the target already."""

    thread_id: str
    checkpoints: int
    already: int


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint was written to the target."""

    thread_id: str
    namespace: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class Verified:
    """A checkpoint was read back from the target, and is what the source holds."""

    thread_id: str
    namespace: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A checkpoint does not stand in the target as it does in the source."""

    thread_id: str
    namespace: str
    checkpoint_id: str
    reason: str
    held_back: int = 0
    """How many later ones of the thread were not carried over because of it."""


Event = Found | Begun | Written | Verified | Failed


def import_checkpoints(
    source: Source, target: BaseCheckpointSaver[Any], *, threads: Collection[str] | None = None
) -> Iterator[Event]:
    """Carry threads over, all or those named, and yield an event for every step.

    A thread is written oldest first with all its namespaces, under the ids it has, and then read back and compared
    as a whole. The iteration may be stopped at any point and started again: what is there is not written again.
    A checkpoint that cannot be written holds back the later ones of its thread, because the target keeps the
    order of arrival. `target` is set up and does not answer from memory. SourceError for a thread that the source
    does not hold; DatabaseError where one of the two stops answering.
    """
    sizes = source.threads()
    chosen = list(sizes) if threads is None else list(dict.fromkeys(threads))
    if unknown := [thread_id for thread_id in chosen if thread_id not in sizes]:
        raise SourceError(f"{source.place} holds no thread {', '.join(map(repr, unknown))}")
    yield Found(len(chosen), sum(sizes[thread_id] for thread_id in chosen))
    for thread_id in chosen:
        yield from _Thread(source, target, thread_id).carry()


class _Thread:
    """One thread on its way."""

    def __init__(self, source: Source, target: BaseCheckpointSaver[Any], thread_id: str) -> None:
        self._source = source
        self._target = target
        self._thread_id = thread_id
        self._ids = source.ids(thread_id)
        self._already = 0
        self._gone_on = False
        self._same = Comparison()

    def carry(self) -> Iterator[Event]:
        """Write what is missing, then compare all of it."""
        self._already, self._gone_on = self._standing()
        yield Begun(self._thread_id, len(self._ids), self._already)
        end = len(self._ids)
        if not self._gone_on:
            for place in range(self._already, end):
                try:
                    self._write(*self._ids[place])
                except DatabaseError:
                    raise
                except CheckpointError as error:
                    end = place
                    yield self._failed(place, str(error), held_back=len(self._ids) - end - 1)
                    break
                yield Written(self._thread_id, *self._ids[place])
        yield from self._verified(end)
        if not self._gone_on and end == len(self._ids):
            yield from self._other_heads()

    def _standing(self) -> tuple[int, bool]:
        """Return how many stand in the target, and whether its newest is one that the source does not know."""
        newest = next(self._target.list(self._config(), limit=1), None)
        if newest is None:
            return 0, False
        own = configurable(newest.config)
        key = (own["checkpoint_ns"], own["checkpoint_id"])
        return (self._ids.index(key) + 1, False) if key in self._ids else (0, True)

    def _write(self, namespace: str, checkpoint_id: str) -> None:
        stored = self._source.read(self._thread_id, namespace, checkpoint_id)
        before = self._config(namespace, stored.parent_id)
        with allow_recreation():  # the thread may have been erased in the target to import it again
            self._write_pending(namespace, checkpoint_id, stored.writes)  # first: a checkpoint that is there is whole
            self._target.put(before, stored.checkpoint, stored.metadata, stored.checkpoint["channel_versions"])

    def _write_pending(self, namespace: str, checkpoint_id: str, writes: Sequence[PendingWrite]) -> None:
        at = self._config(namespace, checkpoint_id)
        for (task_id, path), group in groupby(writes, lambda write: (write.task_id, write.task_path)):
            own = list(group)
            usual = [(write.channel, write.value) for write in own if write.channel not in WRITES_IDX_MAP]
            special = [[(write.channel, write.value)] for write in own if write.channel in WRITES_IDX_MAP]
            for call in [usual, *special] if usual else special:
                self._target.put_writes(at, call, task_id, path)

    def _verified(self, end: int) -> Iterator[Verified | Failed]:
        """Compare the first `end` checkpoints, namespace by namespace; the target gives them in its own order."""
        places: dict[str, dict[str, int]] = {}
        for place, (namespace, checkpoint_id) in enumerate(self._ids[:end]):
            places.setdefault(namespace, {})[checkpoint_id] = place
        for namespace, left in places.items():
            missing = _GONE_ON if self._gone_on else _TAKEN_OUT
            try:
                for there in self._stored(namespace):
                    if there.checkpoint["id"] in left:
                        yield self._compared(left.pop(there.checkpoint["id"]), there)
            except DatabaseError:
                raise
            except CheckpointError as error:
                missing = f"the target cannot be read: {error}"
            for place in left.values():
                yield self._failed(place, missing)

    def _stored(self, namespace: str) -> Iterator[CheckpointTuple]:
        """Yield what the target holds of a namespace, the newest first, a few at a time."""
        before: RunnableConfig | None = None
        while page := list(self._target.list(self._config(namespace), before=before, limit=_PAGE)):
            self._same = Comparison()  # it would keep what is behind us
            yield from page
            before = page[-1].config

    def _compared(self, place: int, there: CheckpointTuple) -> Verified | Failed:
        namespace, checkpoint_id = self._ids[place]
        try:
            stored = self._source.read(self._thread_id, namespace, checkpoint_id)
        except DatabaseError:
            raise
        except CheckpointError as error:
            return self._failed(place, str(error))
        before = place < self._already or self._gone_on
        if before and self._lacks_writes(stored, there):
            self._write_pending(namespace, checkpoint_id, stored.writes)
            there = self._target.get_tuple(self._config(namespace, checkpoint_id)) or there
        if (found := self._difference(stored, there, more_writes=before)) is not None:
            return self._failed(place, f"read back from the target, {found}")
        return Verified(self._thread_id, namespace, checkpoint_id)

    def _lacks_writes(self, stored: SourceCheckpoint, there: CheckpointTuple) -> bool:
        """Whether the target holds some of the writes and nothing but them: the source got more since."""
        wanted, own = _plain(stored.writes), there.pending_writes or []
        return not self._all_in(wanted, own) and self._all_in(own, wanted)

    def _difference(self, stored: SourceCheckpoint, there: CheckpointTuple, *, more_writes: bool) -> str | None:
        """Say what differs; with `more_writes` the target may have gone on from this checkpoint."""
        parent = configurable(there.parent_config).get("checkpoint_id")
        for name, one, other in (
            ("checkpoint", _said(stored.checkpoint), _said(there.checkpoint)),
            ("metadata", stored.metadata, there.metadata),
            ("parent", stored.parent_id, parent),
        ):
            if (found := self._same.difference(one, other, name)) is not None:
                return f"{found} differs"
        wanted, own = _plain(stored.writes), there.pending_writes or []
        if self._same.difference(wanted, own, "") is None or (more_writes and self._all_in(wanted, own)):
            return None
        return "the pending writes differ"

    def _all_in(self, some: Sequence[tuple[str, str, Any]], others: Sequence[tuple[str, str, Any]]) -> bool:
        return all(any(self._same.difference(one, other, "") is None for other in others) for one in some)

    def _other_heads(self) -> Iterator[Failed]:
        """Yield the newest checkpoint of each namespace that is not the newest one in the target."""
        for key, place in {namespace: place for place, (namespace, _) in enumerate(self._ids)}.items():
            head = self._target.get_tuple(self._config(key))
            if head is None or head.checkpoint["id"] != self._ids[place][1]:
                yield self._failed(place, "the target has another one as the newest of its namespace")

    def _failed(self, place: int, reason: str, held_back: int = 0) -> Failed:
        return Failed(self._thread_id, *self._ids[place], reason, held_back)

    def _config(self, namespace: str | None = None, checkpoint_id: str | None = None) -> RunnableConfig:
        place = {"thread_id": self._thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        return {"configurable": {key: value for key, value in place.items() if value is not None}}


def _said(checkpoint: Checkpoint) -> dict[str, Any]:
    """Leave out the keys that say nothing: old checkpoints lack some of them, and have others."""
    return {key: value for key, value in checkpoint.items() if value not in (None, [], {})}


def _plain(writes: Sequence[PendingWrite]) -> list[tuple[str, str, Any]]:
    return [(write.task_id, write.channel, write.value) for write in writes]
