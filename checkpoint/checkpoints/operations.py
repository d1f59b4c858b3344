"""What a checkpointer does with checkpoints, synchronously: each call a transaction."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ..db import leases
from ..db.database import Database
from ..db.row_codec import Keyring
from ..db.thread_row import Thread
from ..db.urls import MEMORY
from ..messages.change_detection import Contents, Objects
from ..messages.decode import Reading
from ..messages.encode import Plan
from ..messages.group_commit import Together
from ..messages.message_store import MessageStore
from ..messages.strict_serde import StrictSerializer
from ..messages.write_cache import BYTES, THREADS, Age, Memo
from . import checkpoint_rows, checkpoint_tuples, delta_history, pending_writes, write_guards
from .channel_versions import next_version
from .checkpoint_rows import CheckpointRow
from .checkpoint_tuples import config_of, configurable, place_of
from .pending_writes import Write

_FIRST_PAGE, _LARGEST_PAGE = 16, 128
# inside the class `list` is a method
_Places = list[tuple[str, int]]
_Tuples = list[CheckpointTuple]
_Find = Callable[[sa.Connection, Thread], _Places]
_KNOWN_KEYS = frozenset({"v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"})


class SaverCore(BaseCheckpointSaver[Any]):
    """What both savers do. Every method may be called from any thread."""

    def __init__(
        self,
        database: str | sa.Engine | Database = MEMORY,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[Any] = (),
        on_conflict: Literal["fork", "raise"] = "fork",
        cache: int = THREADS,
        cache_bytes: int = BYTES,
        keys: Keyring | None = None,
        detect_mutation: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(serde, EncryptedSerializer):
            raise ValueError("this serializer would leave messages in plain text; encrypt all with keys=Keyring(...)")  # noqa: TRY004 - not the type is wrong
        super().__init__(serde=serde or StrictSerializer(allow=allow))
        if on_conflict not in {"fork", "raise"}:
            raise ValueError(f"on_conflict is 'fork' or 'raise', not {on_conflict!r}")
        if isinstance(database, Database) and keys is not None:
            raise ValueError("this Database has its keys already; give them to Database.open")
        self._opened = not isinstance(database, Database)
        self.database = Database.open(database, keys=keys) if not isinstance(database, Database) else database
        self.on_conflict = on_conflict
        self.store = MessageStore(self.database.keys, now)
        self.now = now
        self.memo = Memo(cache, Contents if detect_mutation else Objects, most=cache_bytes)
        self.together = Together(self.database, self.store)
        self.erasures = write_guards.Erasures(self.database, now)

    def close(self) -> None:
        """Close the connections, unless they were opened elsewhere."""
        if self._opened:
            self.database.close()

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's signature
        """Return the version after `current`: a number after a number, and a text after another saver's text."""
        return next_version(current)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its thread and namespace, or None.

        RowError names a row that is missing or damaged.
        """
        thread_id, namespace = place_of(config)
        wanted = get_checkpoint_id(config)

        def work(conn: sa.Connection) -> CheckpointTuple | None:
            thread = self.store.find(conn, thread_id, lock=False)
            self.erasures.begin(config, thread_id, None if thread is None else thread.id)
            if thread is None:
                return None
            stored = checkpoint_rows.find(conn, thread, namespace, wanted)
            if stored is None:
                return None
            reading = Reading(conn, thread, self.store, self.serde, prints={}, hash_bytes=self.memo.hash_bytes)
            [built] = checkpoint_tuples.build(reading, [stored])
            for channel, node in stored.values.items():
                if runs := reading.runs(node, thread.codec.describe(stored.row)):
                    messages = built.checkpoint["channel_values"][channel]
                    self.memo.read(thread_id, thread.age, messages, runs, reading.prints_of(runs))
            return built

        return self.database.look(work)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first: of a thread and namespace, of all namespaces, or of all threads.

        `filter` holds metadata keys and the values they must equal. No lock and no transaction is held while
        the caller works. A message that several of the checkpoints hold is one object in all of them.
        """
        for page in self.pages(config, filter or {}, before, limit):
            yield from page

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel what its ancestors wrote, oldest first, and the value they started from."""
        thread_id, namespace = place_of(config)
        wanted = get_checkpoint_id(config)

        def work(conn: sa.Connection) -> Mapping[str, DeltaChannelHistory]:
            thread = self.store.find(conn, thread_id, lock=False)
            if thread is None:
                return {channel: DeltaChannelHistory(writes=[]) for channel in channels}
            reading = Reading(conn, thread, self.store, self.serde)
            return delta_history.history(reading, namespace, wanted, channels)

        return self.database.look(work) if channels else {}

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - what did not change is found by what it is
    ) -> RunnableConfig:
        """Store a checkpoint and return its config. The same id again takes the place of what stood there.

        ConflictError (with `on_conflict="raise"`) where a run goes on from a checkpoint that is no longer the
        newest; LeaseError where the thread is leased to another; ErasedThreadError where it was erased since the run
        began; ValueTypeError for a value that may not be stored. In all of these cases nothing is written.
        """
        thread_id, namespace = place_of(config)
        parent, caller = get_checkpoint_id(config), write_guards.run_of(config)
        before = (namespace, parent) if parent else None
        plan = Plan(self.serde, self.memo, thread_id)
        values = {channel: plan.add(value) for channel, value in checkpoint["channel_values"].items()}
        about: dict[str, Any] = dict(get_serializable_checkpoint_metadata(config, metadata))
        run = about.pop("run_id") if isinstance(about.get("run_id"), str) and about["run_id"] else None
        described = self.serde.dumps_typed(about)
        rest = {key: value for key, value in checkpoint.items() if key not in _KNOWN_KEYS and value}
        beyond = self.serde.dumps_typed(rest) if rest else None

        def work(conn: sa.Connection, thread: Thread) -> Age:
            leases.check(thread, self.now())
            self.erasures.check(conn, thread, caller, before)
            if self.on_conflict == "raise":
                write_guards.refuse_fork(conn, thread, (namespace, checkpoint["id"]), parent, about.get("source"))
            stored = CheckpointRow(
                namespace=namespace,
                number=thread.next_checkpoint,
                id=checkpoint["id"],
                parent=parent,
                run=run,
                v=checkpoint["v"],
                ts=checkpoint["ts"],
                versions=checkpoint["channel_versions"],
                seen=checkpoint["versions_seen"],
                updated=checkpoint.get("updated_channels"),
                values=plan.write(conn, thread, self.store, values),
                metadata=described,
                rest=beyond,
            )
            if checkpoint_rows.put(conn, thread, stored):
                thread.next_checkpoint += 1
            return thread.age

        plan.committed(age := self.together.run(thread_id, work))
        self.erasures.wrote(caller, thread_id, age[0])
        return config_of(thread_id, namespace, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote at a checkpoint, all of it or, with an error, nothing.

        The checkpoint itself may be stored later. Errors are those of `put`.
        """
        thread_id, namespace = place_of(config)
        checkpoint_id, caller = configurable(config)["checkpoint_id"], write_guards.run_of(config)
        plan = Plan(self.serde, self.memo, thread_id)
        planned = [
            (WRITES_IDX_MAP.get(channel, index), channel, plan.add(value))
            for index, (channel, value) in enumerate(writes)
        ]

        def work(conn: sa.Connection, thread: Thread) -> Age:
            leases.check(thread, self.now())
            self.erasures.check(conn, thread, caller, (namespace, checkpoint_id))
            nodes = plan.write(conn, thread, self.store, [node for _, _, node in planned])
            row = pending_writes.row_name(namespace, checkpoint_id, task_id)
            held = [
                Write(task_path, task_id, index, channel, node, row)
                for (index, channel, _), node in zip(planned, nodes, strict=True)
            ]
            pending_writes.put(conn, thread, (namespace, checkpoint_id), task_id, held)
            return thread.age

        if planned:
            plan.committed(age := self.together.run(thread_id, work))
            self.erasures.wrote(caller, thread_id, age[0])

    def pages(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Generator[_Tuples]:
        """Yield non-empty pages of matching checkpoints; each is read in a transaction of its own."""
        left = limit
        for thread_id, listed in self._listed(config, before, None if wanted else limit):
            messages: dict[int, BaseMessage] = {}
            size = _FIRST_PAGE if wanted or limit is None else min(limit, _LARGEST_PAGE)
            at, ends, find = 0, False, listed
            while not ends and (left is None or left > 0):
                read = partial(self._page, thread_id=thread_id, find=find, at=at, size=size, wanted=wanted)
                places, page = self.database.look(partial(read, messages=messages, limit=left))
                at, size = at + size, min(2 * size, _LARGEST_PAGE)
                ends, find = at >= len(places), _found(places)
                left = None if left is None else left - len(page)
                if page:
                    yield page

    def _listed(
        self, config: RunnableConfig | None, before: RunnableConfig | None, limit: int | None
    ) -> Iterable[tuple[str, _Find]]:
        """Return (thread id, what finds its (namespace, number) to list, newest first)."""
        until = get_checkpoint_id(before) if before else None
        if config is None:
            all_of = partial(checkpoint_rows.places_of_all, before=until, limit=limit)
            return [(thread_id, _found(places)) for thread_id, places in self.database.look(all_of)]
        namespace, only = configurable(config).get("checkpoint_ns"), get_checkpoint_id(config)
        find = partial(checkpoint_rows.places, namespace=namespace, only=only, before=until, limit=limit)
        return [(str(configurable(config)["thread_id"]), find)]

    def _page(
        self,
        conn: sa.Connection,
        *,
        thread_id: str,
        find: _Find,
        at: int,
        size: int,
        wanted: Mapping[str, Any],
        messages: dict[int, BaseMessage],
        limit: int | None,
    ) -> tuple[_Places, _Tuples]:
        """Return all places, and the checkpoints at some of them; the first are found in the same transaction."""
        thread = self.store.find(conn, thread_id, lock=False)
        if thread is None:
            return [], []
        places = find(conn, thread)
        found = checkpoint_rows.at(conn, thread, chosen := places[at : at + size])
        stored = [found[place] for place in chosen if place in found]
        reading = Reading(conn, thread, self.store, self.serde, messages)
        if wanted:
            stored = [one for one in stored if checkpoint_tuples.matches(reading, one, wanted)]
        return places, checkpoint_tuples.build(reading, stored[:limit])


def _found(places: _Places) -> _Find:
    return lambda _conn, _thread: places
