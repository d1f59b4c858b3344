"""The summaries that this process prepares in the background, each on a daemon OS thread.

A daemon thread is not waited for when the process exits; a task would be cancelled with its run, and an executor
would be joined. The thread has a copy of the turn's `contextvars` context, with its tracing and credentials, but
without the configuration of the run, whose callbacks and streams end with the turn.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TypeVar
from weakref import WeakKeyDictionary

from langgraph_compaction.checkpoint import Database

from ..events import log
from ..runtime.summarizer_call import context_without_run

MOST_AT_ONCE = 16
"""Maximum number of preparations that a process works on for one database."""
REMEMBERED = 1_024
"""Number of threads of conversation whose pace and last preparation are remembered."""
USUAL_S = 20.0
"""Seconds that a preparation takes, as long as none has ended."""

T = TypeVar("T")
_WORKED_ON: set[str] = set()
"""Ids of the preparations that this process works on, whatever objects they use. Setting and reading is atomic."""
Place = tuple[str, str]
"""A thread's id, and the namespace of the graph in it."""


class Preparations:
    """The preparations of one database in this process, and what the process knows about its threads' pace."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._working: dict[Place, Thread] = {}
        self._begun: OrderedDict[Place, int] = OrderedDict()
        self._answered: OrderedDict[Place, float] = OrderedDict()
        self._in_vain: OrderedDict[Place, bool] = OrderedDict()
        self.usual_s = USUAL_S
        """Seconds that the last preparation took."""

    def pace(self, place: Place) -> float | None:
        """Return the seconds since this method was last called for a thread; `None` at the first call."""
        now = time.monotonic()
        with self._lock:
            before = self._answered.get(place)
            _remember(self._answered, place, now)
        return None if before is None else max(now - before, 0.01)

    def may_start(self, place: Place, epoch: int) -> bool:
        """Whether a preparation may start: none works, and none has begun since the commit number `epoch`."""
        with self._lock:
            self._working = {one: worker for one, worker in self._working.items() if worker.is_alive()}
            free = place not in self._working and len(self._working) < MOST_AT_ONCE
            return free and self._begun.get(place) != epoch

    def is_promising(self, place: Place) -> bool:
        """Whether the last preparation of a thread found messages to summarize, or there was none yet."""
        with self._lock:
            return not self._in_vain.get(place, False)

    def start(self, place: Place, work: Callable[[], bool], epoch: int) -> None:
        """Start a daemon thread that does the work; `work` returns whether a preparation has begun, or must not."""

        def target() -> None:
            began = time.monotonic()
            try:
                begun = work()
            except Exception:  # noqa: BLE001 - the conversation goes on without a preparation
                log.exception("A summary could not be prepared for thread %r", place[0])
                begun = True
            with self._lock:
                _remember(self._in_vain, place, not begun)
                if begun:
                    _remember(self._begun, place, epoch)
                self.usual_s = max(time.monotonic() - began, 1.0) if begun else self.usual_s
                self._working.pop(place, None)

        worker = Thread(target=context_without_run().run, args=(target,), daemon=True, name="compaction-ahead")
        with self._lock:
            self._working[place] = worker
        worker.start()


def _remember(known: OrderedDict[Place, T], place: Place, value: T) -> None:
    known.pop(place, None)
    known[place] = value
    if len(known) > REMEMBERED:
        known.popitem(last=False)


_OF_DATABASE: WeakKeyDictionary[Database, Preparations] = WeakKeyDictionary()
_LOCK = Lock()


def preparations_of(database: Database) -> Preparations:
    """Return the preparations that all graphs of this process share for one database."""
    with _LOCK:
        return _OF_DATABASE.setdefault(database, Preparations())


@contextmanager
def working_on(compaction_id: str) -> Generator[None]:
    """Within the `with` block, tell the turns of this process that a preparation is under way."""
    _WORKED_ON.add(compaction_id)
    try:
        yield
    finally:
        _WORKED_ON.discard(compaction_id)


def is_working_on(compaction_id: str) -> bool:
    """Whether an OS thread of this process works on a preparation."""
    return compaction_id in _WORKED_ON
