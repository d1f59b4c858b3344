"""The validators see what they are there to see: each rule, broken in a payload made by hand."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.replay.anthropic_rules import anthropic_defects, signature
from tests.replay.openai_rules import chat_defects, responses_defects

Spoil = Callable[[list[dict[str, Any]]], Any]


def _tool_call(call_id: str, name: str = "read", arguments: str = '{"path": "a"}') -> dict[str, Any]:
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def _text(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text}


CHAT = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [_text("u"), {"type": "image_url", "image_url": {"url": "https://a/b.png"}}]},
    {"role": "assistant", "content": None, "tool_calls": [_tool_call("a"), _tool_call("b")]},
    {"role": "tool", "content": "one", "tool_call_id": "b"},
    {"role": "tool", "content": "", "tool_call_id": "a"},
    {"role": "assistant", "content": "done", "name": "agent"},
]
CHAT_SPOILT: dict[str, tuple[str, Spoil]] = {
    "a role of its own": ("unknown role", lambda m: m[0].update(role="function")),
    "a mark that was sent on": ("unknown field", lambda m: m[1].update(compaction={"kind": "x"})),
    "a name with a space": ("bad name", lambda m: m[5].update(name="an agent")),
    "no calls in a list of calls": ("empty list of calls", lambda m: m[5].update(tool_calls=[])),
    "another type of call": ("unknown type of call", lambda m: m[2]["tool_calls"][0].update(type="x")),
    "a long call id": ("bad call id", lambda m: m[2]["tool_calls"][0].update(id="x" * 41)),
    "a function with a long name": (
        "bad function name",
        lambda m: m[2].update(tool_calls=[_tool_call("a", "x" * 65)]),
    ),
    "half an argument": ("arguments are no JSON", lambda m: m[2].update(tool_calls=[_tool_call("a", "f", "{")])),
    "an answer of nothing": ("empty content", lambda m: m[5].update(content="")),
    "a result of null": ("empty content", lambda m: m[4].update(content=None)),
    "a user of white space": ("blank text", lambda m: m[1].update(content=" \n")),
    "an image in a result": ("unknown part", lambda m: m[4].update(content=[m[1]["content"][1]])),
    "no user": ("no user message", lambda m: m.pop(1)),
    "a call without a result": ("call without a result", lambda m: m.pop(4)),
    "a result too late": ("result without a call", lambda m: m.insert(4, m[1])),
    "a result too many": ("result without a call", lambda m: m.insert(4, m[3])),
    "one id twice in a request": ("call id used twice", lambda m: m.extend(m[2:5])),
}

RESPONSES = [
    {"type": "message", "role": "system", "content": "s"},
    {"type": "message", "role": "user", "content": [_text("u", "input_text")]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"},
    {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "b", "output": ""},
    {"type": "function_call_output", "call_id": "a", "output": [_text("one", "input_text")]},
    {"type": "message", "role": "assistant", "content": [{**_text("done", "output_text"), "annotations": []}]},
]
RESPONSES_SPOILT: dict[str, tuple[str, Spoil]] = {
    "an item of its own": ("unknown item", lambda m: m[2].update(type="thinking")),
    "a mark that was sent on": ("unknown field", lambda m: m[1].update(compaction={"kind": "x"})),
    "a role of its own": ("unknown role", lambda m: m[0].update(role="tool")),
    "nothing said": ("empty content", lambda m: m[1].update(content=[])),
    "white space": ("blank text", lambda m: m[1].update(content=" ")),
    "a part that only the model says": ("unknown part", lambda m: m[1].update(content=[_text("u", "output_text")])),
    "a long call id": ("bad call id", lambda m: m[3].update(call_id="x" * 65)),
    "a function without a name": ("bad function name", lambda m: m[3].update(name="")),
    "half an argument": ("arguments are no JSON", lambda m: m[3].update(arguments="{")),
    "a thought that broke off": ("reasoning without what followed it", lambda m: m.insert(2, m[2])),
    "no user": ("no user message", lambda m: m.pop(1)),
    "a call without a result": ("call without a result", lambda m: m.pop(5)),
    "a result too late": ("result without a call", lambda m: m.append(m.pop(5))),
    "one id twice": ("call id used twice", lambda m: m.extend(m[3:7])),
}


def _tool_use(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": "a"}, **fields}


def _tool_result(call_id: str, content: Any = "one") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": False}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "x"}
ANTHROPIC = [
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": [THOUGHT, _text("looking"), _tool_use("a"), _tool_use("b")]},
    {"role": "user", "content": [_tool_result("b", ""), _tool_result("a", [_text("one")]), _text("go on")]},
    {"role": "assistant", "content": "done"},
]
ANTHROPIC_SPOILT: dict[str, tuple[str, Spoil]] = {
    "a system message in the middle": ("unknown role", lambda m: m.insert(1, {"role": "system", "content": "s"})),
    "an answer first": ("the first message is not the user's", lambda m: m.pop(0)),
    "two answers": ("roles do not alternate", lambda m: m.append(m[3])),
    "a mark that was sent on": ("unknown field", lambda m: m[2]["content"][2].update(compaction={"kind": "x"})),
    "nothing said": ("empty content", lambda m: m[0].update(content="")),
    "white space": ("blank text", lambda m: m[0].update(content=" \n")),
    "a blank result": ("blank text", lambda m: m[2]["content"][0].update(content="\n")),
    "a block of another provider": ("unknown block", lambda m: m[3].update(content=[{"type": "reasoning"}])),
    "a call without arguments": ("missing field", lambda m: m[1]["content"][2].pop("input")),
    "arguments in JSON": ("arguments are no object", lambda m: m[1]["content"][2].update(input="{}")),
    "an id with a dot": ("bad call id", lambda m: m[1]["content"][2].update(id="functions.read:0")),
    "a function with a dot": ("bad function name", lambda m: m[1]["content"][2].update(name="a.b")),
    "words before results": ("results do not come first", lambda m: m[2]["content"].insert(1, _text("wait"))),
    "a turn that is only thought": ("a turn that ends in thought", lambda m: m[3].update(content=[THOUGHT])),
    "a line end at the end": ("trailing white space", lambda m: m[3].update(content="done\n")),
    "a call without a result": ("call without a result", lambda m: m[2]["content"].pop(0)),
    "a result too many": ("result without a call", lambda m: m[2]["content"].insert(0, _tool_result("a"))),
    "one id twice in a request": ("call id used twice", lambda m: m.extend([m[0], *m[1:3]])),
}

Table = dict[str, tuple[str, Spoil]]
VALIDATORS: dict[str, tuple[Callable[[dict[str, Any]], list[str]], str, list[dict[str, Any]], Table]] = {
    "chat": (chat_defects, "messages", CHAT, CHAT_SPOILT),
    "responses": (responses_defects, "input", RESPONSES, RESPONSES_SPOILT),
    "anthropic": (anthropic_defects, "messages", ANTHROPIC, ANTHROPIC_SPOILT),
}


@pytest.mark.parametrize("provider", VALIDATORS)
def test_a_valid_payload_passes(provider: str) -> None:
    """What the tables spoil has no defect of its own."""
    defects, key, valid, _ = VALIDATORS[provider]
    assert defects({key: valid}) == []


@pytest.mark.parametrize(("provider", "case"), [(name, case) for name in VALIDATORS for case in VALIDATORS[name][3]])
def test_each_rule_is_held(provider: str, case: str) -> None:
    """A payload with this one defect is found out, by the rule that it breaks."""
    defects, key, valid, table = VALIDATORS[provider]
    rule, spoil = table[case]
    messages = deepcopy(valid)
    spoil(messages)
    assert rule in {defect.partition(": ")[0] for defect in defects({key: messages})}


def test_thinking_that_was_signed_before_a_change_is_found() -> None:
    """A change before a signed thought, and a thought left out before it; what comes later may change."""
    first, second = _signed_twice()
    assert anthropic_defects(second) == []
    assert (
        anthropic_defects({**second, "messages": [*second["messages"], {"role": "assistant", "content": "more"}]})
        == []
    )
    rule = "thinking bound to a different conversation"
    for place, content in ((0, "v"), (1, second["messages"][1]["content"][1:])):
        messages = deepcopy(second["messages"])
        messages[place]["content"] = content
        found = anthropic_defects({**second, "messages": messages})
        assert {defect.partition(": ")[0] for defect in found} == {rule}
    assert anthropic_defects({**first, "system": "t"}) == [f"{rule}: block 1"]


def _signed_twice() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the request after one answer with signed thinking, and that after two."""
    payload: dict[str, Any] = {"system": "s", "messages": [{"role": "user", "content": "u"}]}
    requests = []
    for n in range(2):
        thought = {**THOUGHT, "signature": signature(payload, [])}
        answer = {"role": "assistant", "content": [thought, _text(f"answer {n}")]}
        question = {"role": "user", "content": [_text(f"and {n}?")]}
        payload = {**payload, "messages": [*payload["messages"], answer, question]}
        requests.append(payload)
    return requests[0], requests[1]


