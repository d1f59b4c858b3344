"""In deepagents' stack: in place of its summarizer, and apart from its sub-agents."""

from typing import Any

import pytest
from deepagents import HarnessProfile, create_deep_agent, register_harness_profile
from deepagents.middleware.summarization import SummarizationMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread, SettingsError
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts
from tests.graph.harness import CONFIG, SUMMARY, WORDS, Drive, filler, said, standing, values, verdicts
from tests.invariants import check_request, is_summary

PLACE = "SummarizationMiddleware"
DONE = ["done: study the matter a", "done: study the matter b"]
ROOM = 6_000
"""Tokens for the conversation: deepagents' own prompt and tools come on top."""


@tool
def look(n: int) -> str:
    """Look at many words."""
    return filler(900, f"seen{n}-")


def compaction(window: int, name: str | None = PLACE) -> CompactionMiddleware:
    """The middleware, with a window of so many words."""
    settings = CompactionSettings(
        context_window=window, output_reserve=0, key_information=("goal",), summary_ahead=False
    )
    return CompactionMiddleware(
        settings=settings,
        summarizer=ScriptedModel(replies=[SUMMARY]),
        token_counter=WORDS,
        database="memory",
        name=name,
    )


def deep_agent(main: Any, worker: Any = None, name: str | None = PLACE) -> Any:
    """A deep agent with one sub-agent; both have the middleware."""
    task = {
        "name": "worker",
        "description": "works",
        "system_prompt": "You work.",
        "model": worker or ScriptedModel(),
        "tools": [look],
        "middleware": [compaction(ROOM, name)],
    }
    return create_deep_agent(
        model=main, tools=[], subagents=[task], middleware=[compaction(ROOM, name)], checkpointer=InMemorySaver()
    )


def delegated(*names: str) -> AIMessage:
    """An answer that gives a task to the worker by each name."""
    given = [("task", {"description": f"study the matter {name}", "subagent_type": "worker"}) for name in names]
    return calls(*given)


def busy() -> ScriptedModel:
    """A worker's model whose work compacts the worker's conversation."""
    looks = [calls(("look", {"n": n}), start=10 + n) for n in range(1, 9)]
    return ScriptedModel(replies=[*looks, "worker done"], profile_window=ROOM)


@pytest.mark.parametrize("tasks", [("a",), ("a", "b")], ids=["one worker", "two at once"])
async def test_a_sub_agents_compactions_are_its_own(go: Drive, tasks: tuple[str, ...]) -> None:
    """It compacts; head, goal and count of the parent are its own before and after."""
    worker = busy()
    if len(tasks) > 1:  # both use one script
        worker.replies = [worker_answer]
    graph = deep_agent(ScriptedModel(replies=["hello", delegated(*tasks), "main done"], profile_window=ROOM), worker)
    await go.invoke(graph, said("My goal is the trip to Hamburg."))
    before = standing(graph)
    state = await go.invoke(graph, said("now delegate"))
    rows = records_of(graph).history("thread")
    assert "compaction" not in state
    assert {row.namespace for row in rows} == set(), "the worker's rows stand in its own database"
    for key in ("head", "epoch", "draft"):
        assert standing(graph).get(key) == before.get(key)
    assert (standing(graph)["turns"], standing(graph)["calls"]) == (2, 3)
    assert not str(standing(graph).get("goal", "")).startswith("study")
    assert any("what was said before" in texts(request) for request in worker.received), "the worker compacted"


def worker_answer(messages: list[Any]) -> AIMessage:
    """Eight looks, then the end, from what one worker has done so far."""
    done = sum(message.type == "tool" for message in messages)
    seen = max((int(m.text[4]) for m in messages if m.type == "tool" and m.text.startswith("seen")), default=0)
    assert done <= seen or not seen
    return calls(("look", {"n": seen + 1}), start=10 + seen) if seen < 8 else AIMessage("worker done")


