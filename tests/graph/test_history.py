from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import ValidationError

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.history import diff
from langgraph_compaction.graph.preview import Preview
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, agent, filler, frozen, full, said, standing, tool_block, values


def test_a_diff_tells_what_became_of_each_message() -> None:
    """Dropped, clipped, summarized, added, kept."""
    graph = agent()
    given = full()["messages"]
    graph.invoke({"messages": given}, CONFIG)
    after = values(graph)["messages"]
    found = diff(given, after)
    assert [message.id for message in found.dropped] == [message.id for message in given[:-3]]
    assert list(map(is_summary, found.summaries)) == [True]
    assert [message.type for message in found.added] == ["ai"]
    assert found.kept == 3
    assert found.clipped == []
    (row,) = CompactionThread(graph, CONFIG).history()
    assert CompactionThread(graph, CONFIG).diff(row.compaction_id) == found
    shorter = given[1].model_copy(update={"content": "short"})
    changed = diff(given, [given[0], shorter, *given[2:]])
    assert changed.clipped == [(given[1], shorter)]
    assert changed.kept == len(given) - 1
    assert repr(changed) == f"<Diff 0 dropped, 1 clipped, 0 summaries, 0 added, {len(given) - 1} kept>"


def test_a_compaction_is_shown_with_its_messages() -> None:
    """The snapshot, what left and what was clipped, all in their original form."""
    graph = agent(tool_result_threshold=60, preview_tokens=20, tool_blocks_keep_unread=False)
    given = [HumanMessage("first", id="q0"), *tool_block(1, 400), *tool_block(2, 400), HumanMessage("go on", id="q1")]
    graph.invoke({"messages": given}, CONFIG)
    (row,) = CompactionThread(graph, CONFIG).history()
    shown = CompactionThread(graph, CONFIG).show(row.compaction_id)
    assert frozen(shown.began_with) == frozen(given)
    assert shown.row == row
    assert shown.on_this_branch
    assert row.is_committed
    assert repr(shown).startswith(f"<Compaction <LedgerRow {row.compaction_id} ")
    assert repr(shown).endswith(
        f", {len(shown.dropped)} dropped, {len(shown.clipped)} clipped, began with 6 messages>"
    )
    left = {message.id for message in values(graph)["messages"]}
    assert [message.id for message in shown.dropped] == [message.id for message in given if message.id not in left]
    assert {message.id for message in shown.clipped} == {"result-1", "result-2"} & left
    assert all(message in given for message in [*shown.dropped, *shown.clipped])
    CompactionThread(graph, CONFIG).undo(force=True)
    assert not CompactionThread(graph, CONFIG).show(row.compaction_id).on_this_branch
    assert (
        CompactionThread(graph, CONFIG).show(CompactionThread(graph, CONFIG).history()[-1].compaction_id).row.verdict
        == "undone"
    )
    with pytest.raises(UnknownAttemptError, match="see history"):
        CompactionThread(graph, CONFIG).show("0" * 16)


def test_an_attempt_that_never_began_is_shown_without_messages() -> None:
    """A refused input and an undo have a row in the ledger, and no conversation that they began with."""
    graph = agent()
    graph.invoke(said(filler(1_200)), CONFIG)
    graph.invoke(full(), CONFIG)
    thread = CompactionThread(graph, CONFIG)
    thread.undo(force=True)
    shown = [thread.show(row.compaction_id) for row in thread.history()]
    assert [(one.row.verdict, bool(one.began_with), bool(one.dropped)) for one in shown] == [
        ("refused", False, False),
        ("committed", True, True),
        ("undone", False, False),
    ]
    assert [row.is_committed for row in thread.history()] == [False, True, False]
    assert not any(one.on_this_branch for one in shown)


