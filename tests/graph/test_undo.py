from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint import Database, UnknownAttemptError
from langgraph_compaction.graph import CompactionError, CompactionThread, OverLimitError
from langgraph_compaction.graph.undo import Undone
from langgraph_compaction.nodes import Redaction
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.state import messages_in_view
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    THREAD,
    WORDS,
    Asynchronous,
    Drive,
    agent,
    filler,
    frozen,
    full,
    ledger,
    said,
    standing,
    tool_block,
    values,
    verdicts,
)

WORDS_A_TURN = 60


@pytest.fixture
def shared() -> dict[str, Any]:
    """A checkpointer and a database that several graphs use."""
    return {"checkpointer": InMemorySaver(), "database": Database.open("memory")}


async def take_back(go: Drive, graph: Any, *given: Any, **options: Any) -> Undone:
    """Undo, by the twin that belongs to the drive."""
    if isinstance(go, Asynchronous):
        return await CompactionThread(graph, CONFIG).aundo(*given, **options)
    return CompactionThread(graph, CONFIG).undo(*given, **options)


async def grown(go: Drive, graph: Any, *, commits: int, config: RunnableConfig = CONFIG) -> None:
    """Talk until so many compactions were committed."""
    turn = 0
    while (values(graph, config).get("compaction") or {}).get("epoch", 0) < commits:
        await go.invoke(graph, said(filler(WORDS_A_TURN, f"c{commits}t{turn}-"), f"user-{commits}-{turn}"), config)
        turn += 1


def everything(graph: Any, config: RunnableConfig = CONFIG) -> list[AnyMessage]:
    """The state's messages without summaries."""
    return [message for message in values(graph, config)["messages"] if not is_summary(message)]


def wide(graph: Any, shared: dict[str, Any], tokens: int) -> Any:
    """An agent on the same threads whose model accepts about so many tokens: they lie in its soft zone."""
    del graph
    return agent(**shared, context_window=int(tokens * 1.15))


async def test_the_ledger_holds_the_sizes_of_requests(go: Drive, shared: dict[str, Any]) -> None:
    """The size in the row of an undo includes the system prompt, as the size that the call returns does."""
    graph = agent(**shared, system_prompt="Answer in short sentences. " * 10)
    await grown(go, graph, commits=1)
    seen = values(graph)["messages"]
    done = await take_back(go, graph, force=True)
    assert ledger(graph)[-1].tokens_before < total(WORDS, seen) + 100 < done.tokens
    assert (
        ledger(graph)[-1].tokens_after
        == done.tokens
        > 40 + total(WORDS, CompactionThread(graph, CONFIG).transcript())
    )


@pytest.mark.usefixtures("unbraked")
async def test_the_first_of_three_is_undone_twenty_turns_later(go: Drive, shared: dict[str, Any]) -> None:
    """All that was said stands again, byte for byte; later turns stay, and what was deleted stays deleted."""
    graph = agent(**shared)
    await grown(go, graph, commits=3)
    first = next(row.compaction_id for row in ledger(graph) if row.verdict == "committed")
    for turn in range(20):
        await go.invoke(graph, said(f"short {turn}", f"late-{turn}"))
    deleted = everything(graph)[-4].id
    graph.update_state(CONFIG, {"messages": [RemoveMessage(str(deleted))]}, as_node="commit")
    spoken = CompactionThread(graph, CONFIG).transcript()
    assert deleted not in [message.id for message in spoken]
    commits = standing(graph)["epoch"]

    big = wide(graph, shared, sum(len(message.text.split()) + 4 for message in spoken))
    done = await take_back(go, big, first)
    assert len(done.compactions) == commits
    assert done.compactions[0] == first
    assert frozen(values(big)["messages"]) == frozen(spoken)
    assert done.messages == len(spoken)
    assert done.trigger is not None
    assert done.limit is not None
    assert done.trigger <= done.tokens <= done.limit
    assert verdicts(graph)[-1] == "undone"

    await go.invoke(big, said("held", "held"))
    assert values(big)["messages"][:-2] == spoken
    assert standing(big)["epoch"] == commits

    await (CompactionThread(big, CONFIG).arelease() if isinstance(go, Asynchronous) else release_off_loop(big))
    await go.invoke(big, said("released", "released"))
    assert standing(big)["epoch"] == commits + 1
    assert any(map(is_summary, values(big)["messages"]))
    assert [message.id for message in CompactionThread(big, CONFIG).transcript()][: len(spoken)] == [
        message.id for message in spoken
    ]


