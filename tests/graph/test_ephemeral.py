"""Ephemeral tools and messages through the real graph: they leave before the next call, and nothing is lost."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, tool

from langgraph_compaction.graph import CompactionThread, SettingsError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.testing import failing_records
from tests.fakes import ScriptedModel, calls
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    events,
    filler,
    ledger,
    rounds,
    said,
    steps,
    tool_block,
    values,
    verdicts,
)


def looking(keep: Any, words: int = 50) -> BaseTool:
    """A tool that shows a page of its own at each call, of which so many stay in view."""
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        seen.append("")
        return filler(words, f"page{len(seen)}-")

    look.metadata = {"ephemeral": keep}
    return look


def looks(times: int, *replies: Any) -> ScriptedModel:
    """A model that looks so often, one look a call, and then answers."""
    return ScriptedModel(replies=[*(calls(("look", {})) for _ in range(times)), *(replies or ("done",))])


def pages(model: ScriptedModel, number: int) -> list[str]:
    """The first word of each result in the model's nth request."""
    return [message.text.split()[0] for message in model.received[number] if message.type == "tool"]


async def test_a_pinned_result_stays(go: Drive) -> None:
    """However many newer ones there are."""
    model = ScriptedModel(replies=[calls(("look", {})), "done", calls(("look", {}), start=2), "done"])
    graph = agent(model, tools=[looking(1)])
    await go.invoke(graph, said("go"))
    (page,) = (message for message in values(graph)["messages"] if message.type == "tool")
    CompactionThread(graph, CONFIG).pin(message_id=page.id)
    await go.invoke(graph, said("again"))
    assert pages(model, -1) == ["page1-0", "page2-0"]


async def test_what_left_is_archived_and_in_the_ledger(go: Drive) -> None:
    """Each time a compaction of its own, without a summary; the line names the handle, the transcript has it all."""
    graph = agent(looks(3), tools=[looking(1)])
    chunks = await go.stream(graph, said("go"), stream_mode=["updates", "custom"])
    rows = ledger(graph)
    assert [(row.verdict, row.strategy, row.trigger, row.summary) for row in rows] == [
        ("committed", "ephemeral", "ephemeral", None)
    ] * 2
    assert all((row.tokens_after or 0) < row.tokens_before for row in rows)
    told = ("verdict", "reason", "strategy", "tokens_before", "tokens_after", "compaction_id")
    assert [tuple(event[name] for name in told) for event in events(chunks, "CompactionEvent")] == [
        ("committed", "success", "ephemeral", row.tokens_before, row.tokens_after, row.compaction_id) for row in rows
    ]
    held = values(graph)["messages"]
    old = [message.additional_kwargs["compaction"]["handle"] for message in held if message.text.startswith("[an")]
    found = [records_of(graph).recall("thread", name) for name in old]
    assert [message.text.split()[0] for message in found if message] == ["page1-0", "page2-0"]
    whole = CompactionThread(graph, CONFIG).transcript()
    assert [m.text.split()[0] for m in whole if m.type == "tool"] == ["page1-0", "page2-0", "page3-0"]
    assert [m.id for m in whole] == [m.id for m in held]


async def test_the_check_is_made_on_what_is_left(go: Drive) -> None:
    """A request that was over the trigger with its old pages is not compacted without them."""
    blocks = [message for n in range(4) for message in tool_block(n, 170, "look")]
    given = {"messages": [HumanMessage("u"), *blocks, AIMessage("read"), *rounds(1), HumanMessage("and now?")]}
    plain, model = agent(), ScriptedModel()
    graph = agent(model, tools=[looking(1)])
    assert "selective_compaction" in steps(await go.stream(plain, given))
    assert steps(await go.stream(graph, given)) == ["token_check", "model"]
    assert pages(model, 0) == ["[an", "[an", "[an", "t3-0"]


async def test_an_undo_holds_what_had_left(go: Drive) -> None:
    """The page stands again, and stays until it is released."""
    model = looks(2, "done")
    graph = agent(model, tools=[looking(1)])
    await go.invoke(graph, said("go"))
    CompactionThread(graph, CONFIG).undo()
    await go.invoke(graph, said("and now?"))
    assert pages(model, 3) == ["page1-0", "page2-0"]
    CompactionThread(graph, CONFIG).release()
    await go.invoke(graph, said("and now?"))
    assert pages(model, 4) == ["[an", "page2-0"]


@pytest.mark.parametrize("method", ["begin", "commit"])
async def test_what_cannot_be_archived_stays(go: Drive, method: str) -> None:
    """If the archive fails, the model receives the whole messages, and the event reports that no tokens were freed.

    The agent tries to remove the messages again before the next call of the model.
    """
    model = looks(3)
    graph = agent(model, tools=[looking(1)])
    with failing_records(graph, method, times=1):
        chunks = await go.stream(graph, said("go"), stream_mode=["updates", "custom"])
    failed, done = events(chunks, "CompactionEvent")
    assert (failed["verdict"], failed["reason"]) == ("failed_permanent", "archive:OSError")
    assert failed["tokens_before"] == failed["tokens_after"]
    assert (done["verdict"], done["reason"]) == ("committed", "success")
    assert done["tokens_before"] > done["tokens_after"]
    assert pages(model, 2) == ["page1-0", "page2-0"]
    assert pages(model, 3) == ["[an", "[an", "page3-0"]
    assert verdicts(graph) == {"begin": ["committed"], "commit": ["failed_permanent", "committed"]}[method]


@pytest.mark.parametrize("keep", [True, -1, "2", 1.5])
def test_a_tool_that_says_no_number_is_an_error(keep: Any) -> None:
    """At build time, with its name."""
    with pytest.raises(SettingsError, match=r"the tool .look. has metadata ephemeral"):
        agent(tools=[looking(keep)])
