"""Runs of one thread take turns: by default no acknowledged input is lost, and who waits too long is told so."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint
from langgraph.types import Command, interrupt

from langgraph_compaction import one_run_at_a_time
from langgraph_compaction.checkpoint import CheckpointError, DatabaseError, SQLAlchemySaver
from langgraph_compaction.checkpoint.db.run_leases import LEASE_S, MemoryRunLeases, RunLease
from langgraph_compaction.graph import CompactionSettings, CompactionThread, ThreadBusyError, create_compacting_agent
from langgraph_compaction.graph import exclusive_runs as module
from langgraph_compaction.graph.exclusive_runs import turn
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.errors import SettingsError, TurnLostError
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, THREAD, Drive, said

WINDOW = CompactionSettings(context_window=128_000)
NO_WAIT: RunnableConfig = {"configurable": {"thread_id": THREAD, "turn_wait_s": 0.0}}


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set when a run begins to wait for another run."""
    event, slept = threading.Event(), module.slept

    def told(seconds: float) -> Any:
        event.set()
        return slept(seconds)

    monkeypatch.setattr(module, "slept", told)
    return event


def ours(model: Any, **options: Any) -> Any:
    """An agent of this package."""
    return create_compacting_agent(model, settings=WINDOW, **{"checkpointer": InMemorySaver(), **options})


def langchains(model: Any, **options: Any) -> Any:
    """LangChain's agent with the middleware, as one whose runs take turns."""
    middleware = CompactionMiddleware(settings=WINDOW, database=options.pop("database", None))
    saver = options.pop("checkpointer", InMemorySaver())
    return one_run_at_a_time(create_agent(model, middleware=[middleware], checkpointer=saver, **options))


def inputs(graph: Any) -> list[str]:
    """The user's messages of the thread."""
    return [message.text for message in graph.get_state(CONFIG).values["messages"] if message.type == "human"]


def beside(call: Callable[[], object], until: Callable[[], object]) -> threading.Thread:
    """Start a call on an OS thread of its own, which has no context of the run, and wait for something."""
    thread = threading.Thread(target=call)
    thread.start()
    until()
    return thread


@pytest.mark.parametrize("build", [ours, langchains])
async def test_a_second_run_waits_for_the_first(build: Any, go: Drive, waiting: threading.Event) -> None:
    """The second input comes while the model answers the first one: both stand in the conversation, in order."""
    others: list[threading.Thread] = []

    def second() -> None:
        asyncio.run(go.invoke(graph, said("second")))

    def reply(messages: list[Any]) -> AIMessage:
        if messages[-1].text == "first":
            others.append(beside(second, lambda: waiting.wait(20)))
        return AIMessage(f"re: {messages[-1].text}")

    graph = build(ScriptedModel(replies=[reply]))
    await go.invoke(graph, said("first"))
    await asyncio.to_thread(others[0].join)
    assert [message.text for message in graph.get_state(CONFIG).values["messages"]] == [
        "first",
        "re: first",
        "second",
        "re: second",
    ]


def test_only_an_agent_with_the_middleware_is_made_to_take_turns() -> None:
    """A graph without the middleware has no setting for the time that a run waits."""
    with pytest.raises(TypeError, match="has no CompactionMiddleware"):
        one_run_at_a_time(create_agent(ScriptedModel(), checkpointer=InMemorySaver()))
    with pytest.raises(TypeError, match="has no CompactionMiddleware"):
        CompactionThread(entrypoint(InMemorySaver())(len), CONFIG).history()


@pytest.mark.parametrize("takes_turns", [False, True])
async def test_an_agent_whose_runs_take_no_turns_warns_of_a_second_run(
    go: Drive, takes_turns: bool, caplog: pytest.LogCaptureFixture, waiting: threading.Event
) -> None:
    """Once, where the second run calls its model while the first one does; another thread is nobody's business."""
    others: list[threading.Thread] = []

    def runs(config: Any, text: str) -> Callable[[], None]:
        return lambda: asyncio.run(go.invoke(graph, said(text), config))

    def reply(messages: list[Any]) -> AIMessage:
        if messages[-1].text == "first":
            beside(runs({"configurable": {"thread_id": "other"}}, "elsewhere"), lambda: None).join()
            others.extend(beside(runs(CONFIG, "second"), lambda: None) for _ in range(2))
            _ = waiting.wait(20) if takes_turns else [other.join() for other in others]
        return AIMessage("ok")

    middleware = CompactionMiddleware(settings=WINDOW)
    agent = create_agent(ScriptedModel(replies=[reply]), middleware=[middleware], checkpointer=InMemorySaver())
    graph = one_run_at_a_time(agent) if takes_turns else agent
    await go.invoke(graph, said("first"))
    await asyncio.to_thread(lambda: [other.join() for other in others])
    warned = [message for message in caplog.messages if "one_run_at_a_time(create_agent(...))" in message]
    assert len(warned) == (not takes_turns)