async def release_off_loop(graph: Any) -> None:
    """The synchronous twin."""
    CompactionThread(graph, CONFIG).release()


async def test_a_compaction_after_an_undo_has_a_row_of_its_own(go: Drive, shared: dict[str, Any]) -> None:
    """It begins with the messages of the undone one, whose row, summary and place in the history stay."""
    graph = agent(**shared)
    await go.invoke(graph, full())
    for _ in range(3):
        await take_back(go, graph, force=True)
        await go.invoke(graph, {"messages": [], "compaction_request": {"full": True}})
    rows = ledger(graph)
    assert [row.verdict for row in rows] == ["committed", "undone"] * 3 + ["committed"]
    assert len({row.compaction_id for row in rows}) == len(rows)
    assert [row.detail for row in rows[1::2]] == [row.compaction_id for row in rows[:-1:2]]
    assert rows[0].summary
    assert len({row.base_fingerprint for row in rows[2::2]}) == 1, "they all began with the same messages"


async def test_a_turn_that_waits_is_not_released(shared: dict[str, Any]) -> None:
    """A write to its state would drop the node that is to run next."""
    graph = agent(**shared)
    graph.invoke(full(), CONFIG)
    CompactionThread(graph, CONFIG).undo(force=True)
    waiting = agent(**shared)
    waiting.interrupt_before_nodes = ["model"]
    waiting.invoke(said("next"), CONFIG)
    assert waiting.get_state(CONFIG).next == ("model",)
    with pytest.raises(CompactionError, match="resume it first"):
        CompactionThread(waiting, CONFIG).release()
    assert waiting.get_state(CONFIG).next == ("model",)


@pytest.mark.usefixtures("unbraked")
async def test_the_last_of_three_is_undone_alone(go: Drive, shared: dict[str, Any]) -> None:
    """The summary that it had absorbed stands again, and speaks for what came before."""
    graph = agent(**shared)
    await grown(go, graph, commits=2)
    earlier = next(message for message in values(graph)["messages"] if is_summary(message))
    whole = values(graph)["messages"]
    while standing(graph)["epoch"] < 3:
        await go.invoke(graph, said(filler(WORDS_A_TURN, f"more{len(whole)}-")))
        whole = CompactionThread(graph, CONFIG).transcript()
    last, before = standing(graph)["head"], standing(graph)["epoch"]
    assert earlier not in values(graph)["messages"]
    done = await take_back(go, wide(graph, shared, 1_000), force=True)
    assert done.compactions == (last,)
    held = values(graph)["messages"]
    assert [message for message in held if is_summary(message)] == [earlier]
    assert held[0] == earlier
    assert standing(graph)["epoch"] == before
    assert standing(graph)["trigger"] == ""
    assert frozen(CompactionThread(graph, CONFIG).transcript()) == frozen(whole)


@pytest.mark.usefixtures("unbraked")
async def test_an_undo_on_a_fork_leaves_the_other_branch_alone(go: Drive, shared: dict[str, Any]) -> None:
    """Both branches go on from one compaction; one takes it back."""
    graph = agent(**shared)
    await grown(go, graph, commits=1)
    at = graph.get_state(CONFIG)
    await go.invoke(graph, said("on the main branch", "main"))
    main = graph.get_state(CONFIG)

    await go.invoke(graph, said("on the fork", "fork"), at.config)
    big = wide(graph, shared, 1_500)
    await take_back(go, big)
    here = [message.id for message in values(big)["messages"]]
    assert "fork" in here
    assert "main" not in here
    assert not any(map(is_summary, values(big)["messages"]))
    there = graph.get_state(main.config).values
    assert there == main.values
    assert any(map(is_summary, messages_in_view(there)))


