"""What LangGraph's server is given beside our own graph: factories of each kind, and an agent built when loaded."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent, create_compaction_graph
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.testing import StreamingModel

SETTINGS = CompactionSettings(context_window=4_000)
GRAPHS = (
    *("agent_now", "agent_later", "agent_by_config", "compaction_later"),
    *("langchain_now", "langchain_later", "langchain_loaded"),
)


def model() -> Any:
    """A model that says the same each time."""
    return StreamingModel(replies=["heard"])


def agent_now() -> Any:
    """Our agent, by a plain function."""
    return create_compacting_agent(model(), system_prompt="You help.", settings=SETTINGS, summarizer="digest")


async def agent_later() -> Any:
    """Our agent with a file of its own, by a coroutine."""
    return create_compacting_agent(
        model(), system_prompt="You help.", settings=SETTINGS, summarizer="digest", database="sqlite:///own.db"
    )


async def agent_by_config(config: RunnableConfig) -> Any:
    """Our agent, with what the run's configuration says."""
    prompt = str(config.get("configurable", {}).get("prompt", "You help."))
    return create_compacting_agent(
        model(), system_prompt=prompt, settings=SETTINGS, summarizer="digest", database="memory"
    )


async def compaction_later() -> Any:
    """The compaction alone."""
    return create_compaction_graph(system_prompt="You help.", settings=SETTINGS, database="sqlite:///own.db")


def langchain_now() -> Any:
    """LangChain's agent, by a plain function."""
    return create_agent(model(), middleware=[CompactionMiddleware(settings=SETTINGS, summarizer="digest")])


async def langchain_later() -> Any:
    """LangChain's agent with a file of its own, by a coroutine."""
    return create_agent(
        model(),
        middleware=[CompactionMiddleware(settings=SETTINGS, summarizer="digest", database="sqlite:///own.db")],
    )


langchain_loaded = langchain_now()
