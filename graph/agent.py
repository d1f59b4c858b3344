"""What `langgraph.json` names: the graph and the checkpointer of LangGraph's server, on one database.

Built once, when the server loads it: a graph made for each request would block the server's event loop and
lose its snapshots with each one.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database
from langgraph_compaction.nodes import CompactionSettings

from .builder import Graph, create_compacting_agent
from .cli.chatting import agent_model

DATABASE_URL = "LANGGRAPH_COMPACTION_DATABASE_URL"
"""Environment variable with the URL of checkpoints, snapshots, ledger and archive; without it they live in memory."""

_database = Database.open(os.environ.get(DATABASE_URL, "memory"))


def _built() -> Graph:
    model, window = agent_model()
    settings = CompactionSettings(context_window=window)
    return create_compacting_agent(model, settings=settings, database=_database)


agent = _built()
"""An agent with the model that OPENAI_API_KEY opens, else with one that only repeats what it hears."""


@asynccontextmanager
async def checkpointer() -> AsyncGenerator[AsyncSQLAlchemySaver]:
    """The checkpointer of the server, which opens one in each of its event loops.

    All of them share the graph's database, which stays open with the graph.
    """
    saver = AsyncSQLAlchemySaver(_database)
    await saver.setup()
    yield saver