async def test_a_clipped_message_comes_back_whole(go: Drive, shared: dict[str, Any]) -> None:
    """A message that a compaction only shortened has its own form again; one that was then deleted stays away."""
    graph = agent(**shared, tool_result_threshold=60, preview_tokens=20, tool_blocks_keep_unread=False)
    given = [HumanMessage("first", id="q0"), *tool_block(1, 400), *tool_block(2, 400), HumanMessage("go on", id="q1")]
    await go.invoke(graph, {"messages": given})
    held = {message.id: message for message in values(graph)["messages"]}
    assert held["result-2"] != given[4]
    graph.update_state(CONFIG, {"messages": [RemoveMessage("result-1")]}, as_node="commit")
    await take_back(go, wide(graph, shared, 1_000), force=True)
    after = {message.id: message for message in values(graph)["messages"]}
    assert after["result-2"] == given[4]
    assert "result-1" not in after


async def test_over_the_limit_an_undo_wants_to_be_forced(go: Drive, shared: dict[str, Any]) -> None:
    """It says the sizes, and nothing is changed."""
    graph = agent(**shared)
    await go.invoke(graph, full())
    for turn in range(3):
        await go.invoke(graph, said(filler(100, f"t{turn}-")))
    before = values(graph)
    with pytest.raises(OverLimitError, match=r"would hold [\d,]+ tokens and the limit is 1,000"):
        await take_back(go, graph)
    assert values(graph) == before
    assert (await take_back(go, graph, force=True)).tokens > 1_000


@pytest.mark.usefixtures("unbraked")
async def test_what_was_undone_is_done_again_to_the_byte(go: Drive, shared: dict[str, Any]) -> None:
    """One by one, with what was said since; after another compaction there is nothing to redo."""
    graph = agent(**shared)
    await grown(go, graph, commits=2)
    seen, head = [values(graph)["messages"]], standing(graph)["head"]
    for _ in range(2):
        await take_back(go, graph, force=True)
        seen.append(values(graph)["messages"])
    assert not any(map(is_summary, seen[-1]))
    thread = CompactionThread(graph, CONFIG)
    await thread.aredo()
    assert frozen(values(graph)["messages"]) == frozen(seen[1])
    graph.update_state(CONFIG, said("since", "since"), as_node="commit")
    await go.invoke(graph, {"messages": [], "compaction_request": {"redo": True}})
    assert [m.id for m in values(graph)["messages"]] == [*(m.id for m in seen[0]), "since"]
    assert (standing(graph)["head"], standing(graph)["held"]) == (head, False)
    assert verdicts(graph)[-4:] == ["undone", "undone", "redone", "redone"]
    await take_back(go, graph, force=True)
    await thread.acompact()
    with pytest.raises(UnknownAttemptError, match="nothing to redo"):
        await thread.aredo()


async def test_a_person_may_compact_a_held_thread(shared: dict[str, Any]) -> None:
    """Their wish ends the hold, and the summary that was paid for is found again."""
    summarizer = ScriptedModel(replies=["<summary>told once by both</summary>"])
    graph = agent(summarizer=summarizer, **shared)
    graph.invoke(full(), CONFIG)
    answered = CompactionThread(graph, CONFIG).undo()
    assert standing(graph)["held"]
    CompactionThread(graph, CONFIG).compact()
    assert not standing(graph)["held"]
    assert standing(graph)["epoch"] == 2
    assert answered.tokens > standing(graph)["last"]["tokens_after"]


