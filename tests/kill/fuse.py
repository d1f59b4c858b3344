"""Places where a run can be killed: around every node's body, inside every SQL write, around every checkpoint."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.db.transaction import READS, Transaction
from langgraph_compaction.nodes.inline.runner import NODES
from langgraph_compaction.nodes.runtime.node_context import Body, NodeContext

BRANCH, TASKS = "branch:to:", "__pregel_tasks"
WRITES = ("begin", "record_summary", "commit", "close", "note", "archive", "abandon_open", "settle_preparation")


class Fuse:
    """Counts the places that a run passes, and ends the process at one of them, as SIGKILL does.

    A place that is passed again is called `name#2`, `name#3` and so on. `watch` is called at every place.
    """

    def __init__(self, at: str | None = None, watch: Callable[[str], None] | None = None) -> None:
        self.at, self.watch = at, watch
        self.passed: Counter[str] = Counter()
        self.lock = threading.RLock()
        self.writing = threading.local()

    def __call__(self, place: str) -> None:
        """Pass a place."""
        with self.lock:
            self.passed[place] += 1
            count = self.passed[place]
            name = place if count == 1 else f"{place}#{count}"
            if self.watch:
                self.watch(name)
            if name == self.at:
                os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Patch nodes and records of this process permanently; only forked children call it."""
        for name, body in NODES.items():
            NODES[name] = self._body(name, body)
        for name in WRITES:
            setattr(CompactionRecords, name, self._write(name, getattr(CompactionRecords, name)))
        Database._opened = self._transaction(Database._opened)

    def _body(self, name: str, body: Body) -> Body:
        def fused(turn: NodeContext) -> Generator[Any, Any, dict[str, Any]]:
            self(f"{name}:enter")
            update = yield from body(turn)
            self(f"{name}:leave")
            return update

        fused.__name__ = name
        return fused

    def _write(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def fused(*args: Any, **kwargs: Any) -> Any:
            self(f"sql {name}:before")
            self.writing.name = name
            try:
                result = method(*args, **kwargs)
            finally:
                self.writing.name = None
            self(f"sql {name}:after")
            return result

        return fused

    def _transaction(self, opened: Callable[..., Any]) -> Any:
        @contextmanager
        def fused(
            database: Database, mode: str, *others: type[Exception], ready: bool = True
        ) -> Generator[Transaction]:
            with opened(database, mode, *others, ready=ready) as transaction:
                yield transaction
                if mode == READS:
                    return
                if name := getattr(self.writing, "name", None):  # not the lease of the run
                    self(f"sql {name}:inside")

        return fused


class FusedSaver(SqliteSaver):
    """LangGraph's saver with a place before and after each write."""

    def __init__(self, connection: Any, fuse: Fuse) -> None:
        super().__init__(connection)
        self.fuse = fuse

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Write a checkpoint; the place is named by the node that follows."""
        held = checkpoint["channel_values"]
        start = [channel for channel in held if channel != TASKS or held[TASKS]]
        place = "put input" if metadata["source"] == "input" else f"put to {leads_to(start)}"
        self.fuse(f"{place}:before")
        done = super().put(config, checkpoint, metadata, new_versions)
        self.fuse(f"{place}:after")
        return done

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Write the update of one node; the place is named by the node that follows."""
        place = f"writes to {leads_to(channel for channel, _ in writes)}"
        self.fuse(f"{place}:before")
        super().put_writes(config, writes, task_id, task_path)
        self.fuse(f"{place}:after")


def leads_to(channels: Iterable[str]) -> str:
    """The node that these channels start."""
    names = set(channels)
    if TASKS in names:
        return "tools"
    return next((name.removeprefix(BRANCH) for name in names if name.startswith(BRANCH)), "end")
