"""Reads the databases of LangGraph's own savers, without writing to these databases."""

import json
import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import ormsgpack
import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from sqlalchemy import exc

from ..db import urls
from ..errors import CheckpointError, DatabaseError, DatabaseURLError, ValueTypeError
from ..extras import how_to_install
from ..messages.strict_serde import StrictSerializer

_EXAMPLES = "sqlite:///FILE (a SqliteSaver's) or postgresql://user@host/name (a PostgresSaver's)"
_REMEMBERED_OBJECTS = 4_096
_JSON_VERSIONS = (1, 2)
"""Values of the key `lc` in the JSON objects with which LangChain describes a Python object."""
_NEEDED = {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"}

_checkpoints = sa.table("checkpoints", *(sa.column(name) for name in ("thread_id", "checkpoint_ns", "checkpoint_id")))


class SourceError(CheckpointError, ValueError):
    """The source of a copy cannot be opened or read; the message says what to do."""


class PendingWrite(NamedTuple):
    """A pending write of a task at a checkpoint. `place` is its index among the task's writes."""

    task_id: str
    task_path: str
    place: int
    channel: str
    value: Any


class SourceCheckpoint(NamedTuple):
    """A checkpoint as the official saver reads it, but with channel versions as whole numbers."""

    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_id: str | None
    writes: Sequence[PendingWrite]
    """Pending writes of the checkpoint, in the order in which a saver returns them."""


def configurable(config: RunnableConfig | None) -> dict[str, Any]:
    """Return the `configurable` part of a config, or {} if there is none."""
    return (config or {}).get("configurable", {})


class SourceSerializer(StrictSerializer):
    """Reads values of the official savers; raises ValueTypeError if it cannot build a value again exactly as stored.

    Successive checkpoints hold the same messages, so the serializer returns the same object for bytes that it has
    read before. Callers must not change the returned objects.
    """

    def __init__(self, *, allow: Iterable[type] = ()) -> None:
        allowed = tuple(allow)
        super().__init__(allow=allowed)
        self._allowed_json_modules = {(*kind.__module__.split("."), kind.__name__) for kind in allowed}
        self._object = lru_cache(_REMEMBERED_OBJECTS)(self._read_object)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value in msgpack, which the official savers write, or in JSON, which they wrote in 2024."""
        kind, payload = data
        if "+" in kind:
            raise ValueTypeError(f"a value of the checkpoint is encrypted ({kind}): decrypt the source first")
        if kind == "json":
            return json.loads(payload, object_hook=self._revived)
        return self._unpacked(payload) if kind == "msgpack" else super().loads_typed(data)

    def _unpacked(self, data: bytes) -> Any:
        failures: list[CheckpointError] = []

        def extension(code: int, payload: bytes) -> Any:
            try:
                is_snapshot = code == EXT_DELTA_SNAPSHOT
                return DeltaSnapshot(self._unpacked(payload)) if is_snapshot else self._object(code, payload)
            except CheckpointError as error:  # ormsgpack would replace this error by an error of its own
                failures.append(error)
                return None

        value = ormsgpack.unpackb(data, ext_hook=extension, option=ormsgpack.OPT_NON_STR_KEYS)
        if failures:
            raise failures[0]
        return value

    def _read_object(self, code: int, payload: bytes) -> Any:
        return super().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, payload))))

    def _revived(self, value: dict[str, Any]) -> Any:
        try:
            revived = self._reviver(value)
        except (ValueError, TypeError, LookupError, ImportError, AttributeError, NotImplementedError) as error:
            raise ValueTypeError(f"{type(error).__name__}: {error}") from error
        is_object = value.get("lc") in _JSON_VERSIONS and value.get("type") == "constructor"
        if is_object and (revived is None or revived is value):
            name = ".".join(map(str, value.get("id", ())))
            raise ValueTypeError(f"{name} is not among the types that may be loaded, or cannot be built again")
        return revived


def with_int_versions(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with the official savers' versions ("%032d.random") as the numbers they begin with.

    A checkpoint may hold both forms, which cannot be compared with each other. Raise ValueTypeError for versions of
    another form, and if two versions of a channel would become the same number.
    """
    channels: dict[str, dict[int, object]] = {}

    def number(channel: str, version: object) -> int | float:
        if not isinstance(version, str):
            return cast("int | float", version)
        whole = version.partition(".")[0]
        if not (whole.isascii() and whole.isdigit()):
            raise ValueTypeError(f"{version!r} is not a channel version")
        if channels.setdefault(channel, {}).setdefault(int(whole), version) != version:
            raise ValueTypeError(f"channel {channel!r} has two versions with the number {int(whole)}")
        return int(whole)

    def numbers(versions: Mapping[str, object]) -> ChannelVersions:
        return {channel: number(channel, version) for channel, version in versions.items()}

    seen = {node: numbers(versions) for node, versions in checkpoint["versions_seen"].items()}
    return {**checkpoint, "channel_versions": numbers(checkpoint["channel_versions"]), "versions_seen": seen}


class Source:
    """A database of an official saver, of which one checkpoint at a time is in memory."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[str],
        engine: sa.Engine,
        writes: sa.TableClause,
        errors: type[Exception],
    ) -> None:
        """Take an official `saver`, which reads checkpoints, and an `engine`, which lists their ids.

        `writes` is the saver's table of pending writes, and `errors` are the errors that the saver's driver raises.
        """
        self.place = urls.place(engine.url)
        self._saver = saver
        self._engine = engine
        self._writes = writes
        self._errors = errors

    def threads(self) -> dict[str, int]:
        """Return the number of checkpoints of every thread, by its id, the oldest thread first."""
        columns = _checkpoints.c
        query = sa.select(columns.thread_id, sa.func.count()).group_by(columns.thread_id)
        rows = _rows(self._engine, query.order_by(sa.func.min(columns.checkpoint_id)))
        return {str(thread_id): int(count) for thread_id, count in rows}

    def ids(self, thread_id: str) -> list[tuple[str, str]]:
        """Return (namespace, checkpoint id) of all checkpoints of a thread, oldest first."""
        columns = _checkpoints.c
        query = sa.select(columns.checkpoint_ns, columns.checkpoint_id).where(columns.thread_id == thread_id)
        rows = _rows(self._engine, query.order_by(columns.checkpoint_id, columns.checkpoint_ns))
        return [(str(namespace), str(checkpoint_id)) for namespace, checkpoint_id in rows]

    def read(self, thread_id: str, namespace: str, checkpoint_id: str) -> SourceCheckpoint:
        """Read one checkpoint with its pending writes; raise SourceError or ValueTypeError on failure."""
        places = self._write_places(thread_id, namespace, checkpoint_id)
        found = self._tuple(thread_id, namespace, checkpoint_id)
        pending = found.pending_writes or []
        if [(task_id, channel) for task_id, _, _, channel in places] != [write[:2] for write in pending]:
            raise SourceError("the checkpoint was written to while it was read: run the command again")
        return SourceCheckpoint(
            checkpoint=with_int_versions(found.checkpoint),
            metadata=_metadata(found.metadata),
            parent_id=configurable(found.parent_config).get("checkpoint_id"),
            writes=[PendingWrite(*place, write[2]) for place, write in zip(places, pending, strict=True)],
        )

    def _write_places(self, thread_id: str, namespace: str, checkpoint_id: str) -> list[tuple[str, str, int, str]]:
        columns = self._writes.c
        path = columns.task_path if "task_path" in columns else sa.literal("")
        query = sa.select(columns.task_id, path, columns.idx, columns.channel).where(
            columns.thread_id == thread_id,
            columns.checkpoint_ns == namespace,
            columns.checkpoint_id == checkpoint_id,
        )
        rows = [
            (str(task), str(path), int(index), str(name)) for task, path, index, name in _rows(self._engine, query)
        ]
        return sorted(rows, key=lambda row: (row[1], row[0], row[2]))

    def _tuple(self, thread_id: str, namespace: str, checkpoint_id: str) -> CheckpointTuple:
        place = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        try:
            found = self._saver.get_tuple({"configurable": place})
        except self._errors as error:
            raise DatabaseError(f"{self.place}: {error}") from error
        except (ValueError, TypeError, LookupError, NotImplementedError) as error:
            raise SourceError(f"the checkpoint is damaged: {type(error).__name__}: {error}") from error
        if found is None:
            raise SourceError("the checkpoint was deleted while the import ran")
        return found


def _metadata(read: CheckpointMetadata) -> CheckpointMetadata:
    """Return the metadata without the copy of all writes that LangGraph put into metadata until 0.5."""
    return cast("CheckpointMetadata", {key: value for key, value in read.items() if key != "writes"})


@contextmanager
def open_source(target: str, *, allow: Iterable[type] = ()) -> Generator[Source]:
    """Open a database of a SqliteSaver or PostgresSaver for reading, until the block ends.

    Values may have LangGraph's own safe types and the classes in `allow`. Raise SourceError for another kind of
    database, a missing file, missing tables or a missing package, and DatabaseError if the database does not answer.
    """
    url = urls.sync_url(target)
    opened = {"sqlite": _sqlite, "postgresql": _postgres}.get(url.get_backend_name())
    if opened is None or urls.is_memory(url):
        raise SourceError(f"there is nothing to import from {urls.place(url)}; give {_EXAMPLES}")
    with ExitStack() as stack:
        try:
            source = stack.enter_context(opened(url, SourceSerializer(allow=allow)))
        except ModuleNotFoundError as error:
            raise SourceError(
                f"to read {urls.place(url)} the Python package {error.name!r} is missing; {how_to_install('import')}"
            ) from error
        yield source


@contextmanager
def _sqlite(url: sa.URL, serde: SourceSerializer) -> Generator[Source]:
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - an optional package

    file = Path(url.database or "")
    if not file.is_file():
        raise SourceError(f"there is no file {file}")

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)

    engine = sa.create_engine(url, creator=connect, poolclass=sa.NullPool, hide_parameters=True)
    writes = _tables(engine, "SqliteSaver", "writes")
    with closing(connect()) as conn:
        saver = SqliteSaver(conn, serde=serde)
        saver.is_setup = True  # or the saver would call its setup(), which writes to the file
        saver._has_task_path = "task_path" in writes.c  # noqa: SLF001 - as its setup() does  # pyright: ignore[reportPrivateUsage]
        yield Source(saver, engine, writes, sqlite3.Error)


@contextmanager
def _postgres(url: sa.URL, serde: SourceSerializer) -> Generator[Source]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an optional package
    from psycopg import Connection, Error  # noqa: PLC0415 - an optional package
    from psycopg.rows import DictRow, dict_row  # noqa: PLC0415 - an optional package

    engine = urls.create_engine(url)
    try:
        walker = engine.execution_options(postgresql_readonly=True)
        writes = _tables(walker, "PostgresSaver", "checkpoint_writes")
        if "task_path" not in writes.c:
            raise SourceError(
                f"{urls.place(url)}: its tables are of an old version; run PostgresSaver.setup() on it once"
            )
        where = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with Connection[DictRow].connect(where, autocommit=True, prepare_threshold=0, row_factory=dict_row) as conn:
            conn.execute("SET default_transaction_read_only = on")
            yield Source(PostgresSaver(conn, serde=serde), walker, writes, Error)
    finally:
        engine.dispose()


def _tables(engine: sa.Engine, saver: str, writes: str) -> sa.TableClause:
    """Return the table of pending writes with its columns; raise SourceError unless `saver` made the tables."""
    place = urls.place(engine.url)
    with translated(place), engine.connect() as conn:
        inspector = sa.inspect(conn)
        columns = {
            name: {column["name"] for column in inspector.get_columns(name)} if inspector.has_table(name) else set()
            for name in ("checkpoints", writes)
        }
    if not columns["checkpoints"] >= _NEEDED or not columns[writes]:
        raise SourceError(f"{place} does not hold the tables of a {saver}")
    return sa.table(writes, *(sa.column(name) for name in sorted(columns[writes])))


def _rows(engine: sa.Engine, query: sa.Select[*tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    with translated(urls.place(engine.url)), engine.connect() as conn:
        return [tuple(row) for row in conn.execute(query)]


@contextmanager
def translated(place: str, errors: type[Exception] = exc.SQLAlchemyError) -> Generator[None]:
    """Raise DatabaseError, without the statement's parameters, in place of the database's errors."""
    try:
        yield
    except errors as error:
        said = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        kind = DatabaseURLError if urls.is_unusable_file(error) else DatabaseError
        raise kind(f"{place}: {said}") from error
