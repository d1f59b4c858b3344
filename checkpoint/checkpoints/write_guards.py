"""Refuses writes of a run if, since the run began, its thread was erased or got checkpoints from another run.

All calls of one LangGraph run carry one `RunControl` object, which identifies the run. The key of a thread's row is
never reused. So if the key has changed since the run began, the run would write to a new thread with the old id. A
call outside of runs is refused if it names a checkpoint that does not exist and the thread was erased within the last
day.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from langchain_core.runnables import RunnableConfig

from ..db import tables
from ..db.database import Database
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..errors import ConflictError, ErasedThreadError
from . import checkpoint_rows

ERASURE_KNOWN_S = 86_400.0
"""Seconds for which the erasure of a thread is remembered."""

_MAX_RUNS = 4_096
_RUNTIME, _TASK = "__pregel_runtime", "__pregel_task_id"  # names that LangGraph gives to keys of a config
_erased = tables.erased.c
_RUN: ContextVar[object | None] = ContextVar("compaction_run", default=None)
_ALLOW_RECREATION: ContextVar[bool] = ContextVar("compaction_allow_recreation", default=False)


class _Runs:
    """Maps each of the newest LangGraph runs to the key of its thread's row. Several OS threads can use one map."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # holds the run object, so that no other object can get its id()
        self._known: OrderedDict[tuple[int, str], tuple[object, int]] = OrderedDict()

    def set(self, run: object, thread_id: str, key: int | None, *, anew: bool = False) -> None:
        """Remember the key of the row of the thread to which a run belongs.

        A key that is already known for the run stays. Only with `anew`, which is given at the start of the run, the
        new key replaces it.
        """
        place = id(run), thread_id
        with self._lock:
            if anew:
                self._known.pop(place, None)
            if key is not None:
                self._known.setdefault(place, (run, key))
            while len(self._known) > _MAX_RUNS:
                self._known.popitem(last=False)

    def get(self, run: object, thread_id: str) -> int | None:
        """Return the key of the thread row on which a run works, or None if the run is not known."""
        with self._lock:
            return self._known.get((id(run), thread_id), (None, None))[1]


_RUNS_BY_DATABASE: WeakKeyDictionary[Database, _Runs] = WeakKeyDictionary()
"""The known runs by database; all savers and records of one database share the database's entry."""


class ErasureGuard:
    """Refuses writes that come from before the erasure of their conversation thread."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._runs = _RUNS_BY_DATABASE.setdefault(database, _Runs())
        self._now = now

    def note_run_start(self, config: RunnableConfig, thread_id: str, key: int | None) -> None:
        """Remember the key of the thread's row as the one on which a run starts (None if the thread has no row yet).

        Nothing is remembered if the config belongs to a task of the run, such as a node that calls a subgraph: a task
        reads checkpoints after the start of the run, and the thread may have been erased since then.
        """
        run = run_of(config)
        if run is not None and _TASK not in config.get("configurable", {}):
            self._runs.set(run, thread_id, key, anew=True)

    def note_run_write(self, run: object | None, thread_id: str, key: int) -> None:
        """Remember the thread row to which a run has written; the caller calls this method after the commit."""
        if run is not None:
            self._runs.set(run, thread_id, key)

    def check(
        self,
        reading: Callable[[], Transaction],
        thread: Thread,
        run: object | None,
        named: tuple[str, str] | None = None,
    ) -> None:
        """Raise `ErasedThreadError` if a write to the locked thread comes from before the thread's erasure.

        `reading` returns the transaction, if something has to be read.

        `named` is the checkpoint (namespace, id) on which the write builds. It is looked up only for a call outside
        of runs. In a run it may be missing although nothing was erased, because LangGraph stores checkpoints in the
        background and can store pending writes first.
        """
        if run is None:
            late = named is not None and not _ALLOW_RECREATION.get() and self._is_gone(reading, thread, named)
        else:
            known = self._runs.get(run, thread.thread_id)
            late = known is not None and known != thread.id
        if late:
            raise ErasedThreadError(
                f"thread {thread.thread_id!r} was erased after this run began, so nothing of it is stored: start "
                "a new run (outside of runs: put the first checkpoint with a config that names no checkpoint_id)"
            )

    def _is_gone(self, reading: Callable[[], Transaction], thread: Thread, named: tuple[str, str]) -> bool:
        namespace, checkpoint_id = named
        if thread.newest.get(namespace) == checkpoint_id:
            return False
        transaction = reading()
        if checkpoint_rows.number(transaction, thread, *named) is not None:
            return False
        row = transaction.run(_ERASED_AT, {"name": _name(thread.thread_id)}).fetchone()
        return row is not None and abs(self._now() - row[0]) < ERASURE_KNOWN_S


def run_of(config: RunnableConfig) -> object | None:
    """Return the object that identifies the run of a checkpointer's call, or None outside of runs."""
    held: Mapping[str, Any] = config.get("configurable", {})
    return getattr(held.get(_RUNTIME), "control", None)


def current_run() -> object | None:
    """Return the object that identifies the run whose node is being executed, or None outside of runs.

    Within `acting_for` it is the run that is given there.
    """
    if (run := _RUN.get()) is not None:
        return run
    from langgraph.runtime import get_runtime  # noqa: PLC0415 - it loads the server's client, which no saver needs

    try:
        return getattr(get_runtime(), "control", None)
    except (RuntimeError, KeyError):  # no run of a graph is under way here
        return None


@contextmanager
def acting_for(run: object | None) -> Generator[None]:
    """Treat the writes in the `with` block as writes of this run, which started the work of this OS thread."""
    before = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(before)


@contextmanager
def allow_recreation() -> Generator[None]:
    """Allow the writes in the `with` block to recreate an erased thread, whatever checkpoint the writes name."""
    before = _ALLOW_RECREATION.set(True)
    try:
        yield
    finally:
        _ALLOW_RECREATION.reset(before)


def note_erased(transaction: Transaction, thread_id: str, now: float) -> None:
    """Record that a thread is erased, and delete the records of erasures that are older than a day."""
    name = _name(thread_id)
    transaction.execute(sa.delete(tables.erased).where(_erased.at < now - ERASURE_KNOWN_S))
    transaction.execute(sa.delete(tables.erased).where(_erased.name == name))
    transaction.execute(sa.insert(tables.erased).values(name=name, at=now))


def _name(thread_id: str) -> str:
    """Return the hash under which an erasure is recorded, because the thread id itself can be personal data."""
    return blake2b(thread_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def refuse_fork(
    reading: Callable[[], Transaction], thread: Thread, place: tuple[str, str], parent: str | None, newest: str | None
) -> None:
    """Raise `ConflictError` if a run builds on a checkpoint that is no longer the newest.

    `newest` is the id of the namespace's newest checkpoint, or None if it is not known.
    """
    namespace, name = place
    if newest is None:
        newest = checkpoint_rows.newest_id(reading(), thread, namespace)
    if newest not in {parent, name} and checkpoint_rows.number(reading(), thread, namespace, name) is None:
        raise ConflictError(
            f"thread {thread.thread_id!r} has gone on since checkpoint {parent}: its newest is {newest}; "
            "load it again and retry"
        )


_ERASED_AT = sa.select(_erased.at).where(_erased.name == sa.bindparam("name"))
