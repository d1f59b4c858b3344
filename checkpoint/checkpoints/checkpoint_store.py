"""Reads and writes checkpoints and pending writes in LangGraph's form; each call is one transaction.

The caller passes its serializer to each call, because LangGraph copies savers and gives the copies other serializers.
"""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Any, Literal, NamedTuple, TypeVar, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..db.columns import checked_key
from ..db.database import Database
from ..db.thread_row import Thread, Threads, check_lease, noted
from ..db.transaction import SINGLE, Transaction
from ..errors import CheckpointError
from ..messages import items, references
from ..messages.decode import ValueDecoder
from ..messages.encode import ValueEncoder, is_usual
from ..messages.sequence_runs import expand, runs_of
from ..telemetry import database_call
from . import checkpoint_rows, delta_history, pending_writes, state_at_once
from .checkpoint_rows import CheckpointRow
from .listing import Listing, Page, Place
from .metadata_hashes import hashes_of
from .pending_writes import TaskWrites, Write
from .write_guards import ErasureGuard, refuse_fork, run_of
from .writer import Change, Writer

T = TypeVar("T")
_FIRST_PAGE, _LARGEST_PAGE, _LARGEST_EMPTY = 16, 128, 4_096
_NAMESPACE_BYTES = 2048
_Shared = dict[int, dict[int, BaseMessage]]
_KNOWN_KEYS = frozenset({"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"})


