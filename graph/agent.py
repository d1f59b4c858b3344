"""The graph and the checkpointer for LangGraph's server, which `langgraph.json` names.

The graph and the checkpointer use the database of `LANGGRAPH_COMPACTION_DATABASE_URL`; without this variable,
everything is kept in memory.
`LANGGRAPH_COMPACTION_CONFIG` names a YAML file of settings, and `LANGGRAPH_COMPACTION_<SETTING>` sets one setting
(`load_settings`).

Only the server imports this module. The graph is built once, at that import: a graph built for each request would
block the server's event loop and lose its snapshots with each request.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database
from langgraph_compaction.nodes.config.loading import DATABASE_URL, load_settings

from .builder import Graph, create_compacting_agent
from .chat_model import agent_model

_database = Database.open(os.environ.get(DATABASE_URL, "memory"))


def _built() -> Graph:
    model, window = agent_model()
    settings = load_settings(env=os.environ)
    known = {
        "context_window": settings.context_window or window,
        "confirmation_unavailable": settings.confirmation_unavailable
        or "proceed",  # LangGraph's server adds a checkpointer later
    }
    settings = settings.model_copy(update=known)
    return create_compacting_agent(model, settings=settings, database=_database)


agent = _built()
"""The agent, with a model of OpenAI if OPENAI_API_KEY is set, else with a model that repeats the user's message."""


@asynccontextmanager
async def checkpointer() -> AsyncGenerator[AsyncSQLAlchemySaver]:
    """Yield a checkpointer; the server opens one in each of its event loops.

    All these checkpointers share the graph's database, which stays open.
    """
    saver = AsyncSQLAlchemySaver(_database)
    await saver.setup()
    yield saver
