"""Scenarios of failing models: bad summaries, errors of providers, crashes in nodes, growing records."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.graph import ContextExhaustedError
from langgraph_compaction.nodes.testing import BAD_REPLIES, ScriptedModel, failing_records, texts, usage
from tests.faults.stage import Stage, scenario
from tests.graph.harness import Drive, filler, frozen, full, rounds, said, steps, told
from tests.graph.test_overflow import answered, llama_cpp
from tests.invariants import is_summary

CALM = usage(AIMessage("answered", id="the-answer"), 100)
"""An answer whose usage is so small that no compaction follows."""

FORMS = {
    "empty": ("rejected_empty", "empty_summary"),
    "whitespace": ("rejected_empty", "empty_summary"),
    "thinking only": ("rejected_empty", "thinking_only_no_content"),
    "nothing before the output limit": ("rejected_empty", "max_tokens_no_content"),
    "cut off": ("rejected_truncated", "max_tokens_truncated"),
    "refusal": ("rejected_not_a_summary", "refusal"),
    "withheld": ("rejected_not_a_summary", "refusal"),
    "tool call": ("rejected_tool_call", "tool_call"),
    "unclosed tag": ("rejected_truncated", "unclosed_summary_tag"),
    "empty tags": ("rejected_empty", "empty_tag_body"),
    "placeholder": ("rejected_not_a_summary", "nothing_covered"),
    "headings only": ("rejected_not_a_summary", "nothing_covered"),
}


async def rejected(go: Drive, reply: Any, verdict: str, reason: str, given: Any = None) -> Stage:
    """A turn with a bad summary is rolled back byte for byte, answered, and reported."""
    stage, given = Stage(go, [CALM], [reply]), given or told()
    before = frozen(given["messages"])
    assert steps(await stage.turn(given))[-2:] == ["rollback", "model"]
    assert frozen(stage.sent) == before
    assert frozen(stage.messages[:-1]) == before
    stage.check([verdict], said=given["messages"])
    (row,), last, (event,) = stage.ledger, stage.standing["last"], stage.told("CompactionEvent")
    assert row.reason == last["reason"] == event["reason"] == reason
    assert row.summary_calls == len(stage.summarizer.received)
    return stage


@scenario("F1", "the summarizer raises every time")
async def dead_summarizer(go: Drive) -> None:
    """Each turn is answered; a failed attempt costs three calls, and with `digest` one replaces its summary."""
    stage = Stage(go, ["ok"], [BAD_REPLIES["transient error"]], {"on_summary_failure": "digest"})
    spoken = [HumanMessage(f"order-{n} {filler(150, f'turn{n}-')}", id=f"user-{n}") for n in range(8)]
    for message in spoken:
        await stage.turn({"messages": [message]})
    assert len(stage.model.received) == len(spoken)
    pairs = len(stage.ledger) // 2
    assert pairs > 0
    assert len(stage.summarizer.received) == 3 * pairs
    assert {row.reason for row in stage.ledger[::2]} == {"summary_exception:ConnectionError"}
    stage.check(
        ["failed_transient", "degraded_deterministic"] * pairs, said=spoken, holds=[spoken[-1].text, "order-0"]
    )
    assert "failures" not in stage.standing["breaker"]


@scenario("F2", "the summary is empty, blank, thought, refused, a call or cut off")
async def bad_forms(go: Drive) -> None:
    """Each is rejected with its own reason, asked again if it is empty or cut, and the thread is unchanged."""
    for name, (verdict, reason) in FORMS.items():
        stage = await rejected(go, BAD_REPLIES[name], verdict, reason)
        asked_again = verdict in ("rejected_empty", "rejected_truncated")
        assert len(stage.summarizer.received) == (3 if asked_again else 1), name


@scenario("F3", "the summary is longer than what it replaces")
async def inflated(go: Drive) -> None:
    """It is rejected after one call, because a second call would give the same."""
    stage = await rejected(go, BAD_REPLIES["inflated"], "rejected_inflated", "not_smaller", full())
    assert len(stage.summarizer.received) == 1


@scenario("F4", "the summary continues the chat")
async def chat(go: Drive) -> None:
    """A reply to the user is rejected as a summary, with and without tags."""
    await rejected(go, BAD_REPLIES["continues the chat"], "rejected_not_a_summary", "nothing_covered")
    await rejected(go, "I'll open the file now. Shall I go on?", "rejected_not_a_summary", "nothing_covered")


@scenario("F9", "the model fails after a compaction and the host resumes")
async def resumed(go: Drive) -> None:
    """The resumed run answers the compacted request; usage of kept messages, measured before, is ignored."""
    stage, given = Stage(go, [RuntimeError("down"), CALM]), full()
    given["messages"] = [usage(m, 950) if isinstance(m, AIMessage) else m for m in given["messages"]]
    with pytest.raises(RuntimeError, match="down"):
        await stage.turn(given)
    await stage.turn(None)
    first, second = stage.model.received
    assert frozen(first) == frozen(second)
    assert stage.messages[-1].text == "answered"
    assert len(stage.summarizer.received) == 1
    stage.check(["committed"], said=given["messages"], holds=["and now?", "what was said before"], told=[])


@scenario("F10", "the identical attempt again after a rollback")
async def never_twice(go: Drive) -> None:
    """If every archive write fails, each level is tried once on the same conversation, then an error is raised."""
    stage = Stage(go, ["ok"])
    with failing_records(stage.graph, "commit", times=None), pytest.raises(ContextExhaustedError):
        await stage.turn({"messages": [*rounds(12), HumanMessage("and now?", id="q")]})
    tried = [row.strategy for row in stage.ledger]
    assert len(tried) == len(set(tried)) > 2
    assert {row.reason for row in stage.ledger} == {"archive:OSError"}
    assert stage.model.received == []
    assert len(stage.messages) == 25
    await stage.turn(said("again"))
    last = "degraded_deterministic"
    stage.check([*["failed_permanent"] * len(tried), last], said=rounds(12), holds=["again"], told=[last])


@scenario("F11", "a strict gate blocks for ever")
async def last_rung(go: Drive) -> None:
    """If summarizer, fallback and digest all fail, the last level still keeps the turn within the limit."""
    fallback = ScriptedModel(replies=[BAD_REPLIES["refusal"]])
    stage = Stage(go, ["ok"], [BAD_REPLIES["inflated"]], {"fallback_summarizers": [fallback]})
    given = {"messages": [*rounds(12), HumanMessage("and now?", id="q")]}
    with failing_records(stage.graph, "commit"):
        await stage.turn(given)
    assert [row.strategy for row in stage.ledger] == [
        "selective+model",
        "selective+fallback-1",
        "selective+digest",
        "hide",
    ]
    assert len(stage.model.received) == 1
    stage.check(
        ["rejected_inflated", "rejected_not_a_summary", "failed_permanent", "degraded_deterministic"],
        said=given["messages"],
        holds=["and now?", "no longer in view"],
    )


@scenario("F16", "a rate limit or a bad key taken for an overflow, and the other way round")
async def classified(go: Drive) -> None:
    """Only errors that less input would solve start a compaction; others are raised unchanged."""
    limited = answered(429, {"error": {"message": "Rate limit reached: too many tokens, maximum context length 8"}})
    denied = answered(401, {"error": {"message": "Incorrect API key provided: sk-abcdef1234567890"}})
    misworded = answered(401, {"error": {"message": "Incorrect API key: prompt is too long"}})
    for error in (limited, denied, misworded, TimeoutError("no answer")):
        stage = Stage(go, [error])
        with pytest.raises(type(error)) as caught:
            await stage.turn({"messages": rounds(5)[:-1]})
        assert str(caught.value) == str(error)
        assert len(stage.model.received) == 1
        stage.check([])
    stage = Stage(go, [llama_cpp(700, 600), "twelve"])
    await stage.turn({"messages": [*rounds(5), HumanMessage("what do I owe?", id="q")]})
    assert [event["trigger"] for event in stage.told("PreCompactEvent")] == ["overflow"]
    stage.check(["committed"], said=rounds(5), holds=["what do I owe?"])
    stage = await rejected(go, denied, "failed_permanent", "summary_exception:AuthenticationError")
    assert len(stage.summarizer.received) == 1
    assert "sk-abcdef" not in (stage.ledger[0].detail or "")
    assert "[secret]" in (stage.ledger[0].detail or "")


@scenario("F17", "a run resumed after a node raised ends silently")
async def no_silent_end(go: Drive) -> None:
    """After any node was stopped or raised, resuming leads to an answer."""
    for node in ("selective_compaction", "summarize", "commit", "model"):
        stage, given = Stage(go, [CALM]), full()
        await stage.turn(given, interrupt_before=[node])
        stage.graph.update_state(stage.graph.get_state({"configurable": {"thread_id": "thread"}}).config, None)
        await stage.turn(None)
        assert stage.messages[-1].text == "answered", node
        stage.check(["committed"], said=given["messages"], holds=["and now?"])
    stage = Stage(go, [ValueError("down"), CALM])
    with pytest.raises(ValueError, match="down"):
        await stage.turn(said("hello", "h"))
    assert steps(await stage.turn(None)) == ["model"]
    stage.check([], holds=["hello"])


@scenario("F25", "a summary of a summary that cannot shrink")
async def fixed_point(go: Drive) -> None:
    """What grows with every compaction meets its ceiling: the digest writes the one summary there is, and it shrinks.

    Where the provider counts the same after each compaction, the breaker defers the next ones.
    """

    def hoarding(messages: list[Any]) -> str:
        words = [word for word in texts(messages).split() if word.startswith("turn")]
        return f"<summary>The user said {' '.join(dict.fromkeys(words))}</summary>"

    stage = Stage(go, ["ok"], [hoarding], {"facts_beside_summary": False, "on_summary_failure": "digest"})
    for number in range(10):
        await stage.turn(said(filler(150, f"turn{number}-"), f"u{number}"))
    grown = ["rejected_insufficient", "degraded_deterministic"]
    stage.check([*grown, "committed", *grown], holds=["turn9-149"])
    assert sum(map(is_summary, stage.messages)) == 1
    digests = [row for row in stage.ledger if row.verdict == "degraded_deterministic"]
    assert max(row.tokens_after or 0 for row in digests) < 600
    stage = Stage(go, [usage(AIMessage("ok"), 900)], options={"facts_beside_summary": False})
    for number in range(6):
        await stage.turn(said(filler(150, f"turn{number}-"), f"u{number}"))
    assert "frequency" in [row.reason for row in stage.ledger if row.verdict == "deferred_cooldown"]
