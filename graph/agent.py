"""The graph that `langgraph.json` names: for LangGraph's server, which brings its own checkpointer.

Built once, when the server loads it: a graph made for each request would block the server's event loop and
lose its snapshots with each one.
"""

import os

from langgraph_compaction.nodes import CompactionSettings

from .builder import Graph, create_compacting_agent
from .cli.chatting import agent_model

DATABASE_URL = "LANGGRAPH_COMPACTION_DATABASE_URL"
"""Environment variable with the URL of snapshots, ledger and archive; without it they live in memory."""


def _built() -> Graph:
    model, window = agent_model()
    return create_compacting_agent(
        model,
        settings=CompactionSettings(context_window=window),
        database=os.environ.get(DATABASE_URL, "memory"),
    )


agent = _built()
"""An agent with the model that OPENAI_API_KEY opens, else with one that only repeats what it hears."""
