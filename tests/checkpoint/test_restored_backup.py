"""A backup is restored, or a replica that lacks the last writes takes over, while processes use a thread."""

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables

Rows = dict[sa.Table, list[dict[str, Any]]]


def of_thread(table: sa.Table, key: int) -> sa.ColumnElement[bool]:
    """Return the condition for the rows of a thread."""
    return (table.c.id if table is tables.thread else table.c.thread) == key


def backup(database: Database, thread_id: str) -> Rows:
    """Return all rows of a thread."""
    with database.read() as conn:
        key = conn.execute(sa.select(tables.thread.c.id).where(tables.thread.c.thread_id == thread_id)).scalar_one()
        return {
            table: [dict(row) for row in conn.execute(sa.select(table).where(of_thread(table, key))).mappings()]
            for table in tables.METADATA.sorted_tables
            if table is tables.thread or "thread" in table.c
        }


def restore(database: Database, rows: Rows) -> None:
    """Put the rows of a backup in place of those of the thread."""
    key = rows[tables.thread][0]["id"]
    with database.write() as conn:
        for table, held in rows.items():
            conn.execute(sa.delete(table).where(of_thread(table, key)))
            if held:
                conn.execute(sa.insert(table), held)


def chat(saver: SQLAlchemySaver, meanwhile: Callable[[], None] = lambda: None) -> Any:
    """Return a graph that answers each input; while it answers `lost 2`, something else happens."""

    def answer(state: MessagesState) -> dict[str, Any]:
        text = state["messages"][-1].text
        if text == "lost 2":
            meanwhile()
        return {"messages": [AIMessage(f"re: {text}")]}

    return StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)


def texts(state: Any) -> list[str]:
    """Return the texts of a state's messages."""
    return [message.text for message in state["messages"]]


@pytest.mark.parametrize("goes_on", ["in the turn", "after the turn"])
@pytest.mark.parametrize(
    ("others", "keeps"), [(0, False), (2, True)], ids=["drops its messages", "another process goes on meanwhile"]
)
def test_a_thread_is_whole_after_its_rows_were_restored(
    shared_url: str, thread_id: str, *, others: int, goes_on: str, keeps: bool
) -> None:
    """What a process remembers of rows that are gone gets no other rows into its state, and leaves none missing."""
    with (
        Database.open(shared_url) as database,
        SQLAlchemySaver.from_url(shared_url) as mine,
        SQLAlchemySaver.from_url(shared_url) as yours,
        SQLAlchemySaver.from_url(shared_url) as fresh,
    ):
        config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
        kept: list[Any] = []

        def say(graph: Any, text: str) -> list[str]:
            state = graph.invoke({"messages": [HumanMessage(text)]}, config, durability="sync")
            kept.extend([state] * keeps)
            return texts(state)

        def lose() -> None:
            restore(database, rows)
            for number in range(others):
                say(chat(yours), f"other {number}")

        for number in range(3):
            say(chat(mine), f"first {number}")
        say(chat(yours), "other")
        rows = backup(database, thread_id)
        for number in range(2):
            say(chat(mine), f"lost {number}")
        if goes_on == "in the turn":
            whole = say(chat(mine, lose), "lost 2")
            assert whole[-6:] == ["lost 0", "re: lost 0", "lost 1", "re: lost 1", "lost 2", "re: lost 2"]
        else:
            lose()
            whole = say(chat(mine), "next")
            assert whole[6:8] == ["other", "re: other"]
            assert whole[8:-2] == [text for n in range(others) for text in (f"other {n}", f"re: other {n}")]
        assert texts(chat(fresh).get_state(config).values) == whole
        for snapshot in chat(fresh).get_state_history(config):
            found = texts(snapshot.values) if snapshot.values else []
            assert found[1::2] == [f"re: {text}" for text in found[::2]][: len(found) // 2]
        for number, saver in enumerate((mine, yours, fresh)):
            whole += [f"last {number}", f"re: last {number}"]
            assert say(chat(saver), f"last {number}") == whole
