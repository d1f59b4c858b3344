from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, Extensions, create_compacting_agent
from langgraph_compaction.nodes import Choice, Demand, Selector
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, SMALL, SUMMARY, WORDS, agent, filler, ledger, tool_block, values
from tests.graph.middleware.agents import agent as middleware_agent


def old_results(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """All blocks but the newest, and not a word about summaries."""
    blocks = selector.view.blocks[:-1]
    yield Choice(drop=frozenset(index for block in blocks for index in block.indexes), enough=demand.aim)


@pytest.mark.usefixtures("unbraked")
@pytest.mark.parametrize("mode", ["always", "if_needed"])
def test_a_strategy_need_not_know_of_earlier_summaries(mode: Any) -> None:
    """The earlier summary leaves with what a later compaction summarizes, and one stands for both."""
    graph = create_compacting_agent(
        ScriptedModel(),
        extensions=Extensions(strategies={"old_results": old_results}),
        settings=CompactionSettings(**SMALL, strategies=("old_results",), summary_mode=mode),
        summarizer=ScriptedModel(replies=[SUMMARY]),
        token_counter=WORDS,
        checkpointer=InMemorySaver(),
    )
    graph.invoke({"messages": [("user", filler(350))]}, CONFIG)  # with it the aim is missed, so that a summary is due
    for turn in range(3):
        blocks = [message for n in range(3) for message in tool_block(3 * turn + n, 160)]
        graph.invoke({"messages": [*blocks, ("user", "and now?")]}, CONFIG)
    assert [row.verdict for row in ledger(graph)] == ["committed"] * 3
    assert sum(map(is_summary, values(graph)["messages"])) == 1


def lost_call(selector: Selector, _: Demand) -> Iterator[Choice]:
    """A choice whose shortened copy of a message lacks the call that the message makes."""
    start = selector.view.blocks[0].start
    yield Choice(clip={start: AIMessage("shortened", id=selector.view.messages[start].id)})


@pytest.mark.parametrize("build", [agent, middleware_agent], ids=["ours", "langchain"])
def test_a_strategy_that_loses_a_call_is_stopped_before_a_summary_is_written(build: Any) -> None:
    """The attempt fails without a call of the summarizer, and the messages stay as they were."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    own = Extensions(strategies={"lost_call": lost_call})
    graph = build(ScriptedModel(), summarizer, extensions=own, strategies=("lost_call",))
    given = [*(message for n in range(5) for message in tool_block(n, 160)), ("user", "and now?")]
    graph.invoke({"messages": given}, CONFIG)
    row = ledger(graph)[0]
    assert (row.verdict, row.reason) == ("failed_permanent", "selective:SettingsError")
    assert (
        "changed the number of its tool calls from 1 to 0: the shortened copy must have the same calls" in row.detail
    )
    assert summarizer.received == []
    assert values(graph)["messages"][:10] == given[:10]
