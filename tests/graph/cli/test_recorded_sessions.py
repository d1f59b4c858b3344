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


def pi_usage(*counts: int) -> dict[str, Any]:
    """Return usage as pi writes it: input, cache read, cache write, output."""
    return dict(zip(("input", "cacheRead", "cacheWrite", "output"), counts, strict=True))


def test_a_pi_session_keeps_its_defects_and_its_usage(tmp_path: Path) -> None:
    """Aborted empty turns, unanswered calls and error results stay; usage adds up, and zero is none."""
    calls = [{"type": "toolCall", "id": key, "name": "bash", "arguments": {"n": key}} for key in ("a", "b")]
    log = [
        {"type": "session", "id": "s"},
        pi("user", [{"type": "text", "text": "/mode"}]),
        pi("assistant", [], usage=pi_usage(0, 0, 0, 0), stopReason="aborted"),
        {"type": "model_change", "modelId": "m"},
        {"type": "custom", "data": {"shown": True}},
        pi("user", "plain"),
        pi("assistant", [{"type": "text", "text": "go"}, *calls], usage=pi_usage(1, 20, 300, 4000)),
        pi("toolResult", [{"type": "text", "text": "bad"}], toolCallId="a", toolName="bash", isError=True),
        pi("user", [{"type": "text", "text": "continue"}]),
    ]
    read = read_one(tmp_path, log)
    assert said(read.messages) == [
        ("human", "/mode"),
        ("ai", ""),
        ("human", "plain"),
        ("ai", "go"),
        ("tool", "bad"),
        ("human", "continue"),
    ]
    assert call_ids(read.messages[3]) == ["a", "b"]
    result = read.messages[4]
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.name, result.status) == ("a", "bash", "error")
    assert read.usage == {3: 4321}


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


def test_an_openhands_run_reads_as_the_model_saw_it(tmp_path: Path) -> None:
    """Prompt and tools, user, responses, results, errors; what was never sent is left out."""
    schema = {"type": "function", "function": {"name": "run"}}
    history = [
        observed(-1, "agent_state_changed", "loading"),
        action(0, "system", content="prompt", tools=[schema]),
        action(1, "message", "user", content="fix it", image_urls=None),
        action(2, "recall", "user", query="fix it"),
        observed(3, "recall", "Added workspace context", cause=2),
        {**action(4, "run", thought="I run r1"), **from_model("a")},
        observed(5, "run", "out", cause=4, **from_model("a")),
        observed(6, "error", "no such command"),
        {**action(7, "run"), **from_model("b", "r2")},
        observed(8, "error", "broken pipe", cause=7, **from_model("b", "r2")),
        {**action(9, "finish"), **from_model("c", "r3")},
    ]
    read = read_one(tmp_path, [{"instance_id": "repo-1", "history": history}])
    assert read.name == "log#repo-1"
    assert read.tools == (schema,)
    assert said(read.messages) == [
        ("system", "prompt"),
        ("human", "fix it"),
        ("ai", "I run r1"),
        ("tool", "out"),
        ("human", "no such command"),
        ("ai", "I run r2"),
        ("tool", "broken pipe"),
        ("ai", "I run r3"),
    ]
    assert read.messages[4].additional_kwargs == {"compaction": {"is_meta": True}}
    assert [call_ids(read.messages[index]) for index in (2, 5, 7)] == [["a"], ["b"], ["c"]]
    results = [message for message in read.messages if isinstance(message, ToolMessage)]
    assert [(one.tool_call_id, one.name, one.status) for one in results] == [
        ("a", "run", "success"),
        ("b", "run", "error"),
    ]
    assert read.usage == {2: 13, 5: 13, 7: 13}


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


def test_an_openhands_log_of_one_kind_of_event_is_recognized(tmp_path: Path) -> None:
    """A log that contains only actions or only observations is recognized as an OpenHands log.

    An observation without content that answers no action adds no message.
    """
    assert said(read_one(tmp_path, [action(1, "message", "user", content="go")]).messages) == [("human", "go")]
    log = [observed(2, "error", "no disk"), observed(3, "run", "")]
    assert said(read_one(tmp_path, log).messages) == [("human", "no disk")]


def test_images_of_an_openhands_message_are_parts(tmp_path: Path) -> None:
    """The image parts follow the text part of the message, as in the format of OpenAI's chat API."""
    log = [action(1, "message", "user", content="see", image_urls=["data:x", "data:y"])]
    text = {"type": "text", "text": "see"}
    images = [{"type": "image_url", "image_url": {"url": url}} for url in ("data:x", "data:y")]
    assert said(read_one(tmp_path, log).messages) == [("human", [text, *images])]


def test_an_action_whose_response_was_not_kept_is_its_call(tmp_path: Path) -> None:
    """An action without a recorded response of the model becomes a call with the id in the action's metadata.

    An observation without a cause is not the result of an action without an id.
    """
    metadata = {"function_name": "run", "tool_call_id": "a", "model_response": {"id": "r", "choices": []}}
    log = [
        {**action(1, "run", thought="try", command="ls"), "tool_call_metadata": metadata},
        observed(2, "run", "a b", cause=1),
        {"source": "agent", "action": "think", "args": {}},
        observed(4, "run", "who asked?"),
        {**action(5, "run", "user", command="cd Müll"), "message": None},
    ]
    read = read_one(tmp_path, log).messages
    assert said(read) == [
        ("ai", "try"),
        ("tool", "a b"),
        ("ai", ""),
        ("human", "who asked?"),
        ("human", '{"command": "cd Müll"}'),
    ]
    assert isinstance(read[0], AIMessage)
    (call,) = read[0].tool_calls
    assert (call["id"], call["name"], call["args"]) == ("a", "run", {"command": "ls"})
    assert isinstance(read[1], ToolMessage)
    assert read[1].tool_call_id == "a"
