"""What an application redacts leaves no trace where a compaction tells or asks."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import Redaction
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import (
    SUMMARY,
    THREAD,
    Drive,
    agent,
    calm,
    events,
    filler,
    ledger,
    reading,
    rounds,
    said,
    standing,
    values,
)

NEEDLE = "Needle-4711"
SHOWN = "[redacted]"


def redact(text: str) -> str:
    """The application's hook."""
    return text.replace(NEEDLE, SHOWN)


def telling(words: int = 40) -> list[AnyMessage]:
    """A conversation that names the needle in every place, with a result of so many words."""
    call = {"name": "read", "args": {"who": NEEDLE}, "id": "call-note"}
    return [
        HumanMessage(f"I am {NEEDLE}. Never call {NEEDLE}.", id="first"),
        AIMessage("", tool_calls=[call], id="looking"),
        ToolMessage(f"{NEEDLE} {filler(words)} {NEEDLE}", tool_call_id="call-note", id="found", name="read"),
        AIMessage(f"Hello, {NEEDLE}.", id="seen"),
    ]


def given(words: int = 40) -> dict[str, Any]:
    """An input over the trigger that begins so."""
    return {"messages": [*telling(words), *rounds(7, tag="x"), HumanMessage("and now?", id="question")]}


def leaky(messages: list[BaseMessage]) -> str:
    """A summarizer that makes up what it was not shown, or says again what it was."""
    return f"<summary>The user is {NEEDLE if NEEDLE in texts(messages) else SHOWN}, and asked for help.</summary>"


def told(graph: Any) -> str:
    """All that the ledger holds."""
    return "\n".join(map(repr, ledger(graph)))


SUMMARIZERS: dict[str, Callable[[], ScriptedModel]] = {
    "a summary": lambda: ScriptedModel(replies=[leaky]),
    "an error that quotes it": lambda: ScriptedModel(replies=[ValueError(f"cannot read {NEEDLE}")]),
    "no summary at first": lambda: ScriptedModel(replies=["", "", "", leaky]),
}


@pytest.mark.usefixtures("unbraked")
@pytest.mark.parametrize("case", SUMMARIZERS)
async def test_no_request_row_event_or_log_line_holds_what_is_redacted(
    go: Drive, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the summarizer does, on every level, and over two compactions."""
    summarizer = reading(SUMMARIZERS[case](), 120)
    options = {"tool_blocks_keep_recent": 0, "facts_beside_summary": True}
    graph = agent(calm(), summarizer, redact=redact, **options)
    with caplog.at_level(logging.DEBUG, "langgraph_compaction"):
        chunks = await go.stream(graph, given(), stream_mode=["updates", "custom"])
        more = {"messages": [*rounds(9, tag="y"), *said(f"and {filler(60)}")["messages"]]}
        chunks += await go.stream(graph, more, stream_mode=["updates", "custom"])
    assert summarizer.received
    assert [request for request in summarizer.received if NEEDLE in texts(request)] == []
    assert NEEDLE not in told(graph)
    assert NEEDLE not in repr(events(chunks))
    assert NEEDLE not in caplog.text
    assert standing(graph)["epoch"] >= 1


@pytest.mark.parametrize("store", [False, True])
async def test_snapshot_and_archive_are_redacted_only_where_that_is_asked_for(go: Drive, *, store: bool) -> None:
    """Without `store` recall and undo give back the original; with it, nothing in SQL holds the needle."""
    redaction = Redaction(hook=redact, store=store)
    graph = agent(calm(), redact=redaction, tool_blocks_keep_recent=0)
    await go.invoke(graph, given())
    (row,), records = ledger(graph), records_of(graph)
    key = AttemptKey(THREAD, row.namespace, row.base_fingerprint, row.level, row.attempt)
    snapshot = records.snapshot(key) or []
    result = next(message for message in telling() if message.id == "found")
    result = redaction.message(result) if store else result
    recalled = records.recall(THREAD, handle(result))
    assert recalled is not None
    assert len(snapshot) == len(given()["messages"])
    for held in ([recalled], snapshot):
        assert (NEEDLE in repr(held)) is not store
        assert (SHOWN in repr(held)) is store


async def test_a_hook_that_fails_fails_the_attempt_and_nothing_else(
    go: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    """If the redaction hook fails, the summarizer receives nothing, and the log contains no unredacted text.

    The log also omits the error of the hook, and the turn is answered.
    """

    def refuse(_: str) -> str:
        raise RuntimeError("no rules")

    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = agent(calm(), summarizer, redact=refuse)
    await go.invoke(graph, given())
    assert summarizer.received == []
    notice = "[left out: the redaction hook failed]"
    assert [(row.verdict, row.detail) for row in ledger(graph)] == [("failed_permanent", notice)]
    assert "The redaction hook failed; the text is left out" in caplog.text
    assert not any(secret in caplog.text for secret in ("no rules", NEEDLE))
    assert values(graph)["messages"][-1].text == "answered"