async def test_the_parent_compacts_when_two_workers_return(go: Drive) -> None:
    """Its next request is whole, each update is one dictionary, and messages that the state keeps without ids do."""
    worker = ScriptedModel(replies=[lambda asked: f"done: {asked[-1].text} {filler(1_300)}"], profile_window=ROOM)
    main = ScriptedModel(replies=[*["ok"] * 4, delegated("a", "b"), "main done", "and more"], profile_window=ROOM)
    graph = deep_agent(main, worker)
    for n in range(4):
        await go.invoke(graph, {"messages": [("user", f"note {n}: {filler(340, f'n{n}-')}")]})
    held = [message.text for message in values(graph)["messages"]]
    asked = {"messages": [("user", "now delegate")]}
    updates = [each for chunk in await go.stream(graph, asked, stream_mode="updates") for each in chunk.items()]
    assert all(update is None or isinstance(update, dict) for _, update in updates)
    spoken = sorted(update["messages"][-1].text for node, update in updates if node in {"model", "tools"})
    assert [text.partition(" w0")[0] for text in spoken] == ["", *DONE, "main done"]
    assert verdicts(graph) == ["committed"]
    check_request(main.received[-1])
    shown = [message for message in main.received[-1] if message.type != "system"]
    assert sum(map(is_summary, shown)) == 1
    assert [message.type for message in shown[-3:]] == ["ai", "tool", "tool"]
    assert "now delegate" in [message.text for message in shown]
    assert [m.text for m in values(graph)["messages"]] == [*(message.text for message in shown), "main done"]
    assert [message.text for message in await CompactionThread(graph, CONFIG).atranscript()][: len(held)] == held
    again = await go.invoke(graph, asked)
    assert again["messages"][-1].text == "and more"


async def test_a_workers_first_view_is_its_task(go: Drive) -> None:
    """Whatever its parent has compacted before: neither the parent's goal nor its summary reaches the worker."""
    worker = busy()
    main = ScriptedModel(replies=[*["ok"] * 8, delegated("a"), "main done"], profile_window=ROOM)
    graph = deep_agent(main, worker)
    for n in range(8):
        await go.invoke(graph, said(f"The trip goes to Hamburg. {filler(700, f'n{n}-')}"))
    assert "committed" in verdicts(graph)
    kept = standing(graph)
    await go.invoke(graph, said("now delegate"))
    assert worker.received
    assert not any("Hamburg" in texts(request) for request in worker.received)
    assert all("study the matter" in texts(request) for request in worker.received)
    assert (standing(graph)["head"], standing(graph)["epoch"]) == (kept["head"], kept["epoch"])


async def test_in_place_of_its_summarizer(go: Drive) -> None:
    """By its name: one summarizer stands in the stack, and the model is sent what the view shows."""
    main = ScriptedModel(replies=["ok"], profile_window=ROOM)
    graph = deep_agent(main)
    assert [node for node in graph.builder.nodes if "Compaction" in node] == []
    for n in range(14):
        await go.invoke(graph, said(f"note {n}: {filler(700, f'n{n}-')}"))
        shown = [message for message in main.received[-1] if message.type != "system"]
        assert [message.text for message in shown] == [message.text for message in values(graph)["messages"][:-1]]
    assert verdicts(graph).count("committed") >= 2


@pytest.mark.parametrize("mode", ["updates", "messages"])
async def test_the_usual_loop_reads_a_turn_that_compacts(go: Drive, mode: str) -> None:
    """Each update ends with a message, and each answer streams once as a message."""
    graph = deep_agent(ScriptedModel(replies=["ok"], profile_window=ROOM))
    for n in range(14):
        chunks = await go.stream(graph, said(f"note {n}: {filler(700, f'n{n}-')}"), stream_mode=mode)
        if mode == "messages":
            assert [message.text for message, _ in chunks] == ["ok"]
        else:
            found = [u for chunk in chunks for u in chunk.values() if u and "messages" in u]
            assert {update["messages"][-1].text for update in found} == {"ok"}
    assert "committed" in verdicts(graph)


