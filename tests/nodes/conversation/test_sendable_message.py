"""What strict providers refuse is mended in the request, and only there."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.nodes.conversation.bound_history import with_history_changed
from langgraph_compaction.nodes.conversation.request import BLANK, parts, render
from langgraph_compaction.nodes.conversation.transcript import Transcript, all_calls, calls_of
from tests.histories import IMAGE, asks, histories, numbered, result, user
from tests.replay.payloads import refused

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "x"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
LONG = "x" * 60


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


IDS: dict[str, tuple[list[list[Any]], list[list[str]]]] = {
    "in order": ([["a", "b"], ["c"]], [["a", "b"], ["c"]]),
    "again in another message": ([["a"], ["b", "a"], ["a"]], [["a"], ["b", "a-2"], ["a-3"]]),
    "again in one message": ([["a", "a"], ["a"]], [["a", "a-2"], ["a-3"]]),
    "again, where the next name is taken": ([["a-2"], ["a"], ["a"]], [["a-2"], ["a"], ["a-3"]]),
    "again, and its name is then given": ([["a"], ["a"], ["a-2"]], [["a"], ["a-2"], ["a-2-2"]]),
    "empty": ([[""], ["", "a"]], [["call"], ["call-2", "a"]]),
    "of another alphabet": (
        [["functions.read:0"], ["functions.read:0"]],
        [["functions.read:0"], ["functions.read:0-2"]],
    ),
    "too long": ([[LONG], ["x" * 40], [LONG]], [["x" * 40], ["x" * 38 + "-2"], ["x" * 38 + "-3"]]),
}


def _blocks(calls: list[list[Any]]) -> list[AnyMessage]:
    return [m for ids in calls for m in (asks(*ids), *map(result, ids))]


@pytest.mark.parametrize("case", IDS)
def test_call_ids_are_sent_once_and_as_all_providers_take_them(case: str) -> None:
    """The first of an id keeps it, the others are numbered, and each result follows its call."""
    given, expected = IDS[case]
    messages = numbered([user("u"), *_blocks(given)])
    before = fingerprint_all(messages)
    sent = render(messages)
    assert [[call_id for call_id, _ in calls_of(m)] for m in sent if calls_of(m)] == expected
    answers = [m.tool_call_id for m in sent if isinstance(m, ToolMessage)]
    assert answers == [call_id for ids in expected for call_id in ids]
    assert not refused(sent)
    assert fingerprint_all(messages) == before
    same = [m.id for m, given in zip(sent, messages, strict=True) if m is given]
    assert ("m1" in same) == (given[0] == expected[0])


def test_ten_thousand_calls_of_one_id_are_told_apart() -> None:
    """Some local models call every call the same."""
    sent = render(numbered(_blocks([["call_0"]] * 10_000)))
    ids = [m.tool_call_id for m in sent if isinstance(m, ToolMessage)]
    assert len(set(ids)) == 10_000
    assert ids[-1] == "call_0-10000"


HELD: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "tool_use": (
        [{"type": "tool_use", "id": "a", "name": "read", "input": {"n": n}} for n in (1, 2)],
        [{"type": "tool_use", "id": i, "name": "read", "input": {"n": n}} for n, i in ((1, "a-2"), (2, "a-3"))],
    ),
    "tool_call": (
        [{"type": "tool_call", "id": "a", "name": "read", "args": {"n": n}} for n in (1, 2)],
        [{"type": "tool_call", "id": i, "name": "read", "args": {"n": n}} for n, i in ((1, "a-2"), (2, "a-3"))],
    ),
    "function_call": (
        [{"type": "function_call", "id": f"fc_{n}", "call_id": "a", "arguments": f'{{"n":{n}}}'} for n in (1, 2)],
        [
            {"type": "function_call", "id": f"fc_{n}", "call_id": i, "arguments": f'{{"n":{n}}}'}
            for n, i in ((1, "a-2"), (2, "a-3"))
        ],
    ),
}


@pytest.mark.parametrize("kind", HELD)
def test_a_call_that_stands_in_the_content_too_has_its_id_there(kind: str) -> None:
    """By position; what stands around it is not touched, and a raw copy with other ids is not sent."""
    blocks, expected = HELD[kind]
    calls = [{"name": "read", "args": {"n": n}, "id": "a"} for n in (1, 2)]
    around = [THOUGHT, REASONING, _text("looking")]
    raw = {"tool_calls": [{"id": "a"}], "reasoning": REASONING}
    again = AIMessage([*around, *blocks], tool_calls=calls, additional_kwargs=raw)
    sent = render(numbered([user("u"), *_blocks([["a"]]), again, result("a"), result("a")]))
    assert sent[3].content == [*around, *expected]
    assert sent[3].additional_kwargs == {"reasoning": REASONING}
    assert again.content == [*around, *blocks]


def test_a_call_of_the_content_that_the_message_does_not_make_is_not_sent() -> None:
    """Nothing answers it; a turn that holds nothing else is empty."""
    block = {"type": "tool_use", "id": "b", "name": "read", "input": {}}
    text = _text("looking")
    both = AIMessage([text, {**block, "id": "a"}, block], tool_calls=asks("a").tool_calls)
    stripped = AIMessage("done", additional_kwargs={"tool_calls": [{"id": "b"}]})
    sent = render(numbered([user("u"), both, result("a"), AIMessage([block]), stripped]))
    assert [m.id for m in sent] == ["m0", "m1", "m2", "m4"]
    assert sent[1].content == [text, {**block, "id": "a"}]
    assert sent[3].additional_kwargs == {}
    assert not refused(sent)


MALFORMED: dict[str, tuple[dict[str, Any], tuple[str, dict[str, Any]]]] = {
    "no JSON": ({"name": "read", "args": "{"}, ("read", {"__raw__": "{"})),
    "no arguments": ({"name": "read", "args": None}, ("read", {})),
    "no name": ({"name": None, "args": "{"}, ("unknown", {"__raw__": "{"})),
}


def _as_tool_use(name: Any, args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "a", "name": name, "input": args, "partial_json": "{"}


def _as_function_call(name: Any, args: Any) -> dict[str, Any]:
    said = json.dumps(args) if isinstance(args, dict) else args
    return {"type": "function_call", "id": "fc_1", "call_id": "a", "name": name, "arguments": said}


def _as_tool_call(name: Any, args: Any) -> dict[str, Any]:
    kind = {"type": "tool_call"} if isinstance(args, dict) else {"type": "invalid_tool_call", "error": "no JSON"}
    return {**kind, "id": "a", "name": name, "args": args}


HOLDERS = {"nowhere else": None, "v0": _as_tool_use, "responses/v1": _as_function_call, "v1": _as_tool_call}


@pytest.mark.parametrize("case", MALFORMED)
@pytest.mark.parametrize("version", HOLDERS)
def test_a_malformed_call_is_sent_as_one_that_can_be_read(case: str, version: str) -> None:
    """Its text is the one argument, so that the model sees what it wrote; it stands last, as its result does."""
    broken, (name, args) = MALFORMED[case]
    holder = HOLDERS[version]
    message = AIMessage(
        [_text("looking"), *([holder(broken["name"], broken["args"])] if holder else [])],
        tool_calls=asks("b").tool_calls,
        invalid_tool_calls=[{**broken, "id": "a", "error": None}],
        response_metadata={"output_version": version},
    )
    sent = render(numbered([user("u"), message, result("a"), result("b")]))
    assert [(c["id"], c["name"], c["args"]) for c in all_calls(sent[1])] == [("b", "read", {}), ("a", name, args)]
    assert not sent[1].invalid_tool_calls
    assert sent[1].content[1:] == ([holder(name, args)] if holder else [])
    assert [m.tool_call_id for m in sent if isinstance(m, ToolMessage)] == ["b", "a"]
    assert not refused(sent)


BLANKS: dict[str, tuple[AnyMessage, Any]] = {
    "a user who says nothing": (HumanMessage(""), BLANK),
    "a user of white space": (HumanMessage(" \n"), BLANK),
    "a user of no blocks": (HumanMessage([]), BLANK),
    "a user of blank blocks": (HumanMessage([_text(" "), ""]), BLANK),
    "an image with a blank text": (HumanMessage([_text(""), IMAGE]), [IMAGE]),
    "a blank text beside a call": (asks("a", text=" \n"), ""),
    "a blank block beside a call": (asks("a").model_copy(update={"content": [_text("\n"), THOUGHT]}), [THOUGHT]),
    "only blank blocks beside a call": (asks("a").model_copy(update={"content": [_text("\n"), " "]}), ""),
    "a result of white space": (result("a", "\n"), ""),
    "a result of no blocks": (result("a", []), ""),
    "a result with a blank block": (result("a", [_text("one"), _text("")]), [_text("one")]),
    "an answer with a blank block": (AIMessage([_text("one"), _text("")]), [_text("one")]),
    "an answer that ends in white space": (AIMessage("done \n"), "done \n"),
    "a turn of blank blocks": (AIMessage([_text(" "), ""]), None),
    "a turn that broke off in thought": (AIMessage([THOUGHT, REASONING, _text("")]), None),
}


@pytest.mark.parametrize("case", BLANKS)
def test_no_blank_text_is_sent(case: str) -> None:
    """It is left out; where a user said nothing else, that is said."""
    message, expected = BLANKS[case]
    whole = [asks("a"), message] if isinstance(message, ToolMessage) else [message]
    whole = [*whole, result("a")] if calls_of(message) else whole
    messages = numbered([user("u"), *whole])
    place = messages[1 + whole.index(message)].id
    sent = render(messages)
    assert [m.content for m in sent if m.id == place] == ([] if expected is None else [expected])
    assert not refused(sent)


def test_what_is_in_order_and_what_is_not_ours_is_sent_as_it_is() -> None:
    """The very same objects: prompts, marks and thoughts, and system messages whatever they hold."""
    foreign = [{"type": "reasoning_content", "text": ""}, {"type": "function_call", "name": "read"}]
    thinking = asks("a").model_copy(update={"content": [THOUGHT, *foreign, _text("looking")]})
    said = [
        SystemMessage(" "),
        user("u", name="Ann"),
        thinking,
        result("a"),
        HumanMessage([IMAGE]),
        AIMessage([IMAGE]),
    ]
    messages = numbered(said)
    assert list(map(id, render(messages))) == list(map(id, messages))


ODD_IDS = {"a": "", "b": "functions.read:0", "c": LONG}
ODD_TEXTS = ("", " \n", "said ")


@st.composite
def odd_histories(draw: st.DrawFn) -> list[AnyMessage]:
    """Histories with blank texts and call ids of every kind; a user speaks first, and system messages are none."""
    history = [m for m in draw(histories(max_size=40)) if not isinstance(m, SystemMessage)]
    renamed = draw(st.sets(st.sampled_from(sorted(ODD_IDS))))
    return numbered([user("u"), *(_odd(draw, message, {i: ODD_IDS[i] for i in renamed}) for message in history)])


def _odd(draw: st.DrawFn, message: AnyMessage, names: dict[str, str]) -> AnyMessage:
    update: dict[str, Any] = {}
    if isinstance(message.content, str) and draw(st.integers(0, 3)) == 0:
        update["content"] = draw(st.sampled_from(ODD_TEXTS))
    if isinstance(message, ToolMessage):
        update["tool_call_id"] = names.get(message.tool_call_id, message.tool_call_id)
    if isinstance(message, AIMessage):
        for field in ("tool_calls", "invalid_tool_calls"):
            calls = getattr(message, field)
            update[field] = [{**call, "id": names.get(call["id"], call["id"])} for call in calls]
        if not isinstance(message.content, str):
            blocks: list[Any] = message.content
            update["content"] = [{**b, "id": names.get(b["id"], b["id"])} if "id" in b else b for b in blocks]
    return message.model_copy(update=update)


def _not_mended(sent: list[AnyMessage]) -> set[str]:
    """What no rendering can mend: chat completions has no images in results; two answers in a row are one turn."""
    images = any(isinstance(m, ToolMessage) and not isinstance(m.content, str) for m in sent)
    answers = any(isinstance(a, AIMessage) and isinstance(b, AIMessage) for a, b in pairwise(sent))
    found = {"chat: unknown part": images, "anthropic: roles do not alternate": answers}
    return {rule for rule, there in found.items() if there}


@settings(max_examples=150, deadline=None)
@given(odd_histories())
def test_strict_providers_take_every_history(history: list[AnyMessage]) -> None:
    """The payloads of both provider packages are valid, but for what is named; what was given stays as it was."""
    before = fingerprint_all(history)
    sent = render(history)
    assert refused(sent).keys() == _not_mended(sent)
    assert fingerprint_all(history) == before
    assert list(map(id, render(sent))) == list(map(id, sent))


@settings(max_examples=80, deadline=None)
@given(odd_histories(), st.data())
def test_a_request_begins_as_the_one_before(history: list[AnyMessage], data: st.DataObject) -> None:
    """Where healing puts nothing elsewhere, messages that are added change nothing before: prompt caches hold."""
    earlier = history[: data.draw(st.integers(1, len(history)))]
    before, after = parts(Transcript(earlier)), parts(Transcript(history))[: len(earlier)]
    common = next((n for n, (one, other) in enumerate(zip(before, after, strict=True)) if one != other), len(before))
    sent = sum(map(len, before[:common]))
    assert render(earlier)[:sent] == render(history)[:sent]


NEW_CLAUDE = {"model_provider": "anthropic", "model_name": "claude-opus-5-5"}
OLD_CLAUDE = {"model_provider": "anthropic", "model_name": "claude-sonnet-4-5-20250929"}
OF_CONVERSE = {"type": "reasoning_content", "reasoning_content": {"text": "hm", "signature": "x"}}
BOUND: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Claude": (NEW_CLAUDE, THOUGHT),
    "Claude, redacted": (NEW_CLAUDE, {"type": "redacted_thinking", "data": "x"}),
    "Claude, in LangChain's own form": (NEW_CLAUDE, {"type": "reasoning", "reasoning": "hm"}),
    "Claude under another name": ({"model_provider": "anthropic", "model_name": "of-our-proxy"}, THOUGHT),
    "Claude on Bedrock": ({"model_provider": "bedrock_converse", "model_name": "us.claude-opus-5-5-v1"}, OF_CONVERSE),
    "unknown": ({}, THOUGHT),
}
FREE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Claude 4": (OLD_CLAUDE, THOUGHT),
    "Claude 3.7": ({"model_name": "claude-3-7-sonnet-latest"}, THOUGHT),
    "Claude 4 on Bedrock": ({"model_name": "eu.anthropic.claude-opus-4-1-20250805-v1:0"}, OF_CONVERSE),
    "Gemini": ({"model_provider": "google_genai", "model_name": "gemini-3-pro"}, THOUGHT),
    "OpenAI": ({"model_provider": "openai", "model_name": "gpt-5.2"}, REASONING),
}


@pytest.mark.parametrize("case", [*BOUND, *FREE])
def test_thinking_that_is_bound_to_a_changed_history_is_not_sent(case: str) -> None:
    """The state keeps it, and each other provider's reasoning is sent."""
    told, thought = {**BOUND, **FREE}[case]
    answer = AIMessage([thought, _text("done")], response_metadata=told)
    [kept] = with_history_changed([answer])
    assert kept.content == answer.content
    sent = [_text("done")] if case in BOUND else answer.content
    assert [message.content for message in render([user("go"), kept])] == ["go", sent]
    assert render([answer]) == [answer]


def test_the_id_of_a_response_before_a_change_of_the_history_is_not_sent() -> None:
    """Only ids that OpenAI has stored."""
    for name, sent in (("resp_1", {}), ("msg_1", {"id": "msg_1"})):
        answer = AIMessage("done", response_metadata={"id": name})
        [kept] = with_history_changed([answer])
        assert kept.response_metadata == {"id": name}
        assert [message.response_metadata for message in render([kept])] == [sent]
        assert with_history_changed([kept]) == [kept]
