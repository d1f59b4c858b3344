import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database, SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import Reply
from langgraph_compaction.nodes.ahead import prepare, use_prepared
from langgraph_compaction.nodes.ahead.preparations import PREPARATIONS, Preparations
from langgraph_compaction.nodes.config.triggers import Command, UsedRatio
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.selection import breaker
from tests.fakes import ReplyingSummarizer, ScriptedModel, StalledSummarizer
from tests.graph.harness import (
    CONFIG,
    NEAR,
    SUMMARY,
    THREAD,
    Asynchronous,
    Drive,
    agent,
    at_work,
    ended,
    events,
    filler,
    ledger,
    rounds,
    said,
    standing,
    steps,
    tool_block,
    values,
)
from tests.graph.middleware.agents import agent as langchain_agent
from tests.graph.test_embedding import parent_of

MODES = ["updates", "custom"]
REPLY = Reply(content=SUMMARY)
OVER = said(filler(90, "over"), "over")
BEYOND = said(filler(300, "beyond"), "beyond")
"""Inputs that reach the trigger, and the limit."""
USED = [("prepared", "swapped"), ("committed", "")]
"""Verdicts and reasons of a preparation and of the compaction that used it."""


def told(chunks: Any) -> list[str]:
    """What the events of a turn say of a preparation."""
    return [event["state"] for event in events(chunks, "PreparationEvent")]


def entries(graph: Any) -> list[tuple[str | None, str]]:
    """Verdict and reason of each row of the ledger."""
    return [(row.verdict, row.reason) for row in ledger(graph)]


@pytest.fixture
def stalled() -> Iterator[StalledSummarizer]:
    """Return a summarizer that waits, and let it go in the end."""
    summarizer = StalledSummarizer()
    yield summarizer
    summarizer.let_go.set()
    for worker in at_work():
        worker.join(60)


async def after_near(go: Drive, summarizer: Any, given: Any = NEAR, **settings: Any) -> Any:
    """Return a graph that has prepared what it could after this input."""
    graph = agent(ScriptedModel(), summarizer, **{"summary_ahead": True, **settings})
    await go.invoke(graph, given)
    await ended()
    return graph


async def while_written(go: Drive, stalled: StalledSummarizer, **settings: Any) -> Any:
    """Return a graph whose summary is being prepared."""
    graph = agent(ScriptedModel(), stalled, summary_ahead=True, **settings)
    await go.invoke(graph, NEAR)
    await asyncio.to_thread(stalled.entered.wait, 60)
    return graph