@pytest.mark.parametrize(
    ("excluded", "name", "nodes"),
    [
        ("SummarizationMiddleware", PLACE, []),
        ("SummarizationMiddleware", None, ["CompactionMiddleware.before_agent", "CompactionMiddleware.after_agent"]),
        (SummarizationMiddleware, None, ["CompactionMiddleware.before_agent", "CompactionMiddleware.after_agent"]),
        (SummarizationMiddleware, PLACE, [f"{PLACE}.before_agent", f"{PLACE}.after_agent"]),
    ],
)
def test_what_a_profile_excludes(excluded: Any, name: str | None, nodes: list[str]) -> None:
    """By its name both summarizers, by its class deepagents' own alone, as the guide says."""
    known = f"{excluded} {name}".replace(":", "")
    register_harness_profile(f"scriptedmodel:{known}", HarnessProfile(excluded_middleware=frozenset({excluded})))
    graph = create_deep_agent(ScriptedModel(name_=known, profile_window=ROOM), middleware=[compaction(ROOM, name)])
    assert [node for node in graph.builder.nodes if node.startswith(("Compaction", "Summarization"))] == nodes
    assert "_summarization_event" not in graph.builder.channels


async def talk(go: Drive, graph: Any) -> None:
    """Many notes, one after the other."""
    for n in range(14):
        await go.invoke(graph, said(f"note {n}: {filler(600, f'n{n}-')}", f"note-{n}"))


async def test_beside_its_summarizer_it_refuses_the_first_call(go: Drive) -> None:
    """The error names the way out, and no model is called."""
    main = ScriptedModel(replies=["ok"], profile_window=ROOM)
    with pytest.raises(SettingsError, match='name="SummarizationMiddleware"'):
        await go.invoke(deep_agent(main, name=None), said("hello"))
    assert main.received == []


async def test_beside_its_summarizer_it_refuses_a_run_that_waited(go: Drive) -> None:
    """The run stopped in an agent with deepagents' summarizer alone. A resumed run with both calls no model."""
    main = ScriptedModel(replies=["ok"], profile_window=ROOM)
    theirs = create_deep_agent(model=main, checkpointer=InMemorySaver())
    await go.invoke(theirs, said("hello"), interrupt_before=["model"])
    both = deep_agent(main, name=None)
    both.checkpointer = theirs.checkpointer
    with pytest.raises(SettingsError, match='name="SummarizationMiddleware"'):
        await go.invoke(both, None)
    assert main.received == []


async def test_a_thread_that_its_summarizer_has_cut_goes_on_in_its_place(go: Drive) -> None:
    """With all of its messages, which that summarizer never took from the state."""
    main = ScriptedModel(replies=["ok"], profile_window=ROOM)
    theirs = create_deep_agent(model=main, checkpointer=InMemorySaver())
    await talk(go, theirs)
    assert "_summarization_event" in theirs.get_state(CONFIG).values
    sent = len(main.received)
    held = theirs.get_state(CONFIG).values["messages"]
    named = deep_agent(main)
    named.checkpointer = theirs.checkpointer
    await go.invoke(named, said("and now?", "now"))
    assert len(main.received) == sent + 1
    assert main.received[-1][-1].id == "now"
    assert CompactionThread(named, CONFIG).transcript()[: len(held)] == held


async def test_a_request_is_heard_once_and_not_forwarded(go: Drive) -> None:
    """A wish with a message: the parent compacts, its worker has none."""
    worker = ScriptedModel(replies=["worker done"], profile_window=ROOM)
    main = ScriptedModel(replies=["ok", "ok", delegated("a"), "main done"], profile_window=ROOM)
    graph = deep_agent(main, worker)
    for n in range(2):
        await go.invoke(graph, said(f"note {n}: {filler(400, f'n{n}-')}"))
    await go.invoke(graph, {**said("now delegate"), "compaction_request": {"focus": "notes", "full": True}}, CONFIG)
    assert verdicts(graph) == ["committed"]
    assert "compaction_request" not in values(graph)
    assert [request[-1].text for request in worker.received] == ["study the matter a"]