def test_a_preview_writes_nothing_and_asks_nobody() -> None:
    """What it announces is what the compaction then does."""
    summarizer = ScriptedModel(replies=["<summary>brief but long enough</summary>"])
    graph = agent(summarizer=summarizer, trigger_ratio=0.99)
    graph.invoke(full(), CONFIG)
    before = values(graph)
    seen = CompactionThread(graph, CONFIG).preview(settings={"trigger_ratio": 0.8})
    assert values(graph) == before
    assert summarizer.received == []
    assert CompactionThread(graph, CONFIG).history() == []
    assert seen == Preview(
        strategy="selective+model",
        tokens_before=875,
        tokens_selected=119,
        summary=True,
        tokens_after_about=328,
        ceiling=874,
        floor=2,
        dropped=before["messages"][:14],
        clipped=[],
    )
    assert repr(seen) == "<Preview selective+model, 875 -> about 328 tokens, 14 dropped, 0 clipped>"
    graph.invoke({"messages": [], "compaction_request": {"focus": None}}, CONFIG)
    left = {message.id for message in values(graph)["messages"]}
    assert [message.id for message in seen.dropped] == [m.id for m in before["messages"] if m.id not in left]


@pytest.mark.parametrize("preset", ["progressive", "layered_defence"])
def test_a_preview_keeps_the_newest_answer_as_a_compaction_does(preset: Any) -> None:
    """Also where the preset summarizes everything."""
    graph = agent(ScriptedModel(replies=[AIMessage(filler(60), id="the-answer")]), preset=preset, trigger_ratio=0.99)
    graph.invoke(full(), CONFIG)
    seen = CompactionThread(graph, CONFIG).preview()
    before = values(graph)["messages"]
    graph.invoke({"messages": [], "compaction_request": {}}, CONFIG)
    left = {message.id for message in values(graph)["messages"]}
    assert "the-answer" in left
    assert [message.id for message in seen.dropped] == [m.id for m in before if m.id not in left]


def test_a_preview_of_another_preset() -> None:
    """It keeps the application's own figures and takes the preset's for the rest."""
    graph = agent(trigger_ratio=0.99)
    graph.invoke(full(), CONFIG)
    whole, recent = (CompactionThread(graph, CONFIG).preview(name) for name in ("layered_defence", "selective"))
    assert len(whole.dropped) > len(recent.dropped) > 0
    assert whole.strategy.startswith("layered_defence")
    with pytest.raises(ValidationError):
        CompactionThread(graph, CONFIG).preview(settings={"no_such": 1})


def test_a_preview_says_why_nothing_would_be_done() -> None:
    """A short conversation has nothing that could leave for something smaller."""
    graph = agent()
    graph.invoke(said("hello"), CONFIG)
    seen = CompactionThread(graph, CONFIG).preview()
    assert (seen.reason, seen.summary, seen.floor) == ("no_selection_fits", False, 0)
    assert (seen.dropped, seen.clipped) == ([], [])
    assert repr(seen) == f"<Preview nothing would be done: no_selection_fits, {seen.tokens_before} tokens>"
    assert seen.tokens_before == seen.tokens_selected == seen.tokens_after_about


@pytest.mark.parametrize("of_ours", [True, False])
def test_forgetting_erases_every_row(of_ours: bool, tmp_path: Any) -> None:
    """Checkpoints, snapshots, summaries, ledger and archive; another thread's rows stay."""
    database = Database.open(f"sqlite:///{tmp_path / 'kept.db'}")
    database.setup()
    options: dict[str, Any] = {"checkpointer": SQLAlchemySaver(database)} if of_ours else {}
    graph = agent(database=database, **options)
    other = {"configurable": {"thread_id": "other"}}
    for config in (CONFIG, other):
        graph.invoke(full(f"SECRET {filler(5)}"), config)
        graph.invoke(said("next"), config)
    CompactionThread(graph, CONFIG).forget()
    assert graph.get_state(CONFIG).values == {}
    assert records_of(graph).threads() == ["other"]
    with database.engine.connect() as conn:
        owners = {
            owner
            for table in tables.METADATA.sorted_tables
            if "thread" in table.c and table.name != "compaction_thread"
            for owner in conn.execute(sa.select(table.c.thread).distinct()).scalars()
        }
        assert len(owners) == 1
    assert isinstance(values(graph, other)["messages"][-1], AIMessage)
    assert standing(graph, other)["epoch"] == 1