@pytest.mark.parametrize("build", [agent, langchain_agent], ids=["graph", "middleware"])
async def test_a_prepared_summary_is_used(go: Drive, build: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The turn that compacts calls no summarizer: it finds the summary, and newer messages stay behind it."""
    caplog.set_level("INFO")
    summarizer = ReplyingSummarizer(REPLY)
    graph = build(ScriptedModel(), summarizer, summary_ahead=True)
    first = await go.stream(graph, NEAR, stream_mode=MODES)
    await ended()
    assert (told(first), entries(graph)) == (["preparing"], [("prepared", "ready")])
    assert "Prepared a summary for thread 'thread': prepared ready" in caplog.text
    summarizer.reply = RuntimeError("nobody asks again")
    second = await go.stream(graph, OVER, stream_mode=MODES)
    assert (told(second), entries(graph)) == (["swapped"], USED)
    assert events(second, "PreparationEvent")[0]["seconds"] == round(ledger(graph)[0].duration_s or 0.0, 3)
    assert len(summarizer.requests) == 1
    assert "no model is called" in caplog.text
    kept = [message.id for message in values(graph)["messages"]]
    assert kept[0].startswith("summary-")
    assert kept[-3] == kept[kept.index("near") + 1]
    assert kept[-2] == "over"
    whole = CompactionThread(graph, CONFIG).transcript()
    assert [one.id for one in whole if one.type == "human"] == [*(f"r-user-{n}" for n in range(6)), "near", "over"]
    assert sum(row.summary_calls or 0 for row in ledger(graph)) == 1


async def test_nothing_is_prepared_that_would_not_fit_in_the_end(go: Drive) -> None:
    """After rounds so large that one more would reach the trigger again, right after the prepared compaction."""
    large = {"messages": [*rounds(2, 170), HumanMessage(filler(60, "near"), id="near")]}
    assert entries(await after_near(go, ReplyingSummarizer(REPLY), large)) == []


@pytest.mark.parametrize("changes", [False, True])
async def test_a_summary_of_a_shortened_result_is_used_unless_the_result_has_changed(
    go: Drive, *, changes: bool
) -> None:
    """Where every round is protected, a result is shortened, and no message is removed."""
    summarizer = ReplyingSummarizer(Reply(content="<summary>file t1-0 was read</summary>"))
    read = [*said("read", "first")["messages"], *tool_block(1, 520), AIMessage("done", id="done")]
    given = {"messages": [*read, *rounds(2, 20), HumanMessage(filler(110, "near"), id="near")]}
    graph = await after_near(go, summarizer, given, dialogue_rounds_keep_min=4)
    assert entries(graph) == [("prepared", "ready")]
    if changes:
        changed = values(graph)["messages"][2].model_copy(update={"content": filler(520, "changed")})
        graph.update_state(CONFIG, {"messages": [changed]}, as_node="model")
    await go.invoke(graph, OVER)
    assert entries(graph) == ([("stale", "messages_changed"), ("committed", "")] if changes else USED)
    kept = [one.id for one in values(graph)["messages"] if not str(one.id).startswith(("summary", "lc_run"))]
    assert changes or kept[:4] == ["first", "call-message-1", "result-1", "done"]


async def test_a_node_of_a_parent_prepares_too(go: Drive) -> None:
    """There the check before the parent's model is the last look at the size."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = parent_of(ScriptedModel(), summarizer, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    await go.invoke(graph, OVER)
    assert [(row.verdict, row.reason) for row in CompactionThread(graph, CONFIG).history()] == USED
    assert len(summarizer.requests) == 1


async def test_while_it_is_written_a_turn_that_fits_goes_on(go: Drive, stalled: StalledSummarizer) -> None:
    """In the soft zone nobody waits, and nobody is asked twice: the summary is used once it is there."""
    graph = await while_written(go, stalled)
    second = await go.stream(graph, OVER, stream_mode=MODES)
    assert "waiting" in told(second)
    assert values(graph)["messages"][-1].text == "ok"
    assert entries(graph) == []
    stalled.let_go.set()
    await ended()
    third = await go.stream(graph, said("go on"), stream_mode=MODES)
    assert (told(third), stalled.calls) == (["swapped"], 1)


def answers_when_joined(stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the summarizer go as soon as a turn waits for it."""
    awaited = use_prepared._awaited

    def joined(*given: Any) -> Any:
        stalled.let_go.set()
        return awaited(*given)

    monkeypatch.setattr(use_prepared, "_awaited", joined)


@pytest.mark.parametrize(
    "given",
    [BEYOND, {"messages": [], "compaction_request": {"focus": None}}, said("/compact")],
    ids=["limit", "request", "command"],
)
async def test_over_the_limit_or_if_a_person_asks_a_turn_waits_for_it(
    go: Drive, stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    """The summary that is on its way is joined, not asked for again."""
    graph = await while_written(go, stalled, triggers=[UsedRatio(ratio=0.8), Command()])
    answers_when_joined(stalled, monkeypatch)
    second = await go.stream(graph, given, stream_mode=MODES)
    assert told(second)[:2] == ["joined", "swapped"]  # after the limit the next one is prepared
    assert entries(graph)[:2] == USED
    assert sum(row.summary_calls or 0 for row in ledger(graph)[:2]) == 1


async def test_a_turn_does_not_wait_longer_than_for_a_summary_of_its_own(go: Drive) -> None:
    """Then the time for summaries is over, and a digest follows."""
    let_go = threading.Event()
    graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True, summary_timeout_s=0.05)
    place = records_of(graph).database.identity, THREAD, ""
    PREPARATIONS.start(place, 0, lambda: let_go.wait(60) and None)
    chunks = await go.stream(graph, {"messages": rounds(10)[:-1]}, stream_mode=MODES)
    let_go.set()
    (joined,) = events(chunks, "PreparationEvent")
    assert (joined["state"], ledger(graph)[0].verdict) == ("joined", "degraded_deterministic")
    assert 0.1 <= joined["seconds"] < 5


async def test_a_turn_that_is_cancelled_while_it_waits_loses_no_summary(
    stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next turn uses it."""
    graph, waits, awaited = await while_written(Asynchronous(), stalled), asyncio.Event(), use_prepared._awaited

    def joined(*given: Any) -> Any:
        waits.set()
        return awaited(*given)

    monkeypatch.setattr(use_prepared, "_awaited", joined)
    task = asyncio.create_task(graph.ainvoke(BEYOND, CONFIG))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stalled.let_go.set()
    await ended()
    await graph.ainvoke(said("go on"), CONFIG)
    assert (entries(graph)[:2], stalled.calls) == (USED, 1)


def forget(graph: Any) -> None:
    """Change a message that the draft removes."""
    graph.update_state(CONFIG, {"messages": [HumanMessage(filler(50, "changed"), id="r-user-0")]}, as_node="model")


@pytest.mark.parametrize(
    ("given", "between", "reason"),
    [(OVER, forget, "messages_changed"), (said(filler(750)), lambda _: None, "does_not_fit")],
)
async def test_what_no_longer_holds_is_not_used(
    go: Drive, given: Any, between: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn then makes a summary of its own, and the ledger and the log say why."""
    caplog.set_level("INFO")
    summarizer = ReplyingSummarizer(REPLY)
    graph = await after_near(go, summarizer)
    between(graph)
    second = await go.stream(graph, given, stream_mode=MODES)
    assert told(second)[0] == "stale"
    assert entries(graph)[:2] == [("stale", reason), ("committed", "")]
    assert len(summarizer.requests) == 2
    assert f"The prepared summary of thread 'thread' is not used: {reason}" in caplog.text


async def test_a_prepared_summary_that_the_gate_rejects_is_rejected_itself(go: Drive) -> None:
    """It counts as paid for, and is not found again."""
    long = Reply(content=f"<summary>{filler(60, 'ru0-')}</summary>")
    graph = await after_near(go, ReplyingSummarizer(long))
    await go.invoke(graph, said(filler(400)))
    assert entries(graph)[:2] == [("rejected_insufficient", "over_ceiling")] * 2


@pytest.mark.parametrize("wish", [{"focus": "the harbor"}, {"full": True}])
async def test_a_wish_of_its_own_is_not_answered_with_what_was_prepared(go: Drive, wish: dict[str, Any]) -> None:
    """A focus, and a summary of everything, make another summary than the one that was prepared."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = await after_near(go, summarizer)
    await asyncio.to_thread(CompactionThread(graph, CONFIG).compact, **wish)
    assert (len(summarizer.requests), ledger(graph)[-1].verdict) == (2, "committed")


async def test_switched_off_what_was_prepared_is_not_used(go: Drive) -> None:
    """The turn that compacts asks the summarizer."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = await after_near(go, summarizer)
    await go.invoke(graph, OVER, context={"summary_ahead": False})
    assert (len(summarizer.requests), ledger(graph)[-1].verdict) == (2, "committed")


async def test_a_failed_preparation_counts_for_the_cool_down(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cool-down begins with it if it is the last failure that is allowed: nothing is asked again for a while."""
    monkeypatch.setattr(breaker, "COOLDOWN_AFTER", 1)
    summarizer = ReplyingSummarizer(ValueError("broken"))
    graph = await after_near(go, summarizer)
    assert told(await go.stream(graph, OVER, stream_mode=MODES))[0] == "failed"
    assert [row.verdict for row in ledger(graph)] == ["failed_permanent", "deferred_cooldown"]
    assert len(summarizer.requests) == 3


async def test_another_process_pays_for_a_summary_of_its_own(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows nothing of the preparation, which is stale in its own process from then on."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = await after_near(go, summarizer)
    with monkeypatch.context() as other:
        other.setattr(use_prepared, "PREPARATIONS", Preparations())
        await go.invoke(graph, OVER)
    assert (entries(graph), len(summarizer.requests)) == ([("prepared", "ready"), ("committed", "")], 2)
    found = await go.stream(graph, said(filler(600)), stream_mode=MODES)
    assert told(found)[0] == "stale"
    assert [row.verdict for row in ledger(graph)[:3]] == ["stale", "committed", "committed"]


@pytest.mark.parametrize(("url", "calls"), [("sqlite:///{folder}/agent.db", 1), ("memory", 2)])
async def test_a_graph_that_opens_its_database_for_each_run_finds_it(
    go: Drive, tmp_path: Path, url: str, calls: int
) -> None:
    """LangGraph's server calls a factory of the graph for each run. Databases in memory share nothing."""
    summarizer, saver = ReplyingSummarizer(REPLY), InMemorySaver()
    for given in (NEAR, OVER):
        with Database.open(url.format(folder=tmp_path)) as database:
            graph = agent(ScriptedModel(), summarizer, summary_ahead=True, checkpointer=saver, database=database)
            await go.invoke(graph, given)
            await ended()
            last = ledger(graph)[-1].verdict
    assert (len(summarizer.requests), last) == (calls, "committed")


async def test_after_an_unused_summary_one_compaction_is_not_prepared(go: Drive) -> None:
    """Nobody pays again and again for summaries that are not used."""
    graph = await after_near(go, ReplyingSummarizer(REPLY))
    forget(graph)
    states = told(await go.stream(graph, OVER, stream_mode=MODES))
    for n in range(18):
        states += told(await go.stream(graph, said(filler(60, f"more{n}-")), stream_mode=MODES))
        await ended()
    assert states[:3] == ["stale", "preparing", "swapped"]
    assert [row.trigger for row in ledger(graph)[:5]] == ["ahead", "precheck", "precheck", "ahead", "precheck"]


async def test_far_from_the_trigger_nothing_is_done(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain turn looks at no database for it, and starts no OS thread."""

    def refuse(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Preparations, "may_start", refuse)
    graph = agent(ScriptedModel(), summary_ahead=True)
    chunks = await go.stream(graph, {"messages": rounds(3)[:-1]}, stream_mode=MODES)
    assert (steps(chunks), told(chunks), ledger(graph)) == (["token_check", "model"], [], [])


async def test_a_loop_of_tool_calls_prepares_too(go: Drive) -> None:
    """Between a call and its result a snapshot is taken as well; the call stays behind the summary."""
    block = tool_block(99, 90)
    model = ScriptedModel(replies=[block[0], "done"])
    summarizer = ReplyingSummarizer(REPLY)

    def read(n: int) -> str:
        """Read."""
        for worker in at_work():
            worker.join(60)
        return filler(90, f"t{n}-")

    graph = agent(model, summarizer, summary_ahead=True, tools=[read])
    chunks = await go.stream(graph, NEAR, stream_mode=MODES)
    assert told(chunks) == ["preparing", "swapped"]
    assert (len(summarizer.requests), values(graph)["messages"][-1].text) == (1, "done")


class OnlyAsynchronous(ReplyingSummarizer):
    """A summarizer without a synchronous side."""

    def summarize(self, request: Any) -> Any:
        """Refuse."""
        raise NotImplementedError

    async def asummarize(self, request: Any) -> Any:
        """Reply on the loop."""
        await asyncio.sleep(0)
        return super().summarize(request)


async def write(_: Any) -> dict[str, Any]:
    """Write a summary, as the node of a graph."""
    await asyncio.sleep(0)
    return {"messages": [AIMessage(SUMMARY)]}


async def text(_: Any) -> AIMessage:
    """Write a summary, as a runnable."""
    await asyncio.sleep(0)
    return AIMessage(SUMMARY)


def compiled() -> Any:
    """A graph that has only an asynchronous node."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    return builder.compile()


@pytest.mark.parametrize(
    "summarizer", [OnlyAsynchronous(REPLY), compiled(), RunnableLambda(text)], ids=["own", "graph", "runnable"]
)
async def test_what_has_no_synchronous_side_is_awaited_on_the_loop(summarizer: Any) -> None:
    """Its connections belong to the loop. A graph and a runnable refuse a synchronous call by their own errors."""
    graph = await after_near(Asynchronous(), summarizer)
    await graph.ainvoke(OVER, CONFIG)
    assert entries(graph) == USED


async def test_a_type_error_of_the_summarizer_is_its_failure() -> None:
    """It is called as often as any other, and not once more on the loop."""
    summarizer = ReplyingSummarizer(TypeError("broken"))
    graph = await after_near(Asynchronous(), summarizer)
    assert (entries(graph), len(summarizer.requests)) == ([("failed_permanent", "summary_exception:TypeError")], 3)


class NeverOnThisLoop(OnlyAsynchronous):
    """An asynchronous summarizer that does not answer before its loop ends."""

    def __init__(self) -> None:
        super().__init__(REPLY)
        self.asked = threading.Event()

    async def asummarize(self, request: Any) -> Any:
        """Reply on the second loop."""
        if self.requests or self.asked.is_set():
            return await super().asummarize(request)
        self.asked.set()
        return await asyncio.Future()


@pytest.mark.parametrize("cancels", [True, False], ids=["cancelled", "closed"])
def test_a_loop_that_ends_is_no_failure_of_the_summarizer(*, cancels: bool) -> None:
    """The preparation is abandoned at once, and the next turn asks the same summarizer, on its own loop."""
    summarizer = NeverOnThisLoop()
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)

    async def turn() -> None:
        await graph.ainvoke(NEAR, CONFIG)
        await asyncio.to_thread(summarizer.asked.wait, 60)

    if cancels:
        asyncio.run(turn())
    else:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(turn())
        pending = asyncio.all_tasks(loop)
        loop.close()
        for task in pending:
            task._log_destroy_pending = False
    for worker in at_work():
        worker.join(60)
    assert entries(graph) == [("abandoned", "loop_ended")]
    asyncio.run(graph.ainvoke(OVER, CONFIG))
    assert entries(graph) == [("abandoned", "loop_ended"), ("committed", "")]
    assert standing(graph).get("breaker", {}).get("failures", 0) == 0
    assert standing(graph)["last"]["strategy"] == "selective+own"


async def test_an_erased_thread_does_not_come_back(stalled: StalledSummarizer, tmp_path: Path) -> None:
    """What is prepared when its thread is erased is not stored."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        graph = agent(ScriptedModel(), stalled, summary_ahead=True, checkpointer=saver)
        await asyncio.to_thread(graph.invoke, NEAR, CONFIG)
        await asyncio.to_thread(stalled.entered.wait, 60)
        saver.delete_thread(THREAD)
        stalled.let_go.set()
        await ended()
        assert (saver.threads(), records_of(graph).history(THREAD)) == ([], [])


LIFE = """
import sys, threading
from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.fakes import ReplyingSummarizer
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, agent, filler, rounds

class Stalled(ReplyingSummarizer):
    def summarize(self, request):
        asked.set()
        threading.Event().wait()

asked = threading.Event()
with SQLAlchemySaver.from_url(f"sqlite:///{sys.argv[1]}") as saver:
    graph = agent(ScriptedModel(), Stalled(None), summary_ahead=True, checkpointer=saver)
    graph.invoke({"messages": [*rounds(6), ("user", filler(60))]}, CONFIG)
    asked.wait()
"""


def test_a_process_ends_without_it(tmp_path: Path) -> None:
    """A summary that is not ready does not keep its process alive; the next process compacts without it."""
    file = tmp_path / "a.db"
    place = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", LIFE, str(file)], check=True, timeout=300, cwd=place)
    with SQLAlchemySaver.from_url(f"sqlite:///{file}") as saver:
        graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True, checkpointer=saver)
        graph.invoke(OVER, CONFIG)
        assert entries(graph) == [("committed", "")]


@pytest.mark.parametrize(
    ("name", "changed"), [("own", {}), ("another", {}), ("own", {"summary_prompt": "In short: {conversation}"})]
)
async def test_a_summary_outlives_its_graph(go: Drive, name: str, changed: dict[str, Any]) -> None:
    """A server that builds the agent for each request finds it, if summarizer and prompt are the same."""
    saver, first, second = InMemorySaver(), ReplyingSummarizer(REPLY), ReplyingSummarizer(REPLY)
    second.name = name
    with Database.open() as database:
        shared: dict[str, Any] = {"checkpointer": saver, "database": database}
        await after_near(go, first, **shared)
        graph = await after_near(go, second, OVER, **shared, **changed)
        same = name == "own" and not changed
        assert entries(graph) == (USED if same else [("stale", "changed_settings"), ("committed", "")])
        assert len(second.requests) == (0 if same else 1)


async def test_it_works_with_the_asynchronous_saver(own_url: str) -> None:
    """The preparation writes from its own OS thread while the saver's loop runs."""
    async with AsyncSQLAlchemySaver.from_url(own_url) as saver:
        await saver.setup()
        summarizer = ReplyingSummarizer(REPLY)
        graph = await after_near(Asynchronous(), summarizer, checkpointer=saver)
        await graph.ainvoke(OVER, CONFIG)
        assert await asyncio.to_thread(entries, graph) == USED
        assert len(summarizer.requests) == 1


def test_a_thread_without_a_checkpointer_prepares_nothing() -> None:
    """Nothing is stored without a thread."""
    graph = agent(ScriptedModel(), summary_ahead=True, checkpointer=None)
    chunks = list(graph.stream(NEAR, stream_mode=MODES))
    assert (told(chunks), at_work()) == ([], [])


@pytest.mark.parametrize("settings", [{"summary_ahead": False}, {"require_confirmation": True}, {"enabled": False}])
def test_where_nothing_compacts_by_itself_nothing_is_prepared(settings: dict[str, Any]) -> None:
    """It can be switched off, and is off where a person is asked first."""
    graph = agent(ScriptedModel(), checkpointer=InMemorySaver(), **{"summary_ahead": True, **settings})
    assert told(list(graph.stream(NEAR, CONFIG, stream_mode=MODES))) == []
    assert standing(graph)["step"] == "end"


async def test_no_summary_is_prepared_where_enough_is_freed_without_one(go: Drive) -> None:
    """Neither the preparation nor the compaction that follows calls the summarizer."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = await after_near(go, summarizer, preset="typed_rules")
    assert entries(graph) == []
    await go.invoke(graph, OVER)
    assert (entries(graph), len(summarizer.requests)) == ([("committed", "")], 0)


async def test_a_preparation_that_may_remove_nothing_begins_again(
    go: Drive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs nothing and is no failure; after the next answer more messages may be old enough."""

    def nothing(*_: Any) -> Any:
        return Finding("noop", "nothing_old_enough")
        yield

    graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True)
    with monkeypatch.context() as young:
        young.setattr(prepare, "choose_messages", nothing)
        assert told(await go.stream(graph, NEAR, stream_mode=MODES)) == ["preparing"]
        await ended()
    assert entries(graph) == []
    assert told(await go.stream(graph, said(filler(20)), stream_mode=MODES)) == ["preparing"]
    await ended()
    assert entries(graph) == [("prepared", "ready")]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
