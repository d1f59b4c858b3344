"""Threads whose older checkpoints are in bundles, and what is found of them."""

from typing import Any

import sqlalchemy as sa

from langgraph_compaction.checkpoint.checkpoints import checkpoint_bundles
from langgraph_compaction.checkpoint.db import tables
from tests.checkpoint.bundling import small_bundles
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.samples import talk

COUNT = 12
"""Checkpoints of a thread, of which the first eight are in bundles of four."""


def bundled(saver: Any, thread_id: str) -> list[str]:
    """Return the ids of a thread's bundled checkpoints, oldest first within a namespace."""
    with saver.database.read() as conn:
        thread = saver.store.find(conn, thread_id, lock=False)
        return (
            []
            if thread is None
            else [held.id for one in checkpoint_bundles.all_of(conn, thread) for held in one.held]
        )


def rows_of(saver: Any, table: sa.Table, thread_id: str) -> list[sa.Row[Any]]:
    """Return a thread's rows of a table, in the order of the key."""
    mine = sa.select(tables.thread.c.id).where(tables.thread.c.thread_id == thread_id).scalar_subquery()
    with saver.database.read() as conn:
        return list(conn.execute(sa.select(table).where(table.c.thread == mine).order_by(*table.primary_key)))


def line(
    saver: Any, thread_id: str, count: int = COUNT, namespace: str = "", *, size: int = 4, **metadata: Any
) -> list[Any]:
    """Put checkpoints, in bundles of `size` but for the newest, with two tasks' writes each; return their configs."""
    steps = Steps(saver, thread_id, namespace)
    heads: list[Any] = []
    with small_bundles(size, 1):
        for number in range(count):
            heads.append(steps.put({"messages": talk(number + 1), "count": number}, **metadata))
            for task in ("b", "a"):
                saver.put_writes(heads[-1], [("messages", talk(1, start=number)), ("x", task)], task, f"path {task}")
    return heads


def states(saver: Any, thread_id: str) -> list[Any]:
    """Return all that a list tells of a thread, the newest first."""
    return list(saver.list({"configurable": {"thread_id": thread_id}}))
