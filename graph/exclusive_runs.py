"""A compiled graph whose runs on one thread take turns.

LangGraph reads the newest checkpoint and writes a run's input before it runs a node, and writes the last checkpoint
after the last node, so no node can keep two runs apart. `ExclusiveGraph` therefore holds a lease around `stream` and
`astream`, through which every way to run a graph passes, and around `update_state`.

It also reports a config that names no thread, for which LangGraph's errors do not say what to write.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import CONFIG_KEYS, var_child_runnable_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from langgraph_compaction.checkpoint import CheckpointError
from langgraph_compaction.checkpoint.db.run_leases import LEASE_S, RunLease, RunLeases, StoredRunLeases, memory_leases
from langgraph_compaction.checkpoint.telemetry import record
from langgraph_compaction.nodes import CompactionError, RequestError, SettingsError, ThreadBusyError
from langgraph_compaction.nodes.compaction_request import REQUEST
from langgraph_compaction.nodes.errors import TurnLostError
from langgraph_compaction.nodes.events import log
from langgraph_compaction.nodes.runtime.effects import Effects, arun, querying, run, slept

from .build_dependencies import dependencies_of
from .open_work import check_no_work, waiting_nodes

AnyGraph = CompiledStateGraph[Any, Any, Any, Any]
T = TypeVar("T")

HELD = "__compaction_run_leases"
"""Key of `configurable` under which a config carries the leases that its run holds. LangGraph gives a run's config to
its nodes and tools, and stores no key that begins with two underscores."""

WAIT = "turn_wait_s"
"""Key of `configurable` with the seconds that a run waits for another run on its thread; with `None`, it takes no
lease."""
WAIT_S = 60.0
"""Seconds that a run waits if its config does not say it."""

_EXAMPLE = '{"configurable": {"thread_id": "1"}}, with an id of your choice for the conversation'
_TASK = "__pregel_task_id"  # LangGraph's name of the key that the config of a task has
_FIRST_PAUSE_S = 0.005
_wall_clock = time.time


class ExclusiveGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that lets one run at a time work on a thread; other runs wait.

    The lease is in the database of the compaction records or, if they are in memory, in the memory of the process. A
    run without a checkpointer, and a run as a node of a parent graph, take none.

    With a checkpointer, each method raises `SettingsError` for a config that names no thread.
    """

    @classmethod
    def of(cls, compiled: CompiledStateGraph[Any, Any, Any, Any]) -> Self:
        """Return the compiled graph as one whose runs take turns."""
        return cls(**{name: value for name, value in compiled.__dict__.items() if name != "__orig_class__"})

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:  # noqa: A002 - LangGraph's name
        """Stream a run as LangGraph does, after the other runs on the thread."""
        with turn(self, config) as held:
            if _spares(self, input, held):
                _check_request(self.get_state(held, subgraphs=True))
            yield from super().stream(input, held, **options)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002 - LangGraph's name
        """Stream a run as LangGraph does, after the other runs on the thread."""
        async with aturn(self, config) as held:
            if _spares(self, input, held):
                _check_request(await self.aget_state(held, subgraphs=True))
            async with aclosing(cast("AsyncGenerator[Any]", super().astream(input, held, **options))) as chunks:
                async for chunk in chunks:
                    yield chunk

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread, as LangGraph does."""
        check_thread(self, config)
        return super().get_state(config, subgraphs=subgraphs)

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread, as LangGraph does."""
        check_thread(self, config)
        return await super().aget_state(config, subgraphs=subgraphs)

    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        """Return the states of a thread, as LangGraph does."""
        check_thread(self, config)
        return super().get_state_history(config, **options)

    def aget_state_history(self, config: RunnableConfig, **options: Any) -> AsyncIterator[StateSnapshot]:
        """Return the states of a thread, as LangGraph does."""
        check_thread(self, config)
        return super().aget_state_history(config, **options)

    def bulk_update_state(self, config: RunnableConfig, supersteps: Any) -> RunnableConfig:
        """Update the state as LangGraph does, after the runs on the thread."""
        with turn(self, config) as held:
            return super().bulk_update_state(held, supersteps)

    async def abulk_update_state(self, config: RunnableConfig, supersteps: Any) -> RunnableConfig:
        """Update the state as LangGraph does, after the runs on the thread."""
        async with aturn(self, config) as held:
            return await super().abulk_update_state(held, supersteps)


