"""A long task that the model works on: once nothing else is left to leave, it goes into the summary."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from langgraph_compaction.nodes import ContextExhaustedError
from tests.fakes import ScriptedModel
from tests.graph.harness import Drive, agent, filler, ledger, said, values

RULE = "Never touch the vendor directory."


@tool
def read(n: int) -> str:
    """Read a page."""
    return filler(200, f"page{n}-")


def working(setting: str) -> tuple[Any, ScriptedModel]:
    """An agent whose task takes most of its room, and whose model reads two pages."""
    calls = [AIMessage("", tool_calls=[{"name": "read", "args": {"n": n}, "id": f"c{n}"}]) for n in range(2)]
    model = ScriptedModel(replies=[*calls, "done"])
    settings = {"preset": "faithful", "long_input": setting, "context_window": 1_000}
    return agent(model, "digest", tools=[read], **settings), model


async def test_it_leaves_and_its_rule_stays(go: Drive) -> None:
    """The request holds a digest of the task and the result that is waited for; the task is in the archive."""
    graph, model = working("summarize")
    await go.invoke(graph, said(f"{RULE} {filler(965)}", "task"))
    last = model.received[-1]
    assert not any(message.id == "task" for message in last)
    assert isinstance(last[0], HumanMessage)
    assert RULE in last[0].text
    assert last[-1].text.startswith("page")
    assert ledger(graph)[-1].verdict == "committed"
    assert values(graph)["messages"][-1].text == "done"


async def test_without_the_setting_the_turn_ends_with_an_error_that_names_the_sizes(go: Drive) -> None:
    """And the conversation is as it was."""
    graph, _ = working("keep")
    with pytest.raises(ContextExhaustedError, match=r"the limit is 1000.*Start a new thread.*long_input"):
        await go.invoke(graph, said(f"{RULE} {filler(965)}", "task"))
    assert values(graph)["messages"][0].id == "task"
