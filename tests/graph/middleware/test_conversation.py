"""The conversation of an agent with the middleware stays whole, and the middleware can come and go."""

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.nodes.testing import ScriptedModel, texts
from tests.graph.harness import CONFIG, Drive, filler, request_tokens, rounds, said, values, verdicts
from tests.graph.middleware.agents import agent
from tests.invariants import is_summary


async def test_the_messages_stay_whole_after_several_compactions(go: Drive) -> None:
    """The state holds each message once, as it was said, and the model is sent less."""
    model = ScriptedModel(replies=[filler(60)])
    graph = agent(model)
    asked = [HumanMessage(f"{turn} {filler(100)}", id=f"user-{turn}") for turn in range(15)]
    for message in asked:
        await go.invoke(graph, {"messages": [message]})
    whole = graph.get_state(CONFIG).values["messages"]
    assert verdicts(graph).count("committed") >= 3
    assert whole[::2] == asked
    assert [message.text for message in whole[1::2]] == [filler(60)] * 15
    assert len({message.id for message in whole}) == 30
    assert max(map(request_tokens, model.received)) <= 1_000 < request_tokens(whole)
    assert sum(map(is_summary, model.received[-1])) == 1


async def test_a_long_thread_adopts_the_middleware_and_leaves_it_again(go: Drive) -> None:
    """A thread of a plain agent is compacted in its next turn; without the middleware, the model sees all again."""
    model, saver = ScriptedModel(replies=["noted"]), InMemorySaver()
    plain, compacting = create_agent(model, checkpointer=saver), agent(model, checkpointer=saver)
    await go.invoke(plain, {"messages": rounds(12)[:-1]})
    await go.invoke(compacting, said("adopted?", "adopted"))
    assert verdicts(compacting) == ["committed"]
    assert "ra0-0 " not in texts(model.received[-1])
    await go.invoke(plain, said("left?", "left"))
    whole = plain.get_state(CONFIG).values["messages"]
    assert whole[:23] == rounds(12)[:-1]
    assert [message.text for message in whole[23:]] == ["noted", "adopted?", "noted", "left?", "noted"]
    assert model.received[-1] == whole[:-1]
    await go.invoke(compacting, said("and back?", "back"))
    assert verdicts(compacting) == ["committed"]
    assert "ra0-0 " not in texts(model.received[-1])
    assert values(compacting)["messages"][-3:-1] == [whole[-1], HumanMessage("and back?", id="back")]
