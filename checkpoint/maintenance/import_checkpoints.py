"""Copies threads from a source into a saver, and compares every checkpoint afterwards.

It copies only what is missing, so it may be stopped at any point and run again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isnan
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ..checkpoints.write_guards import allow_recreation
from ..errors import CheckpointError, DatabaseError
from .import_sources import PendingWrite, SourceCheckpoint, SourceError, configurable

_NOT_CONTINUED = (
    "it is not in the target, whose thread has gone on with checkpoints of its own: delete the thread there and run "
    "the command again, or keep it as it is"
)
_REMOVED = (
    "it is not in the target, where later ones are (was the thread pruned?): delete the thread there and run the "
    "command again, or keep it as it is"
)
_dumps = JsonPlusSerializer().dumps_typed
_PLAIN = (str, bytes, bytearray, int, set, frozenset, type(None))


class ThreadSource(Protocol):
    """Where threads are copied from."""

    place: str
    """The database, for error messages."""

    def threads(self) -> dict[str, int]:
        """Return the number of checkpoints of every thread, by its id."""
        ...

    def ids(self, thread_id: str) -> list[tuple[str, str]]:
        """Return (namespace, checkpoint id) of all checkpoints of a thread, oldest first."""
        ...

    def read(self, thread_id: str, namespace: str, checkpoint_id: str) -> SourceCheckpoint:
        """Read one checkpoint with its pending writes."""
        ...


@dataclass(frozen=True, slots=True)
class ImportedCheckpoint:
    """The result of the import of one checkpoint."""

    thread_id: str
    namespace: str
    checkpoint_id: str
    written: bool = False
    """Whether this run wrote the checkpoint; False if the target had it already or writing it failed."""
    problem: str | None = None
    """The reason why the target's checkpoint is missing or differs from the source's; None if both are equal."""
    held_back: int = 0
    """Number of later checkpoints of the thread that were not imported because of the problem."""


def import_checkpoints(
    source: ThreadSource, target: BaseCheckpointSaver[Any], *, threads: Collection[str] | None = None
) -> Iterator[ImportedCheckpoint]:
    """Import all threads, or the named threads, and yield the result for each checkpoint.

    The checkpoints of a thread are written oldest first, with all namespaces and under their own ids, and are read
    back and compared. If a checkpoint cannot be written, the later ones of its thread are not imported either,
    because the target keeps the order of arrival. The tables of `target` must exist (`setup`).
    Raise SourceError for a thread that the source does not hold, and DatabaseError if a database does not answer.
    """
    sizes = source.threads()
    chosen = list(sizes) if threads is None else list(dict.fromkeys(threads))
    if unknown := [thread_id for thread_id in chosen if thread_id not in sizes]:
        raise SourceError(f"{source.place} holds no thread {', '.join(map(repr, unknown))}")
    for thread_id in chosen:
        yield from _ThreadImport(source, target, thread_id).run()


class _ThreadImport:
    """The import of one thread."""

    def __init__(self, source: ThreadSource, target: BaseCheckpointSaver[Any], thread_id: str) -> None:
        self._source = source
        self._target = target
        self._thread_id = thread_id
        self._ids = source.ids(thread_id)

    def run(self) -> Iterator[ImportedCheckpoint]:
        """Write the missing checkpoints, compare all checkpoints, and check the newest one of each namespace."""
        start, continues = self._first_missing()
        newest = {namespace: at for at, (namespace, _) in enumerate(self._ids)}
        for at, key in enumerate(self._ids):
            missing = at >= start and continues
            try:
                stored = self._source.read(self._thread_id, *key)
                if missing:
                    self._write(*key, stored)
            except DatabaseError:
                raise
            except CheckpointError as error:
                yield ImportedCheckpoint(
                    self._thread_id, *key, problem=str(error), held_back=(len(self._ids) - at - 1) * missing
                )
                if missing:
                    return
                continue
            problem = self._compare(*key, stored, written_now=missing, continues=continues)
            if problem is None and continues and newest[key[0]] == at and not self._is_newest(*key):
                problem = "the target has another one as the newest of its namespace"
            yield ImportedCheckpoint(self._thread_id, *key, written=missing, problem=problem)

    def _first_missing(self) -> tuple[int, bool]:
        """Return the index of the first source checkpoint that the target lacks, and whether it may be written.

        It may not be written if the newest checkpoint of the target does not come from the source: then an agent has
        gone on with the thread in the target, and older checkpoints cannot be added behind its checkpoints.
        """
        newest = next(self._target.list(self._config(), limit=1), None)
        if newest is None:
            return 0, True
        own = configurable(newest.config)
        key = (own["checkpoint_ns"], own["checkpoint_id"])
        return (self._ids.index(key) + 1, True) if key in self._ids else (0, False)

    def _write(self, namespace: str, checkpoint_id: str, stored: SourceCheckpoint) -> None:
        before = self._config(namespace, stored.parent_id)
        with allow_recreation():  # if the thread was erased in the target, the saver would refuse this write
            # pending writes first, so that a checkpoint that exists in the target is complete
            self._write_pending(namespace, checkpoint_id, stored.writes)
            self._target.put(before, stored.checkpoint, stored.metadata, stored.checkpoint["channel_versions"])

    def _write_pending(self, namespace: str, checkpoint_id: str, writes: Sequence[PendingWrite]) -> None:
        at = self._config(namespace, checkpoint_id)
        for (task_id, path), group in groupby(writes, lambda write: (write.task_id, write.task_path)):
            own = list(group)
            usual = [(write.channel, write.value) for write in own if write.channel not in WRITES_IDX_MAP]
            special = [[(write.channel, write.value)] for write in own if write.channel in WRITES_IDX_MAP]
            for call in [usual, *special] if usual else special:
                self._target.put_writes(at, call, task_id, path)

    def _compare(
        self, namespace: str, checkpoint_id: str, stored: SourceCheckpoint, *, written_now: bool, continues: bool
    ) -> str | None:
        """Return the difference between a checkpoint in the source and in the target, or None if both are equal.

        If an earlier import wrote the checkpoint and the source has got more pending writes since, write these first.
        """
        at = self._config(namespace, checkpoint_id)
        wanted = [(write.task_id, write.channel, write.value) for write in stored.writes]
        try:
            found = self._target.get_tuple(at)
            if found is None:
                return _REMOVED if continues else _NOT_CONTINUED
            own = found.pending_writes or []
            if not written_now and not _contains(own, wanted) and _contains(wanted, own):
                # the source has got these writes since the last import
                self._write_pending(namespace, checkpoint_id, stored.writes)
                found = self._target.get_tuple(at) or found
        except DatabaseError:
            raise
        except CheckpointError as error:
            return f"the target cannot be read: {error}"
        return _difference_of(stored, found, wanted, may_have_more_writes=not written_now)

    def _is_newest(self, namespace: str, checkpoint_id: str) -> bool:
        found = self._target.get_tuple(self._config(namespace))
        return found is not None and found.checkpoint["id"] == checkpoint_id

    def _config(self, namespace: str | None = None, checkpoint_id: str | None = None) -> RunnableConfig:
        place = {"thread_id": self._thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        return {"configurable": {key: value for key, value in place.items() if value is not None}}


def _difference_of(
    stored: SourceCheckpoint,
    found: CheckpointTuple,
    wanted: Sequence[tuple[str, str, Any]],
    *,
    may_have_more_writes: bool,
) -> str | None:
    """Return what differs between a source's checkpoint and the target's, or None.

    Empty keys of a checkpoint are ignored: old checkpoints lack some of today's keys, and have other keys.
    """
    one, other = (
        {key: value for key, value in checkpoint.items() if value not in (None, [], {})}
        for checkpoint in (stored.checkpoint, found.checkpoint)
    )
    parent = configurable(found.parent_config).get("checkpoint_id")
    place = (
        difference(one, other, "checkpoint")
        or difference(stored.metadata, found.metadata, "metadata")
        or difference(stored.parent_id, parent, "parent")
    )
    if place is not None:
        return f"read back from the target, {place} differs"
    own = found.pending_writes or []
    if difference(wanted, own, "") is None or (may_have_more_writes and _contains(own, wanted)):
        return None
    return "read back from the target, the pending writes differ"


def _contains(writes: Sequence[tuple[str, str, Any]], some: Sequence[tuple[str, str, Any]]) -> bool:
    return all(any(difference(one, other, "") is None for other in writes) for one in some)


def difference(one: Any, other: Any, at: str) -> str | None:
    """Return the place, starting with `at`, where two values first differ; None if the values are equal.

    The comparison is stricter than `==`: 1, 1.0 and True differ, and so do equal objects of two classes. NaN equals
    NaN.
    """
    if type(one) is not type(other):
        return at
    if isinstance(one, dict):
        return _difference_of_dicts(one, other, at)
    if isinstance(one, list | tuple):
        return _difference_of_sequences(one, other, at)
    if isinstance(one, float):
        same = one == other or (isnan(one) and isnan(other))
    elif isinstance(one, _PLAIN):
        same = one == other
    else:
        same = one is other or _dumps(one) == _dumps(other)
        if not same and hasattr(one, "__dict__"):  # the bytes may differ only because a set has another order
            return _difference_of_dicts(_fields(one), _fields(other), at)
    return None if same else at


def _difference_of_dicts(one: Mapping[Any, Any], other: Mapping[Any, Any], at: str) -> str | None:
    if one.keys() != other.keys():
        return f"{at}.{min(map(str, one.keys() ^ other.keys()))}"
    return next((found for key in one if (found := difference(one[key], other[key], f"{at}.{key}"))), None)


def _difference_of_sequences(one: Sequence[Any], other: Sequence[Any], at: str) -> str | None:
    if len(one) != len(other):
        return f"{at} ({len(one)} items against {len(other)})"
    pairs = enumerate(zip(one, other, strict=True))
    return next((found for place, pair in pairs if (found := difference(*pair, f"{at}[{place}]"))), None)


def _fields(value: Any) -> dict[str, Any]:
    return {**vars(value), **(getattr(value, "model_extra", None) or {})}
