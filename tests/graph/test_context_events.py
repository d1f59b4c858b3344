"""Events that tell what became of the conversation: replaced, compacted, near its trigger; and what that cost."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.graph import CompactionResult, CompactionThread
from langgraph_compaction.nodes.events import CONTEXT_COMPACTED, CompactContextEvent, committed_events, saved_ratio
from langgraph_compaction.nodes.runtime.node_context import NodeContext
from tests.fakes import ScriptedModel, texts, usage
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Drive,
    agent,
    events,
    filler,
    full,
    ledger,
    request_tokens,
    rounds,
    said,
    standing,
    values,
)
from tests.graph.test_rollback import calm

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
    performed, replaced, compacted, closed = found[1:]
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


def test_the_constant_is_the_seed_s() -> None:
    """Listeners compare with it."""
    event = committed_events("precheck", 10, 5, 2, None)[-1]
    assert isinstance(event, CompactContextEvent)
    assert event.type == CONTEXT_COMPACTED == "context_compacted"


@pytest.mark.parametrize(("original", "new", "ratio"), [(0, 0, 0.0), (100, 25, 0.75), (100, 100, 0.0), (3, 1, 2 / 3)])
def test_the_saved_ratio_is_zero_for_nothing(original: int, new: int, ratio: float) -> None:
    """Share of the tokens saved, the same in event and result; 0 where there was nothing to save."""
    result = CompactionResult(
        new_messages=[],
        summary=None,
        original_token_count=original,
        new_token_count=new,
        compacted_rounds=0,
        compacted_messages=0,
    )
    assert result.saved_ratio == saved_ratio(original, new) == pytest.approx(ratio)
    event = committed_events("precheck", original, new, 0, None)[-1]
    assert isinstance(event, CompactContextEvent)
    assert event.saved_ratio == pytest.approx(ratio, abs=1e-4)


async def test_events_tell_a_summary_as_the_redaction_hook_lets_it_pass(go: Drive) -> None:
    """The state holds the summary as it is; a listener is told the redacted one."""
    graph = agent(calm(), redact=redacted)
    (event,) = [each for each in await told(go, graph, full()) if each["event"] == "CompactContextEvent"]
    assert "what was said before" in conversation(graph)[0].text
    assert "what was said [...]" in event["summary"]
    assert "before" not in event["summary"]


async def test_without_a_summary_there_is_none_to_tell(go: Drive) -> None:
    """What is only dropped or clipped is told all the same, and no phase says that a summary is done."""
    graph = agent(calm(), summary_mode="if_needed", emit_compaction_meta_events=True)
    found = await told(go, graph, full())
    (event,) = [each for each in found if each["event"] == "CompactContextEvent"]
    assert event["summary"] is None
    assert [each["phase"] for each in found if each["event"] == "CompactionMetaEvent"] == [
        "selective_start",
        "selective_done",
    ]


async def test_a_person_s_wish_is_told_apart(go: Drive) -> None:
    """`COMPACTION_PERFORMED` says whether anybody asked."""
    graph = agent(calm())
    await go.invoke(graph, {"messages": [*rounds(5), HumanMessage("and now?")]})
    found = await told(go, graph, {"messages": [], "compaction_request": {}})
    (performed,) = [each for each in found if each.get("event_type") == "COMPACTION_PERFORMED"]
    assert performed["detail"].startswith("manual_compact: ")


async def test_a_rollback_that_restores_says_so(go: Drive) -> None:
    """The messages are replaced there too; one that finds them as they were replaces nothing."""
    graph = agent(calm(), ScriptedModel(replies=[""]))
    assert [e for e in await told(go, graph, full()) if e["event"] == "ContextEvent"] == []
    graph = agent(calm())
    await go.stream(graph, full(), stream_mode=["custom"], interrupt_before=["commit"])
    touched = next(message for message in values(graph)["messages"] if message.id == "r-user-0")
    graph.update_state(
        CONFIG, {"messages": [touched.model_copy(update={"content": "?"})]}, as_node="selective_compaction"
    )
    failing = graph.get_state(CONFIG).values["compaction"]["draft"] | {"failure": ["failed_permanent", "made up"]}
    graph.update_state(CONFIG, {"compaction": {"step": "rollback", "draft": failing}}, as_node="summarize")
    found = events(await go.stream(graph, None, stream_mode=["custom"]))
    (event,) = [each for each in found if each["event"] == "ContextEvent"]
    assert event["event_type"] == "CONVERSATION_REPLACED"
    assert event["detail"] == f"conversation replaced with {len(conversation(graph))} items"
    assert conversation(graph)[0].text != "?"


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


async def test_what_is_compacted_at_once_is_not_warned_of(go: Drive) -> None:
    """The warning is about what is to come; there is none where nothing compacts by itself."""
    found = await told(go, warning(), {"messages": [*rounds(9), HumanMessage("and now?")]})
    assert [each["event"] for each in found if each["event"] == "ContextWarningEvent"] == []
    assert await told(go, warning(enabled=False), said(filler(770))) == []


async def test_a_sink_that_fails_changes_nothing(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the events is worth a turn."""

    def raising(_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(NodeContext, "writer", property(lambda _: raising))
    graph = warning()
    await go.invoke(graph, said(filler(760)))
    CompactionThread(graph, CONFIG).compact()
    assert standing(graph)["warned"] is True
    assert "w759" in texts(values(graph)["messages"])
