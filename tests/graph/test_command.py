"""A person asks for a compaction by a command in their text."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import CONFIG, SUMMARY, Drive, agent, events, ledger, rounds, said, steps, values, verdicts


def commanded(
    model: Any = None, summarizer: Any = None, *, trigger: dict[str, Any] | None = None, **options: Any
) -> Any:
    """An agent that heeds the command."""
    return agent(model, summarizer, triggers=({"kind": "command", **(trigger or {})},), **options)


@pytest.mark.parametrize(
    ("text", "focus"),
    [("/compact", None), ("/compact the price of eggs", "the price of eggs"), ("/compact\nthe price ", "the price")],
)
async def test_a_command_compacts_and_ends_the_turn(go: Drive, text: str, focus: str | None) -> None:
    """Whatever the size; what follows the word is the focus, and no model is called."""
    model, summarizer = ScriptedModel(), ScriptedModel(replies=[SUMMARY])
    graph = commanded(model, summarizer)
    await go.invoke(graph, {"messages": rounds(5)})
    chunks = await go.stream(graph, said(text, "command"), stream_mode=["updates", "custom"])
    assert steps(chunks) == ["token_check", "selective_compaction", "summarize", "commit"]
    assert events(chunks, "PreCompactEvent")[0]["trigger"] == "command"
    assert (ledger(graph)[0].trigger, ledger(graph)[0].verdict) == ("command", "committed")
    assert len(model.received) == 1
    assert focus is None or focus in texts(summarizer.received[0])


async def test_what_was_said_stays_and_the_model_is_not_sent_it(go: Drive) -> None:
    """The command stands in the conversation as it was said, and in no request."""
    model = ScriptedModel()
    graph = commanded(model)
    await go.invoke(graph, {"messages": rounds(5)})
    await go.invoke(graph, said("/compact the price of eggs", "command"))
    await go.invoke(graph, said("and now?"))
    assert HumanMessage("/compact the price of eggs", id="command") in graph.get_state(CONFIG).values["messages"]
    assert "command" not in {message.id for message in model.received[-1]}
    assert model.received[-1][-1].text == "and now?"
    assert steps(await go.stream(graph, {"messages": []})) == ["token_check", "model"], "it is obeyed once"


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("please /compact"),
        HumanMessage("> /compact"),
        HumanMessage("`/compact`"),
        HumanMessage(" /compact"),
        HumanMessage("/compaction is what?"),
        HumanMessage("/Compact"),
        HumanMessage("/compact", additional_kwargs={"compaction": {"is_meta": True}}),
        AIMessage("/compact"),
        ToolMessage("/compact", tool_call_id="1"),
    ],
)
async def test_nothing_else_is_a_command(go: Drive, message: AnyMessage) -> None:
    """Only a person's own words, and those at their very beginning."""
    model = ScriptedModel()
    graph = commanded(model)
    assert steps(await go.stream(graph, {"messages": [*rounds(4), message]})) == ["token_check", "model"]
    assert verdicts(graph) == []


@pytest.mark.parametrize("everything", [True, False])
async def test_word_and_reach_are_the_settings(go: Drive, everything: bool) -> None:
    """The trigger says which word it is, and whether all of it is summarized."""
    graph = commanded(trigger={"text": "#kurz", "full": everything})
    await go.invoke(graph, {"messages": rounds(5)})
    await go.invoke(graph, said("#kurz"))
    left = values(graph)["messages"]
    assert verdicts(graph) == ["committed"]
    assert sum(map(is_summary, left)) == 1
    assert (len(left) == 1) == everything
    assert CompactionThread(graph, CONFIG).transcript()[-1].text == "#kurz"
