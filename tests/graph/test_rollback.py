from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage

from langgraph_compaction.graph.thread_state import records_of
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Drive,
    agent,
    calm,
    frozen,
    full,
    ledger,
    rounds,
    standing,
    steps,
    values,
    verdicts,
)


async def test_a_bad_reply_is_asked_for_again_with_its_defect_named(go: Drive) -> None:
    """Only the third bad reply ends the attempt; a good one before that commits."""
    summarizer = ScriptedModel(replies=["", "<summary>cut", SUMMARY])
    graph = agent(calm(), summarizer)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]
    first, second, third = map(texts, summarizer.received)
    assert "rejected" not in first
    assert "empty_summary" in second
    assert "unclosed_summary_tag" in third


@pytest.mark.parametrize(
    ("method", "reason"), [("begin", "selective:RuntimeError"), ("commit", "archive:RuntimeError")]
)
async def test_without_snapshot_or_archive_nothing_is_compacted(
    go: Drive, monkeypatch: pytest.MonkeyPatch, method: str, reason: str
) -> None:
    """Where the database refuses the snapshot or the archive, the messages stay and the turn is answered."""
    graph = agent(calm())
    monkeypatch.setattr(records_of(graph), method, raising(RuntimeError("disk full")))
    given = full()
    await go.invoke(graph, given)
    assert standing(graph)["last"]["verdict"] == "failed_permanent"
    assert standing(graph)["last"]["reason"] == reason
    assert standing(graph)["last"]["trigger"] in {"input", "precheck"}
    assert standing(graph)["last"]["text"].endswith(f"({reason}); the messages are as they were")
    assert frozen(values(graph)["messages"][:-1]) == frozen(given["messages"])


def raising(error: Exception) -> Callable[..., Any]:
    """A function that raises."""

    def raise_it(*_: Any, **__: Any) -> None:
        raise error

    return raise_it


async def pause(go: Drive, graph: Any, node: str) -> None:
    """Run into a compaction and stop before one of its nodes."""
    await go.invoke(graph, full(), interrupt_before=[node])
    assert graph.get_state(CONFIG).next == (node,)


async def test_a_rollback_drops_the_draft_alone(go: Drive) -> None:
    """The view is the one before, to the byte, and what others wrote meanwhile stays in the conversation."""
    graph = agent(calm(), ScriptedModel(replies=[SUMMARY, ""]))
    await go.invoke(graph, full())
    view = graph.get_state(CONFIG).values["compaction_view"]
    await go.invoke(graph, {"messages": rounds(8, tag="more")}, interrupt_before=["rollback"])
    assert graph.get_state(CONFIG).next == ("rollback",)
    edited = HumanMessage("edited", id="more-user-0")
    graph.update_state(CONFIG, {"messages": [edited, RemoveMessage("more-user-1")]}, as_node="summarize")
    await go.invoke(graph, None)
    assert graph.get_state(CONFIG).values["compaction_view"] == view
    assert standing(graph)["draft"] is None
    assert edited in values(graph)["messages"]
    assert "more-user-1" not in {message.id for message in values(graph)["messages"]}


async def changed_before_the_commit(go: Drive, *messages: HumanMessage) -> Any:
    """Return an agent whose thread received these messages between the summary and the commit, and then continued."""
    graph = agent(calm())
    await pause(go, graph, "commit")
    graph.update_state(CONFIG, {"messages": [*messages]}, as_node="summarize")
    await go.invoke(graph, None)
    return graph


async def test_a_message_that_arrived_during_the_summary_stays_behind_it(go: Drive) -> None:
    """The draft is applied to the conversation as it stands, so that nothing said meanwhile is lost."""
    graph = await changed_before_the_commit(go, HumanMessage("one more thing", id="new"))
    assert verdicts(graph) == ["committed"]
    assert [m.id for m in values(graph)["messages"]][-3:] == ["question", "new", "the-answer"]


async def test_a_draft_whose_messages_changed_is_stale(go: Drive) -> None:
    """What another writer changed is neither dropped unseen nor undone; it is no failure of the summarizer."""
    edited = HumanMessage("I never said that", id="r-user-0")
    graph = await changed_before_the_commit(go, edited)
    (row,) = ledger(graph)
    assert (row.verdict, row.reason, row.detail) == ("stale", "messages_changed", "r-user-0")
    assert edited in values(graph)["messages"]
    assert standing(graph).get("breaker", {}).get("failures", 0) == 0


async def test_the_next_attempt_takes_the_next_rung(go: Drive) -> None:
    """With `digest`, what needs no model compacts what is still too large after a failed summary."""
    summarizer = ScriptedModel(replies=[RuntimeError("down")])
    graph = agent(ScriptedModel(), summarizer, on_summary_failure="digest")
    chunks = await go.stream(graph, full())
    assert steps(chunks)[3:] == ["rollback", "model", "selective_compaction", "summarize", "commit"]
    assert verdicts(graph) == ["failed_permanent", "degraded_deterministic"]
    assert [row.strategy for row in ledger(graph)] == ["selective+model", "selective+digest"]
    assert len(summarizer.received) == 3