def test_an_unfinished_turn_begins_with_its_thinking() -> None:
    """With `thinking` enabled, and until the user speaks again."""
    payload: dict[str, Any] = {"thinking": {"type": "enabled"}, "messages": deepcopy(ANTHROPIC[:3])}
    payload["messages"][2]["content"].pop()
    assert anthropic_defects(payload) == []
    del payload["messages"][1]["content"][0]
    assert anthropic_defects({**payload, "thinking": {"type": "adaptive"}}) == []
    assert anthropic_defects(payload) == ["a turn without its thinking: block 1"]
    payload["messages"][2]["content"].append(_text("go on"))
    assert anthropic_defects(payload) == []


def test_system_and_tools_are_judged_too() -> None:
    """An empty system prompt, an unknown block in it, and a tool whose name no provider takes."""
    tool = {"name": "a.b"}
    chat = chat_defects({"messages": CHAT, "tools": [{"type": "function", "function": tool}]})
    responses = responses_defects({"input": RESPONSES, "tools": [tool]})
    anthropic = anthropic_defects(
        {"messages": ANTHROPIC, "system": [_text("s"), THOUGHT, _text(" ")], "tools": [tool]}
    )
    assert chat == responses == ["bad function name: the tool 'a.b'"]
    assert anthropic == [*chat, "unknown block: system", "blank text: system"]
    assert anthropic_defects({"messages": ANTHROPIC, "system": ""}) == ["empty content: system"]
