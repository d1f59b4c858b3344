"""Runs each compared saver in its own process, as in an application; the parent calls one at a time."""

import gc
import multiprocessing
import os
import signal
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar
from uuid import uuid4

from langgraph.checkpoint.memory import InMemorySaver
from savers import VACUUM_TURNS, Kind, Opened, Saver, Size, drop, opened
from workload import PER_TURN, agent, compaction, question, script

from langgraph_compaction.checkpoint.db.urls import sync_url

SEED_INPUTS = 4
LEAVES_S, STOPS_S = 1, 120
"""Seconds that a process is given to end by itself, and seconds after an interrupt until it is killed."""

FORK = multiprocessing.get_context("fork")
STOPPING = (signal.SIGINT, signal.SIGTERM)

P = ParamSpec("P")
R = TypeVar("R")


class Contender:
    """A saver in its own database, the agent on it, and the time of every `put` by thread and turn."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.graph = agent(opened.saver, delta=opened.kind.delta)
        self.puts: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._at: tuple[str, int] | None = None
        self._watch(opened.saver)

    def turn(self, thread: str, number: int) -> float:
        """Run a turn (counted from 0) and return its seconds."""
        self._at = (thread, number)
        start = time.perf_counter()
        self._invoke(thread, number)
        seconds = time.perf_counter() - start
        if (number + 1) % VACUUM_TURNS == 0:
            self.opened.vacuum()
        return seconds

    def at_once(self, name: str, conversations: int, turns: int) -> float:
        """Run new conversations, each on a thread of its own, and return the turns of all of them per second."""
        self._at = None

        def conversation(number: int) -> None:
            for turn in range(turns):
                self._invoke(f"{name}-{number}", turn)

        with ThreadPoolExecutor(conversations) as pool:
            start = time.perf_counter()
            list(pool.map(conversation, range(conversations)))
            seconds = time.perf_counter() - start
        self.opened.vacuum()
        return conversations * turns / seconds

    def seed(self, thread: str, turns: int) -> None:
        """Bring a thread to so many turns in few large inputs."""
        messages = script()[: turns * PER_TURN]
        step = -(-len(messages) // SEED_INPUTS)
        for start in range(0, len(messages), step):
            update = {"messages": list(messages[start : start + step])}
            self.graph.update_state(config(thread), update, as_node="model")

    def get_state(self, thread: str) -> float:
        """Return the seconds of one `get_state`."""
        start = time.perf_counter()
        state = self.graph.get_state(config(thread))
        seconds = time.perf_counter() - start
        assert state.values["messages"], "an empty thread is no measurement"
        return seconds

    def history(self, thread: str, limit: int | None = None) -> float:
        """Return the seconds of reading the history, or the newest of it, one state after the other."""
        start = time.perf_counter()
        read = sum(1 for _ in self.graph.get_state_history(config(thread), limit=limit))
        seconds = time.perf_counter() - start
        assert read, "an empty history is no measurement"
        return seconds

    def put_times(self, thread: str, turns: Iterable[int]) -> list[float]:
        """Return the seconds of the puts of these turns."""
        return [seconds for turn in turns for seconds in self.puts.get((thread, turn), ())]

    def size(self) -> Size:
        """Return the bytes of the database."""
        return self.opened.size()

    def added(self, thread: str, forks: int) -> tuple[int, int]:
        """Return the bytes that a rollback to one of the newest snapshots adds, and a compaction of it."""
        old = list(self.graph.get_state_history(config(thread), limit=20))[1:]
        states = [old[number % len(old)] for number in range(forks)]
        sizes = [self.size().used]
        for state in states:
            self.graph.update_state(state.config, None)
        sizes.append(self.size().used)
        for number, state in enumerate(states):
            update = compaction(state.values["messages"], number)
            self.graph.update_state(state.config, update, as_node="model")
        sizes.append(self.size().used)
        rollback, compacted = (round((b - a) / forks) for a, b in pairwise(sizes))
        return rollback, compacted

    def _invoke(self, thread: str, number: int) -> None:
        self.graph.invoke({"messages": [question(number)]}, config(thread), durability="sync")

    def _watch(self, saver: Saver) -> None:
        put = saver.put

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._at is None:
                return put(*args, **kwargs)
            start = time.perf_counter()
            result = put(*args, **kwargs)
            self.puts[self._at].append(time.perf_counter() - start)
            return result

        saver.put = timed  # of this object alone, to be timed


class SaverProcessError(RuntimeError):
    """A saver's process failed, or has gone."""