def _spares(graph: AnyGraph, given: Any, config: RunnableConfig) -> bool:
    """Whether an input has a request that may not abandon what the thread waits for, and the run has a thread."""
    request = given.get(REQUEST) if isinstance(given, Mapping) else None
    if not isinstance(request, Mapping) or request.get("abandon"):
        return False
    run = _merged(graph, config)
    return _saver(graph, run) is not None and _TASK not in run and not run.get("checkpoint_id")


def _check_request(state: StateSnapshot) -> None:
    """Raise `RequestError` before anything is written, if something of the thread waits."""
    try:
        check_no_work(waiting_nodes(state))
    except CompactionError as error:
        raise RequestError(f'{error}. To abandon it, give {REQUEST} with "abandon": true') from None


def one_run_at_a_time(graph: AnyGraph) -> ExclusiveGraph:
    """Return a graph with compactions as one whose runs on a thread take turns.

    `graph` is an agent of `create_agent` with `CompactionMiddleware`, or a graph with a node that compacts; those of
    `create_compacting_agent` and `create_compaction_graph` take turns already. Raises `TypeError` for another graph.
    """
    dependencies_of(graph)
    return ExclusiveGraph.of(graph)


@contextmanager
def turn(graph: AnyGraph, config: RunnableConfig | None) -> Generator[RunnableConfig]:
    """Hold the lease of the thread that a config names; yield the config for the calls that hold the lease.

    Raises `ThreadBusyError` if another run does not end in time, and `TurnLostError` after a run that ended well and
    did not hold the lease any more. A graph whose runs do not take turns takes no lease.
    """
    wanted = _lease_for(graph, config)
    if wanted is None:
        yield config or {}
        return
    try:
        run(_taken(wanted))
        yield _holding(config, wanted.lease)
    except BaseException:
        run(_released(wanted))
        raise
    run(_ended(wanted))


@asynccontextmanager
async def aturn(graph: AnyGraph, config: RunnableConfig | None) -> AsyncGenerator[RunnableConfig]:
    """`turn`, asynchronously."""
    wanted = _lease_for(graph, config)
    if wanted is None:
        yield config or {}
        return
    try:
        await arun(_taken(wanted))
        yield _holding(config, wanted.lease)
    except BaseException:  # a second cancellation does not keep the lease from being given back
        await asyncio.shield(arun(_released(wanted)))
        raise
    await asyncio.shield(arun(_ended(wanted)))


@contextmanager
def stored_turn(leases: RunLeases, thread: str, wait_s: float, setting: str) -> Generator[None]:
    """Hold the lease of a thread for a change without its graph; raise the errors that `turn` raises.

    `setting` is the name of what decides how long the change may wait.
    """
    wanted = _Wanted(RunLease(thread), leases, wait_s, setting)
    try:
        run(_taken(wanted))
        yield
    except BaseException:
        run(_released(wanted))
        raise
    run(_ended(wanted))


@dataclass
class _Wanted:
    lease: RunLease
    leases: RunLeases
    wait_s: float
    setting: str = WAIT
    until: float = 0.0
    """Until when the lease is held without a heartbeat, in seconds of the wall clock."""


def _lease_for(graph: AnyGraph, config: RunnableConfig | None) -> _Wanted | None:
    """Return the lease that a call must take; None if it needs none, or if the calling code already holds it."""
    if not isinstance(graph, ExclusiveGraph):
        return None
    given = _merged(graph, config)
    saver = _saver(graph, given)
    if saver is None or _TASK in given:
        return None
    if given.get("thread_id") is None and configurable_of(var_child_runnable_config.get()).get("thread_id"):
        return None  # LangGraph takes the config of the run whose node or tool makes this call
    thread = thread_of(given)
    if any(lease.thread_id == thread and not lease.ended for lease in _held_by(given)):
        return None
    wait_s = given.get(WAIT, WAIT_S)
    if wait_s is None:
        return None
    if not isinstance(wait_s, int | float):
        raise SettingsError(f"{WAIT}={wait_s!r} of the config is no number of seconds")
    records = dependencies_of(graph).records
    stored = records.database.durable
    leases = records.run_leases if stored else memory_leases(getattr(saver, "database", saver))
    return _Wanted(RunLease(thread), leases, wait_s)


