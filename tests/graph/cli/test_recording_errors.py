"""Files that are no recordings: the error says where and what."""

from pathlib import Path

import pytest

from langgraph_compaction.graph.lab.recordings import RecordingError, read_recordings

NO_ID = '[{"role": "assistant", "tool_calls": [{"id": null, "function": {"name": "f", "arguments": "{}"}}]}]'
PI = '{"type": "message", "message": '


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["is empty", "expected OpenAI chat"]),
        ("role: user", ["not JSON", "line 1 column 1"]),
        ("42", ["a number is not a message"]),
        ("[]", ["holds no messages"]),
        ('{"rows": [1]}', ["an object with 'rows' is not a message", "a pi session"]),
        ("[" * 100_000, ["not JSON", "nested too deeply"]),
        ('{"messages": {"a": 1}}', ["messages is an object with 'a'", "expected a list"]),
        ('{"role": "user", "content": "a"}\n{"role": ', ["line 2", "not JSON", "one JSON value per line"]),
        ('[{"role": "user", "content": "a"}, {"content": "b"}]', ["entry 2", "a message without role"]),
        ('{"messages": [{"role": "user"}, 7]}', ["message 2", "a message is a number"]),
        (
            '[{"task_id": 0, "traj": [{"role": "robot"}]}]',
            ["entry 1, message 1", "role 'robot'", "assistant"],
        ),
        ('[{"role": "user", "content": 5}]', ["content is a number", "expected text, a list of parts"]),
        ('[{"role": "user", "content": [{"type": "text"}]}]', ["a text part without text", "found null"]),
        ('{"messages": [{"role": "user"}], "tools": [1]}', ["a tool schema is a number"]),
        ('[{"role": "tool", "content": "r"}]', ["no tool_call_id", "found null"]),
        ('[{"role": "assistant", "tool_calls": [1]}]', ["a tool call is a number"]),
        (
            NO_ID,
            ["no id in a tool call"],
        ),
        (
            '[{"type": "remove", "data": {"content": ""}}]',
            ["a message of type 'remove'", "expected human, ai"],
        ),
        ('[{"lc": 1, "id": ["x", "Popen"], "kwargs": {}}]', ["a message of type 'Popen'"]),
        (PI + '{"role": "branch", "content": "a"}}', ["role 'branch'", "toolResult"]),
        (
            PI + '{"role": "user", "content": [{"type": "video"}]}}',
            ["type 'video'", "thinking, toolCall or image"],
        ),
        ('[{"action": "message", "args": 3}]', ["an action's args is a number"]),
    ],
)
def test_a_file_that_is_no_recording_says_where_and_why(tmp_path: Path, content: str, parts: list[str]) -> None:
    """The message names the file, the line, entry or message, what stands there and what was expected."""
    file = tmp_path / "broken.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(RecordingError) as raised:
        read_recordings(file)
    assert [part for part in [str(file), *parts] if part not in str(raised.value)] == []


def test_missing_files_directories_and_binaries_are_told_apart(tmp_path: Path) -> None:
    """What cannot be read as text is named for what it is."""
    image, coded = tmp_path / "image", tmp_path / "coded"
    image.write_bytes(b"\x00\x01\x02")
    coded.write_bytes(b"\x89PNG\xff")
    expected = {
        tmp_path / "gone": "no such file",
        tmp_path: "is a directory",
        image: "a binary file",
        coded: "no text in UTF-8",
    }
    for path, reason in expected.items():
        with pytest.raises(RecordingError, match=reason):
            read_recordings(path)
