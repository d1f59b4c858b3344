"""An agent of yours for LangGraph's server, and the checkpointer that stores its threads; both use one database."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph_compaction import AsyncSQLAlchemySaver, CompactionSettings, Database, create_compacting_agent
from langgraph_compaction.nodes.testing import StreamingModel

NAME = os.environ.get("MODEL")  # such as openai:gpt-4o-mini
database = Database.open(os.environ.get("DATABASE_URL", "sqlite:///server.db"))  # once, for all requests
agent = create_compacting_agent(
    NAME or StreamingModel(replies=[lambda seen: f"I see {len(seen)} messages."]),
    system_prompt="You keep a ship's log.",
    settings=CompactionSettings(context_window=4_000),
    summarizer=None if NAME else "digest",
    database=database,
)


@asynccontextmanager
async def checkpointer() -> AsyncIterator[AsyncSQLAlchemySaver]:
    """Yield what the server stores its threads with."""
    saver = AsyncSQLAlchemySaver(database)
    await saver.setup()
    yield saver
