"""The recount that judges requests is itself judged by what is known."""

from typing import Any

import pytest

from tests.recount import message_tokens, request_tokens, second_opinion, text_tokens, unpaired

USER: dict[str, Any] = {"role": "user", "content": "hi"}
SAID: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}


def asked(*call_ids: str) -> dict[str, Any]:
    """Return an assistant message that makes these calls."""
    calls = [{"id": key, "type": "function", "function": {"name": "f", "arguments": "{}"}} for key in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


@pytest.mark.parametrize(
    ("request_", "valid"),
    [
        pytest.param([USER, asked("a", "b"), result("b"), result("a"), SAID], True, id="parallel calls"),
        pytest.param([asked("a"), result("a"), USER, asked("a"), result("a")], True, id="a reused id"),
        pytest.param([USER, USER, SAID], True, id="two user messages"),
        pytest.param([USER, result("z"), SAID], False, id="an orphan result"),
        pytest.param([result("z"), USER], False, id="an orphan at the start"),
        pytest.param([USER, asked("a"), USER], False, id="an unanswered call"),
        pytest.param([USER, asked("a", "b"), result("a")], False, id="one of two unanswered at the end"),
        pytest.param([asked("a"), USER, result("a")], False, id="a late result"),
        pytest.param([asked("a"), result("a"), result("a")], False, id="a second result"),
    ],
)
def test_pairing_is_judged_by_position_and_twice(request_: list[dict[str, Any]], valid: bool) -> None:
    """Our own check and tessera agree on what is a valid request."""
    assert (unpaired(request_) == [], second_opinion(request_) == []) == (valid, valid)


@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_assistant_message_is_no_pairing_defect_but_tessera_refuses_it(content: Any) -> None:
    """An assistant message that says and calls nothing is found by the second opinion alone."""
    request_ = [USER, {"role": "assistant", "content": content}]
    assert unpaired(request_) == []
    assert ["empty_assistant_turn" in found for found in second_opinion(request_)] == [True]


def test_tokens_are_those_of_o200k() -> None:
    """Texts, calls, parts and media count as METRICS says."""
    assert (text_tokens("hello world"), text_tokens("<|endoftext|>")) == (2, 7)
    assert message_tokens({"role": "user", "content": "hello world"}) == 6
    assert message_tokens(asked("a")) == 4 + text_tokens("f({})")
    assert message_tokens({"role": "user", "content": [*SAID["content"], {"type": "image_url"}]}) == 1605
    assert request_tokens([USER, SAID], [{"a": 1}]) == 2 * 5 + text_tokens('{"a": 1}')
