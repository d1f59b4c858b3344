"""`progressive` in the real graph: its triggers, the strategies in turn, the full summary as the last resort (S2)."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ReplyingSummarizer, ScriptedModel, texts
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Drive,
    agent,
    filler,
    ledger,
    rounds,
    said,
    standing,
    values,
    verdicts,
)

PRESETS = ("progressive", "progressive_chart", "progressive_pseudocode")


def asking(words: int, count: int = 10, size: int = 30) -> dict[str, Any]:
    """An input that adopts so many rounds (680 tokens) and asks something of so many words."""
    return {"messages": [*rounds(count, size), HumanMessage(filler(words, "q"), id="question")]}


def taken(graph: Any) -> list[str]:
    """The strategies of the thread's attempts."""
    return [row.strategy for row in ledger(graph)]


def summaries(graph: Any) -> list[AnyMessage]:
    """The summaries in the thread's state."""
    return [message for message in values(graph)["messages"] if is_summary(message)]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("words", "compactions"), [(66, 0), (67, 1)])
async def test_less_than_a_quarter_left_fires(go: Drive, preset: str, words: int, compactions: int) -> None:
    """250 of 1,000 tokens left do not, 249 do; before the call of the model."""
    model = ScriptedModel()
    graph = agent(model, preset=preset)
    await go.invoke(graph, asking(words))
    assert verdicts(graph) == ["committed"] * compactions
    assert len(model.received) == 1
    assert [row.trigger for row in ledger(graph)] == ["precheck"] * compactions


@pytest.mark.parametrize("words", [315, 316, 317, 400])
async def test_nothing_left_and_less_than_nothing_fire_too(go: Drive, words: int) -> None:
    """At one token left, none, and beyond the window."""
    model = ScriptedModel()
    graph = agent(model, preset="progressive")
    await go.invoke(graph, asking(words))
    assert verdicts(graph) == ["committed"]
    assert len(model.received) == 1


async def test_the_models_answer_fires_nothing(go: Drive) -> None:
    """Only the check before a call does; one place decides."""
    graph = agent(ScriptedModel(replies=[filler(200)]), preset="progressive")
    await go.invoke(graph, asking(60))
    assert verdicts(graph) == []
    await go.invoke(graph, said("next"))
    assert verdicts(graph) == ["committed"]


