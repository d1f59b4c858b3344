"""What each format becomes, on the smallest files that show it."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, messages_to_dict

from langgraph_compaction.graph.lab.recordings import Recording, read_recordings

SCHEMA = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def asked(call_id: str, arguments: Any = '{"at": "x"}', content: str | None = None) -> dict[str, Any]:
    """Return an assistant message with one call."""
    call = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def answered(call_id: str, content: str = "seen") -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "name": "look", "content": content}


CHAT = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "look"},
    asked("c1"),
    answered("c1"),
    {"role": "assistant", "content": "done"},
]


def written(path: Path, *values: Any) -> Path:
    """Write one value as JSON, several as JSON lines; the name says nothing about the format."""
    path.write_text("\n".join(json.dumps(value) for value in values), encoding="utf-8")
    return path


def read_one(path: Path, *values: Any) -> Recording:
    """Read a file that holds one conversation."""
    (one,) = read_recordings(written(path / "file", *values))
    return one


def outline(messages: tuple[BaseMessage, ...]) -> list[tuple[Any, ...]]:
    """Return role, content, calls and answered call of each message."""
    return [
        (
            message.type,
            message.content,
            [(call["id"], call["name"], call["args"]) for call in getattr(message, "tool_calls", [])],
            getattr(message, "tool_call_id", None),
        )
        for message in messages
    ]


CHAT_OUTLINE = [
    ("system", "be brief", [], None),
    ("human", "look", [], None),
    ("ai", "", [("c1", "look", {"at": "x"})], None),
    ("tool", "seen", [], "c1"),
    ("ai", "done", [], None),
]
LANGCHAIN = [
    SystemMessage("be brief", id="m0"),
    HumanMessage("look", id="m1"),
    AIMessage("", id="m2", tool_calls=[{"id": "c1", "name": "look", "args": {"at": "x"}}]),
    ToolMessage("seen", id="m3", tool_call_id="c1", name="look"),
    AIMessage("done", id="m4", usage_metadata={"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}),
]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([CHAT], id="a list of chat messages"),
        pytest.param([{"messages": CHAT, "model": "m"}], id="an object with messages"),
        pytest.param(CHAT, id="a message a line"),
        pytest.param([messages_to_dict(LANGCHAIN)], id="messages_to_dict"),
        pytest.param([{"messages": [dumpd(message) for message in LANGCHAIN]}], id="constructors"),
        pytest.param([message.model_dump() for message in LANGCHAIN], id="model_dump a line"),
        pytest.param([{"history": CHAT}], id="a trajectory"),
        pytest.param([[{"task_id": 3, "trial": 1, "traj": CHAT}]], id="a tau-bench run"),
    ],
)
def test_the_same_conversation_is_read_alike_from_every_form(tmp_path: Path, values: list[Any]) -> None:
    """One conversation written in eight forms is the same five messages."""
    assert outline(read_one(tmp_path, *values).messages) == CHAT_OUTLINE


def test_a_conversation_a_line_gives_numbered_recordings_with_their_tools(tmp_path: Path) -> None:
    """JSON lines of conversations, objects or bare lists, are read one by one and named by number."""
    first, second = read_recordings(written(tmp_path / "many", {"messages": CHAT, "tools": [SCHEMA]}, CHAT[:2]))
    assert (first.name, second.name) == ("many#1", "many#2")
    assert (first.tools, second.tools) == ((SCHEMA,), ())
    assert len(second.messages) == 2


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        ('{"at": "ü"}', {"at": "ü"}),
        ({"at": 1}, {"at": 1}),
        ("", {}),
        (None, {}),
        ('{"at": ', {"__raw__": '{"at": '}),
        ("[1]", {"__raw__": "[1]"}),
        ([1], {"__raw__": "[1]"}),
    ],
)
def test_arguments_that_are_no_object_are_kept_as_raw_text(tmp_path: Path, arguments: Any, read_as: Any) -> None:
    """Broken arguments make neither the file unreadable nor the call disappear."""
    message = read_one(tmp_path, [asked("c1", arguments)]).messages[0]
    assert isinstance(message, AIMessage)
    assert (message.tool_calls[0]["args"], message.invalid_tool_calls) == (read_as, [])


def test_langchain_keeps_ids_status_and_marks_and_moves_usage(tmp_path: Path) -> None:
    """Ids, status and our own marks survive; a repeated id is given up; usage stands in the recording."""
    failed = ToolMessage("no", tool_call_id="c1", status="error", id="m4")
    pinned = HumanMessage("keep", id="m5", additional_kwargs={"compaction": {"pinned": True}})
    read = read_one(tmp_path, messages_to_dict([*LANGCHAIN, failed, pinned]))
    assert [message.id for message in read.messages] == ["m0", "m1", "m2", "m3", "m4", None, "m5"]
    results = [message for message in read.messages if isinstance(message, ToolMessage)]
    assert [message.status for message in results] == ["success"] * (len(results) - 1) + ["error"]
    assert len(results) > 1
    assert read.messages[6].additional_kwargs == pinned.additional_kwargs
    assert read.usage == {4: 9}
    assert isinstance(read.messages[4], AIMessage)
    assert read.messages[4].usage_metadata is None


def test_a_class_that_a_file_names_is_data(tmp_path: Path) -> None:
    """The constructor form is matched by its last word; no module of the path is looked for."""
    value = {
        "lc": 1,
        "type": "constructor",
        "id": ["no_such_module", "HumanMessage"],
        "kwargs": {"content": "hi"},
    }
    assert outline(read_one(tmp_path, [value]).messages) == [("human", "hi", [], None)]


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    """Half an emoji, which no encoding can store, becomes the replacement character; whole ones stay."""
    (tmp_path / "file").write_text(r'[{"role": "user", "content": "\ud83d\ude00 and \ud83d"}]', encoding="utf-8")
    assert read_recordings(tmp_path / "file")[0].messages[0].content == "😀 and \ufffd"
