"""A request is a conversation that every provider accepts, healed by position, and nothing of it is lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from langgraph_compaction.nodes.conversation.request import (
    MALFORMED,
    NO_RESULT,
    Meter,
    render,
)
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, messages_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript, calls_of
from tests.fakes import summary_message
from tests.graph.harness import WORDS
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


ERRORS: dict[str, tuple[str, str | None, str]] = {
    "no error": ("{", None, "the tool did not run. Call it with valid JSON]"),
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
    """Not that it was interrupted, as the call beside it is told; the parser's error is quoted, without arguments."""
    arguments, error, says = ERRORS[case]
    broken: list[Any] = [{"name": "read", "args": arguments, "id": "a", "error": error}]
    message = AIMessage("", tool_calls=asks("b").tool_calls, invalid_tool_calls=broken)
    sent = render(numbered([user("q"), message, user("u")]))
    interrupted, malformed = sent[2:4]
    assert isinstance(malformed, ToolMessage)
    assert interrupted.text == NO_RESULT
    assert "the arguments of this call were malformed" in malformed.text
    assert says in malformed.text
    assert "interrupted" not in malformed.text
    assert "\n" not in malformed.text
    assert len(malformed.text) < 350
    assert (malformed.status, malformed.name) == ("error", "read")
    assert not refused(sent)


def test_a_call_without_an_id_is_answered() -> None:
    """Some local models give none; call and stand-in are sent with one, and the stand-in with the tool's name."""
    nameless = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": None}])
    sent = render(numbered([nameless, user("u")]))
    assert isinstance(sent[1], ToolMessage)
    assert (sent[1].tool_call_id, sent[1].name) == ("call", "read")
    assert calls_of(sent[0]) == (("call", "read"),)
    assert calls_of(nameless) == ((None, "read"),)


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
    """Valid by position, and so say two checkers that know none of our code; what was said is sent once, and no more.

    The same request rendered again is the very same, and nothing that was given is changed.
    """
    before = fingerprint_all(history)
    sent = render(history)
    check_request(sent)
    assert list(map(id, render(sent))) == list(map(id, sent))
    joined = render(history, join_user_messages=True)
    assert render(joined, join_user_messages=True) == joined
    assert not unpaired(to_openai(sent))
    assert not second_opinion(to_openai(sent))
    ids = [m.id for m in sent if m.id is not None]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(m, ToolMessage) or not m.content for m in history if m.id not in ids)
    assert all(m.content in (NO_RESULT, MALFORMED.format(why=': "no JSON"')) for m in sent if m.id is None)
    assert fingerprint_all(history) == before


BY_NAME = messages_counter(lambda messages: sum(len(str(m.name or "")) + len(m.text) + 3 for m in messages))


@given(messages=histories(), data=st.data(), counter=st.sampled_from((WORDS, BY_NAME)))
def test_what_stays_weighs_what_its_own_request_would(
    messages: list[AnyMessage], data: st.DataObject, counter: TokenCounter
) -> None:
    """Whatever blocks and single messages leave, the weights of the others are the tokens of what is then sent."""
    meter, view = Meter(counter, overhead=7, scale=1.3), Transcript(messages)
    leaving = data.draw(st.sets(st.integers(0, len(messages) - 1)))
    blocks = [set(view.block_of[i].indexes) for i in leaving if i in view.block_of]
    drop = (leaving - view.block_of.keys()).union(*blocks)
    kept = [message for index, message in enumerate(messages) if index not in drop]
    weight = sum(weight for index, weight in enumerate(meter.weights(view)) if index not in drop)
    assert meter.scaled(meter.overhead + weight) == meter.request(kept)
    assert meter.unscaled(meter.request(kept)) >= 7
