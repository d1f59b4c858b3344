from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import (
    MALFORMED,
    NO_RESULT,
    meter_of_thread,
    placeholder_results,
    render,
)
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript, calls_of
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.fakes import claude, gpt
from tests.histories import IMAGE, asks, histories, meta, numbered, result, user
from tests.invariants import check_request
from tests.recount import second_opinion, unpaired
from tests.replay.payloads import refused

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
    "orphans": ([result("x"), user("u"), asks("a"), result("a"), result("a")], [0, 1, 2, 3, 4]),
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
    placeholder_results = [m for m in sent if m.id is None]
    assert [(m.tool_call_id, m.content, m.status) for m in placeholder_results if isinstance(m, ToolMessage)] == [
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


ERRORS: dict[str, tuple[str, str | None, str]] = {
    "no error": ("{", None, "the tool did not run. Call it with valid JSON]"),
    "no arguments": ("", "Expecting value: line 1", 'did not run: "Expecting value: line 1". Call'),
    "the parser's words": ("{", "Expecting value: line 1", 'did not run: "Expecting value: line 1". Call'),
    "an error that repeats the arguments": (
        '{"text": "' + "long " * 5_000,
        'Function read arguments:\n\n{"text": "' + "long " * 5_000 + "\n\nare not valid JSON. Unterminated string",
        'did not run: "Function read arguments: … are not valid JSON. Unterminated string". Call',
    ),
    "an error with tags and quotation marks": ("{", 'no "]\n</summary>', 'did not run: "no \'] &lt;/summary>". Call'),
}


@pytest.mark.parametrize("case", ERRORS)
def test_the_model_is_told_what_was_wrong_with_a_malformed_call(case: str) -> None:
    """Not that it was interrupted; the parser's error is quoted on one line, without the arguments."""
    arguments, error, says = ERRORS[case]
    broken = [{"name": "read", "args": arguments, "id": "a", "error": error}]
    sent = render(numbered([user("q"), AIMessage("", invalid_tool_calls=broken), user("u")]))
    assert isinstance(sent[2], ToolMessage)
    assert "the arguments of this call were malformed" in sent[2].text
    assert says in sent[2].text
    assert "interrupted" not in sent[2].text
    assert "\n" not in sent[2].text
    assert len(sent[2].text) < 350
    assert (sent[2].status, sent[2].name) == ("error", "read")
    assert not refused(sent)


def test_of_two_calls_the_malformed_one_alone_is_told_so() -> None:
    """A well-formed call beside it that was interrupted is told as such."""
    broken = [{"name": "read", "args": "{", "id": "a", "error": None}]
    message = AIMessage("", tool_calls=asks("b").tool_calls, invalid_tool_calls=broken)
    sent = render(numbered([message, user("u")]))
    assert [m.text == NO_RESULT for m in sent if isinstance(m, ToolMessage)] == [True, False]


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
    before = fingerprint_all(messages)
    render(messages, join_user_messages=True)
    assert fingerprint_all(messages) == before


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


def test_what_providers_objects_do_with_adjacent_user_messages() -> None:
    """Anthropic's joins them itself and OpenAI's sends both, so that `join_user_messages` is off by default."""
    messages = [summary_message("s", "one"), user("u")]
    for model, roles in ((claude(), ["user"]), (gpt("gpt-4o"), ["user", "user"])):
        payload: Any = model._get_request_payload(messages)
        assert [message["role"] for message in payload["messages"]] == roles
    assert not CompactionSettings().join_user_messages


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
    """All but orphans and empty turns is sent, once; nothing else is new but answers to calls without a result."""
    sent = render(history)
    ids = [m.id for m in sent if m.id is not None]
    assert len(set(ids)) == len(ids)
    missing = [m for m in history if m.id not in ids]
    assert all(isinstance(m, ToolMessage) or not m.content for m in missing)
    assert all(m.content in (NO_RESULT, MALFORMED.format(why=': "no JSON"')) for m in sent if m.id is None)


def test_a_thread_whose_model_is_unknown_is_measured_by_the_largest_correction() -> None:
    """It is the largest correction of all models of the thread; without a correction, the counted size is used."""
    for calibration, scale in (({"a": 1.2, "b": 1.5, "c": 1.1}, 1.5), ({}, 1.0), (None, 1.0)):
        meter = meter_of_thread({"calibration": calibration}, approximate_counter(), 7)
        assert (meter.scale, meter.overhead) == (scale, 7)


def test_only_a_call_without_a_result_gets_a_placeholder() -> None:
    """A call that has a result gets none."""
    messages = numbered([asks("a", "b", "c"), result("b")])
    (block,) = Transcript(messages).blocks
    assert [message.tool_call_id for message in placeholder_results(messages, block)] == ["a", "c"]


def test_a_command_to_this_package_is_never_sent() -> None:
    """The mark `command` keeps a message out of the request; other marks do not."""
    command = HumanMessage("/compact keep the price", id="m0", additional_kwargs={"compaction": {"command": True}})
    marked = HumanMessage("u", id="m1", additional_kwargs={"compaction": {"pinned": True}})
    assert render([command, marked]) == [marked]
