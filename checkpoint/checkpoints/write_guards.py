"""What a run may no longer write: anything to a thread that was erased meanwhile, or that has gone on without it.

A run of LangGraph is known by the `RunControl` that all its calls carry, and the thread that it began on by the key
of the thread's row, which is never given twice. A call that belongs to no run is late where it names a checkpoint
that is not there and the thread was erased within the last day.
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
from langgraph.runtime import get_runtime

from ..db import tables
from ..db.database import Database
from ..db.thread_row import Thread
from ..errors import ConflictError, ErasedThreadError
from . import checkpoint_rows

KEPT_S = 86_400.0
"""Seconds for which it is known that a thread was erased."""

_RUNS = 4_096
_RUNTIME, _TASK = "__pregel_runtime", "__pregel_task_id"  # LangGraph's names
_erased = tables.erased.c
_ANEW: ContextVar[bool] = ContextVar("compaction_anew", default=False)


class _Runs:
    """Which row each of the newest runs knows as its thread. Safe for use by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # the run itself is kept, or another one could get its id
        self._known: OrderedDict[tuple[int, str], tuple[object, int]] = OrderedDict()

    def set(self, run: object, thread_id: str, key: int | None, *, anew: bool = False) -> None:
        """Note the row of a run's thread; one that is known stays, unless the run begins `anew`."""
        place = id(run), thread_id
        with self._lock:
            if anew:
                self._known.pop(place, None)
            if key is not None:
                self._known.setdefault(place, (run, key))
            while len(self._known) > _RUNS:
                self._known.popitem(last=False)

    def get(self, run: object, thread_id: str) -> int | None:
        """Return the key of the row of a run's thread."""
        with self._lock:
            return self._known.get((id(run), thread_id), (None, None))[1]


_OF_DATABASES: WeakKeyDictionary[Database, _Runs] = WeakKeyDictionary()
"""Savers and records of one database know the same runs."""


class Erasures:
    """Refuses what belongs to a thread that was erased meanwhile."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._runs = _OF_DATABASES.setdefault(database, _Runs())
        self._now = now

    def begin(self, config: RunnableConfig, thread_id: str, key: int | None) -> None:
        """Note the row of the thread that a run begins on, if this is the call by which it loads its state."""
        run = run_of(config)
        if run is not None and _TASK not in config.get("configurable", {}):
            self._runs.set(run, thread_id, key, anew=True)

    def wrote(self, run: object | None, thread_id: str, key: int) -> None:
        """Note the row that a run has written to; it must be committed."""
        if run is not None:
            self._runs.set(run, thread_id, key)

    def check(
        self, conn: sa.Connection, thread: Thread, run: object | None, named: tuple[str, str] | None = None
    ) -> None:
        """Raise ErasedThreadError for a late write to the locked thread.

        `named` is the checkpoint (namespace, id) that it builds on. What a run names is not looked for: LangGraph
        stores the checkpoints of a run in the background, so they may follow.
        """
        if run is None:
            late = named is not None and not _ANEW.get() and self._is_gone(conn, thread, named)
        else:
            known = self._runs.get(run, thread.thread_id)
            late = known is not None and known != thread.id
        if late:
            raise ErasedThreadError(
                f"thread {thread.thread_id!r} was erased after this run began, so nothing of it is stored: start "
                "a new run (outside of runs: put the first checkpoint with a config that names no checkpoint_id)"
            )

    def _is_gone(self, conn: sa.Connection, thread: Thread, named: tuple[str, str]) -> bool:
        if checkpoint_rows.number(conn, thread, *named) is not None:
            return False
        at = conn.execute(sa.select(_erased.at).where(_erased.name == _name(thread.thread_id))).scalar_one_or_none()
        return at is not None and abs(self._now() - at) < KEPT_S


def run_of(config: RunnableConfig) -> object | None:
    """Return what tells the run apart to which a call of a checkpointer belongs, or None."""
    held: Mapping[str, Any] = config.get("configurable", {})
    return getattr(held.get(_RUNTIME), "control", None)


def current_run() -> object | None:
    """Return the run in whose node this is called, or None."""
    try:
        return getattr(get_runtime(), "control", None)
    except (RuntimeError, KeyError):  # not within a run
        return None


@contextmanager
def anew() -> Generator[None]:
    """Let what is written inside begin an erased thread anew, whatever it names."""
    before = _ANEW.set(True)
    try:
        yield
    finally:
        _ANEW.reset(before)


def note_erased(conn: sa.Connection, thread_id: str, now: float) -> None:
    """Note that a thread is erased, and forget those of which that was noted long ago."""
    name = _name(thread_id)
    conn.execute(sa.delete(tables.erased).where(_erased.at < now - KEPT_S))
    conn.execute(sa.delete(tables.erased).where(_erased.name == name))
    conn.execute(sa.insert(tables.erased).values(name=name, at=now))


def _name(thread_id: str) -> str:
    """Return what an erased thread is found by: its id itself may say whose it was."""
    return blake2b(thread_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def refuse_fork(
    conn: sa.Connection, thread: Thread, place: tuple[str, str], parent: str | None, source: object
) -> None:
    """Raise ConflictError where a run goes on from a checkpoint that is no longer the newest."""
    namespace, name = place
    head = checkpoint_rows.newest_id(conn, thread, namespace)
    if source not in {"input", "loop"} or head in {parent, name}:
        return
    if checkpoint_rows.number(conn, thread, namespace, name) is None:
        raise ConflictError(
            f"thread {thread.thread_id!r} has gone on since checkpoint {parent}: its newest is {head}; "
            "load it again and retry"
        )