class _Found(NamedTuple):
    """A checkpoint as it was read: its rows, and the data of the items to which they refer."""

    thread: Thread
    row: CheckpointRow
    writes: Sequence[Write]
    data: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """The checkpoints of one database. Every method can be called from any OS thread."""

    database: Database
    threads: Threads
    writer: Writer
    erasures: ErasureGuard
    on_conflict: Literal["fork", "raise"]

    @database_call("checkpoint.get")
    def get(self, serde: SerializerProtocol, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of the config's thread and namespace.

        Return None if there is no such checkpoint. Raise `RowError`, naming the row, if a row is missing or damaged.
        """
        found: _Found | None
        if self.database.can_read_at_once:
            with suppress(CheckpointError):  # a transaction reads the rows again, and raises its error
                found = self.database.run(SINGLE, partial(self._read_at_once, config))
                return None if found is None else self._built(serde, config, found)
        read = partial(self._read, config)
        found = self.database.run_read(read)
        return None if found is None else self._built(serde, config, found)

    def _read(self, config: RunnableConfig, transaction: Transaction) -> _Found | None:
        thread_id, namespace = thread_and_namespace(config)
        thread = self.threads.find(transaction, thread_id, lock=False)
        self.erasures.note_run_start(config, thread_id, None if thread is None else thread.id)
        if thread is None:
            return None
        row = checkpoint_rows.find(transaction, thread, namespace, get_checkpoint_id(config))
        if row is None:
            return None
        writes = pending_writes.of(transaction, thread, namespace, [row.id]).get(row.id, [])
        data = items.fetch(transaction, thread, _references(row, writes))
        return _Found(thread, row, writes, data)

    def _read_at_once(self, config: RunnableConfig, transaction: Transaction) -> _Found | None:
        thread_id, namespace = thread_and_namespace(config)
        known = self.threads.known.get(thread_id)
        # in a run a put follows, which has to know the thread's items
        stamp = None if run_of(config) is None else (known.stamp if known and known.seqs is not None else 0)
        rows = state_at_once.read(transaction, thread_id, namespace, get_checkpoint_id(config), stamp)
        if rows is None:
            self.erasures.note_run_start(config, thread_id, None)
            return None
        thread = self.threads.from_row(rows.thread, thread_id)
        self.erasures.note_run_start(config, thread_id, thread.id)
        if rows.hashes is not None:
            thread.seqs = items.hashes_of(rows.hashes)
        if rows.checkpoint is None:
            return None
        row = CheckpointRow.decode(thread, rows.checkpoint)
        writes = pending_writes.from_rows(thread, namespace, rows.writes).get(row.id, [])
        data: dict[int, bytes] = {}
        items.open_rows(thread.codec, rows.items, data)
        return _Found(thread, row, writes, items.fetch(transaction, thread, _references(row, writes), data))

    def _built(self, serde: SerializerProtocol, config: RunnableConfig, found: _Found) -> CheckpointTuple:
        """Build a checkpoint, and note what is known of its thread for the next put."""
        thread, row = found.thread, found.row
        decoder = ValueDecoder(thread, serde, found.data)
        described = thread.codec.describe(row.row)
        # before anybody gets the messages, and can change them
        lists = {place: decoder.stored_list(one, described) for place, one in row.values.items()}
        held = {(row.namespace, channel): stored for channel, stored in lists.items() if stored is not None}
        thread.lists = noted(thread.lists, held)
        built = _tuple(decoder, row, found.writes)
        if get_checkpoint_id(config) is None:
            thread.newest = noted(thread.newest, {row.namespace: row.id})
        self.threads.known.keep(thread)
        return built

    @database_call("checkpoint.put")
    def put(
        self, serde: SerializerProtocol, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        """Store a checkpoint and return its config; see `SQLAlchemySaver.put`."""
        thread_id, namespace = thread_and_namespace(config)
        parent, run = get_checkpoint_id(config), run_of(config)
        about: dict[str, Any] = dict(get_serializable_checkpoint_metadata(config, metadata))
        rest = {key: value for key, value in checkpoint.items() if key not in _KNOWN_KEYS and value}
        can_filter = is_usual(type(serde))
        run_id = about["run_id"] if isinstance(about.get("run_id"), str) and about["run_id"] else None
        told = about if run_id is None else {key: value for key, value in about.items() if key != "run_id"}
        can_conflict = self.on_conflict == "raise" and about.get("source") in {"input", "loop"}

        def work(change: Change) -> None:
            thread, batch = change.thread, change.batch
            check_lease(thread, self.threads.now())
            self.erasures.check(change.reading, thread, run, (namespace, parent) if parent else None)
            if can_conflict:
                place = namespace, checkpoint["id"]
                refuse_fork(change.reading, thread, place, parent, change.newest_id(namespace))
            encoder = ValueEncoder(batch, serde, namespace)
            values = {
                channel: encoder.encode(value, channel) for channel, value in checkpoint["channel_values"].items()
            }
            described = encoder.encode(told)
            others = encoder.encode(rest) if rest else None
            row = CheckpointRow(
                namespace=namespace,
                number=batch.next_checkpoint,
                id=checkpoint["id"],
                parent=parent,
                run=run_id,
                metadata_hashes=hashes_of(thread.codec, about) if can_filter else None,
                references=encoder.references(),
                v=checkpoint["v"],
                ts=checkpoint["ts"],
                versions=checkpoint["channel_versions"],
                seen=checkpoint["versions_seen"],
                updated=checkpoint.get("updated_channels"),
                values=values,
                metadata=described,
                rest=others,
            )
            change.add_checkpoint(row)

        self.erasures.note_run_write(run, thread_id, self.writer.run(thread_id, work))
        return config_of(thread_id, namespace, checkpoint["id"])

    @database_call("checkpoint.put_writes")
    def put_writes(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        """Store a task's pending writes; see `SQLAlchemySaver.put_writes`."""
        thread_id, namespace = thread_and_namespace(config)
        checkpoint_id, run = _configurable(config)["checkpoint_id"], run_of(config)
        place = namespace, checkpoint_id

        def work(change: Change) -> None:
            check_lease(change.thread, self.threads.now())
            self.erasures.check(change.reading, change.thread, run, place)
            encoder = ValueEncoder(change.batch, serde, namespace)
            row = pending_writes.row_name(namespace, checkpoint_id, task_id)
            encoded = [encoder.encode(value) for _, value in writes]
            refs = encoder.references()
            new = [
                Write(task_path, task_id, WRITES_IDX_MAP.get(channel, index), channel, value, row, refs)
                for (index, (channel, _)), value in zip(enumerate(writes), encoded, strict=True)
            ]
            change.writes.append(TaskWrites(place, task_id, new, refs))

        if writes:  # in a run, the checkpoint after a task mostly follows what the task wrote
            key = self.writer.run(thread_id, work, waits=run is not None)
            self.erasures.note_run_write(run, thread_id, key)

    @database_call("checkpoint.delta_history")
    def delta_history(
        self, serde: SerializerProtocol, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each delta channel its first value and the later writes at the ancestors of a checkpoint."""
        thread_id, namespace = thread_and_namespace(config)
        wanted = get_checkpoint_id(config)

        def work(transaction: Transaction) -> Mapping[str, DeltaChannelHistory]:
            thread = self.threads.find(transaction, thread_id, lock=False)
            if thread is None:
                return {channel: DeltaChannelHistory(writes=[]) for channel in channels}
            return delta_history.history(transaction, thread, serde, (namespace, wanted), channels)

        return self.database.run_read(work) if channels else {}

    def pages(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Generator[list[CheckpointTuple]]:
        """Yield non-empty pages of the checkpoints whose metadata has the `wanted` items.

        Each page is read in a transaction of its own, or by one statement.
        """
        named = {} if config is None else _configurable(config)
        listing = Listing(
            thread_id=None if config is None else str(named["thread_id"]),
            namespace=named.get("checkpoint_ns"),
            only=None if config is None else get_checkpoint_id(config),
            before=get_checkpoint_id(before) if before else None,
            wanted=wanted,
        )
        size = _FIRST_PAGE if limit is None else max(1, min(limit, _LARGEST_PAGE))
        shared: _Shared = {}
        last: Place | None = None
        left, is_last = limit, False
        while not is_last and (left is None or left > 0):
            read = partial(self._page, serde, listing, after=last, size=size, shared=shared)
            found, (_, last, is_last, _) = self._run_read(read)
            shared = dict(islice(reversed(shared.items()), 1))  # the next page can begin in the same thread
            size = min(2 * size, _LARGEST_PAGE if found else _LARGEST_EMPTY)
            page = found[:left]
            left = None if left is None else left - len(page)
            if page:
                yield page

    def _run_read(self, work: Callable[[Transaction, bool], T]) -> T:
        """Run `work` in a reading transaction; on PostgreSQL first without one, which saves two round trips.

        Items can then be deleted between two statements: if one is missed, a transaction begins again.
        """
        if self.database.can_read_at_once:
            with suppress(CheckpointError):
                return self.database.run(SINGLE, lambda transaction: work(transaction, True))
        return self.database.run_read(lambda transaction: work(transaction, False))

    def _page(
        self,
        serde: SerializerProtocol,
        listing: Listing,
        transaction: Transaction,
        with_writes: bool,
        *,
        after: Place | None,
        size: int,
        shared: _Shared,
    ) -> tuple[list[CheckpointTuple], Page]:
        """Return checkpoints with the wanted metadata, and the page of rows in which they were found.

        `shared` holds the messages that were read, by thread; checkpoints of a thread share them.
        """
        page = listing.page(transaction, self.threads, after=after, size=size, with_writes=with_writes)
        built: list[CheckpointTuple] = []
        for _, group in groupby(page.rows, lambda one: one[0].id):
            pairs = list(group)
            thread, rows = pairs[0][0], [row for _, row in pairs]
            messages = shared.setdefault(thread.id, {})
            if page.writes is None:
                writes = checkpoint_rows.written(transaction, thread, rows)
            else:
                writes = {row.key: page.writes[thread.id, *row.key] for row in rows}
            refs = references.joined(_references(row, writes[row.key]) for row in rows)
            items.check_runs(thread, refs.runs)
            missing = refs._replace(runs=runs_of([seq for seq in expand(refs.runs) if seq not in messages]))
            decoder = ValueDecoder(thread, serde, items.fetch(transaction, thread, missing), messages)
            chosen = [row for row in rows if _matches(_metadata(decoder, row), listing.wanted)]
            built += [_tuple(decoder, row, writes[row.key]) for row in chosen]
        return built, page


def next_version(current: Any) -> Any:
    """Return the channel version after `current`, in the form of `current`; return 1 if `current` is None.

    This saver counts in whole numbers. Threads from other savers have versions such as "0...02.0.7315". LangGraph
    compares the versions of a thread with each other, so a thread keeps the form of its versions. Raise ValueError
    if `current` is a text that does not begin with a number.
    """
    if not isinstance(current, str):
        return 1 if current is None else current + 1
    whole, dot, _ = current.partition(".")
    if not (whole.isascii() and whole.isdigit()):
        raise ValueError(
            f"{current!r} is not a channel version that can be counted up: a version is a number, or a text that "
            'begins with a number and a dot, such as "%032d.%s"'
        )
    end = f".{random.random():016}" if dot else ""  # noqa: S311 - no secret; as in other savers, branches of a thread get different versions
    return f"{int(whole) + 1:0{len(whole)}}{end}"


def thread_and_namespace(config: RunnableConfig) -> tuple[str, str]:
    """Return (thread id, namespace) of a config; raise ValueError if the config names no thread."""
    named = _configurable(config)
    namespace: str = named.get("checkpoint_ns") or ""
    if namespace:
        checked_key(namespace, _NAMESPACE_BYTES)
    return str(named["thread_id"]), namespace


def config_of(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    found: Mapping[str, Any] = config.get("configurable", {})
    if found.get("thread_id") is None:
        raise ValueError('a checkpointer needs a thread: pass config={"configurable": {"thread_id": "..."}}')
    return found


def _references(row: CheckpointRow, writes: Sequence[Write]) -> references.References:
    return references.joined([row.references, *(one.references for one in writes)]) if writes else row.references


def _tuple(decoder: ValueDecoder, row: CheckpointRow, writes: Sequence[Write]) -> CheckpointTuple:
    thread_id, describe = decoder.thread.thread_id, decoder.thread.codec.describe
    name = describe(row.row)
    checkpoint = Checkpoint(
        v=row.v,
        id=row.id,
        ts=row.ts,
        channel_values={channel: decoder.build(encoded, name) for channel, encoded in row.values.items()},
        channel_versions=row.versions,
        versions_seen=row.seen,
        updated_channels=row.updated,
    )
    if row.rest:
        checkpoint.update(decoder.build_typed(row.rest, name))
    return CheckpointTuple(
        config_of(thread_id, row.namespace, row.id),
        checkpoint,
        _metadata(decoder, row),
        config_of(thread_id, row.namespace, row.parent) if row.parent else None,
        [(one.task, one.channel, decoder.build(one.value, describe(one.row))) for one in writes],
    )


def _metadata(decoder: ValueDecoder, row: CheckpointRow) -> CheckpointMetadata:
    about: dict[str, Any] = decoder.build_typed(row.metadata, decoder.thread.codec.describe(row.row))
    return cast("CheckpointMetadata", about if row.run is None else {**about, "run_id": row.run})


def _matches(about: CheckpointMetadata, wanted: Mapping[str, Any]) -> bool:
    return not wanted or all(about.get(key) == value for key, value in wanted.items())
