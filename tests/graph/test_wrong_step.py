"""A node that names a wrong next step: an error of that node, never a turn that ends without an answer."""

from collections.abc import Callable
from typing import Any

import pytest

from langgraph_compaction.graph import CompactionError
from langgraph_compaction.nodes.errors import StepError
from langgraph_compaction.nodes.inline.runner import NODES
from langgraph_compaction.nodes.runtime.effects import Effects
from langgraph_compaction.nodes.transitions import NEXT
from tests.fakes import ScriptedModel
from tests.graph.harness import BEFORE, CONFIG, Drive, agent, frozen, full, said, values
from tests.graph.middleware.agents import agent as middleware_agent

ENTERED: dict[str, dict[str, Any]] = {
    "confirm": {"require_confirmation": True, "hooks": BEFORE},
    "rollback": {"summarizer": ScriptedModel(replies=[RuntimeError("the summarizer is down")])},
}
"""Options of an agent whose turn enters this node; every other node is entered without any."""


@pytest.mark.parametrize("node", NEXT)
@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
async def test_a_misspelt_step_is_an_error(
    go: Drive, build: Callable[..., Any], node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says node, step and what is allowed; once the node is mended the run goes on."""
    right, mended = NODES[node], list[bool]()

    def wrong(context: Any) -> Effects[dict[str, Any]]:
        return (yield from right(context)) if mended else {"compaction": {"step": "sumarize"}}

    monkeypatch.setitem(NODES, node, wrong)
    graph, given = build(**ENTERED.get(node, {})), said("hi", "hi") if node == "model" else full()
    with pytest.raises(StepError) as raised:
        await go.invoke(graph, given)
    assert isinstance(raised.value, CompactionError)
    allowed = ", ".join(map(repr, NEXT[node]))
    assert str(raised.value) == f"the node {node!r} named the next step 'sumarize'; allowed are {allowed}"
    assert frozen(values(graph)["messages"]) == frozen(given["messages"])
    mended.append(True)
    await go.invoke(graph, None)
    assert node == "confirm" or values(graph)["messages"][-1].text == "ok"


@pytest.mark.parametrize(
    ("node", "step"), [("commit", "nowhere"), ("summarize", "end"), ("model", "nowhere"), ("rollback", "tools")]
)
async def test_a_wrong_step_that_somebody_wrote_is_decided_anew(go: Drive, node: str, step: str) -> None:
    """A router never raises: it would end a resumed run silently. It has the check run, and the turn is answered."""
    graph = agent(ScriptedModel(replies=["hello", "again", "and again"]))
    await go.invoke(graph, said("hi"))
    graph.update_state(CONFIG, {**said("are you there?"), "compaction": {"step": step}}, as_node=node)
    assert graph.get_state(CONFIG).next == ("token_check",)
    await go.invoke(graph, None)
    assert values(graph)["messages"][-1].text == "again"
    await go.invoke(graph, said("hi"))
    assert values(graph)["messages"][-1].text == "and again"
