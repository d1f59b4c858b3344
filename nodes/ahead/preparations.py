"""The summaries that this process prepares in the background: one future for each thread of conversation.

Each is made on a daemon OS thread, which is not waited for when the process exits; a task would be cancelled with its
run, and an executor would be joined. The OS thread has a copy of the turn's `contextvars` context, with its tracing
and credentials, but without the configuration of the run, whose callbacks and streams end with the turn.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, Thread

from ..events import log
from ..gate.invariants import Finding
from ..runtime.summarizer_call import context_without_run
from ..selection.selector import Choice

MOST_AT_ONCE = 16
"""Maximum number of preparations that a process works on for one database."""
REMEMBERED = 1_024
"""Number of threads of conversation whose last preparation is remembered."""
Place = tuple[Hashable, str, str]
"""`Database.identity`, a thread's id, and the namespace of the graph in it."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A choice whose summary is recorded, or the failure of the summarizer."""

    compaction_id: str
    """The id of its row in the ledger."""
    base_fingerprint: str
    level: int
    levels: str
    """Names of the levels of the fallback chain in which `level` is an index."""
    summary_name: str
    choice: Choice
    covered: int
    """Number of messages from the first one to the last that the choice names."""
    fingerprint: str
    """Fingerprint of these messages."""
    seconds: float
    failure: Finding | None


@dataclass
class Preparation:
    """The newest preparation of a thread of conversation."""

    epoch: int
    """Number of the thread's commits when it began."""
    unused: int
    """How many in a row were not used; it counts itself until a compaction uses it."""
    result: Future[Prepared | None] = field(default_factory=Future[Prepared | None])
    is_over: bool = False
    """Whether a compaction has used its result, or found that it cannot."""

    @property
    def found(self) -> Prepared | None:
        """What it has prepared; `None` while it is under way, and if there was nothing to prepare."""
        return self.result.result() if self.result.done() else None


class Preparations:
    """The newest preparations of a process, by thread of conversation."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all preparations."""
        self._lock = Lock()
        self._newest: OrderedDict[Place, Preparation] = OrderedDict()

    def find(self, place: Place) -> Preparation | None:
        """Return the preparation that the next compaction of a thread may use."""
        with self._lock:
            newest = self._newest.get(place)
        return None if newest is None or newest.is_over else newest

    def may_start(self, place: Place, epoch: int) -> bool:
        """Whether a preparation may start after `epoch` commits.

        After one that was used it may start at the next commit, after n in a row that were not, 2**n commits later:
        few summaries are paid for in vain, also where other processes compact the thread.
        """
        with self._lock:
            last = self._newest.get(place)
            if last is not None and (not last.result.done() or epoch < last.epoch + 2**last.unused):
                return False
            at_work = [one for one, newest in self._newest.items() if not newest.result.done()]
            return sum(one[0] == place[0] for one in at_work) < MOST_AT_ONCE

    def start(self, place: Place, epoch: int, work: Callable[[], Prepared | None]) -> None:
        """Start a daemon thread that does the work, which returns `None` if nothing may be prepared yet."""
        with self._lock:
            last = self._newest.pop(place, None)
            new = Preparation(epoch, unused=1 if last is None else last.unused + 1)
            self._newest[place] = new
            if len(self._newest) > REMEMBERED:
                self._newest.popitem(last=False)

        def target() -> None:
            found: Prepared | None = None
            try:
                found = work()
                if found is None:
                    self._take_back(place, last)
            except Exception:  # noqa: BLE001 - the conversation goes on without a preparation
                log.exception("A summary could not be prepared for thread %r", place[1])
            finally:
                new.result.set_result(found)

        Thread(target=context_without_run().run, args=(target,), daemon=True, name="compaction-ahead").start()

    def _take_back(self, place: Place, last: Preparation | None) -> None:
        """Let the preparation before the newest one, which has cost nothing, be the newest again."""
        with self._lock:
            self._newest.pop(place, None)
            if last is not None:
                self._newest[place] = last


PREPARATIONS = Preparations()
"""The preparations of this process: all graphs and `Database` objects that open one database share them."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PREPARATIONS.forget)  # the child has none of the OS threads
