"""The preset `reserve_tokens`: so many tokens stay free, and so many of the newest stay."""

import pytest
from langchain_core.messages import HumanMessage

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.prompts import WORDINGS
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from tests.fakes import ScriptedModel
from tests.graph.harness import Drive, agent, rounds, values, verdicts

TOLD = "## Goal\nA chart, {number}.\n## Progress\nIt is drawn.\n## Next steps\nShow it to the user."


RESERVE = ({"kind": "reserve_tokens", "tokens": 250, "operator": ">"},)
"""A quarter of the window of 1,000 tokens."""


def told(number: int) -> str:
    """What the summarizer writes the nth time."""
    return TOLD.replace("{number}", f"number {number}")


@pytest.mark.parametrize(("window", "first"), [(200_000, 183_617), (128_000, 111_617)])
def test_more_than_the_window_without_the_reserve_fires(window: int, first: int) -> None:
    """The operator is `>`."""
    settings = CompactionSettings(preset="reserve_tokens", output_reserve=0)
    assert sizes_of(settings, window=window, fixed=0).trigger == first


async def test_an_update_prompt_brings_the_record_up_to_date(go: Drive) -> None:
    """The first compaction asks for it, the second hands it on; half of the room at most stays."""
    summarizer = ScriptedModel(replies=[told(1), told(2)])
    graph = agent(ScriptedModel(replies=["answer"]), summarizer, preset="reserve_tokens", triggers=RESERVE)
    history = rounds(9)
    await go.invoke(graph, {"messages": [*history, HumanMessage("now?", id="now")]})
    left = values(graph)["messages"]
    assert told(1) in left[0].text
    assert [m.id for m in left[1:-2]] == [m.id for m in history[-len(left[1:-2]) :]]
    assert 300 < sum(len(m.text.split()) + 4 for m in left) <= 560
    await go.invoke(graph, {"messages": [*rounds(6, tag="s"), HumanMessage("and now?", id="then")]})
    first, second = (asked[1].text for asked in summarizer.received)
    assert WORDINGS["en"].update not in first
    assert WORDINGS["en"].update in second
    assert f"<earlier_record>\n{told(1)}\n</earlier_record>" in second
    assert sum(map(is_summary, values(graph)["messages"])) == 1
    assert verdicts(graph) == ["committed", "committed"]
