"""What a person asks for by a run's input: in a graph of ours, in a parent, and in LangChain's agent."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langgraph_compaction.graph import CompactionState, CompactionThread, RequestError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts, usage
from tests.graph import harness
from tests.graph.harness import CONFIG, THREAD, Drive, full, rounds, said, standing, values, verdicts
from tests.graph.middleware import agents

BUILDS = {"ours": harness.agent, "langchain": agents.agent}
BEGINS = {"ours": "token_check", "langchain": "CompactionMiddleware.before_agent"}


@pytest.fixture(params=BUILDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Ours, or LangChain's."""
    return str(request.param)


@pytest.fixture
def build(kind: str) -> Any:
    """Build an agent, ours or LangChain's."""
    return BUILDS[kind]


def wish(**asked: Any) -> dict[str, Any]:
    """The input of a run that asks for something."""
    return {"messages": [], "compaction_request": asked}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("compact", "is no request"),
        ({"focsu": "eggs"}, r"unknown keys 'focsu'.*'focus', 'full', 'undo'"),
        ({"undo": "last", "focus": "eggs"}, "one a run"),
        ({"release": False}, "under 'release': give true"),
        ({"memory": None}, "None under 'memory': give what CompactionThread.handoff returned there"),
        ({"memory": {"pins": ["seen", 3]}}, "under 'memory'"),
        ({"memory": {"goals": "eggs"}}, "under 'memory'"),
    ],
)
async def test_what_is_no_request_is_an_error_and_is_not_kept(go: Drive, build: Any, asked: Any, says: str) -> None:
    """It says what is understood; the conversation is as it was, and the next input is answered."""
    model = ScriptedModel()
    graph = build(model)
    await go.invoke(graph, said("hello"))
    before = values(graph)["messages"]
    with pytest.raises(RequestError, match=says):
        await go.invoke(graph, {"messages": [], "compaction_request": asked})
    assert len(model.received) == 1
    assert values(graph)["messages"] == before
    assert "compaction_request" not in values(graph)
    await go.invoke(graph, said("next"))
    assert values(graph)["messages"][-1].type == "ai"
    assert verdicts(graph) == []


async def test_a_request_outlives_a_run_that_dies(go: Drive, kind: str, build: Any) -> None:
    """Before the check that hears it: the run that goes on fulfills it, once, and calls no model."""
    model = ScriptedModel()
    graph = build(model)
    await go.invoke(graph, {"messages": rounds(5)})
    asked = len(model.received)
    await go.invoke(graph, wish(focus="eggs"), interrupt_before=[BEGINS[kind]])
    assert values(graph)["compaction_request"] == {"focus": "eggs"}
    assert verdicts(graph) == []
    await go.invoke(graph, None)
    assert "compaction_request" not in values(graph)
    assert (verdicts(graph), len(model.received)) == (["committed"], asked)
    await go.invoke(graph, said("next"))
    assert verdicts(graph) == ["committed"]


async def test_a_request_with_a_message_or_written_to_the_state(go: Drive, build: Any) -> None:
    """The conversation is compacted first; then what was said is answered."""
    model = ScriptedModel()
    graph = build(model)
    await go.invoke(graph, {"messages": rounds(5)})
    await go.invoke(graph, {**said("and now?", "now"), "compaction_request": {"focus": "eggs"}})
    assert verdicts(graph) == ["committed"]
    assert model.received[-1][-1].id == "now"
    assert len(model.received[-1]) < 10
    await go.invoke(graph, {"messages": rounds(3, tag="more")})
    await graph.aupdate_state(CONFIG, {"compaction_request": {}})
    await go.invoke(graph, said("and now?"))
    assert verdicts(graph) == ["committed", "committed"]
    assert values(graph)["messages"][-1].type == "ai"
    assert "compaction_request" not in values(graph)


async def test_a_parents_request_is_heard_by_an_agent_in_it(go: Drive, kind: str, build: Any) -> None:
    """Once; the agent's head and count are the parent's own from turn to turn."""
    named = {"channel": "compaction"} if kind == "langchain" else {}
    inner = build(ScriptedModel(), checkpointer=None, **named)
    builder = StateGraph(CompactionState)
    builder.add_node("team", inner)
    builder.add_edge(START, "team")
    parent = builder.compile(checkpointer=InMemorySaver())
    await go.invoke(parent, {"messages": [*rounds(5), HumanMessage("and now?")]})
    await go.invoke(parent, wish(focus="eggs"))
    assert [row.verdict for row in CompactionThread(parent, CONFIG).history()] == ["committed"]
    assert standing(parent)["epoch"] == 1
    assert standing(parent)["head"] == CompactionThread(parent, CONFIG).history()[0].compaction_id
    await go.invoke(parent, said("hm"))
    assert standing(parent)["epoch"] == 1
    await go.invoke(parent, full("and then?"))
    rows = CompactionThread(parent, CONFIG).history()
    assert [row.parent_id for row in rows] == [None, *(row.compaction_id for row in rows[:-1])]


def test_a_sub_agent_in_a_tool_is_apart() -> None:
    """A plain tool that runs an agent with the middleware: neither sees the other's head, count, goal or request."""
    inner = agents.agent(ScriptedModel(replies=["forty-two"]), checkpointer=None)
    seen: list[Any] = []

    @tool
    def expert(question: str) -> str:
        """Ask the expert."""
        state = inner.invoke({"messages": [*rounds(8, tag="own"), HumanMessage(question)]})
        seen.append(state)
        return str(state["messages"][-1].text)

    model = ScriptedModel(replies=["ok", calls(("expert", {"question": "how much?"})), "it is 42"])
    graph = agents.agent(model, tools=[expert])
    graph.invoke(full("My goal is Hamburg."), CONFIG)
    head = standing(graph)["head"]
    graph.invoke(said("ask"), CONFIG)
    assert [m.text for m in values(graph)["messages"] if isinstance(m, ToolMessage)] == ["forty-two"]
    assert (standing(graph)["head"], standing(graph)["epoch"]) == (head, 1)
    rows = records_of(inner).history(THREAD)
    assert [(row.verdict, row.parent_id, row.epoch) for row in rows] == [("committed", None, 0)]
    assert set(seen[0]) == {"messages"}


async def test_a_branch_has_the_goal_and_pins_of_its_thread(go: Drive, build: Any) -> None:
    """In LangChain's agent, too, where both are no part of an input."""
    graph = build(ScriptedModel(replies=[usage(AIMessage("ok"), 100)]))
    await go.invoke(graph, full())
    CompactionThread(graph, CONFIG).pin(message_id="question")
    branch = CompactionThread(graph, CONFIG).branch_from(CompactionThread(graph, CONFIG).history()[0].compaction_id)
    state = graph.get_state(branch)
    assert state.values["compaction"]["pins"] == values(graph)["compaction"]["pins"] == ["question"]
    assert state.next == ()


async def test_a_new_thread_goes_on_with_goal_and_pins(go: Drive, build: Any) -> None:
    """What a handover names: they are there before the first check, and the message is answered as ever."""
    model = ScriptedModel()
    graph = build(model, facts_beside_summary=True)
    memory = {"goal": "buy eggs", "pins": ["p"]}
    given = [HumanMessage("never on Sundays", id="p"), *rounds(8), HumanMessage("and now?", id="q")]
    await go.invoke(graph, {"messages": given, "compaction_request": {"memory": memory}})
    assert verdicts(graph) == ["committed"]
    assert "never on Sundays" in texts(model.received[-1])
    assert values(graph)["compaction"]["goal"] == "buy eggs"
    assert "compaction_request" not in values(graph)
