"""A supervisor of langgraph-supervisor hands over to two clerks; all share one conversation and one view of it."""

import os
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import AnyMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph_supervisor import create_supervisor

from langgraph_compaction import (
    CompactionMiddleware,
    CompactionSettings,
    CompactionState,
    CompactionThread,
    SQLAlchemySaver,
    create_compaction_graph,
    view,
)
from langgraph_compaction.nodes.testing import ScriptedModel, calls

NAME = os.environ.get("MODEL")  # such as openai:gpt-4o-mini
SUMMARIZER: Any = init_chat_model(NAME) if NAME else "digest"
SETTINGS = CompactionSettings(context_window=8_000)
saver = SQLAlchemySaver("sqlite:///supervisor.db")
saver.setup()


def model(*script: Any) -> Any:
    """Return the model, or a script that answers in its place."""
    return init_chat_model(NAME) if NAME else ScriptedModel(replies=list(script))


@tool
def read(ship: str, page: int) -> str:
    """Read a page of a ship's log; each log has twenty pages."""
    return f"{ship}, page {page}: parcel P-{100 + page} came. " + "The sea was calm, the wind light. " * 60


def clerk(ship: str) -> Any:
    """Return an agent that keeps its view in the channel of the graph around it."""
    pages = [calls(("read", {"ship": ship, "page": page}), start=page) for page in range(1, 21)]
    middleware = CompactionMiddleware(
        channel="compaction", settings=SETTINGS, summarizer=SUMMARIZER, database=saver.database
    )
    return create_agent(
        model(*pages, f"{ship}: twenty parcels came."), [read], middleware=[middleware], name=f"clerk_{ship.lower()}"
    )


class State(CompactionState):
    """The state of all; `create_react_agent`, on which the supervisor is built, wants the second channel."""

    remaining_steps: int


class HookState(CompactionState):
    """The state in the supervisor's hook."""

    llm_input_messages: list[AnyMessage]


hook = StateGraph(HookState)  # before each call of the supervisor's model
hook.add_node("compact", create_compaction_graph(settings=SETTINGS, summarizer=SUMMARIZER, database=saver.database))
hook.add_node("show", lambda state: {"llm_input_messages": view(state)})
hook.add_edge(START, "compact")
hook.add_edge("compact", "show")

team = create_supervisor(
    [clerk("Alma"), clerk("Berta")],
    model=model(
        calls(("transfer_to_clerk_alma", {}), start=100),
        calls(("transfer_to_clerk_berta", {}), start=101),
        "Forty parcels came.",
    ),
    prompt="Let your clerks read the ships' logs, one after the other.",
    pre_model_hook=hook.compile(),
    state_schema=State,
    output_mode="full_history",  # what a clerk did stays in the conversation
).compile(checkpointer=saver)

if __name__ == "__main__":
    thread = CompactionThread(team, {"configurable": {"thread_id": uuid4().hex}})
    state = team.invoke({"messages": "Which parcels came with the Alma and the Berta?"}, thread.config)
    for row in thread.history():
        print(f"{row.namespace}: {row.verdict}, {row.tokens_before} -> {row.tokens_after} tokens")
    print(f"the supervisor sees {len(view(state))} of {len(state['messages'])} messages")
    print(state["messages"][-1].text)
