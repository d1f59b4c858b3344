"""The two formats that are logs of events: pi sessions and OpenHands runs."""

import json
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_compaction.graph.lab.recordings import Recording, read_recordings


def read_one(path: Path, values: list[Any]) -> Recording:
    """Read a file of JSON lines that holds one conversation."""
    file = path / "log"
    file.write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
    (one,) = read_recordings(file)
    return one


def said(messages: tuple[BaseMessage, ...]) -> list[tuple[str, Any]]:
    """Return who said what."""
    return [(message.type, message.content) for message in messages]


def call_ids(message: BaseMessage) -> list[Any]:
    """Return the ids of the calls of an assistant message."""
    assert isinstance(message, AIMessage)
    return [call["id"] for call in message.tool_calls]


def pi(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a message entry of a pi session."""
    return {"type": "message", "timestamp": "t", "message": {"role": role, "content": content, **more}}


def test_pi_blocks_become_content_blocks(tmp_path: Path) -> None:
    """Thinking, several texts and images stay apart, in their order."""
    blocks = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "thinking", "thinking": "no signature"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
    ]
    image = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    read = read_one(tmp_path, [pi("user", [image]), pi("assistant", blocks)]).messages
    assert read[0].content == [{"type": "image", "base64": "QUJD", "mime_type": "image/png"}]
    assert read[1].content == [{"type": "thinking", "thinking": "hm", "signature": "sig"}, *blocks[1:]]


def action(number: int, name: str, source: str = "agent", **args: Any) -> dict[str, Any]:
    """Return an action of an OpenHands log."""
    return {"id": number, "source": source, "action": name, "args": args, "message": f"did {name}"}


def observed(number: int, name: str, content: str, **more: Any) -> dict[str, Any]:
    """Return an observation of an OpenHands log."""
    return {"id": number, "source": "agent", "observation": name, "content": content, "extras": {}, **more}


def from_model(call_id: str, response: str = "r1", ids: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the metadata that ties an event to a model response with these calls."""
    calls = [
        {"id": key, "type": "function", "function": {"name": "run", "arguments": json.dumps({"key": key})}}
        for key in ids or (call_id,)
    ]
    choice = {"message": {"role": "assistant", "content": f"I run {response}", "tool_calls": calls}}
    answer = {"id": response, "choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 3}}
    return {"tool_call_metadata": {"function_name": "run", "tool_call_id": call_id, "model_response": answer}}


def test_a_response_with_several_calls_is_said_once(tmp_path: Path) -> None:
    """Each action of a response repeats it; it is one message, unless the same call comes a second time."""
    both = ("a", "b")
    history = [
        {**action(1, "run"), **from_model("a", ids=both)},
        observed(2, "run", "A", cause=1, **from_model("a", ids=both)),
        {**action(3, "run"), **from_model("b", ids=both)},
        observed(4, "run", "B", cause=3),
        {**action(5, "run"), **from_model("b", ids=both)},
    ]
    read = read_one(tmp_path, [{"history": history}]).messages
    assert said(read) == [("ai", "I run r1"), ("tool", "A"), ("tool", "B"), ("ai", "I run r1")]
    assert [m.tool_call_id for m in read if isinstance(m, ToolMessage)] == ["a", "b"]


def test_actions_without_a_recorded_response_become_calls_answered_by_cause(tmp_path: Path) -> None:
    """Older logs name no call: the action is the call, and the cause of its observation the link."""
    history = [
        action(1, "run", thought="list", command="ls"),
        observed(2, "run", "a b", cause=1),
        action(3, "message", content="found two"),
        action(4, "run", "user", command="pwd"),
        observed(5, "run", "/home", cause=4),
    ]
    read = read_one(tmp_path, history).messages
    assert said(read) == [
        ("ai", "list"),
        ("tool", "a b"),
        ("ai", "found two"),
        ("human", "did run"),
        ("human", "/home"),
    ]
    assert isinstance(read[0], AIMessage)
    assert read[0].tool_calls[0]["args"] == {"command": "ls"}
    assert isinstance(read[1], ToolMessage)
    assert [read[1].tool_call_id] == call_ids(read[0]) == ["event-1"]
