"""The graph and the checkpointer for LangGraph's server, which `langgraph.json` names.

The graph and the checkpointer use the database of `LANGGRAPH_COMPACTION_DATABASE_URL`; without this variable,
everything is kept in memory.
`LANGGRAPH_COMPACTION_CONFIG` names a YAML file of settings, and `LANGGRAPH_COMPACTION_<SETTING>` sets one setting
(`load_settings`). `LANGGRAPH_COMPACTION_ALLOW` names the classes of an application that the checkpointer may store,
`LANGGRAPH_COMPACTION_KEYS` the keys of an encrypted database.

Importing this module reads neither the environment nor a file. The graph is built when the server opens its
checkpointer at the start, or else at the first request, and only once: graphs with databases of their own in memory
would not know each other's snapshots.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from threading import Lock
from typing import NamedTuple

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database
from langgraph_compaction.nodes.config.loading import ALLOW, DATABASE_URL, allowed_classes, keys_in, load_settings

from .builder import Graph, create_compacting_agent
from .chat_model import environment_model, has_key
from .library_model import LibraryModel
from .library_tools import library_tools

SCRIPTED_WINDOW = 8_000
"""Context window of the scripted model in tokens: three or four questions fill it to the trigger."""


class _Served(NamedTuple):
    """What the server's requests share."""

    graph: Graph
    database: Database
    allowed: list[tuple[str, str]]
    """Module and name of each class of the application that the checkpointer may store."""


@cache
def _built() -> _Served:
    model = environment_model() if has_key() else LibraryModel(profile_window=SCRIPTED_WINDOW)
    settings = load_settings(env=os.environ)
    database = Database.open(os.environ.get(DATABASE_URL, "memory"), keys=keys_in(os.environ))
    tools = library_tools(part_chars=1_500, most_files=15)
    graph = create_compacting_agent(model, tools, settings=settings, database=database)
    return _Served(graph, database, allowed_classes(os.environ.get(ALLOW, "")))


_building = Lock()


def _served() -> _Served:
    """Return the graph and its database; the first call builds them, while other threads wait for it."""
    with _building:
        return _built()


async def agent() -> Graph:
    """Return the agent, with a model of OpenAI if OPENAI_API_KEY is set, else with a scripted model.

    It is built on a worker thread, because reading settings and opening the model's client block. Raise
    `SettingsError` for a wrong setting, with the name of the variable.
    """
    return (await asyncio.to_thread(_served)).graph


@asynccontextmanager
async def checkpointer() -> AsyncGenerator[AsyncSQLAlchemySaver]:
    """Yield a checkpointer; the server opens one in each of its event loops.

    All these checkpointers share the graph's database, which stays open. A wrong setting is an error here, so that
    the server does not start with it.
    """
    served = await asyncio.to_thread(_served)
    saver = AsyncSQLAlchemySaver(served.database, allow=served.allowed)
    await saver.setup()
    yield saver