def changes(graph: Any) -> dict[str, Callable[[], object]]:
    """Every call that changes a thread, as one that does not wait."""
    thread = CompactionThread(graph, CONFIG)
    return {
        "invoke": lambda: graph.invoke(said("second"), NO_WAIT),
        "stream_events": lambda: graph.stream_events(said("second"), NO_WAIT, version="v3").output,
        "ainvoke": lambda: asyncio.run(graph.ainvoke(said("second"), NO_WAIT)),
        "update_state": lambda: graph.update_state(CONFIG, {"messages": [HumanMessage("second")]}, as_node="model"),
        "aupdate_state": lambda: asyncio.run(graph.aupdate_state(CONFIG, said("second"), as_node="model")),
        "pin": lambda: thread.pin(text="second"),
        "apin": lambda: asyncio.run(thread.apin(text="second")),
        "compact": thread.compact,
        "release": thread.release,
        "undo": thread.undo,
    }


@pytest.mark.parametrize("name", changes(None))
def test_who_may_not_wait_is_told_and_nothing_is_stored(name: str) -> None:
    """A run, an update and an edit of a busy thread raise `ThreadBusyError` once their time is over."""
    errors: list[BaseException] = []

    def attempt() -> None:
        try:
            changes(graph)[name]()
        except ThreadBusyError as error:
            errors.append(error)

    def reply(_: list[Any]) -> AIMessage:
        beside(attempt, lambda: None).join()
        return AIMessage("ok")

    graph = create_compacting_agent(
        ScriptedModel(replies=[reply]),
        settings=WINDOW,
        checkpointer=InMemorySaver(),
    ).with_config(configurable={"turn_wait_s": 0.0})
    graph.invoke(said("first"), CONFIG)
    assert [type(error) for error in errors] == [ThreadBusyError]
    assert "turn_wait_s" in str(errors[0])
    assert inputs(graph) == ["first"]
    assert len(list(graph.get_state_history(CONFIG))) == 4  # the input, and one after each node


@pytest.mark.parametrize(
    ("given", "waits"), [({"turn_wait_s": 0.01}, "0.01"), ({"turn_wait_s": 0}, "0"), ({}, "0.02")]
)
def test_a_runs_config_says_how_long_it_waits(given: dict[str, float], waits: str) -> None:
    """It stands over what the agent's config says; what is no number is an error."""
    agent = create_compacting_agent(ScriptedModel(), settings=WINDOW, checkpointer=InMemorySaver())
    graph = agent.with_config(configurable={"turn_wait_s": 0.02})
    with turn(graph, CONFIG), pytest.raises(ThreadBusyError, match=f"for the {waits} s that"):
        graph.invoke(said("second"), {"configurable": {"thread_id": THREAD, **given}})
    with pytest.raises(SettingsError, match="turn_wait_s='soon' of the config is no number"):
        graph.invoke(said("second"), {"configurable": {"thread_id": THREAD, "turn_wait_s": "soon"}})


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "update_state", "pin"])
async def test_a_tool_may_use_its_own_thread(how: str) -> None:
    """The lease of a run is also that of the tools that it calls, so that they do not wait for themselves."""

    @tool
    async def again() -> str:
        """Use the agent on the thread that calls this tool."""
        calls: dict[str, Callable[[], Any]] = {
            "invoke": lambda: graph.invoke(said("inner"), CONFIG),
            "update_state": lambda: graph.update_state(CONFIG, said("inner"), as_node="model"),
            "pin": lambda: CompactionThread(graph, {"configurable": {"thread_id": "other"}}).pin(text="inner"),
        }
        await (graph.ainvoke(said("inner"), CONFIG) if how == "ainvoke" else asyncio.to_thread(calls[how]))
        return "done"

    call = AIMessage("", tool_calls=[{"name": "again", "args": {}, "id": "1"}])
    graph = create_compacting_agent(
        ScriptedModel(replies=[call, "ok"]),
        [again],
        settings=WINDOW,
        checkpointer=InMemorySaver(),
    ).with_config(configurable={"turn_wait_s": 0.0})
    await graph.ainvoke(said("outer"), CONFIG)
    assert "done" in [message.text for message in (await graph.aget_state(CONFIG)).values["messages"]]


def is_free(graph: Any) -> bool:
    """Whether a run on the thread need not wait."""
    try:
        graph.invoke(said("next"), NO_WAIT)
    except ThreadBusyError:
        return False
    return True


def test_a_run_that_stops_early_gives_its_thread_back() -> None:
    """An interrupt, a failure, and an iterator that is left or closed end a turn; a paused iterator does not."""

    @tool
    def ask() -> str:
        """Ask a person."""
        return str(interrupt("?"))

    call = AIMessage("", tool_calls=[{"name": "ask", "args": {}, "id": "1"}])
    graph = ours(ScriptedModel(replies=[call, "thank you", OSError("down"), "ok"]), tools=[ask])
    assert "__interrupt__" in graph.invoke(said("ask"), CONFIG)
    graph.invoke(Command(resume="yes"), NO_WAIT)
    with pytest.raises(OSError, match="down"):
        graph.invoke(said("fail"), NO_WAIT)
    for _ in graph.stream(said("left"), NO_WAIT):
        break
    assert is_free(graph)
    paused = graph.stream(said("paused"), CONFIG)
    next(paused)
    assert not is_free(graph)
    paused.close()
    assert is_free(graph)


