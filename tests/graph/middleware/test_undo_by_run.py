from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, Drive, full, said, standing, values, verdicts
from tests.graph.middleware.agents import agent


async def test_a_run_takes_a_compaction_back_in_langchains_agent(go: Drive) -> None:
    """Before the agent begins: its model is not called, and what is held is released the same way."""
    model = ScriptedModel(profile_window=1_000)
    graph = agent(model, context_window=None)
    given = full()["messages"]
    await go.invoke(graph, {"messages": given})
    calls = len(model.received)
    await go.invoke(graph, {"messages": [], "compaction_request": {"undo": "last"}})
    assert values(graph)["messages"][:-1] == given
    assert standing(graph)["last"]["verdict"] == "undone"
    assert verdicts(graph) == ["committed", "undone"]
    assert len(model.received) == calls
    await go.invoke(graph, said("held"))
    assert verdicts(graph).count("committed") == 1
    await go.invoke(graph, {"messages": [], "compaction_request": {"release": True}})
    await go.invoke(graph, said("released"))
    assert verdicts(graph).count("committed") == 2
    assert graph.get_state(CONFIG).next == ()
