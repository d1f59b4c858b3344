"""The real files of ../shared/data: what the raw file says is in the recording, in order, and no more."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langgraph_compaction.graph.lab.recordings import Recording, read_recordings
from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from tests.recount import unpaired
from tests.shared_data import shared_data


class Line(NamedTuple):
    """One message, as the raw file and the recording must both have it."""

    role: str
    texts: tuple[str, ...]
    calls: tuple[tuple[str, str, Any], ...] = ()
    answers: str | None = None


def recorded(messages: Iterable[BaseMessage]) -> list[Line]:
    """Return the lines of a recording."""
    lines: list[Line] = []
    for message in messages:
        blocks = [message.content] if isinstance(message.content, str) else message.content
        texts = (one if isinstance(one, str) else one.get("text", one.get("thinking", "")) for one in blocks)
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        answers = message.tool_call_id if isinstance(message, ToolMessage) else None
        made = tuple((str(call["id"]), call["name"], call["args"]) for call in calls)
        lines.append(Line(message.type, tuple(filter(None, texts)), made, answers))
    return lines


ROLES = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool", "toolResult": "tool"}


def chat_line(message: dict[str, Any]) -> Line:
    """Return the line of a raw chat message, of tau-bench or SWE-agent."""
    calls = tuple(
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or []
    )
    answers = message.get("tool_call_id") or next(iter(message.get("tool_call_ids") or []), None)
    return Line(ROLES[message["role"]], tuple(filter(None, [message["content"]])), calls, answers)


def pi_line(message: dict[str, Any]) -> Line:
    """Return the line of a raw pi message."""
    blocks = message["content"]
    texts = tuple(filter(None, (block.get("text", block.get("thinking")) for block in blocks)))
    calls = tuple((b["id"], b["name"], b["arguments"]) for b in blocks if b["type"] == "toolCall")
    return Line(ROLES[message["role"]], texts, calls, message.get("toolCallId"))


def event_line(event: dict[str, Any]) -> Line:
    """Return the line of a raw OpenHands event that was said."""
    metadata = event.get("tool_call_metadata")
    if "observation" in event:
        texts = tuple(filter(None, [event["content"]]))
        return Line("tool", texts, (), metadata["tool_call_id"]) if metadata else Line("human", texts)
    if not metadata:
        return Line("human" if event["source"] == "user" else "system", (event["args"]["content"],))
    (choice,) = metadata["model_response"]["choices"]
    return chat_line(choice["message"])


def defects(recordings: Iterable[Recording]) -> tuple[int, int]:
    """Return how many calls are unanswered and how many results answer no call, by position."""
    found = [defect for one in recordings for defect in unpaired(to_openai(one.messages))]
    return sum("has no result" in one for one in found), sum("without a call" in one for one in found)


def test_every_tau_bench_run_is_read_whole() -> None:
    """100 runs, 2,962 messages, 860 user inputs; 25 runs use a call id again, and none has a defect."""
    file = shared_data("tau-bench-airline/gpt-4o-airline-tasks-00-24.json")
    raw = json.loads(file.read_text(encoding="utf-8"))
    read = read_recordings(file)
    assert [one.name for one in read] == [f"{file.name}#{run['task_id']}-{run['trial']}" for run in raw]
    assert [recorded(one.messages) for one in read] == [list(map(chat_line, run["traj"])) for run in raw]
    lines = [line for one in read for line in recorded(one.messages)]
    assert (len(read), len(lines), sum(line.role == "human" for line in lines)) == (100, 2962, 860)
    made = [[call[0] for line in recorded(one.messages) for call in line.calls] for one in read]
    assert sum(len(set(ids)) < len(ids) for ids in made) == 25
    assert defects(read) == (0, 0)


def test_the_pi_session_is_read_whole_with_its_defects() -> None:
    """914 messages; 14 aborted turns without content, 18 calls never answered, usage of 439 turns."""
    file = shared_data("pi-session/large-session.jsonl")
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    raw = [entry["message"] for entry in entries if entry["type"] == "message"]
    (read,) = read_recordings(file)
    assert recorded(read.messages) == list(map(pi_line, raw))
    silent = [one for one in recorded(read.messages) if one.role == "ai" and not (one.texts or one.calls)]
    assert (len(read.messages), len(silent), defects([read])) == (914, 14, (18, 0))
    usage = {
        index: total
        for index, message in enumerate(raw)
        if (total := sum(v for k, v in message.get("usage", {}).items() if k != "cost"))
    }
    assert len(usage) == 439
    assert read.usage == usage
    failed = [message.get("isError", False) for message in raw if message["role"] == "toolResult"]
    results = [message for message in read.messages if isinstance(message, ToolMessage)]
    assert [result.status == "error" for result in results] == failed


@pytest.mark.parametrize(
    ("name", "messages", "calls"),
    [
        ("function-calling-from-source", 28, 13),
        ("function-calling-replace", 24, 11),
        ("function-calling-simple", 12, 5),
        ("function-calling", 24, 11),
        ("humanevalfix-0", 11, 0),
        ("pydicom-1458", 26, 0),
        ("test-repo-1c2844", 10, 4),
        ("text-cursors", 25, 0),
        ("text-window", 23, 0),
        ("xml-cursors", 25, 0),
        ("xml-window", 23, 0),
    ],
)
def test_every_swe_agent_run_is_read_whole(name: str, messages: int, calls: int) -> None:
    """Each trajectory's history is read message for message, every call answered."""
    file = shared_data(f"swe-agent/{name}.traj")
    raw = json.loads(file.read_text(encoding="utf-8"))["history"]
    (read,) = read_recordings(file)
    assert recorded(read.messages) == list(map(chat_line, raw))
    assert len(read.messages) == messages
    assert sum(len(line.calls) for line in recorded(read.messages)) == calls
    assert defects([read]) == (0, 0)


def test_every_openhands_run_is_read_whole() -> None:
    """Three runs: only the recall pair was not said; two end in a finish call, which nothing answers."""
    file = shared_data("openhands/multi_swe_bench_output.jsonl")
    raw = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    said = [
        [event for event in run["history"] if "recall" not in (event.get("action"), event.get("observation"))]
        for run in raw
    ]
    read = read_recordings(file)
    assert [one.name for one in read] == [f"{file.name}#{run['instance_id']}" for run in raw]
    assert [recorded(one.messages) for one in read] == [list(map(event_line, run)) for run in said]
    assert [len(one.messages) for one in read] == [47, 68, 101]
    assert [list(one.tools) for one in read] == [run[0]["args"]["tools"] for run in said]
    assert defects(read) == (2, 0)
    reported = [run["metrics"]["token_usages"] for run in raw]
    assert [list(one.usage.values()) for one in read] == [
        [usage["prompt_tokens"] + usage["completion_tokens"] for usage in run] for run in reported
    ]


def test_a_recording_survives_the_way_through_openai_json(tmp_path: Path) -> None:
    """Written as OpenAI JSON and read again, every real conversation makes the same requests."""
    files = sorted(shared_data(".").glob("*/*.*"))
    assert len(files) == 14
    copy = tmp_path / "copy"
    for one in (one for file in files for one in read_recordings(file)):
        sent = to_openai(one.messages)
        copy.write_text(json.dumps(sent), encoding="utf-8")
        assert to_openai(read_recordings(copy)[0].messages) == sent
