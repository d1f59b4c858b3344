"""Reads and writes checkpoints and pending writes in LangGraph's form; each call is one transaction.

The caller passes its serializer to each call, because LangGraph copies savers and gives the copies other serializers.
"""

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar, cast

import sqlalchemy as sa
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
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ..db.database import Database
from ..db.thread_row import Thread, check_lease, note
from ..errors import CheckpointError
from ..messages.decode import ValueDecoder
from ..messages.encode import ValueEncoder
from ..messages.group_commit import GroupCommit
from ..messages.message_store import MessageStore
from ..messages.write_cache import GenerationKey, WriteCache
from ..telemetry import database_call
from . import checkpoint_rows, delta_history, pending_writes, state_at_once
from .checkpoint_rows import CheckpointRow
from .listing import Key, Listing, Page, at, larger, written
from .metadata_hashes import hashes_of
from .pending_writes import Write
from .state_at_once import StateRows
from .write_guards import ErasureGuard, refuse_fork, run_of

T = TypeVar("T")
_FIRST_PAGE, _LARGEST_PAGE = 16, 128
_Shared = dict[int, dict[int, BaseMessage]]
_KNOWN_KEYS = frozenset({"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"})


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """The checkpoints of one database. Every method can be called from any OS thread."""

    database: Database
    store: MessageStore
    cache: WriteCache
    group_commit: GroupCommit
    erasures: ErasureGuard
    on_conflict: Literal["fork", "raise"]
    now: Callable[[], float]

    @database_call("checkpoint.get")
    def get(self, serde: SerializerProtocol, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of the config's thread and namespace.

        Return None if there is no such checkpoint. Raise `RowError`, naming the row, if a row is missing or damaged.
        """
        thread_id, namespace = thread_and_namespace(config)
        wanted = get_checkpoint_id(config)

        def work(conn: sa.Connection) -> CheckpointTuple | None:
            thread = self.store.find(conn, thread_id, lock=False)
            self.erasures.note_run_start(config, thread_id, None if thread is None else thread.id)
            row = None if thread is None else checkpoint_rows.find(conn, thread, namespace, wanted)
            return None if thread is None or row is None else self._built(serde, conn, thread, row)

        def at_once() -> CheckpointTuple | None:
            with self.database.single_statements() as conn:
                found = state_at_once.read(conn, thread_id, namespace, wanted)
                if found is None:
                    self.erasures.note_run_start(config, thread_id, None)
                    self.group_commit.remembered.keep_absent(thread_id)
                    return None
                thread = self.store.threads.from_row(conn, found.thread)
                self.erasures.note_run_start(config, thread_id, thread.id)
                if found.checkpoint is None:
                    return None
                row = CheckpointRow.decode(thread, found.checkpoint)
                if wanted is None:
                    note(thread.known.newest, namespace, row.id)
                built = self._built(serde, conn, thread, row, found)
                self.group_commit.remembered.keep(thread)
                return built

        if self.database.can_read_at_once:
            with suppress(CheckpointError):  # `work` reads the rows again, and raises its error
                return at_once()
        return self.database.run_read(work)

    @database_call("checkpoint.put")
    def put(
        self, serde: SerializerProtocol, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        """Store a checkpoint and return its config; see `SQLAlchemySaver.put`."""
        thread_id, namespace = thread_and_namespace(config)
        parent, run = get_checkpoint_id(config), run_of(config)
        encoder = ValueEncoder(serde, self.cache, thread_id)
        values = {channel: encoder.plan(value) for channel, value in checkpoint["channel_values"].items()}
        about: dict[str, Any] = dict(get_serializable_checkpoint_metadata(config, metadata))
        all_about, is_usual = {**about}, isinstance(serde, JsonPlusSerializer)
        run_id = about.pop("run_id") if isinstance(about.get("run_id"), str) and about["run_id"] else None
        described = serde.dumps_typed(about)
        unknown = {key: value for key, value in checkpoint.items() if key not in _KNOWN_KEYS and value}
        rest = serde.dumps_typed(unknown) if unknown else None

        def work(conn: sa.Connection, thread: Thread) -> GenerationKey:
            check_lease(thread, self.now())
            self.erasures.check(conn, thread, run, (namespace, parent) if parent else None)
            if self.on_conflict == "raise":
                refuse_fork(conn, thread, (namespace, checkpoint["id"]), parent, about.get("source"))
            row = CheckpointRow(
                namespace=namespace,
                number=thread.next_checkpoint,
                id=checkpoint["id"],
                parent=parent,
                run=run_id,
                metadata_hashes=hashes_of(thread.codec, all_about) if is_usual else None,
                v=checkpoint["v"],
                ts=checkpoint["ts"],
                versions=checkpoint["channel_versions"],
                seen=checkpoint["versions_seen"],
                updated=checkpoint.get("updated_channels"),
                values=encoder.write(conn, thread, self.store, values),
                metadata=described,
                rest=rest,
            )
            if checkpoint_rows.put(conn, thread, row):
                thread.next_checkpoint += 1
            return thread.generation_key

        self._commit(encoder, run, work)
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
        encoder = ValueEncoder(serde, self.cache, thread_id)
        planned = [
            (WRITES_IDX_MAP.get(channel, index), channel, encoder.plan(value))
            for index, (channel, value) in enumerate(writes)
        ]

        def work(conn: sa.Connection, thread: Thread) -> GenerationKey:
            check_lease(thread, self.now())
            self.erasures.check(conn, thread, run, (namespace, checkpoint_id))
            encoded = encoder.write(conn, thread, self.store, [value for _, _, value in planned])
            row = pending_writes.row_name(namespace, checkpoint_id, task_id)
            new = [
                Write(task_path, task_id, index, channel, value, row)
                for (index, channel, _), value in zip(planned, encoded, strict=True)
            ]
            pending_writes.put(conn, thread, (namespace, checkpoint_id), task_id, new)
            return thread.generation_key

        if planned:  # in a run, the checkpoint after a task mostly follows what the task wrote
            self._commit(encoder, run, work, waits=run is not None)

    @database_call("checkpoint.delta_history")
    def delta_history(
        self, serde: SerializerProtocol, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each delta channel its first value and the later writes at the ancestors of a checkpoint."""
        thread_id, namespace = thread_and_namespace(config)
        wanted = get_checkpoint_id(config)

        def work(conn: sa.Connection) -> Mapping[str, DeltaChannelHistory]:
            thread = self.store.find(conn, thread_id, lock=False)
            if thread is None:
                return {channel: DeltaChannelHistory(writes=[]) for channel in channels}
            return delta_history.history(ValueDecoder(conn, thread, self.store, serde), namespace, wanted, channels)

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
        size = many = _FIRST_PAGE if limit is None else max(1, min(limit, _LARGEST_PAGE))
        keys: list[Key] = []
        shared: _Shared = {}
        last, left, more = None, limit, True
        while (keys or more) and (left is None or left > 0):
            read = partial(self._page, serde, listing=listing, found=(keys, more), last=last, many=many, size=size)
            (keys, more), page = self._read_page(partial(read, limit=left, shared=shared), listing, at_once=not keys)
            if not keys:
                return
            last = keys[:size][-1]
            shared = {last.thread: shared.get(last.thread, {})}
            keys, size, many = keys[size:], min(2 * size, _LARGEST_PAGE), many if keys[size:] else larger(many)
            left = None if left is None else left - len(page)
            if page:
                yield page

    def _built(
        self,
        serde: SerializerProtocol,
        conn: sa.Connection,
        thread: Thread,
        row: CheckpointRow,
        found: StateRows | None = None,
    ) -> CheckpointTuple:
        """Build a checkpoint, and remember its messages for the next put; rows in `found` are not read again."""
        decoder = ValueDecoder(conn, thread, self.store, serde, hashes={}, hash_bytes=self.cache.hash_bytes)
        if found is None:
            by_id = pending_writes.of(conn, thread, row.namespace, [row.id])
        else:
            decoder.stored, decoder.stored_blobs = found.messages, found.blobs
            by_id = pending_writes.from_rows(thread, row.namespace, found.writes)
        [built] = _build(decoder, [row], {(thread.id, *row.key): by_id.get(row.id, ())})
        for channel, encoded in row.values.items():
            if runs := decoder.runs(encoded, thread.codec.describe(row.row)):
                messages = built.checkpoint["channel_values"][channel]
                hashes = decoder.hashes_of(runs)
                self.cache.remember_read(thread.thread_id, thread.generation_key, messages, runs, hashes)
        return built

    def _commit(
        self, encoder: ValueEncoder, run: object | None, work: Callable[..., GenerationKey], *, waits: bool = False
    ) -> None:
        """Call `work` in a transaction that other writers can share; after the commit, remember what was written.

        The messages of the put are cached for the next put. `ErasureGuard` remembers the key of the thread's row, to
        refuse later writes of the same run if the thread is erased meanwhile.
        """
        key = self.group_commit.run(encoder.thread_id, work, waits=waits)
        encoder.remember_committed(key)
        self.erasures.note_run_write(run, encoder.thread_id, key[0])

    def _read_page(self, read: Callable[..., T], listing: Listing, *, at_once: bool) -> T:
        """Read a page by `_page`, by a single statement where that is possible."""
        if at_once and self.database.can_read_at_once and not listing.compares_hashes(self.store.threads):
            with suppress(CheckpointError), self.database.single_statements() as conn:
                return read(conn, at_once=True)
        return self.database.run_read(read)

    def _page(
        self,
        serde: SerializerProtocol,
        conn: sa.Connection,
        *,
        listing: Listing,
        found: tuple[list[Key], bool],
        last: Key | None,
        many: int,
        size: int,
        limit: int | None,
        shared: _Shared,
        at_once: bool = False,
    ) -> tuple[tuple[list[Key], bool], list[CheckpointTuple]]:
        """Return what was found, and the checkpoints of its first `size` keys.

        `found` holds keys and whether there can be more; without a key, those behind `last` are read. `shared` holds
        the messages that were read, by thread; checkpoints of a thread share them. `at_once` says that all rows of
        the page may be read by one statement, of which nothing was found before.
        """
        known: Page | None = None
        if at_once:
            keys, more, known = listing.page(conn, self.store.threads, last, size)
            found = keys, more
        elif not found[0]:
            found = listing.keys(conn, self.store.threads, last, many)
        groups = at(conn, self.store.threads, found[0][:size]) if known is None else known.groups
        decoders = [
            ValueDecoder(conn, thread, self.store, serde, shared.setdefault(thread.id, {})) for thread, _ in groups
        ]
        chosen = [
            [row for row in rows if _matches(decoder, row, listing.wanted)]
            for decoder, (_, rows) in zip(decoders, groups, strict=True)
        ]
        if known is None:
            writes = written(conn, [(decoder.thread, rows) for decoder, rows in zip(decoders, chosen, strict=True)])
        else:
            writes = known.writes
        page = [one for decoder, rows in zip(decoders, chosen, strict=True) for one in _build(decoder, rows, writes)]
        return found, page[:limit]


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
    return str(named["thread_id"]), named.get("checkpoint_ns") or ""


def config_of(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    found = config.get("configurable", {})
    if found.get("thread_id") is None:
        raise ValueError('a checkpointer needs a thread: pass config={"configurable": {"thread_id": "..."}}')
    return found


def _build(
    decoder: ValueDecoder, rows: Sequence[CheckpointRow], known: Mapping[tuple[int, str, str], Sequence[Write]]
) -> list[CheckpointTuple]:
    """Return checkpoints with their pending writes, given by thread, namespace and id, in LangGraph's form."""
    writes = {row.key: known.get((decoder.thread.id, *row.key), ()) for row in rows}
    describe = decoder.thread.codec.describe
    for row in rows:
        decoder.expect(describe(row.row), row.values.values())
        for write in writes[row.key]:
            decoder.expect(describe(write.row), [write.value])
    decoder.fetch()
    return [_tuple(decoder, row, writes[row.key]) for row in rows]


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
        checkpoint.update(decoder.load(row.rest, name))
    return CheckpointTuple(
        config_of(thread_id, row.namespace, row.id),
        checkpoint,
        _metadata(decoder, row),
        config_of(thread_id, row.namespace, row.parent) if row.parent else None,
        [(one.task, one.channel, decoder.build(one.value, describe(one.row))) for one in writes],
    )


def _metadata(decoder: ValueDecoder, row: CheckpointRow) -> CheckpointMetadata:
    about: dict[str, Any] = decoder.load(row.metadata, decoder.thread.codec.describe(row.row))
    return cast("CheckpointMetadata", about if row.run is None else {**about, "run_id": row.run})


def _matches(decoder: ValueDecoder, row: CheckpointRow, wanted: Mapping[str, Any]) -> bool:
    about: Mapping[str, Any] = _metadata(decoder, row) if wanted else {}
    return all(about.get(key) == value for key, value in wanted.items())
