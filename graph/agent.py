"""What `langgraph.json` names: the graph and the checkpointer of LangGraph's server, on one database.

`LANGGRAPH_COMPACTION_DATABASE_URL` names it; without it checkpoints, snapshots, ledger and archive live in memory.
`LANGGRAPH_COMPACTION_CONFIG` names a YAML file of settings, and `LANGGRAPH_COMPACTION_<SETTING>` sets one
(`load_settings`).

Built once, when the server loads it: a graph made for each request would block the server's event loop and
lose its snapshots with each one.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database
from langgraph_compaction.nodes.config.loading import CONFIG, DATABASE_URL, load_settings

from .builder import Graph, create_compacting_agent
from .chat_model import agent_model

_database = Database.open(os.environ.get(DATABASE_URL, "memory"))


def _built() -> Graph:
    model, window = agent_model()
    settings = load_settings(yaml=Path(config) if (config := os.environ.get(CONFIG)) else None, env=os.environ)
    known = {
        "context_window": settings.context_window or window,
        "confirmation_unavailable": settings.confirmation_unavailable
        or "proceed",  # the server brings the checkpointer that can ask
    }
    settings = settings.model_copy(update=known)
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
