"""Plans of what this package sends: PostgreSQL's, on tables that are filled with rows of others, and SQLite's."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy.dialects import postgresql

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.run_leases import RunLease
from langgraph_compaction.checkpoint.db.transaction import SINGLE
from langgraph_compaction.graph import CompactionThread
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import talk
from tests.graph.harness import agent, full, said

ROWS = 2_000
"""Rows of others in each table."""


def _value(column: sa.Column[Any]) -> str:
    """Return an SQL expression that is different for each number `n`, and not the value of any test."""
    number = f"n + {10**6}"
    kind = column.type.compile(postgresql.dialect())
    if kind == "BYTEA":
        return f"decode(lpad(to_hex({number}), 32, '0'), 'hex')"
    return (
        number if kind in {"INTEGER", "BIGINT", "SERIAL", "BIGSERIAL", "DOUBLE PRECISION"} else f"'x' || ({number})"
    )


@pytest.fixture
def saver(cleared_url: Callable[[str], str]) -> Generator[SQLAlchemySaver]:
    """Return a saver whose tables hold many rows."""
    with SQLAlchemySaver.from_url(cleared_url("postgresql"), on_conflict="raise") as opened:
        with opened.database.write() as conn:
            for table in tables.METADATA.sorted_tables:
                if table is not tables.schema:
                    names = ", ".join(f'"{column.name}"' for column in table.columns)
                    values = ", ".join(map(_value, table.columns))
                    conn.conn.exec_driver_sql(
                        f"INSERT INTO {table.name} ({names}) SELECT {values} FROM generate_series(1, {ROWS}) AS n"  # noqa: S608 - our own names
                    )
        opened.database.run(SINGLE, lambda transaction: transaction.conn.exec_driver_sql("ANALYZE"))
        yield opened


def scanned(plan: Mapping[str, Any], *, limited: bool = False) -> Iterator[str]:
    """Yield the tables of which a plan reads all rows, one after the other or through a whole index.

    A scan in the order of an index that a LIMIT ends is none of these.
    """
    kind = plan["Node Type"]
    by_index = "Index" in kind and "Index Cond" not in plan and not limited
    if "Relation Name" in plan and (kind == "Seq Scan" or (by_index and kind != "Bitmap Heap Scan")):
        yield plan["Relation Name"]
    if kind == "Bitmap Index Scan" and "Index Cond" not in plan:
        yield plan["Index Name"]
    limited = kind == "Limit" or (limited and kind not in {"Sort", "Aggregate", "Hash", "Hash Join"})
    for number, part in enumerate(plan.get("Plans", ())):
        # a LIMIT ends the outer part of a nested loop early, not the inner part
        yield from scanned(part, limited=limited and (kind != "Nested Loop" or number == 0))


def scans(saver: SQLAlchemySaver, work: Callable[[], object]) -> tuple[int, dict[str, set[str]]]:
    """Return how many different statements some work sends, and the tables that are scanned, by statement."""
    sent: dict[str, Any] = {}

    def collect(_conn: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        sent[statement] = values[0] if isinstance(values, list) else values

    with listening(saver.database.engine, "before_cursor_execute", collect):
        work()
    found: dict[str, set[str]] = {}
    with saver.database.engine.connect() as conn:
        conn.exec_driver_sql("SET enable_seqscan = off")  # a scan is the last resort, also of a table with few rows
        for statement, values in sent.items():
            told = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values).scalar_one()
            [plan] = json.loads(told) if isinstance(told, str) else told
            if tables_of := {name for name in scanned(plan["Plan"]) if name.startswith("compaction_")}:
                found[statement] = tables_of
    return len(sent), found


def test_each_statement_of_a_turn_uses_an_index(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Of all that a turn, a longer read, lists and the statistics of a thread send."""
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    builder.add_edge(START, "answer")
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
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
    count, found = scans(saver, work)
    assert count > 10
    assert found == {}


def test_a_list_of_all_threads_reads_in_the_order_of_an_index(
    saver: SQLAlchemySaver, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its second page, and by a transaction."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    with saver.database.write() as conn:  # rows of others cannot be decoded
        conn.execute(sa.delete(tables.checkpoint))
    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    graph = builder.add_edge(START, "answer").compile(checkpointer=saver)
    for _ in range(8):
        graph.invoke({"messages": HumanMessage("how?")}, config)
    for at_once in (True, False):
        monkeypatch.setattr(Database, "can_read_at_once", at_once)
        count, found = scans(saver, lambda: list(saver.list(None)))
        assert count > 1
        assert found == {}


@pytest.mark.parametrize("namespaces", [["", "inner"], [""]])
def test_a_list_reads_by_keys_on_sqlite(namespaces: list[str], tmp_path: Path) -> None:
    """SQLite searches the rows of a page by the primary key. To compare tuples, it would scan the whole table."""
    configs: list[RunnableConfig] = [
        {"configurable": {"thread_id": "t", "checkpoint_ns": name}} for name in namespaces
    ]
    whole: RunnableConfig = {"configurable": {"thread_id": "t"}}
    sent: dict[str, Any] = {}

    def collect(_conn: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        sent[statement] = values

    builder = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": AIMessage("fine")})
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'test.db'}") as saver:
        saver.setup()
        graph = builder.add_edge(START, "answer").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("how?")]}, configs[0])
        for config in configs[1:]:
            saver.put(config, empty_checkpoint(), {}, {})
        with listening(saver.database.engine, "before_cursor_execute", collect):
            assert len(list(saver.list(whole if len(configs) > 1 else configs[0]))) == 2 + len(configs)
        with saver.database.engine.connect() as conn:
            plans = [
                row.detail
                for statement, values in sent.items()
                for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            ]
    assert {plan.split()[1] for plan in plans} >= {"compaction_checkpoint", "compaction_write"}
    assert [plan for plan in plans if plan.startswith("SCAN")] == []


def test_each_statement_of_the_records_uses_an_index(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Of a compaction, of what is done with it afterwards, and of the leases of its runs."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    compacting = agent(checkpointer=saver, summary_ahead=True)
    thread = CompactionThread(compacting, config)
    records = CompactionRecords(saver.database)
    waiting = RunLease(thread_id)

    def work() -> None:
        compacting.invoke(full(), config)
        compacting.invoke(said("and then?"), config)
        assert [row.verdict for row in thread.history()] == ["committed"]
        assert thread.recall("ru0-0") is not None
        with saver.lease(thread_id):
            pass
        lease = RunLease(thread_id)
        assert records.run_leases.take(lease)
        assert not records.run_leases.take(waiting)
        assert records.run_leases.release(lease)
        thread.undo()
        thread.forget()

    count, found = scans(saver, work)
    assert count > 30
    assert found == {}