async def test_what_cannot_be_undone_says_so(shared: dict[str, Any]) -> None:
    """No compaction, an unknown one, and one of another branch."""
    graph = agent(**shared)
    graph.invoke(said("hello"), CONFIG)
    for name in (None, "0123456789abcdef"):
        with pytest.raises(UnknownAttemptError, match="there is nothing to undo"):
            CompactionThread(graph, CONFIG).undo(name)
    graph.invoke(full(), CONFIG)
    known = standing(graph)["head"]
    with pytest.raises(UnknownAttemptError, match=f"the ids are {known}"):
        CompactionThread(graph, CONFIG).undo("0123456789abcdef")
    assert CompactionThread(graph, CONFIG).undo(known[:8]).compactions == (known,)
    with pytest.raises(UnknownAttemptError, match="nothing to undo"):
        CompactionThread(graph, CONFIG).undo()


async def test_a_turn_under_way_is_not_undone(shared: dict[str, Any]) -> None:
    """It has to be resumed first."""
    graph = agent(**shared)
    graph.invoke(full(), CONFIG)
    graph.update_state(CONFIG, said("pending"), as_node="__start__")
    with pytest.raises(CompactionError, match="resume it first"):
        CompactionThread(graph, CONFIG).undo()


async def test_a_branch_is_a_thread_of_its_own(go: Drive, shared: dict[str, Any]) -> None:
    """It stands where the compaction began, can be talked to, and the thread it came from does not change."""
    graph = agent(**shared)
    await go.invoke(graph, full())
    before, head = values(graph), standing(graph)["head"]
    if isinstance(go, Asynchronous):
        branch = await CompactionThread(graph, CONFIG).abranch_from(head, thread_id="branch")
    else:
        branch = CompactionThread(graph, CONFIG).branch_from(head, thread_id="branch")
    assert [message.id for message in values(graph, branch)["messages"]][-1] == "question"
    assert not any(map(is_summary, values(graph, branch)["messages"]))
    await go.invoke(graph, said("again"), branch)
    assert values(graph) == before
    assert [row.thread_id for row in ledger(graph)] == [THREAD] * len(ledger(graph))
    with pytest.raises(CompactionError, match="already"):
        CompactionThread(graph, CONFIG).branch_from(head, thread_id="branch")
    with pytest.raises(UnknownAttemptError, match="no snapshot"):
        CompactionThread(graph, CONFIG).branch_from("0" * 16)


async def test_an_undo_takes_back_the_compaction_alone(go: Drive, shared: dict[str, Any]) -> None:
    """Refused messages and commands stay out of view, and what was edited is seen so, after a redo too."""
    graph = agent(
        **shared,
        triggers=({"kind": "command", "text": "/compact"},),
        redact=Redaction(hook=lambda text: text.replace("c1t1-1", "gone"), store=True),
    )
    await grown(go, graph, commits=1)
    await go.invoke(graph, said("/compact", "command"))
    await go.invoke(graph, said(filler(1_500, "big"), "big"))
    *_, kept = (message for message in everything(graph) if message.id and message.id.startswith("user-"))
    edited = [HumanMessage("edited", id="user-1-0"), HumanMessage("edited", id=kept.id)]
    graph.update_state(CONFIG, {"messages": edited}, as_node="commit")
    conversation = graph.get_state(CONFIG).values["messages"]
    before = values(graph)["messages"]
    await take_back(go, graph, force=True)
    undone = values(graph)["messages"]
    assert [m.id for m in undone] == [m.id for m in conversation if m.id != "command"]
    assert [m.text for m in undone if m.id != "big"] == [
        m.text for m in conversation if m.id not in {"big", "command"}
    ]
    assert "was not sent" in next(m.text for m in undone if m.id == "big")
    await go.invoke(graph, said(filler(1_500, "more"), "more"))
    await CompactionThread(graph, CONFIG).aredo()
    assert frozen(values(graph)["messages"][: len(before)]) == frozen(before)
    assert "was not sent" in next(m.text for m in values(graph)["messages"] if m.id == "more")