async def test_the_sliding_window_leaves_a_summary_and_the_newest_nine(go: Drive) -> None:
    """A talk in short inputs: the ledger says what was taken."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = agent(summarizer=summarizer, preset="progressive")
    await go.invoke(graph, asking(100))
    assert taken(graph) == ["progressive/sliding_window+model"]
    after = values(graph)["messages"]
    assert [is_summary(message) for message in after] == [True, *[False] * 11]
    assert "[Summary of the history]\n" in after[0].text
    assert [message.id for message in after[1:11]] == [m.id for m in asking(100)["messages"][-10:]]
    assert standing(graph)["last"]["strategy"] == "progressive/sliding_window+model"
    assert len(summarizer.received) == 1
    assert "ru5-29" in texts(summarizer.received[0])
    assert "ru6-0" not in texts(summarizer.received[0])


@pytest.mark.parametrize("names", [(), None], ids=["none", "the preset's"])
async def test_key_information_takes_no_more_room_than_it_holds(go: Drive, names: tuple[str, ...] | None) -> None:
    """The newest nine messages still fit beside a goal of two words: a tenth of the room would drive them out."""
    graph = agent(preset="progressive", **({} if names is None else {"key_information": names}))
    begun = [HumanMessage("short goal", id="goal"), *rounds(1)[1:], *rounds(6, 1, "s"), *rounds(5, 62, "t")]
    await go.invoke(graph, {"messages": [*begun, HumanMessage("and now?", id="question")]})
    assert taken(graph) == ["progressive/sliding_window+model"]
    assert ("short goal" in summaries(graph)[0].text.partition("[Summary")[0]) == (names is None)


async def test_where_no_strategy_makes_room_the_whole_is_summarized(go: Drive) -> None:
    """Nine messages are too few for any strategy; the question stays."""
    graph = agent(preset="progressive")
    await go.invoke(graph, asking(5, count=4, size=100))
    assert taken(graph) == ["progressive/full+model"]
    summary, question, answer = values(graph)["messages"]
    assert is_summary(summary)
    assert (question.id, answer.text) == ("question", "ok")


async def test_a_model_writes_the_full_summary_and_the_next_request_begins_with_it(go: Drive) -> None:
    """It is shown all that leaves; what it wrote stands before the question."""
    model, summarizer = ScriptedModel(), ScriptedModel(replies=[SUMMARY])
    graph = agent(model, summarizer, preset="progressive")
    await go.invoke(graph, asking(5, count=4, size=100))
    (asked,) = summarizer.received
    assert [f"ru{n}-99" in texts(asked) for n in range(4)] == [True] * 4
    first, question = model.received[-1]
    assert is_summary(first)
    assert "what was said before" in first.text
    assert question.id == "question"


@pytest.mark.parametrize(("words", "name"), [(20, "key_events"), (30, "key_events>sliding_window")])
async def test_what_is_still_short_goes_on_to_the_next_strategy(go: Drive, words: int, name: str) -> None:
    """Twenty key events and five others fit in short words; in longer ones the newest nine of them do."""
    orders = {"code": ("key_events",)}
    graph = agent(preset="progressive", adaptive_task_type="code", adaptive_orders=orders)
    talk: list[AnyMessage] = []
    for n in range(20):
        talk += [HumanMessage(filler(words, f"u{n}-")), AIMessage(filler(34 - words, f"a{n}-"))]
    await go.invoke(graph, {"messages": [*talk, HumanMessage("and now?")]})
    assert taken(graph) == [f"progressive/{name}+model"]
    assert len(summaries(graph)) == 1


async def test_two_hundred_calls_of_the_model_go_straight_to_the_full_summary(go: Drive) -> None:
    """However small the talk, at the check before the two hundredth call; the counter then starts anew."""
    graph = agent(preset="progressive")
    await go.invoke(graph, {"messages": [*rounds(10, 3), HumanMessage("go on")]})
    assert standing(graph)["calls"] == 1
    for calls, rows in ((198, 0), (199, 1), (397, 1), (398, 1), (399, 2)):
        graph.update_state(CONFIG, {"compaction": {"calls": calls}}, as_node="model")
        await go.invoke(graph, {"messages": [*rounds(6, 3, f"t{calls}"), HumanMessage(f"call {calls + 1}")]})
        assert len(ledger(graph)) == rows
        assert standing(graph).get("calls_at_commit", 0) == 200 * rows
    assert taken(graph) == ["progressive/full+model"] * 2
    assert [row.trigger for row in ledger(graph)] == ["model_calls"] * 2
    assert [message.text for message in values(graph)["messages"][1:]] == ["call 400", "ok"]


class Numbered(ScriptedModel):
    """A summarizer that numbers its summaries."""

    def model_post_init(self, context: Any, /) -> None:
        """Give as many as are asked for."""
        super().model_post_init(context)
        self.replies = [f"The user spoke of matter {n}." for n in range(1, 20)]


async def test_incremental_writes_one_message_of_a_section_a_chunk(go: Drive) -> None:
    """Every chunk but the last by itself; the next compaction absorbs the message into its first section."""
    summarizer = Numbered()
    chosen: dict[str, Any] = {"strategies": ("incremental",), "incremental_summary_chunk_size": 2}
    graph = agent(summarizer=summarizer, preset="progressive", **chosen)
    await go.invoke(graph, asking(30, count=7, size=50))
    (summary,) = summaries(graph)
    assert [f"Chunk {n}]\nThe user spoke of matter {n}." in summary.text for n in (1, 2, 3, 4)] == [True] * 3 + [
        False
    ]
    shown = [[f"ru{n}-0" in texts(request) for n in range(7)].index(True) for request in summarizer.received]
    assert shown == [0, 2, 4]
    (row,) = ledger(graph)
    assert (row.verdict, row.summary_calls) == ("committed", 3)
    assert len((row.seen or {})["full"]) == 12
    await go.invoke(graph, {"messages": rounds(6, 50, "more")})
    await go.invoke(graph, said("and now?"))
    assert verdicts(graph) == ["committed", "committed"]
    assert "The user spoke of matter 3." in texts(summarizer.received[3])
    assert "The user spoke of matter" not in texts(summarizer.received[4])
    (again,) = summaries(graph)
    assert "Chunk 1]\nThe user spoke of matter 4." in again.text
    assert "matter 3" not in again.text


async def test_a_summary_that_fails_never_breaks_the_turn(go: Drive) -> None:
    """The model answers, and the next attempt goes another way."""
    model = ScriptedModel()
    graph = agent(model, ReplyingSummarizer(ValueError("broken")), preset="progressive")
    await go.invoke(graph, asking(100))
    assert (len(model.received), verdicts(graph)) == (1, ["failed_permanent"])
    assert len(values(graph)["messages"]) == 22
    await go.invoke(graph, said("and now?"))
    assert verdicts(graph)[-1] == "degraded_deterministic"
    assert taken(graph)[-1] == "progressive/sliding_window+digest"
    assert len(model.received) == 2
