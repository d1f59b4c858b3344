"""An order desk as a plain graph: `Send` looks orders up side by side, `interrupt` asks before one is shipped."""

import os
import re
from typing import Any
from uuid import uuid4

from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolCall
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from langgraph_compaction import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    SQLAlchemySaver,
    create_compaction_graph,
    view,
)
from langgraph_compaction.nodes.testing import ScriptedModel, calls

PROMPT = SystemMessage("You run an order desk. Look up each order that is named; ship only what you are told to.")


@tool
def look_up(order: str) -> str:
    """Return where an order is."""
    return f"{order} is in Bremen. " + "Its papers are complete. " * 20


@tool
def ship(order: str) -> str:
    """Ship an order, if a person agrees."""
    return f"{order} is on its way." if interrupt(f"Ship {order}?") == "yes" else f"{order} stays."


def script(messages: list[BaseMessage]) -> AIMessage:
    """Answer in the place of a model."""
    said = messages[-1].text
    if messages[-1].type == "tool":
        return AIMessage(said.partition(". ")[0])
    orders = re.findall(r"ORD-\d+", said)
    name = "ship" if said.startswith("Ship") else "look_up"
    return calls(*((name, {"order": order}) for order in orders), start=int(orders[0][4:]))


NAME = os.environ.get("MODEL")  # such as openai:gpt-4o-mini
model: Any = init_chat_model(NAME) if NAME else ScriptedModel(replies=[script])
tools = {"look_up": look_up, "ship": ship}
saver = SQLAlchemySaver("sqlite:///own_graph.db")


def call_model(state: CompactionState) -> dict[str, Any]:
    """Call the model with what it is to see."""
    return {"messages": [model.bind_tools(list(tools.values())).invoke([PROMPT, *view(state)])]}


def to_tools(state: CompactionState) -> list[Send] | str:
    """Send each call to a node of its own; they run at the same time."""
    answer = state["messages"][-1]
    return [Send("run_tool", call) for call in getattr(answer, "tool_calls", ())] or END


def run_tool(call: ToolCall) -> dict[str, Any]:
    """Run one tool."""
    return {"messages": [tools[call["name"]].invoke(call)]}


builder = StateGraph(CompactionState)
builder.add_node(
    "compact",
    create_compaction_graph(
        settings=CompactionSettings(context_window=8_000),
        system_prompt=PROMPT,
        tools=list(tools.values()),
        summarizer=model if NAME else "digest",
        database=saver.database,
    ),
)
builder.add_node("call_model", call_model)
builder.add_node("run_tool", run_tool)
builder.add_edge(START, "compact")
builder.add_edge("compact", "call_model")
builder.add_conditional_edges("call_model", to_tools, ["run_tool", END])
builder.add_edge("run_tool", "compact")
graph = builder.compile(checkpointer=saver)

if __name__ == "__main__":
    thread = CompactionThread(graph, {"configurable": {"thread_id": uuid4().hex}})
    turn = 0
    while not any(row.is_committed for row in thread.history()):
        turn += 1
        orders = " and ".join(f"ORD-{10 * turn + n}" for n in range(3))
        graph.invoke({"messages": f"Where are {orders}?"}, thread.config)
    row = thread.history()[-1]
    print(f"turn {turn}: {row.verdict}, {row.tokens_before} -> {row.tokens_after} tokens")

    asked = graph.invoke({"messages": "Ship ORD-10."}, thread.config)
    print(asked["__interrupt__"][0].value)
    state = graph.invoke(Command(resume="yes"), thread.config)
    print(state["messages"][-1].text)
    print(f"the model sees {len(view(state))} of {len(state['messages'])} messages")
    print("ORD-11 is still found:", "ORD-11 is in Bremen" in thread.recall("ORD-11"))
