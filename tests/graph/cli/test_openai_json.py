"""What a request looks like on the wire."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langgraph_compaction.graph.lab.replay.openai_json import to_openai

CALL = {"id": "c1", "name": "look", "args": {"at": "ü", "deep": {"n": [1, None]}}}
BROKEN = {"id": "c2", "name": "look", "args": '{"at": ', "error": None}
MARKS: dict[str, Any] = {"compaction": {"kind": "summary", "pinned": True}, "lc_source": "summarization"}
PARTS: list[str | dict[str, Any]] = [
    {"type": "text", "text": "a"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
]

REQUESTS: dict[str, list[BaseMessage]] = {
    "plain": [SystemMessage("be brief"), HumanMessage("hi", name="ann"), AIMessage("hello")],
    "calls": [
        AIMessage("", tool_calls=[CALL, {**CALL, "id": "c3"}]),
        ToolMessage("seen", tool_call_id="c1", name="look", status="error"),
        ToolMessage("", tool_call_id="c3"),
    ],
    "text and a call": [AIMessage("I look", tool_calls=[CALL])],
    "a broken call": [AIMessage("", tool_calls=[CALL], invalid_tool_calls=[BROKEN])],
    "parts": [HumanMessage(PARTS), AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],
    "an image of ours": [HumanMessage([{"type": "image", "base64": "QUJD", "mime_type": "image/png"}])],
    "thinking": [AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}])],
    "only thinking and a call": [AIMessage([{"type": "thinking", "thinking": "hm"}], tool_calls=[CALL])],
    "parts of a result": [ToolMessage([{"type": "text", "text": "a", "id": "x"}], tool_call_id="c1")],
    "developer": [SystemMessage("rules", additional_kwargs={"__openai_role__": "developer"})],
    "empty": [AIMessage(""), HumanMessage("")],
    "marked": [HumanMessage("s", additional_kwargs=MARKS), AIMessage("a", id="m1", additional_kwargs=MARKS)],
}


@pytest.mark.parametrize("messages", REQUESTS.values(), ids=REQUESTS)
def test_a_request_reads_as_langchain_openai_sends_it(messages: list[BaseMessage]) -> None:
    """The same messages, given to `ChatOpenAI`, make the same JSON."""
    model = ChatOpenAI(model="gpt-4o", api_key=SecretStr("none"))
    assert to_openai(messages) == model._get_request_payload(messages)["messages"]


def test_arguments_are_json_text_and_nothing_of_ours_leaks() -> None:
    """Arguments keep their letters; marks, ids and status of messages stay at home; input is not changed."""
    message = AIMessage("", id="m1", tool_calls=[CALL], additional_kwargs=MARKS)
    before = message.model_dump()
    function = {"name": "look", "arguments": '{"at": "ü", "deep": {"n": [1, null]}}'}
    call = {"type": "function", "id": "c1", "function": function}
    assert to_openai([message]) == [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert message.model_dump() == before
