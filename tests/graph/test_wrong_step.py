"""A node that names a wrong next step: an error of that node, never a turn that ends without an answer."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest
from langgraph.graph import END

from langgraph_compaction.graph import CompactionError, CompactionSettings, acompact_messages, compact_messages
from langgraph_compaction.graph.routing import AGENT_EDGES, COMPACTION_EDGES
from langgraph_compaction.nodes.errors import StepError
from langgraph_compaction.nodes.inline.runner import NODES
from langgraph_compaction.nodes.runtime.effects import Effects
from langgraph_compaction.nodes.transitions import NEXT, check_step
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    SMALL,
    SUMMARY,
    WORDS,
    Drive,
    Synchronous,
    agent,
    full,
    said,
    values,
    verdicts,
)
from tests.graph.middleware.agents import agent as middleware_agent
from tests.graph.test_embedding import World

WRONG = {"a misspelt step": "sumarize", "a node that may not follow": "tools", "no step": None}

selecting = import_module("langgraph_compaction.nodes.runtime.propose_draft")
"""The module: the package's name of it is the node."""

FAILING: list[Any] = [RuntimeError("the summarizer is down")]

Run = Callable[[Drive, str], Awaitable[Any]]


def _options(node: str) -> dict[str, Any]:
    """Settings and summarizer of an agent whose turn enters this node."""
    options: dict[str, Any] = {"require_confirmation": True} if node == "confirm" else {}
    return {**options, "summarizer": ScriptedModel(replies=FAILING)} if node == "rollback" else options


async def _in_the_graph(go: Drive, node: str) -> Any:
    graph = agent(**_options(node))
    await go.invoke(graph, said("hi") if node == "model" else full())


async def _in_the_middleware(go: Drive, node: str) -> Any:
    graph = middleware_agent(**_options(node))
    await go.invoke(graph, said("hi") if node == "model" else full())


async def _as_a_node(go: Drive, node: str) -> Any:
    await go.invoke(World(**_options(node)).graph, full())


async def _on_a_list(go: Drive, node: str) -> Any:
    options: dict[str, Any] = {"max_tokens": 700, "token_counter": WORDS, "settings": CompactionSettings(**SMALL)}
    options["summarizer"] = _options(node).get("summarizer", ScriptedModel(replies=[SUMMARY]))
    if isinstance(go, Synchronous):
        compact_messages(full()["messages"], **options)
    else:
        await acompact_messages(full()["messages"], **options)


WAYS: dict[str, tuple[Run, set[str]]] = {
    "graph": (_in_the_graph, set(NEXT)),
    "middleware": (_in_the_middleware, set(NEXT)),
    "as_node": (_as_a_node, set(NEXT) - {"model"}),
    "compact_messages": (_on_a_list, {"selective_compaction", "summarize", "commit", "rollback"}),
}
"""Every way to run the nodes, with the nodes that it can enter."""


@pytest.mark.parametrize(("way", "node"), [(way, node) for way in WAYS for node in NEXT if node in WAYS[way][1]])
async def test_a_misspelt_step_in_any_node_is_an_error(
    go: Drive, way: str, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever node names a wrong step, and however it is run: the error says node, step and what is allowed."""

    def wrong(_: Any) -> Effects[dict[str, Any]]:
        yield from ()
        return {"compaction": {"step": "sumarize"}}

    monkeypatch.setitem(NODES, node, wrong)
    allowed = ", ".join(map(repr, NEXT[node]))
    with pytest.raises(StepError) as raised:
        await WAYS[way][0](go, node)
    assert str(raised.value) == f"the node {node!r} named the next step 'sumarize'; allowed are {allowed}"


@pytest.fixture(params=WRONG)
def named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let `selective_compaction` name a wrong step, and return what the error says of it."""
    wrong, right = WRONG[request.param], selecting._proposed

    def proposed(*args: Any) -> dict[str, Any]:
        update = right(*args)
        return {"compaction": {**update["compaction"], "step": wrong}}

    monkeypatch.setattr(selecting, "_proposed", proposed)
    return "no next step" if wrong is None else repr(wrong)


SAYS = "'selective_compaction' named .*; allowed are 'summarize', 'commit', 'rollback', 'model', 'end'"


@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["graph", "middleware"])
async def test_the_error_names_node_step_and_what_is_allowed(go: Drive, named: str, build: Any) -> None:
    """In the graph and in the middleware, and the conversation is as it was."""
    graph = build()
    with pytest.raises(StepError, match=SAYS) as raised:
        await go.invoke(graph, full())
    assert named in str(raised.value)
    assert isinstance(raised.value, CompactionError)
    assert [m.id for m in values(graph)["messages"]] == [m.id for m in full()["messages"]]


def test_it_reaches_the_parent_of_an_embedded_graph(named: str) -> None:
    """The parent's run ends with the same error, before its model is asked."""
    world = World()
    with pytest.raises(StepError, match=SAYS) as raised:
        world.graph.invoke(full(), CONFIG)
    assert named in str(raised.value)
    assert world.model.received == []


async def test_the_run_goes_on_once_the_node_is_mended(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """`invoke(None)` runs the node again, and the turn is answered."""
    graph = agent()
    with monkeypatch.context() as patch:
        patch.setattr(selecting, "_proposed", lambda *_: {"compaction": {"step": "nowhere"}})
        with pytest.raises(StepError):
            await go.invoke(graph, full())
    assert graph.get_state(CONFIG).next == ("selective_compaction",)
    await go.invoke(graph, None)
    assert values(graph)["messages"][-1].text == "ok"
    assert verdicts(graph) == ["committed"]


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


async def test_a_new_input_is_answered_whatever_step_stands_in_the_state(go: Drive) -> None:
    """A turn begins with the check, which decides its own step."""
    graph = agent(ScriptedModel(replies=["hello", "again"]))
    await go.invoke(graph, said("hi"))
    graph.update_state(CONFIG, {"compaction": {"step": "nowhere"}}, as_node="commit")
    await go.invoke(graph, said("hi"))
    assert values(graph)["messages"][-1].text == "again"


@pytest.mark.parametrize("node", NEXT)
def test_one_table_says_what_may_follow(node: str) -> None:
    """The edges of both graphs are made of it, and every step of it passes the check."""
    for step in NEXT[node]:
        check_step(node, {"compaction": {"step": step}})
    expected = [END if step == "end" else step for step in NEXT[node]]
    assert list(AGENT_EDGES[node].values()) == expected
    shorter = [END if step == "model" else step for step in expected] if node != "model" else []
    assert list(COMPACTION_EDGES.get(node, {}).values()) == shorter


def test_every_step_is_a_node_or_an_end() -> None:
    """No step of the table leads to a node that is nowhere."""
    assert {step for steps in NEXT.values() for step in steps} <= {*NEXT, "tools", "end"}
