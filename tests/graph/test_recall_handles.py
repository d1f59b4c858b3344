"""The handle that a summary shows, and what the agent gets for it."""

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.graph import CompactionThread, view
from langgraph_compaction.nodes import compact_messages
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.summary.summary_message import EARLIER_HANDLES
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    WORDS,
    Drive,
    agent,
    filler,
    full,
    ledger,
    rounds,
    said,
    values,
)

FACT = AIMessage(f"Your booking is ZK-4471, seat 12C. {filler(60, 'b')}", id="fact")
START: dict[str, Any] = {"messages": [HumanMessage("Book it.", id="asked"), FACT, *full()["messages"]]}
LINE = re.compile(r"\n\[recall: ([0-9a-f]{12}(?:, [0-9a-f]{12})*)\]")


def summary_of(graph: Any) -> HumanMessage:
    """Return the one summary in view."""
    (found,) = [message for message in values(graph)["messages"] if is_summary(message)]
    assert isinstance(found, HumanMessage)
    return found


def handles(text: str) -> list[str]:
    """Return the handles that a summary shows, in their order."""
    return [name for line in LINE.findall(text) for name in line.split(", ")]


def committed(graph: Any) -> list[str]:
    """Return the beginnings of the ids of the compactions that were committed, oldest first."""
    return [row.compaction_id[:12] for row in ledger(graph) if (row.verdict or "").startswith("committed")]


async def test_the_agent_fetches_an_original_by_the_handle_in_the_summary(go: Drive, tmp_path: Any) -> None:
    """It reads the handle in its own request, from a file of SQLite, and gets the words that left."""

    def fetches(request: Any) -> AIMessage:
        (name,) = [found for message in request for found in handles(message.text)]
        return AIMessage("", tool_calls=[{"name": "recall", "args": {"handle": name, "query": "booking"}, "id": "r"}])

    with Database.open(f"sqlite:///{tmp_path / 'handles.db'}") as database:
        database.setup()
        model = ScriptedModel(replies=["first", fetches, "12C"])
        graph = agent(model, recall="tool", database=database.engine)
        await go.invoke(graph, START)
        assert "ZK-4471" not in "".join(message.text for message in values(graph)["messages"])
        await go.invoke(graph, said("which seat?"))
        (result,) = [message for message in values(graph)["messages"] if isinstance(message, ToolMessage)]
        assert FACT.text in result.text
        assert handles(summary_of(graph).text) == committed(graph)


def test_without_recall_a_summary_shows_no_handle() -> None:
    """The message is what it was."""
    with_it, without = agent(recall="tool", facts_beside_summary=False), agent(facts_beside_summary=False)
    for graph in (with_it, without):
        graph.invoke(START, CONFIG)
    shown, plain = summary_of(with_it), summary_of(without)
    assert LINE.sub("", shown.text) == plain.text
    assert "handles" not in plain.additional_kwargs["compaction"]
    assert LINE.search(shown.text)


def test_where_nothing_is_archived_there_is_no_handle() -> None:
    """Neither in a list that is compacted by itself, nor without a thread."""
    settings = CompactionSettings(recall="tool")
    short = compact_messages(rounds(12), max_tokens=400, token_counter=WORDS, settings=settings)
    assert any(map(is_summary, short))
    graph = agent(recall="tool", checkpointer=None)
    left = view(graph.invoke(START, {"configurable": {}}))
    assert any(map(is_summary, left))
    assert not any("[recall:" in message.text for message in (*short, *left))


@pytest.mark.parametrize("form", ["record", "cleared", "terse"])
def test_a_summary_names_the_compactions_before_it(form: Any) -> None:
    """As many as there is room for, in every form; the text that is absorbed has none of them."""
    graph = agent(ScriptedModel(), ScriptedModel(replies=[SUMMARY]), recall="tool", form=form)
    graph.invoke(START, CONFIG)
    seen: list[list[str]] = []
    for number in range(EARLIER_HANDLES + 2):
        graph.invoke({"messages": [*rounds(8, tag=f"n{number}"), HumanMessage("and?", id=f"q{number}")]}, CONFIG)
        text = summary_of(graph).text
        assert len(LINE.findall(text)) == 1
        assert text.count("what was said before") == 1
        seen.append(handles(text))
    line = committed(graph)
    assert seen[0] == line[:2]
    assert seen[-1] == line[-EARLIER_HANDLES - 1 :]
    assert len(line) > EARLIER_HANDLES + 1
    first = CompactionThread(graph, CONFIG).recall("booking", handle=line[0])
    assert "ZK-4471" in first
    assert "ZK-4471" not in CompactionThread(graph, CONFIG).recall("booking", handle=line[1])
