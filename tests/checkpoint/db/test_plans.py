from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import talk


def plans_of(saver: SQLAlchemySaver, work: Callable[[], object]) -> dict[str, str]:
    """Return PostgreSQL's plan of each statement that some work sends, where a scan is the last resort."""
    sent: dict[str, Any] = {}

    def collect(_conn: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        sent[statement] = values[0] if isinstance(values, list) else values

    with listening(saver.database.engine, "before_cursor_execute", collect):
        work()
    with saver.database.engine.connect() as conn:
        conn.exec_driver_sql("SET enable_seqscan = off")
        return {
            statement: "\n".join(conn.exec_driver_sql(f"EXPLAIN {statement}", values).scalars())
            for statement, values in sent.items()
        }


def test_no_statement_of_a_turn_scans_a_table(session_url: Callable[[str], str], thread_id: str) -> None:
    """Of all that a turn, a longer read and a list of one thread send, each finds its rows by an index."""
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    builder.add_edge(START, "answer")
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    with SQLAlchemySaver.from_url(session_url("postgresql"), on_conflict="raise") as saver:
        graph = builder.compile(checkpointer=saver)

        def work() -> None:
            for _ in range(2):
                graph.invoke({"messages": HumanMessage("how?")}, config, durability="sync")
            graph.update_state(config, {"messages": talk(300)})
            assert len(graph.get_state(config).values["messages"]) == 304
            assert len(steps := list(graph.get_state_history(config))) == 7
            loop = {"source": "loop"}
            assert len(list(saver.list(config, filter=loop, before=steps[1].config, limit=2))) == 2
            assert saver.stats(thread_id)[0].messages == 304

        saver.get_tuple(config)  # the first transaction checks the version of the tables
        found = plans_of(saver, work)
    assert len(found) > 10
    assert {text: plan for text, plan in found.items() if "Seq Scan on compaction_" in plan} == {}


def test_a_scan_is_seen(session_url: Callable[[str], str]) -> None:
    """A condition without an index can only be met by looking at each row."""
    with SQLAlchemySaver.from_url(session_url("postgresql")) as saver:
        query = sa.text("SELECT id FROM compaction_thread WHERE nameless = 5")

        def work() -> None:
            with saver.database.read() as conn:
                conn.execute(query).all()

        assert any("Seq Scan on compaction_" in plan for plan in plans_of(saver, work).values())
