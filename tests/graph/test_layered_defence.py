"""The preset `layered_defence`: three layers of defence that all end in one summary of everything (S3)."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.prompts import PROMPTS
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    events,
    filler,
    frozen,
    ledger,
    rounds,
    said,
    steps,
    values,
    verdicts,
)
from tests.graph.test_one_database import opened

TOLD = "The user asked for a chart, and it was drawn."
CLEARED = f"[System] Context cleared. Summary of previous conversation: \n {TOLD}\n"


def defended(replies: list[Any], **options: Any) -> Any:
    """Build the small agent under this preset, with the usual window."""
    given = {"preset": "layered_defence", "summarizer": ScriptedModel(replies=[TOLD]), **options}
    return agent(ScriptedModel(replies=replies), **given)


def many(count: int) -> list[AnyMessage]:
    """So many messages of few tokens."""
    return [HumanMessage(str(n), id=f"m{n}") if n % 2 == 0 else AIMessage(str(n), id=f"m{n}") for n in range(count)]


LAYERS: dict[str, tuple[list[AnyMessage], list[Any], str, dict[str, Any]]] = {
    "prevention": (rounds(9), ["answer"], "input", {}),
    "institution": (many(700), ["answer"], "events", {"context_window": 100_000}),
    "remedy": (rounds(5), [ContextOverflowError("too long"), "answer"], "overflow", {}),
}


@pytest.mark.parametrize("layer", LAYERS)
async def test_every_layer_ends_in_the_same_summary(go: Drive, layer: str) -> None:
    """Before an overflow, at so many events, and after the provider's refusal: one way, and one message is left."""
    history, replies, trigger, options = LAYERS[layer]
    graph = defended(replies, **options)
    given = {"messages": [SystemMessage("rules", id="rules"), *history, HumanMessage("and now?", id="now")]}
    chunks = await go.stream(graph, given, stream_mode=["updates", "custom"])
    (row,) = ledger(graph)
    assert (row.trigger, row.verdict, row.strategy) == (trigger, "committed", "layered_defence+model")
    assert [name for name in steps(chunks) if name != "model"][:1] == ["token_check"]
    system, summary, question, answer = values(graph)["messages"]
    assert (system.text, question.text, answer.text) == ("rules", "and now?", "answer")
    assert is_summary(summary)
    assert summary.text.startswith(CLEARED)


async def test_the_emergency_layer_makes_the_thread_usable_again(go: Drive) -> None:
    """The failed turn goes on by itself with the pending message, and the next one needs nothing."""
    graph = defended([ContextOverflowError("too long"), "answer", "next"])
    chunks = await go.stream(
        graph, {"messages": [*rounds(5), HumanMessage("now?", id="now")]}, stream_mode=["updates", "custom"]
    )
    assert [event["trigger"] for event in events(chunks, "PreCompactEvent")] == ["overflow"]
    await go.invoke(graph, said("more", "more"))
    assert [message.text for message in values(graph)["messages"]][1:] == ["now?", "answer", "more", "next"]


@pytest.mark.parametrize(("window", "first"), [(200_000, 180_001), (1_000, 901), (128_000, 115_201)])
def test_more_than_nine_tenths_fire(window: int, first: int) -> None:
    """The operator is `>`, and there is room left before a real overflow."""
    settings = CompactionSettings(preset="layered_defence", output_reserve=0)
    sizes = sizes_of(settings, window=window, fixed=0)
    assert sizes.trigger == first <= sizes.limit


@pytest.mark.parametrize(("count", "compacted"), [(699, False), (700, True)])
async def test_more_than_seven_hundred_events_fire(go: Drive, count: int, *, compacted: bool) -> None:
    """The new message is one of them; however few tokens they hold."""
    graph = defended(["answer"], context_window=100_000)
    await go.invoke(graph, {"messages": [*many(count), HumanMessage("and now?")]})
    assert bool(ledger(graph)) == compacted
    assert len(values(graph)["messages"]) == (3 if compacted else count + 2)


async def test_system_messages_are_kept_before_the_summary(go: Drive) -> None:
    """The leading ones in their order; one that stands later stays as well."""
    graph = defended(["answer"])
    leading = [SystemMessage("one", id="s1"), SystemMessage("two", id="s2")]
    later = SystemMessage("three", id="s3")
    await go.invoke(graph, {"messages": [*leading, *rounds(5), later, *rounds(4, tag="t"), HumanMessage("now?")]})
    left = values(graph)["messages"]
    assert [message.text for message in left if not is_summary(message)] == ["one", "two", "three", "now?", "answer"]
    assert is_summary(left[2])


async def test_a_summarizer_of_its_own_condenses_a_very_long_conversation(go: Drive) -> None:
    """A compiled graph, which sees neither tools nor thread; hundreds of thousands of characters become a line."""
    shown: list[str] = []

    def write(state: MessagesState) -> dict[str, Any]:
        shown.append(state["messages"][-1].text)
        assert state["messages"][0].text == PROMPTS["continuity", "en"].system
        return {"messages": AIMessage(TOLD)}

    compactor = StateGraph(MessagesState).add_node("write", write).add_edge(START, "write").add_edge("write", END)
    graph = defended(["answer"], summarizer=compactor.compile(), context_window=100_000, summary_input_tokens=None)
    history = rounds(20, words=2_300)
    assert sum(len(message.text) for message in history) > 400_000
    await go.invoke(graph, {"messages": [*history, HumanMessage("now?")]})
    (text,) = shown
    assert "characters left out" in text
    assert len(text) < 130_000
    (row,) = ledger(graph)
    seen = row.seen or {}
    assert seen["cut"]
    assert seen["full"]
    assert len(values(graph)["messages"][0].text) < 300


def test_what_is_left_is_in_the_database(tmp_path: Path) -> None:
    """Whoever opens it later finds the new conversation, and the row that says how it came about."""
    found: list[Any] = []
    for given in ({"messages": [*rounds(9), HumanMessage("and now?")]}, None):
        with opened(SQLAlchemySaver, f"sqlite:///{tmp_path / 'defence.db'}") as saver:
            graph = defended(["answer"], checkpointer=saver)
            if given:
                graph.invoke(given, CONFIG)
            found.append((frozen(values(graph)["messages"]), verdicts(graph)))
    assert found[0] == found[1]
    assert (len(found[1][0]), found[1][1]) == (3, ["committed"])


async def test_a_failed_summary_is_never_committed(go: Drive) -> None:
    """Neither an error's text nor a constant: a digest of what was said stands in, and says which it is."""
    graph = defended(["answer"], summarizer=ScriptedModel(replies=[RuntimeError("no")]))
    await go.invoke(graph, {"messages": [*rounds(10), HumanMessage(filler(60))]})
    assert [row.verdict for row in ledger(graph)][-1] == "degraded_deterministic"
    assert "no" not in values(graph)["messages"][0].text.split()
