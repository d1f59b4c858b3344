from base64 import b64encode
from json import dumps, loads
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes import RequestError
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    calm,
    events,
    filler,
    frozen,
    full,
    said,
    standing,
    steps,
    tool_block,
    values,
    verdicts,
)

MODES = ["updates", "custom"]


def wish(**request: Any) -> dict[str, Any]:
    """The input of a run by which a person asks for something."""
    return {"messages": [], "compaction_request": request}


@pytest.mark.parametrize("named", [True, False])
async def test_a_run_takes_a_compaction_back(go: Drive, named: bool) -> None:
    """For who has only the server: the state is the one that `undo` leaves, and no model is called."""
    model = calm()
    by_hand, by_run = agent(calm()), agent(model)
    for graph in (by_hand, by_run):
        await go.invoke(graph, full())
    facts = standing(by_run)["last"]
    assert (facts["verdict"], len(facts["left"])) == ("committed", 3)
    assert facts["left"][0].startswith('human: "ru0-0 ru0-1')
    CompactionThread(by_hand, CONFIG).undo(force=True)
    head, calls = standing(by_run)["head"], len(model.received)
    chunks = await go.stream(by_run, wish(undo=head if named else "last", force=True), stream_mode=MODES)
    assert steps(chunks) == ["token_check"]
    assert len(model.received) == calls
    assert frozen(values(by_run)["messages"]) == frozen(values(by_hand)["messages"])
    assert verdicts(by_run) == verdicts(by_hand) == ["committed", "undone"]
    (told,) = events(chunks, "CompactionEvent")
    assert (told["verdict"], told["strategy"], told["compaction_id"]) == ("undone", "undo", head)
    assert told["tokens_before"] < told["tokens_after"]
    assert standing(by_run)["last"]["text"] == standing(by_hand)["last"]["text"]
    assert standing(by_run)["last"]["text"].startswith("undone: ")
    assert standing(by_run)["last"]["compaction"] == facts
    await go.invoke(by_run, wish(undo="last"))
    assert (standing(by_run)["last"]["verdict"], standing(by_run)["last"]["compaction"]) == ("noop", facts)
    await go.invoke(by_run, said("held"))
    assert standing(by_run)["epoch"] == 1
    chunks = await go.stream(by_run, wish(release=True), stream_mode=MODES)
    assert [event["held"] for event in events(chunks, "ReleaseEvent")] == [True]
    assert standing(by_run)["last"] == facts
    await go.invoke(by_run, said(filler(720)))
    assert standing(by_run)["epoch"] == 2


async def test_an_input_with_an_undo_pins_what_has_room(go: Drive) -> None:
    """The view that the undo goes out from is the one of its own input, in which a pin that is too large is none."""
    graph = agent()
    await go.invoke(graph, full())
    large = HumanMessage(filler(600), id="large", additional_kwargs={"compaction": {"pinned": True}})
    await go.invoke(graph, {**wish(undo="last", force=True), "messages": [large]})
    assert verdicts(graph) == ["committed", "undone"]
    assert values(graph)["messages"][-1].text == large.text
    assert CompactionThread(graph, CONFIG).pins() == []


async def test_a_view_that_a_client_wrote_back_as_json_is_undone() -> None:
    """LangGraph's server shows the channel as JSON, and a client may store it again."""
    graph = agent()
    graph.invoke(full(), CONFIG)
    before = values(graph)["messages"]
    told = dumps(graph.get_state(CONFIG).values["compaction_view"], default=as_json)
    graph.update_state(CONFIG, {"compaction_view": loads(told)}, as_node="commit")
    assert frozen(values(graph)["messages"]) == frozen(before)
    thread = CompactionThread(graph, CONFIG)
    assert thread.undo(force=True).messages > len(before)
    name = thread.pin(message_id=before[-1].id)
    assert thread.redo().messages == len(before)
    thread.unpin(name)


def as_json(value: Any) -> Any:
    """What a server makes of bytes and of messages."""
    return b64encode(value).decode() if isinstance(value, bytes) else value.model_dump()


@pytest.mark.parametrize(
    ("request_", "reason", "told"),
    [
        ({"undo": "last"}, "over_limit", '"force": true undoes it all the same'),
        ({"undo": "0" * 16, "force": True}, "nothing_to_undo", "the ids are "),
    ],
)
async def test_a_run_that_takes_nothing_back_says_why(
    go: Drive, request_: dict[str, Any], reason: str, told: str
) -> None:
    """In the state and as an event; the conversation stays, and the next input is answered."""
    graph = agent()
    await go.invoke(graph, full(filler(200)))
    before = values(graph)["messages"]
    chunks = await go.stream(graph, wish(**request_), stream_mode=MODES)
    assert steps(chunks) == ["token_check"]
    assert values(graph)["messages"] == before
    (event,) = events(chunks, "CompactionEvent")
    for found in (standing(graph)["last"], event):
        assert (found["verdict"], found["reason"], told in found["detail"]) == ("noop", reason, True)
    assert verdicts(graph) == ["committed"]
    await go.invoke(graph, said("next"))
    assert values(graph)["messages"][-1].type == "ai"


def test_nothing_is_taken_back_without_a_thread_or_under_open_calls() -> None:
    """There is nothing kept; and results would find their calls gone."""
    threadless = agent(checkpointer=None).invoke(wish(undo="last"), {"configurable": {}})
    assert threadless["compaction"]["last"]["reason"] == "no_thread"
    graph = agent()
    graph.invoke(full(), CONFIG)
    graph.update_state(CONFIG, {"messages": tool_block(1, 5)[:1]}, as_node="token_check")
    with pytest.raises(RequestError, match='"abandon": true'):
        graph.invoke(wish(undo="last", force=True), CONFIG)
    assert verdicts(graph) == ["committed"]
    done = graph.invoke(wish(undo="last", force=True, abandon=True), CONFIG)
    assert done["compaction"]["last"]["verdict"] == "undone"


async def test_what_is_said_along_with_an_undo_is_answered_next(go: Drive) -> None:
    """The message stays behind what stands again; the run that undoes calls no model."""
    model = calm()
    graph = agent(model)
    await go.invoke(graph, full())
    calls = len(model.received)
    await go.invoke(graph, {**wish(undo="last", force=True), **said("along", "along")})
    assert values(graph)["messages"][-1].id == "along"
    assert len(model.received) == calls
    await go.invoke(graph, said("next", "next"))
    assert [message.text for message in model.received[-1]][-2:] == ["along", "next"]