@dataclass(frozen=True)
class Remote:
    """A contender in a process of its own: each call waits for its answer."""

    kind: Kind
    process: BaseProcess
    pipe: Connection

    def turn(self, thread: str, number: int) -> float:
        """See `Contender`, as for all of these."""
        return self._ask(Contender.turn, thread, number)

    def at_once(self, name: str, conversations: int, turns: int) -> float:
        """Turns per second."""
        return self._ask(Contender.at_once, name, conversations, turns)

    def seed(self, thread: str, turns: int) -> None:
        """Bring a thread to so many turns."""
        self._ask(Contender.seed, thread, turns)

    def get_state(self, thread: str) -> float:
        """Seconds."""
        return self._ask(Contender.get_state, thread)

    def history(self, thread: str, limit: int | None = None) -> float:
        """Seconds."""
        return self._ask(Contender.history, thread, limit)

    def put_times(self, thread: str, turns: Iterable[int]) -> list[float]:
        """Seconds of each."""
        return self._ask(Contender.put_times, thread, list(turns))

    def size(self) -> Size:
        """Bytes of the database."""
        return self._ask(Contender.size)

    def added(self, thread: str, forks: int) -> tuple[int, int]:
        """Bytes of a rollback and of a compaction."""
        return self._ask(Contender.added, thread, forks)

    def _ask(self, method: Callable[Concatenate[Contender, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs, "arguments go by their places"
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer says why it has ended
            self.pipe.send((method.__name__, args))
        answer: R = self.answer(method.__name__)
        return answer

    def answer(self, command: str) -> Any:
        """Return what the process answers. SaverProcessError if that is an error, or if it is no longer there."""
        try:
            result, error = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(LEAVES_S)
            raise SaverProcessError(f"{self.kind.name}, {command}: {_end(self.process)}") from None
        if error:
            raise SaverProcessError(f"{self.kind.name}, {command}, in its process:\n{error}")
        return result


def config(thread: str) -> dict[str, Any]:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


def warm_up(servers: dict[str, str]) -> None:
    """Make the script, and import what a first turn and the drivers import, before a process is forked."""
    graph = agent(InMemorySaver())
    graph.invoke({"messages": [question(0)]}, config("warm"), durability="sync")
    list(graph.get_state_history(config("warm")))
    for url in servers.values():
        sync_url(url).get_dialect().import_dbapi()


@contextmanager
def running(kinds: Sequence[Kind], folder: Path, servers: dict[str, str]) -> Generator[list[Remote]]:
    """Each kind in a process and a new database of its own, which go with the block."""
    with ExitStack() as stack:
        remotes: list[Remote] = []
        for kind in kinds:
            remotes.append(stack.enter_context(_running(kind, folder, servers, [one.pipe for one in remotes])))
        yield remotes


@contextmanager
def _running(kind: Kind, folder: Path, servers: dict[str, str], others: list[Connection]) -> Generator[Remote]:
    name = f"bench_{uuid4().hex[:12]}"
    here, there = FORK.Pipe()
    opens = partial(opened, kind, name, folder, servers)
    process = FORK.Process(target=_serve, args=(opens, there, [here, *others]))
    process.start()
    there.close()
    remote = Remote(kind, process, here)
    try:
        remote.answer("opening")
        yield remote
    finally:
        here.close()
        _await_end(process)
        if process.exitcode:
            drop(kind, name, servers)
    if process.exitcode:
        raise SaverProcessError(f"{kind.name}, closing: {_end(process)}")


def _await_end(process: BaseProcess) -> None:
    """Wait until it has closed everything. It goes by itself between commands; in one it has to be interrupted."""
    process.join(LEAVES_S)
    deadline = time.monotonic() + STOPS_S
    while process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT if time.monotonic() < deadline else signal.SIGKILL)
        process.join(LEAVES_S)


def _end(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None:
        return "its process no longer answers"
    return f"its process was ended by {signal.Signals(-code).name}" if code < 0 else f"its process ended with {code}"


def _serve(
    opens: Callable[[], AbstractContextManager[Opened]], pipe: Connection, parents: Sequence[Connection]
) -> None:
    """Open the saver and answer commands until one fails or the parent has gone; then close it."""
    _on_stop(signal.SIG_IGN)
    for one in parents:
        one.close()
    gc.collect()
    gc.freeze()  # the script and the imports; what is made from here on is collected as anywhere
    with ExitStack() as stack:
        contender, error = _tried(lambda: Contender(stack.enter_context(opens())))
        with suppress(EOFError, OSError, KeyboardInterrupt):  # the parent has gone, or ends the run
            pipe.send((None, error))
            while not error:
                command, arguments = pipe.recv()
                _on_stop(_interrupt)
                answer, error = _tried(getattr(contender, command), *arguments)
                _on_stop(signal.SIG_IGN)
                pipe.send((answer, error))


def _tried(call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    try:
        return call(*arguments), ""
    except Exception:  # noqa: BLE001 - whatever it is, the parent raises it
        return None, traceback.format_exc()


def _on_stop(does: Any) -> None:
    """Ctrl-C and SIGTERM may interrupt a command; while a saver is opened or closed they are left to the parent."""
    for number in STOPPING:
        signal.signal(number, does)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _on_stop(signal.SIG_IGN)
    raise KeyboardInterrupt
