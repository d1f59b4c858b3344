from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.graph import CompactionThread
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
    (row,) = CompactionThread(graph, CONFIG).history()
    found = CompactionThread(graph, CONFIG).diff(row.compaction_id)
    assert [message.id for message in found.dropped] == [message.id for message in given[:-3]]
    assert list(map(is_summary, found.summaries)) == [True]
    assert [message.text for message in found.added] == [after[-1].text]
    assert found.kept == 3
    assert found.clipped == []


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


def test_an_attempt_without_a_snapshot_is_shown_too() -> None:
    """Of one that never began, or whose snapshot was erased, the ledger's row is left; it cannot be compared."""
    saver = SQLAlchemySaver(Database.open("memory"))
    graph = agent(checkpointer=saver, database=saver.database)
    graph.invoke(full(), CONFIG)
    thread = CompactionThread(graph, CONFIG)
    (row,) = thread.history()
    saver.prune(saver.threads(), archive="drop")
    shown = thread.show(row.compaction_id)
    assert (shown.row, shown.began_with, shown.dropped) == (row, [], [])
    assert shown.on_this_branch
    with pytest.raises(UnknownAttemptError, match="no snapshot"):
        thread.diff(row.compaction_id)


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
        tokens_after_about=428,
        ceiling=874,
        floor=2,
        dropped=before["messages"][:14],
        clipped=[],
    )
    graph.invoke({"messages": [], "compaction_request": {"focus": None}}, CONFIG)
    left = {message.id for message in values(graph)["messages"]}
    assert [message.id for message in seen.dropped] == [m.id for m in before["messages"] if m.id not in left]
    assert standing(graph)["last"]["tokens_after"] == pytest.approx(428, rel=0.1)


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