def configurable_of(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a config's "configurable" part, to which LangGraph adds the keys beside it that it does not know.

    Raise `SettingsError` for a config of another form.
    """
    given: Any = config or {}
    own = given.get("configurable") or {} if isinstance(given, Mapping) else None
    if own is None or not isinstance(own, Mapping):
        named, wrong = ("the config", given) if own is None else ('the "configurable" of the config', own)
        raise SettingsError(f"{named} is a {type(wrong).__name__}: give {_EXAMPLE}")
    beside = {key: value for key, value in given.items() if key not in CONFIG_KEYS and value is not None}
    return {**own, **beside}


def thread_of(config: Mapping[str, Any] | None) -> str:
    """Return the id of the thread that a config names; raise `SettingsError` if it names none."""
    if (thread := configurable_of(config).get("thread_id")) is None:
        raise SettingsError(f"the config names no thread: give {_EXAMPLE}")
    return str(thread)


def check_thread(graph: AnyGraph, config: RunnableConfig) -> None:
    """Raise `SettingsError` if a graph with a checkpointer is asked for a state, and no config names its thread."""
    given = _merged(graph, config)
    if _saver(graph, given) is not None:
        thread_of(given)


def _merged(graph: AnyGraph, config: RunnableConfig | None) -> dict[str, Any]:
    return configurable_of(graph.config) | configurable_of(config)


def _saver(graph: AnyGraph, given: Mapping[str, Any]) -> Any:
    """Return the checkpointer of a call, or `None` without one or if it is that of a parent graph."""
    saver = given.get(CONFIG_KEY_CHECKPOINTER) or graph.checkpointer
    return None if isinstance(saver, bool) else saver


def _held_by(given: Mapping[str, Any]) -> tuple[RunLease, ...]:
    """Return the leases of the run whose node or tool makes this call."""
    around = (var_child_runnable_config.get() or {}).get("configurable", {})
    return (*given.get(HELD, ()), *around.get(HELD, ()))


def _holding(config: RunnableConfig | None, lease: RunLease) -> RunnableConfig:
    given = (config or {}).get("configurable", {})
    return {**(config or {}), "configurable": {**given, HELD: (*_held_by(given), lease)}}


def _taken(wanted: _Wanted) -> Effects[None]:
    """Take the lease, or wait until it is free; record the wait, however it ends.

    Raises `ThreadBusyError` when the time is over.
    """
    started, pause, taken = time.monotonic(), _FIRST_PAUSE_S, False
    wanted.until = _wall_clock() + LEASE_S
    try:
        while not (taken := (yield from _called(wanted, wanted.leases.take))):
            left = wanted.wait_s - (time.monotonic() - started)
            if left <= 0:
                raise ThreadBusyError(
                    f"another run has been working on thread {wanted.lease.thread_id!r} for the {wanted.wait_s:g} s "
                    f"that this run may wait for it ({wanted.setting}). Nothing of this run was stored: start it "
                    "again when the other one is over. A stream that is neither read to its end nor closed keeps its "
                    "thread"
                )
            yield from slept(min(left, pause * random.uniform(0.5, 1.5)))  # noqa: S311 - not a secret
            pause = min(pause * 1.5, wanted.leases.longest_pause_s)
            wanted.until = _wall_clock() + LEASE_S
    finally:
        record("run.wait", time.monotonic() - started, {"taken": taken})


def _ended(wanted: _Wanted) -> Effects[None]:
    """Give the lease back after a run that ended well; raise `TurnLostError` if it may not have been held until now.

    If the database cannot be reached, the lease was held as long as it lasts without a heartbeat.
    """
    if (yield from _released(wanted)):
        return
    raise TurnLostError(
        f"this run did not hold the lease of thread {wanted.lease.thread_id!r} until its end: its process was "
        f"suspended, or it could not reach the database of the lease, for longer than {LEASE_S:g} s. Another run may "
        "have worked on the thread meanwhile, so the input of either run may be missing. Read the thread "
        "(CompactionThread.transcript) and send again what is missing"
    )


def _released(wanted: _Wanted) -> Effects[bool]:
    """Give the lease back; return whether it was held until now, as far as that can be told."""
    give_back = cast("Callable[[RunLease], bool | None]", wanted.leases.release)
    try:
        held = yield from _called(wanted, give_back)
    except CheckpointError as error:
        log.warning(
            "The lease of thread %r could not be given back; it is tried again, and ends by itself in %g s: %s",
            wanted.lease.thread_id,
            LEASE_S,
            error,
        )
        return _wall_clock() < max(wanted.until, wanted.lease.until)
    return held is not False


def _called(wanted: _Wanted, call: Callable[[RunLease], T]) -> Effects[T]:
    if isinstance(wanted.leases, StoredRunLeases):
        return (yield from querying(wanted.leases, lambda: call(wanted.lease)))
    return call(wanted.lease)
