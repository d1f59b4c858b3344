"""Reads a conversation from disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.thread_state import open_nodes, records_of
from tests.kill.world import CONFIG, World
from tests.replay.watcher import viewed

Said = list[tuple[str, str, str]]
"""Messages as (id, type, text)."""

Around = Callable[[str], "tuple[Sight, Sight]"]
"""Returns a scenario's thread before its turn, and after it without a kill."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """The content of a thread's files."""

    messages: list[AnyMessage]
    compaction: dict[str, Any]
    view: bytes
    """The channel `compaction_view`, as a checkpoint stores it."""
    following: tuple[str, ...]
    """The nodes that run next, or have run and whose writes are not in a checkpoint yet."""
    acknowledged: Said
    """Every message of all completed checkpoints in its first form."""
    transcript: Said
    ledger: list[LedgerRow]
    recorded: int
    """Summaries recorded in SQL."""
    calls: list[str]
    """The summarizer's calls."""

    @property
    def epoch(self) -> int:
        """Commits so far."""
        return int(self.compaction.get("epoch", 0))

    @property
    def open_rows(self) -> list[str]:
        """Attempts without a verdict."""
        return [row.compaction_id for row in self.ledger if row.verdict is None]

    @property
    def chain(self) -> list[LedgerRow]:
        """The ledger's rows from the last commit of the state to the first."""
        rows, found = {row.compaction_id: row for row in self.ledger}, list[LedgerRow]()
        name = self.compaction.get("head")
        while name is not None:
            found.append(rows[name])
            name = rows[name].parent_id
        return found

    @property
    def verdicts(self) -> list[str | None]:
        """The ledger's verdicts in order."""
        return [row.verdict for row in self.ledger]


def look_at(world: World, config: RunnableConfig = CONFIG) -> Sight:
    """Open the files and read everything, without changes."""
    with world.opened() as graph:
        return sight(graph, world, config)


def sight(graph: Any, world: World, config: RunnableConfig = CONFIG) -> Sight:
    """Read everything from open files."""
    state = graph.get_state(config)
    records = records_of(graph)
    with records.database.read() as connection:
        recorded = connection.execute(sa.select(sa.func.count()).select_from(tables.summary)).scalar_one()
    return Sight(
        messages=state.values.get("messages") or [],
        compaction=state.values.get("compaction") or {},
        view=viewed(state.values),
        following=tuple(open_nodes(state)),
        acknowledged=ever_held(graph.checkpointer, config),
        transcript=plain(CompactionThread(graph, config).transcript()),
        ledger=records.history(thread_of(config)),
        recorded=recorded,
        calls=world.calls,
    )


def ever_held(saver: Any, config: RunnableConfig) -> Said:
    """Walk back along the completed checkpoints; return the messages in the order in which they were added."""
    line, tip = list[list[AnyMessage]](), saver.get_tuple(config)
    thread: RunnableConfig = {"configurable": {"thread_id": thread_of(config)}}
    known = {found.config["configurable"]["checkpoint_id"]: found for found in saver.list(thread)}
    while tip is not None:
        line.append(tip.checkpoint["channel_values"].get("messages") or [])
        tip = known[tip.parent_config["configurable"]["checkpoint_id"]] if tip.parent_config else None
    first = {message.id: message for messages in line for message in messages}
    order = dict.fromkeys(message.id for messages in reversed(line) for message in messages)
    return plain([first[name] for name in order])


def thread_of(config: RunnableConfig) -> str:
    """The thread's id."""
    return str(config.get("configurable", {})["thread_id"])


def plain(messages: Sequence[AnyMessage]) -> Said:
    """The messages as (id, type, text)."""
    return [(str(message.id), message.type, message.text) for message in messages]