async def test_a_run_that_is_cancelled_gives_its_thread_back(tmp_path: Path) -> None:
    """Cancelled while it runs, while it waits, and an asynchronous iterator that is left."""
    begun, model = asyncio.Event(), SlowModel()
    graph = ours(model, database=f"sqlite:///{tmp_path}/records.db")
    model.begun = begun.set
    first = asyncio.create_task(graph.ainvoke(said("first"), CONFIG))
    await begun.wait()
    second = asyncio.create_task(graph.ainvoke(said("second"), CONFIG))
    await asyncio.sleep(0.05)
    for task in (second, first):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    model.delay = 0.0
    async for _ in graph.astream(said("left"), NO_WAIT):
        break
    await asyncio.sleep(0)  # the event loop closes the iterator
    await graph.ainvoke(said("next"), CONFIG)
    assert "second" not in inputs(graph)


class SlowModel(ScriptedModel):
    """A model that takes its time, and tells when it begins."""

    delay: float = 60.0
    begun: Any = None

    async def _agenerate(self, *given: Any, **options: Any) -> Any:
        if self.begun is not None:
            self.begun()
        await asyncio.sleep(self.delay)
        return self._generate(*given, **options)


class Losing(MemoryRunLeases):
    """Leases of which a run finds at its end that another one has taken its place, or that they cannot be reached."""

    def __init__(self, lost: bool | CheckpointError) -> None:
        super().__init__()
        self.lost = lost

    def release(self, lease: RunLease) -> Any:
        """Give the lease back; return whether it was still held."""
        super().release(lease)
        if isinstance(self.lost, CheckpointError):
            raise self.lost
        return not self.lost


UNREACHABLE = DatabaseError("cannot be reached")


@pytest.mark.parametrize("build", [ours, langchains])
@pytest.mark.parametrize(
    "case",
    [
        (True, 0.0, True),
        (False, 99.0, False),
        (UNREACHABLE, 0.0, False),
        (UNREACHABLE, LEASE_S, True),
        (UNREACHABLE, 99.0, True),
    ],
)
async def test_a_run_that_has_lost_its_lease_is_not_acknowledged(
    build: Any, go: Drive, case: tuple[Any, float, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may have worked meanwhile. Without the database, only the time tells whether the lease held."""
    (lost, seconds, raises), passed = case, [0.0]

    def reply(_: list[Any]) -> AIMessage:
        passed[0] = seconds
        return AIMessage("answered")

    leases, start = Losing(lost), time.time()
    monkeypatch.setattr(module, "memory_leases", lambda _: leases)
    monkeypatch.setattr(module, "_wall_clock", lambda: start + passed[0])
    graph = build(ScriptedModel(replies=[reply]))
    for _ in range(2):
        if raises:
            with pytest.raises(TurnLostError, match=r"lease of thread 'thread'.*send again what is missing"):
                await go.invoke(graph, said("first"), durability="sync")
        else:
            await go.invoke(graph, said("first"), durability="sync")
        passed[0] = 0.0


def test_a_change_that_has_lost_its_lease_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run is not."""
    graph = ours(ScriptedModel())
    monkeypatch.setattr(module, "memory_leases", lambda _: Losing(lost=True))
    with pytest.raises(TurnLostError):
        graph.update_state(CONFIG, said("first"), as_node="model")


@pytest.fixture
def savers(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Yield the arguments of an agent whose lease is in a file."""
    with (
        SqliteSaver.from_conn_string(f"{tmp_path}/official.db") as official,
        SQLAlchemySaver.from_url(f"sqlite:///{tmp_path}/own.db") as own,
        SQLAlchemySaver.from_url("memory") as memory,
    ):
        own.setup()
        memory.setup()
        yield {
            "official": {"checkpointer": official, "database": f"sqlite:///{tmp_path}/records.db"},
            "own": {"checkpointer": own},
            "memory": {"checkpointer": memory},
            "langgraph's in memory": {"checkpointer": InMemorySaver()},
        }


@pytest.mark.parametrize("name", ["official", "own", "memory", "langgraph's in memory"])
def test_the_lease_is_where_the_records_are(name: str, savers: dict[str, Any]) -> None:
    """Two agents, as in two processes or built for two requests, that have only the checkpointer in common."""
    graph, other = (ours(ScriptedModel(), **savers[name]) for _ in range(2))
    stream = graph.stream(said("first"), CONFIG)
    next(stream)
    assert not is_free(other)
    stream.close()
    assert is_free(other)
    assert inputs(other) == ["first", "next"]
