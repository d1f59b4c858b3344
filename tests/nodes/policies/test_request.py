from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint.codec import digest_all
from langgraph_compaction.graph.cli.openai_json import to_openai
from langgraph_compaction.nodes.policies.request import NO_RESULT, render
from langgraph_compaction.nodes.policies.summary import summary_message
from langgraph_compaction.nodes.policies.transcript import calls_of
from tests.histories import IMAGE, asks, histories, meta, numbered, result, user
from tests.invariants import check_request
from tests.recount import second_opinion, unpaired

HEALED: dict[str, tuple[list[AnyMessage], list[Any]]] = {
    "nothing to heal": ([user("u"), asks("a"), result("a"), AIMessage("done")], [0, 1, 2, 3]),
    "interjection between results": ([asks("a", "b"), result("a"), user("u"), result("b")], [0, 1, 3, 2]),
    "before the second result": ([asks("a", "b"), result("a"), user("u")], [0, 1, "b", 2]),
    "results in another order": ([asks("a", "b"), result("b"), result("a")], [0, 2, 1]),
    "interrupted": ([asks("a"), user("u"), AIMessage("done")], [0, "a", 1, 2]),
    "open": ([user("u"), asks("a")], [0, 1, "a"]),
    "late": ([asks("a"), user("u"), AIMessage("done"), result("a")], [0, 3, 1, 2]),
    "reused id": ([asks("a"), result("a"), user("u"), asks("a"), result("a")], [0, 1, 2, 3, 4]),
    "reused id, first interrupted": ([asks("a"), user("u"), asks("a"), result("a")], [0, "a", 1, 2, 3]),
    "reused id, first late": ([asks("a"), user("u"), asks("a"), result("a"), result("a")], [0, 4, 1, 2, 3]),
    "one id twice": ([asks("a", "a"), result("a"), result("a")], [0, 1, 2]),
    "one id twice, one result": ([asks("a", "a"), result("a")], [0, 1, "a-2"]),
    "orphans": ([result("x"), user("u"), asks("a"), result("a"), result("a")], [1, 2, 3]),
    "empty turns": ([user("u"), AIMessage(""), AIMessage([]), AIMessage(" \n"), AIMessage("done")], [0, 4]),
    "meta message between": ([asks("a"), meta("m"), result("a")], [0, 2, 1]),
    "system message between": ([asks("a"), SystemMessage("s"), result("a")], [0, 2, 1]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", HEALED)
def test_the_request_is_healed(case: str) -> None:
    """Places of the conversation in the order they are sent; an id stands for the answer to an interrupted call."""
    given, expected = HEALED[case]
    messages = numbered(given)
    sent = render(messages)
    places = {message.id: place for place, message in enumerate(messages)}
    assert [places.get(m.id) for m in sent] == [None if isinstance(e, str) else e for e in expected]
    stand_ins = [m for m in sent if m.id is None]
    assert [(m.tool_call_id, m.content, m.status) for m in stand_ins if isinstance(m, ToolMessage)] == [
        (e, NO_RESULT, "error") for e in expected if isinstance(e, str)
    ]
    check_request(sent)


def test_a_malformed_call_is_answered() -> None:
    """Providers are sent it after the well-formed ones, and results follow in that order."""
    message = AIMessage(
        "",
        tool_calls=asks("b").tool_calls,
        invalid_tool_calls=[{"name": "read", "args": "{", "id": "a", "error": None}],
    )
    sent = render(numbered([message, result("a"), user("u")]))
    assert [getattr(m, "tool_call_id", None) for m in sent] == [None, "b", "a", None]
    assert not unpaired(to_openai(sent))


def test_a_call_without_an_id_is_answered() -> None:
    """Some local models give none; call and stand-in are sent with one, and the stand-in with the tool's name."""
    nameless = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": None}])
    sent = render(numbered([nameless, user("u")]))
    assert isinstance(sent[1], ToolMessage)
    assert (sent[1].tool_call_id, sent[1].name) == ("call", "read")
    assert calls_of(sent[0]) == (("call", "read"),)
    assert calls_of(nameless) == ((None, "read"),)


def test_the_conversation_is_not_changed() -> None:
    """Only the request is healed."""
    messages = numbered([asks("a", "b"), result("b"), user("u"), user("v", name="Ann"), AIMessage("")])
    before = digest_all(messages)
    render(messages, join_user_messages=True)
    assert digest_all(messages) == before


def test_adjacent_user_messages_become_one_where_the_provider_wants_it() -> None:
    """Text and images in order; the first one's id; a summary and a meta message are user messages too."""
    messages = numbered(
        [summary_message("s", "one"), user("u"), AIMessage(""), HumanMessage([IMAGE]), AIMessage("a"), user("v")]
    )
    text = {"type": "text", "text": "u"}
    sent = render(messages, join_user_messages=True)
    assert [m.id for m in sent] == ["m0", "m4", "m5"]
    assert sent[0].content == [{"type": "text", "text": messages[0].text}, text, IMAGE]
    assert sent[2] is messages[5]
    assert len(render(messages)) == 5


@settings(max_examples=150, deadline=None)
@given(histories(max_size=40))
def test_every_history_renders_to_a_valid_request(history: list[AnyMessage]) -> None:
    """Valid by position, the very same when rendered again, and so say two checkers that know none of our code."""
    sent = render(history)
    check_request(sent)
    assert list(map(id, render(sent))) == list(map(id, sent))
    joined = render(history, join_user_messages=True)
    assert render(joined, join_user_messages=True) == joined
    assert not unpaired(to_openai(sent))
    assert not second_opinion(to_openai(sent))


@settings(max_examples=60, deadline=None)
@given(histories(max_size=40))
def test_nothing_that_was_said_is_lost_on_the_way(history: list[AnyMessage]) -> None:
    """All but orphans and empty turns is sent, once; nothing else is new but answers to interrupted calls."""
    sent = render(history)
    ids = [m.id for m in sent if m.id is not None]
    assert len(set(ids)) == len(ids)
    missing = [m for m in history if m.id not in ids]
    assert all(isinstance(m, ToolMessage) or not m.content for m in missing)
    assert all(m.content == NO_RESULT for m in sent if m.id is None)
