import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import Reply
from langgraph_compaction.nodes.ahead import prepare, use_prepared
from langgraph_compaction.nodes.ahead.preparations import is_working_on
from langgraph_compaction.nodes.config.triggers import Command, UsedRatio
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.selection import breaker
from langgraph_compaction.nodes.testing import ReplyingSummarizer
from langgraph_compaction.nodes.text import sentences
from langgraph_compaction.nodes.text.quoting import without_quotations
from tests.fakes import ScriptedModel, StalledSummarizer, calls
from tests.graph.harness import (
    CONFIG,
    NEAR,
    SUMMARY,
    THREAD,
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
from tests.graph.test_embedding import World

MODES = ["updates", "custom"]
REPLY = Reply(content=SUMMARY)
OVER = said(filler(90, "over"), "over")
BEYOND = said(filler(300, "beyond"), "beyond")
"""Inputs that reach the trigger, and the limit."""


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
    assert (told(second), entries(graph)) == (["swapped"], [("prepared", "swapped"), ("committed", "")])
    assert events(second, "PreparationEvent")[0]["seconds"] == round(ledger(graph)[0].duration_s or 0.0, 3)
    assert len(summarizer.requests) == 1
    assert caplog.text.count("Running the LLM summary") == 1
    assert "no model is called" in caplog.text
    kept = [message.id for message in values(graph)["messages"]]
    assert kept[0].startswith("summary-")
    assert kept[-3] == kept[kept.index("near") + 1]
    assert kept[-2] == "over"
    whole = CompactionThread(graph, CONFIG).transcript()
    assert [one.id for one in whole if one.type == "human"] == [*(f"r-user-{n}" for n in range(6)), "near", "over"]
    assert sum(row.summary_calls or 0 for row in ledger(graph)) == 1


async def test_a_text_that_the_preparation_read_is_not_read_again(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn that compacts splits its own input into sentences, and no message that was searched ahead of it."""
    read = list[str]()

    def noted(text: str) -> str:
        read.append(text)
        return without_quotations(text)

    monkeypatch.setattr(sentences, "without_quotations", noted)
    graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True)
    old, new = (filler(words, uuid4().hex[:6]) for words in (60, 90))  # texts that no other test has read
    await go.invoke(graph, {"messages": [*rounds(6), HumanMessage(old, id="near")]})
    await ended()
    assert (entries(graph), read.count(old)) == ([("prepared", "ready")], 1)
    await go.invoke(graph, said(new))
    assert entries(graph) == [("prepared", "swapped"), ("committed", "")]
    assert (read.count(old), read.count(new)) == (1, 1)


async def test_nothing_is_prepared_that_would_not_fit_in_the_end(go: Drive) -> None:
    """After rounds so large that one more would reach the trigger again, right after the prepared compaction."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await go.invoke(graph, {"messages": [*rounds(2, 170), HumanMessage(filler(60, "near"), id="near")]})
    await ended()
    assert entries(graph) == []
    await go.invoke(graph, OVER)
    assert entries(graph) == [("committed", "")]


async def with_a_shortened_result(go: Drive) -> tuple[Any, ReplyingSummarizer]:
    """Return a graph that has prepared a summary of a result to be shortened, and the graph's summarizer."""
    summarizer = ReplyingSummarizer(Reply(content="<summary>file t1-0 was read</summary>"))
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True, dialogue_rounds_keep_min=4)
    read = [*said("read", "first")["messages"], *tool_block(1, 520), AIMessage("done", id="done")]
    await go.invoke(graph, {"messages": [*read, *rounds(2, 20), HumanMessage(filler(110, "near"), id="near")]})
    await ended()
    assert entries(graph) == [("prepared", "ready")]
    return graph, summarizer


async def test_a_prepared_summary_of_a_shortened_result_is_used(go: Drive) -> None:
    """Where every round is protected, a result is shortened, and no message is removed."""
    graph, summarizer = await with_a_shortened_result(go)
    found = await go.stream(graph, OVER, stream_mode=MODES)
    assert (told(found), entries(graph)) == (["swapped"], [("prepared", "swapped"), ("committed", "")])
    assert len(summarizer.requests) == 1
    kept = [
        message.id for message in values(graph)["messages"] if not str(message.id).startswith(("summary", "lc_run"))
    ]
    assert kept[:4] == ["first", "call-message-1", "result-1", "done"]
    assert kept[-2:] == ["near", "over"]


@pytest.mark.parametrize("gone", [False, True])
async def test_a_prepared_summary_of_a_result_that_has_changed_is_not_used(go: Drive, *, gone: bool) -> None:
    """A result may have been replaced or removed since its summary was prepared."""
    graph, _ = await with_a_shortened_result(go)
    call, answer = values(graph)["messages"][1:3]
    changed = answer.model_copy(update={"content": filler(520, "changed")})
    since = [RemoveMessage(call.id), RemoveMessage(answer.id)] if gone else [changed]
    graph.update_state(CONFIG, {"messages": since}, as_node="model")
    found = await go.stream(graph, said(filler(620)) if gone else OVER, stream_mode=MODES)
    assert told(found)[0] == "stale"
    assert entries(graph)[0] == ("stale", "messages_changed")


@pytest.mark.parametrize("persist", ["parent", "subgraph"])
async def test_a_node_of_a_parent_prepares_too(go: Drive, persist: str) -> None:
    """There the check before the parent's model is the last look at the size."""
    summarizer = ReplyingSummarizer(REPLY)
    world = World(persist, summarizer, ScriptedModel(), summary_ahead=True)
    await go.invoke(world.graph, NEAR)
    await ended()
    await go.invoke(world.graph, OVER)
    assert [(row.verdict, row.reason) for row in world.ledger] == [("prepared", "swapped"), ("committed", "")]
    assert len(summarizer.requests) == 1


async def test_while_it_is_written_a_turn_that_fits_goes_on(go: Drive, stalled: StalledSummarizer) -> None:
    """In the soft zone nobody waits, and nobody is asked twice: the summary is used once it is there."""
    graph = agent(ScriptedModel(), stalled, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await asyncio.to_thread(stalled.entered.wait, 60)
    second = await go.stream(graph, OVER, stream_mode=MODES)
    assert "waiting" in told(second)
    assert values(graph)["messages"][-1].text == "ok"
    assert entries(graph) == [("prepared", "under_way")]
    stalled.let_go.set()
    await ended()
    third = await go.stream(graph, said("go on"), stream_mode=MODES)
    assert (told(third), stalled.calls) == (["swapped"], 1)


def answers_when_joined(stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the summarizer go as soon as a turn waits for it."""
    waited = use_prepared._slept

    def pause(seconds: float) -> Any:
        stalled.let_go.set()
        return waited(seconds)

    monkeypatch.setattr(use_prepared, "_slept", pause)


async def waits_for_it(go: Drive, stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Return a graph, and the stream of its turn that waits for the summary which is being prepared."""
    graph = agent(ScriptedModel(), stalled, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await asyncio.to_thread(stalled.entered.wait, 60)
    answers_when_joined(stalled, monkeypatch)
    return graph, await go.stream(graph, BEYOND, stream_mode=MODES)


async def test_over_the_limit_a_turn_waits_for_it(
    go: Drive, stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the hard zone the summary that is on its way is joined, not asked for again."""
    graph, second = await waits_for_it(go, stalled, monkeypatch)
    assert told(second)[:2] == ["joined", "swapped"]  # then the next one is prepared
    prepared, committed = ledger(graph)[:2]
    assert (prepared.verdict, committed.verdict) == ("prepared", "committed")
    assert (prepared.summary_calls or 0) + (committed.summary_calls or 0) == 1


@pytest.mark.parametrize("given", [{"messages": [], "compaction_request": {"focus": None}}, said("/compact")])
async def test_who_asks_for_a_compaction_waits_for_it(
    go: Drive, stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    """A wish is not passed over, although the request fits: the summary that is on its way is joined."""
    graph = agent(ScriptedModel(), stalled, summary_ahead=True, triggers=[UsedRatio(ratio=0.8), Command()])
    await go.invoke(graph, NEAR)
    await asyncio.to_thread(stalled.entered.wait, 60)
    answers_when_joined(stalled, monkeypatch)
    second = await go.stream(graph, given, stream_mode=MODES)
    assert told(second)[:2] == ["joined", "swapped"]
    assert (entries(graph), stalled.calls) == ([("prepared", "swapped"), ("committed", "")], 1)


def forget(graph: Any) -> None:
    """Change a message that the draft removes."""
    graph.update_state(CONFIG, {"messages": [HumanMessage(filler(50, "changed"), id="r-user-0")]}, as_node="model")


def change_nothing(_: Any) -> None:
    """Say nothing besides the input."""


@pytest.mark.parametrize(
    ("given", "between", "reason"),
    [
        (OVER, forget, "messages_changed"),
        (said(filler(750)), change_nothing, "does_not_fit"),
    ],
)
async def test_what_no_longer_holds_is_not_used(
    go: Drive, given: Any, between: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn then makes a summary of its own, and the ledger and the log say why."""
    caplog.set_level("INFO")
    rule = Reply(content="<summary>The user wants all lengths in metric units, always in centimeters.</summary>")
    summarizer = ReplyingSummarizer(rule)
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    between(graph)
    second = await go.stream(graph, given, stream_mode=MODES)
    assert told(second)[0] == "stale"
    assert entries(graph)[:2] == [("stale", reason), ("committed", "")]
    assert len(summarizer.requests) == 2
    assert f"The prepared summary of thread 'thread' is not used: {reason}" in caplog.text


@pytest.mark.parametrize("wish", [{"focus": "the harbor"}, {"full": True}])
async def test_a_wish_of_its_own_is_not_answered_with_what_was_prepared(go: Drive, wish: dict[str, Any]) -> None:
    """A focus, and a summary of everything, make another summary than the one that was prepared."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    await asyncio.to_thread(CompactionThread(graph, CONFIG).compact, **wish)
    assert [row.verdict for row in ledger(graph)][-1] == "committed"
    assert len(summarizer.requests) == 2


async def test_switched_off_what_was_prepared_is_not_used(go: Drive) -> None:
    """The turn that compacts asks the summarizer."""
    summarizer = ReplyingSummarizer(REPLY)
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    await go.invoke(graph, OVER, context={"summary_ahead": False})
    assert (len(summarizer.requests), ledger(graph)[-1].verdict) == (2, "committed")


async def test_what_another_process_prepares_is_waited_for(
    go: Drive, stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as that process runs, nobody is asked a second time."""
    graph = agent(ScriptedModel(), stalled, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await asyncio.to_thread(stalled.entered.wait, 60)
    monkeypatch.setattr(use_prepared, "owner", lambda: "another process")
    monkeypatch.setattr(use_prepared, "is_working_on", lambda _: False)
    second = await go.stream(graph, OVER, stream_mode=MODES)
    assert "waiting" in told(second)
    assert (entries(graph), stalled.calls) == ([("prepared", "under_way")], 1)


async def test_a_failed_preparation_counts_as_a_failed_attempt(go: Drive) -> None:
    """The next compaction takes the next level, as after an attempt of its own that failed."""
    graph = agent(ScriptedModel(), ReplyingSummarizer(ValueError("broken")), summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    second = await go.stream(graph, OVER, stream_mode=MODES)
    assert told(second)[0] == "failed"
    assert [row.verdict for row in ledger(graph)] == ["failed_permanent", "degraded_deterministic"]


async def test_a_failed_preparation_counts_for_the_cool_down(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cool-down begins with it if it is the last failure that is allowed: nothing is asked again for a while."""
    monkeypatch.setattr(breaker, "COOLDOWN_AFTER", 1)
    summarizer = ReplyingSummarizer(ValueError("broken"))
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    await go.invoke(graph, OVER)
    first = standing(graph)
    assert (len(summarizer.requests), first["last"]["verdict"]) == (3, "degraded_deterministic")
    assert [row.verdict for row in ledger(graph)] == ["failed_permanent", "degraded_deterministic"]


async def test_only_the_time_that_nobody_waited_is_told(
    go: Drive, stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seconds that a turn waited for a preparation are not counted as saved."""
    graph, second = await waits_for_it(go, stalled, monkeypatch)
    joined, swapped = events(second, "PreparationEvent")[:2]
    took = ledger(graph)[0].duration_s or 0.0
    assert swapped["seconds"] == pytest.approx(max(0.0, took - joined["seconds"]), abs=0.002)


@pytest.mark.parametrize(
    ("last_look", "states"),
    [(1, ["swapped"]), (2, ["joined", "swapped"]), (3, ["joined", "swapped"])],
    ids=["before-it-waits", "after-its-first-pause", "after-its-second-pause"],
)
def test_a_summary_that_comes_right_before_a_look_at_its_worker_is_read(
    stalled: StalledSummarizer, monkeypatch: pytest.MonkeyPatch, last_look: int, states: list[str]
) -> None:
    """When the worker thread has ended, the turn reads the result of the preparation before it continues."""
    graph = agent(ScriptedModel(), stalled, summary_ahead=True)
    graph.invoke(NEAR, CONFIG)
    assert stalled.entered.wait(60)
    looks = count(1)

    def look(compaction_id: str) -> bool:
        if next(looks) == last_look:
            stalled.let_go.set()
            for worker in at_work():
                worker.join(60)
        return is_working_on(compaction_id)

    monkeypatch.setattr(use_prepared, "is_working_on", look)
    found = events(list(graph.stream(BEYOND, CONFIG, stream_mode=MODES)), "PreparationEvent")
    assert ([event["state"] for event in found], found[-1]["seconds"] is None) == (states, False)


async def test_a_preparation_that_may_not_begin_is_not_told(
    go: Drive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many were not used: the ledger has no row, and the stream no event; a debug message says why."""
    caplog.set_level("DEBUG")
    monkeypatch.setattr(prepare, "UNUSED", 1)
    graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True)
    await go.invoke(graph, NEAR)
    await ended()
    forget(graph)
    again = await go.stream(graph, OVER, stream_mode=MODES)
    assert told(again) == ["stale"]
    for n in range(8):  # until another compaction is near, and due
        assert told(await go.stream(graph, said(filler(60, f"more{n}-")), stream_mode=MODES)) == []
        await ended()
    assert [row.trigger for row in ledger(graph)] == ["ahead", "precheck", "precheck"]
    assert "No summary is prepared for thread 'thread': unused" in caplog.text


async def test_a_preparation_that_finds_nothing_to_remove_is_told_once(
    go: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins again after each answer, because more messages may be old enough then."""

    def nothing(*_: Any) -> Any:
        return Finding("noop", "nothing_old_enough")
        yield

    monkeypatch.setattr(prepare, "choose_messages", nothing)
    graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True)
    states = list[str]()
    for given in (NEAR, said(filler(20, "a")), said(filler(20, "b"))):
        states += told(await go.stream(graph, given, stream_mode=MODES))
        await ended()
    assert (states, ledger(graph)) == (["preparing"], [])


async def test_far_from_the_trigger_nothing_is_done(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain turn looks at no database for it, and starts no OS thread."""

    def refuse(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(prepare, "preparations_of", refuse)
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


async def test_an_asynchronous_client_is_awaited_on_the_loop() -> None:
    """Its connections belong to the loop of the run."""
    graph = agent(ScriptedModel(), OnlyAsynchronous(REPLY), summary_ahead=True)
    await graph.ainvoke(NEAR, CONFIG)
    await ended()
    assert entries(graph) == [("prepared", "ready")]


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


@pytest.mark.parametrize("summarizer", [compiled(), RunnableLambda(text)], ids=["graph", "runnable"])
async def test_what_has_no_synchronous_side_is_awaited_on_the_loop(summarizer: Any) -> None:
    """A graph and a runnable refuse a synchronous call by an error of their own."""
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await graph.ainvoke(NEAR, CONFIG)
    await ended()
    await graph.ainvoke(OVER, CONFIG)
    assert entries(graph) == [("prepared", "swapped"), ("committed", "")]


async def test_a_type_error_of_the_summarizer_is_its_failure() -> None:
    """It is called as often as any other, and not once more on the loop."""
    summarizer = ReplyingSummarizer(TypeError("broken"))
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True)
    await graph.ainvoke(NEAR, CONFIG)
    await ended()
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
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as the test wants it
    for worker in at_work():
        worker.join(60)
    assert entries(graph) == [("abandoned", "loop_ended")]
    asyncio.run(graph.ainvoke(OVER, CONFIG))
    assert entries(graph) == [("abandoned", "loop_ended"), ("committed", "")]
    assert standing(graph).get("streak", 0) == 0
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
from langgraph_compaction.nodes.testing import ReplyingSummarizer
from langgraph_compaction.nodes.text.quoting import without_quotations
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
    """A summary that is not ready does not keep its process alive; the next process gives it up, and compacts."""
    file = tmp_path / "a.db"
    place = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", LIFE, str(file)], check=True, timeout=300, cwd=place)
    with SQLAlchemySaver.from_url(f"sqlite:///{file}") as saver:
        graph = agent(ScriptedModel(), ReplyingSummarizer(REPLY), summary_ahead=True, checkpointer=saver)
        assert entries(graph) == [("prepared", "under_way")]
        graph.invoke(OVER, CONFIG)
        assert entries(graph) == [("abandoned", "no_summary"), ("committed", "")]


async def test_a_summary_outlives_its_graph(own_url: str) -> None:
    """It is in the database of the records: another graph finds it there, and asks nobody."""
    broken = ReplyingSummarizer(RuntimeError("asked again"))
    found: list[Any] = []
    for summarizer, given in ((ReplyingSummarizer(REPLY), NEAR), (broken, OVER)):
        with SQLAlchemySaver.from_url(own_url) as saver:
            saver.setup()
            graph = agent(ScriptedModel(), summarizer, summary_ahead=True, checkpointer=saver)
            await asyncio.to_thread(graph.invoke, given, CONFIG)
            await ended()
            found.append(entries(graph))
    assert found == [[("prepared", "ready")], [("prepared", "swapped"), ("committed", "")]]
    assert broken.requests == []


async def test_it_works_with_the_asynchronous_saver(own_url: str) -> None:
    """The preparation writes from its own OS thread while the saver's loop runs."""
    async with AsyncSQLAlchemySaver.from_url(own_url) as saver:
        await saver.setup()
        summarizer = ReplyingSummarizer(REPLY)
        graph = agent(ScriptedModel(), summarizer, summary_ahead=True, checkpointer=saver)
        await graph.ainvoke(NEAR, CONFIG)
        await ended()
        await graph.ainvoke(OVER, CONFIG)
        rows = await asyncio.to_thread(ledger, graph)
        assert [(row.verdict, row.reason) for row in rows] == [("prepared", "swapped"), ("committed", "")]
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
    graph = agent(ScriptedModel(), summarizer, summary_ahead=True, preset="typed_rules")
    await go.invoke(graph, NEAR)
    await ended()
    assert entries(graph) == []
    await go.invoke(graph, OVER)
    assert (entries(graph), len(summarizer.requests)) == ([("committed", "")], 0)


async def test_a_preparation_that_may_remove_nothing_is_no_failure(
    go: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    """In the first round of a thread nothing is old, so no model is called and no error is logged."""

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    model = ScriptedModel(replies=[calls(("look", {})), "done"])
    summarizer = ReplyingSummarizer(REPLY)
    graph = agent(model, summarizer, tools=[look], summary_ahead=True)
    chunks = await go.stream(graph, said(filler(765), "long"), stream_mode=MODES)
    await ended()
    assert (told(chunks), entries(graph), summarizer.requests) == (["preparing"], [], [])
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
