"""A deep agent and two sub-agents read a log each; each log is larger than the window of its reader."""

import os
from typing import Any
from uuid import uuid4

from deepagents import create_deep_agent
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool

from langgraph_compaction import CompactionMiddleware, CompactionThread, SQLAlchemySaver, view
from langgraph_compaction.nodes.testing import ScriptedModel, calls

NAME = os.environ.get("MODEL")  # such as openai:gpt-4o-mini


@tool
def read(ship: str, page: int) -> str:
    """Read a page of a ship's log; each log has ten pages."""
    return f"{ship}, page {page}: parcel P-{100 + page} came. " + "The sea was calm, the wind light. " * 2_000


def compaction() -> CompactionMiddleware:
    """Return what takes the place of deepagents' own summarizer: the name decides."""
    return CompactionMiddleware(summarizer=None if NAME else "digest", name="SummarizationMiddleware")


def model(ship: str, *then: Any) -> Any:
    """Return the model, or a script that reads a log and goes on with these replies."""
    pages = [calls(("read", {"ship": ship, "page": page}), start=page) for page in range(1, 11)]
    return init_chat_model(NAME) if NAME else ScriptedModel(replies=[*pages, *then], profile_window=128_000)


def sub_agent(ship: str) -> Any:
    """Return a sub-agent that compacts its own conversation."""
    return {
        "name": ship,
        "description": f"Reads the log of the {ship}.",
        "system_prompt": "You read a ship's log and tell which parcels came.",
        "model": model(ship, "Ten parcels came."),
        "tools": [read],
        "middleware": [compaction()],
    }


question = "Read the log of the Clara. Let your sub-agents read those of the Anna and the Berta. Which parcels came?"
both = calls(*(("task", {"description": question, "subagent_type": ship}) for ship in ("Anna", "Berta")), start=20)
saver = SQLAlchemySaver("sqlite:///deepagents.db")
saver.setup()
agent = create_deep_agent(
    model("Clara", both, "Thirty parcels came."),
    tools=[read],
    subagents=[sub_agent("Anna"), sub_agent("Berta")],
    middleware=[compaction()],
    checkpointer=saver,
)

if __name__ == "__main__":
    thread = CompactionThread(agent, {"configurable": {"thread_id": uuid4().hex}})
    state = agent.invoke({"messages": question}, thread.config)
    for row in sorted(thread.history(), key=lambda row: row.tokens_before):  # the sub-agents run at the same time
        who = "a sub-agent" if row.namespace else "the agent"
        print(f"{who}: {row.verdict}, {row.tokens_before} -> {row.tokens_after} tokens")
    kept = agent.get_state(thread.config).values
    chat, seen = (sum(len(message.text) for message in each) for each in (kept["messages"], view(kept)))
    print(f"the agent's chat: {len(kept['messages'])} messages, {chat} characters, of which the model sees {seen}")
    print(state["messages"][-1].text)
