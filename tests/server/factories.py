"""What LangGraph's server is given beside our own graph: factories of each kind, and agents built when loaded."""

from typing import Any

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.types import interrupt

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent, create_compaction_graph
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.testing import StreamingModel, calls

SETTINGS = CompactionSettings(context_window=4_000)
GRAPHS = (
    *("agent_now", "agent_later", "agent_by_config", "compaction_later"),
    *("langchain_now", "langchain_later", "langchain_loaded", "langchain_stored", "deep_loaded"),
)
HOUSES = {
    "agent_now": "`create_compacting_agent`",
    "agent_later": "`create_compacting_agent` in an asynchronous factory, with `database=`",
    "langchain_loaded": "`create_agent` with `CompactionMiddleware`",
    "langchain_stored": "`create_agent` with `CompactionMiddleware` and `database=`",
    "langchain_later": "`create_agent` with `CompactionMiddleware` and `database=`, in an asynchronous factory",
    "deep_loaded": "`create_deep_agent` with `CompactionMiddleware`, also in a sub-agent",
}
"""By name, how the guide to LangGraph's server calls the graphs of which it says what they do there."""


@tool
def ask() -> str:
    """Ask the user."""
    return str(interrupt("which one?"))


def reply(messages: list[BaseMessage], *, question: tuple[str, dict[str, Any]] = ("ask", {})) -> AIMessage:
    """Ask where the user says so, tell what came of it, and say the same to everything else."""
    last = messages[-1]
    if last.type == "tool":
        return AIMessage(f"they said {last.text}")
    return calls(question) if last.text == "ask me" else AIMessage("heard")


def model(**options: Any) -> Any:
    """A model that asks when it is told to."""
    return StreamingModel(replies=[lambda messages: reply(messages, **options)])


def agent_now() -> Any:
    """Our agent, by a plain function."""
    return create_compacting_agent(model(), [ask], system_prompt="You help.", settings=SETTINGS, summarizer="digest")


async def agent_later() -> Any:
    """Our agent with a file of its own, by a coroutine."""
    return create_compacting_agent(
        model(), [ask], system_prompt="You help.", settings=SETTINGS, summarizer="digest", database="sqlite:///own.db"
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


def langchain(database: str | None = None) -> Any:
    """LangChain's agent."""
    middleware = CompactionMiddleware(settings=SETTINGS, summarizer="digest", database=database)
    return create_agent(model(), [ask], middleware=[middleware])


def langchain_now() -> Any:
    """LangChain's agent, by a plain function."""
    return langchain()


async def langchain_later() -> Any:
    """LangChain's agent with a file of its own, by a coroutine."""
    return langchain("sqlite:///own.db")


def deep_now() -> Any:
    """A deep agent in a window of 128,000 tokens, by our defaults, and a sub-agent that asks when it is told to."""
    window: dict[str, Any] = {"profile": {"max_input_tokens": 128_000}}
    task = {"description": "ask me", "subagent_type": "worker"}
    worker: dict[str, Any] = {
        "name": "worker",
        "description": "asks",
        "system_prompt": "You ask.",
        "model": model().model_copy(update=window),
        "tools": [ask],
        "middleware": [CompactionMiddleware(summarizer="digest", name="SummarizationMiddleware")],
    }
    return create_deep_agent(
        model(question=("task", task)).model_copy(update=window),
        subagents=[worker],
        middleware=[CompactionMiddleware(summarizer="digest", name="SummarizationMiddleware")],
    )


langchain_loaded = langchain()
langchain_stored = langchain("sqlite:///own.db")
deep_loaded = deep_now()
