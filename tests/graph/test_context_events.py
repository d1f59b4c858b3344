"""Events that tell what became of the conversation: replaced, compacted, near its trigger; and what that cost."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from tests.fakes import ScriptedModel, usage
from tests.graph.harness import (
    SUMMARY,
    Drive,
    agent,
    calm,
    events,
    filler,
    full,
    ledger,
    request_tokens,
    said,
    standing,
    values,
)

FIGURES = ("tokens_remaining", "summary_calls", "summary_input_tokens", "summary_output_tokens")


def paid(text: str = SUMMARY) -> ScriptedModel:
    """A summarizer whose calls cost 300 and 20 tokens."""
    return ScriptedModel(replies=[usage(AIMessage(text), 300, 20)])


async def told(go: Drive, graph: Any, given: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The events of one turn."""
    return events(await go.stream(graph, given, stream_mode=["custom"], **options))


def redacted(text: str) -> str:
    """A redaction hook."""
    return text.replace("before", "[...]")


def conversation(graph: Any) -> list[AnyMessage]:
    """What the thread holds, without the answer that ended its turn."""
    return values(graph)["messages"][:-1]


async def test_a_commit_tells_what_became_of_the_conversation(go: Drive) -> None:
    """How many messages it has now, its tokens before and after, and the text that stands for the rest."""
    graph = agent(calm())
    found = await told(go, graph, full())
    performed, replaced, compacted, closed = found[2:]
    before, after = closed["tokens_before"], request_tokens(conversation(graph))
    assert (performed["event_type"], replaced["event_type"]) == ("COMPACTION_PERFORMED", "CONVERSATION_REPLACED")
    assert performed["detail"] == f"auto_compact: {before} → {after} tokens"
    assert replaced["detail"] == f"conversation replaced with {len(conversation(graph))} items"
    assert compacted == {
        "event": "CompactContextEvent",
        "type": "context_compacted",
        "original_tokens": before,
        "new_tokens": after,
        "saved_ratio": round(1 - after / before, 4),
        "summary": conversation(graph)[0].text,
    }


async def test_events_tell_a_summary_as_the_redaction_hook_lets_it_pass(go: Drive) -> None:
    """The state holds the summary as it is; a listener is told the redacted one."""
    graph = agent(calm(), redact=redacted)
    (event,) = [each for each in await told(go, graph, full()) if each["event"] == "CompactContextEvent"]
    assert "what was said before" in conversation(graph)[0].text
    assert "what was said [...]" in event["summary"]
    assert "before" not in event["summary"]


@pytest.mark.parametrize(("reply", "verdict", "calls"), [(SUMMARY, "committed", 1), ("", "rejected_empty", 3)])
async def test_what_is_left_and_what_it_cost_is_told(go: Drive, reply: str, verdict: str, calls: int) -> None:
    """Event, state and ledger agree, and a failure costs too."""
    graph = agent(calm(), paid(reply))
    closed = (await told(go, graph, full()))[-1]
    assert closed["verdict"] == verdict
    assert [closed[name] for name in FIGURES] == [1_000 - closed["tokens_after"], calls, 300 * calls, 20 * calls]
    (row,) = ledger(graph)
    assert (row.summary_calls, row.summary_input_tokens, row.summary_output_tokens) == (
        calls,
        300 * calls,
        20 * calls,
    )
    if verdict == "committed":
        assert {name: standing(graph)["last"][name] for name in FIGURES} == {name: closed[name] for name in FIGURES}


WARNING = {
    "event": "ContextWarningEvent",
    "type": "context_warning",
    "message": "the context is 75% full; it is compacted at 900 tokens",
    "tokens": 750,
    "ratio": 0.75,
    "will_compact_at": 900,
}


def warning(**options: Any) -> Any:
    """An agent that warns at three quarters and compacts at nine tenths."""
    return agent(ScriptedModel(replies=["ok"]), trigger_ratio=0.9, **options)


async def test_a_warning_comes_once_until_the_next_commit(go: Drive) -> None:
    """At the ratio itself, not below; then no more of it, until a compaction has made room."""
    assert await told(go, warning(), said(filler(740, "a"))) == []  # 749 with the answer
    graph = warning(facts_beside_summary=False)
    assert await told(go, graph, said(filler(736, "a"))) == []
    assert await told(go, graph, said("b")) == [WARNING]
    assert await told(go, graph, said(filler(40, "c"))) == []
    await go.invoke(graph, {"messages": [], "compaction_request": {}})
    assert (standing(graph)["epoch"], standing(graph)["warned"]) == (1, False)
    (again,) = await told(go, graph, said(filler(700, "d")))
    assert again["event"] == "ContextWarningEvent"
    assert standing(graph)["warned"] is True
