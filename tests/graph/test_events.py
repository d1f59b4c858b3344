import logging
from ast import literal_eval
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.graph.thread_state import records_of
from tests.fakes import ScriptedModel
from tests.graph.harness import SUMMARY, Drive, agent, calm, events, filler, frozen, standing, tool_block

COMMITTED = ["ContextEvent", "ContextEvent", "CompactContextEvent", "CompactionEvent"]
COUNTERS = ("tool_blocks_kept", "tool_blocks_dropped", "tool_calls_truncated", "tool_results_truncated")
BLOCKS: dict[str, Any] = {
    "messages": [
        HumanMessage("look around", id="u"),
        *(message for number in range(7) for message in tool_block(number, 100)),
        *tool_block(7, 130),
        AIMessage("seen", id="seen"),
        HumanMessage("and now?", id="question"),
    ]
}
"""Eight tool blocks that the model has read, the last of which is clipped at a threshold of 120 tokens."""


def telling(summarizer: Any = None, **options: Any) -> Any:
    """An agent that tells each phase."""
    options.setdefault("emit_compaction_meta_events", True)
    return agent(calm(), summarizer, tool_result_threshold=120, preview_tokens=10, **options)


async def told(go: Drive, graph: Any, given: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The events of one turn."""
    return events(await go.stream(graph, given, stream_mode=["custom"], **options))


async def test_the_sequence_of_a_commit(go: Drive) -> None:
    """The trigger, four phases in order, what became of the conversation, and the verdict."""
    found = await told(go, telling(), BLOCKS)
    meta = ["CompactionMetaEvent"] * 3
    assert [event["event"] for event in found] == [
        "PreCompactEvent",
        *meta,
        "CompactingEvent",
        "CompactionMetaEvent",
        *COMMITTED,
    ]
    compacting = found.pop(4)
    assert (compacting["messages"], compacting["limit"]) == (6, 1_000)
    assert [event["phase"] for event in found[1:5]] == [
        "selective_start",
        "selective_done",
        "summary_start",
        "summary_done",
    ]
    assert found[-1]["verdict"] == "committed"
    assert [found[2][name] for name in COUNTERS] == [5, 3, 0, 1]
    quiet = await told(go, agent(calm()), BLOCKS)
    assert [event["event"] for event in quiet] == ["PreCompactEvent", "CompactingEvent", *COMMITTED]


FAILURES: dict[str, tuple[Any, list[str], str]] = {
    "the summary": ("", ["selective_start", "selective_done", "summary_start", "rollback"], "empty_summary"),
    "the gate": (
        f"<summary>{filler(900)}</summary>",
        ["selective_start", "selective_done", "summary_start", "rollback"],
        "not_smaller",
    ),
    "the snapshot": (SUMMARY, ["selective_start", "rollback"], "selective:OSError"),
}


@pytest.mark.parametrize("failing", FAILURES)
async def test_the_sequence_of_a_failure(go: Drive, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """Every attempt that started ends with one `rollback` phase that names the reason, and no summary is done."""
    reply, phases, reason = FAILURES[failing]
    graph = telling(ScriptedModel(replies=[reply]))
    if failing == "the snapshot":
        monkeypatch.setattr(records_of(graph), "begin", raising)
    found = await told(go, graph, BLOCKS)
    meta = [event for event in found if event["event"] == "CompactionMetaEvent"]
    assert [event["phase"] for event in meta] == phases
    assert meta[-1]["reason"] == found[-1]["reason"] == standing(graph)["last"]["reason"] == reason
    assert meta[-1]["tokens_after"] == meta[0]["tokens_before"]


@pytest.mark.parametrize("built", [True, False])
async def test_a_run_can_switch_the_phases(go: Drive, built: bool) -> None:
    """A run's own context beats what the graph was built with."""
    graph = telling(emit_compaction_meta_events=built)
    found = await told(go, graph, BLOCKS, context={"emit_compaction_meta_events": not built})
    assert any(event["event"] == "CompactionMetaEvent" for event in found) is not built


async def test_a_call_that_does_not_stream_only_logs(go: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """The state returned is the same with and without events; what happened stands in the log."""
    with caplog.at_level(logging.DEBUG, "langgraph_compaction"):
        loud = await go.invoke(telling(), BLOCKS)
    logged = [record.getMessage() for record in caplog.records if record.name == "langgraph_compaction"]
    phases = [literal_eval(line) for line in logged if "'phase'" in line]
    size = phases[0]["tokens_before"]
    assert f"Starting a selective compaction (开始选择性压缩): selective+model, {size} tokens" in logged
    assert "Running the LLM summary (执行 LLM Summary): selective+model" in logged
    assert "压缩失败，已回滚" not in caplog.text
    assert [event["phase"] for event in phases][-1] == "summary_done"
    quiet = await go.invoke(telling(emit_compaction_meta_events=False), BLOCKS)
    assert frozen(loud["messages"]) == frozen(quiet["messages"])
    assert loud.keys() == quiet.keys() == {"messages", "compaction", "compaction_view"}


async def test_a_rollback_is_logged(go: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever greps the log finds what was rolled back, and why."""
    await go.invoke(telling(ScriptedModel(replies=[""])), BLOCKS)
    (record,) = [record for record in caplog.records if "压缩失败，已回滚" in record.message]
    assert (record.levelno, record.filename) == (logging.WARNING, "rollback.py")
    assert (
        record.message
        == "Rolled back a compaction (压缩失败，已回滚): rejected_empty: empty_summary finish_reason=None"
    )


def raising(*_: Any, **__: Any) -> None:
    """Fail, whatever is asked."""
    raise OSError("no space left")
