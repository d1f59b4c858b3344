"""The preset `selective` as its document tells it, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings are the preset's own. The trigger of gpt-4o is 102,400 tokens and its limit 115,200; Claude's are 108,800 and
136,000.
"""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread, Extensions, create_compacting_agent
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import arguments_json
from tests.acceptance.talks import (
    QUESTION,
    REAL,
    SENTENCE,
    Replies,
    Sent,
    agent_of,
    block,
    blocks,
    counter,
    ids,
    said,
    story,
    words,
)
from tests.fakes import calls, claude, gpt, usage
from tests.graph.harness import CONFIG, PROSE, Clock, events, frozen, ledger, standing, steps, values

Answered = Callable[..., Sent]
SUMMARY = "<summary>The user asked when the ferry leaves; the sheds were read.</summary>"
TASK = HumanMessage("Read the logs of the harbor.", id="task")
READ = AIMessage("All logs are read.", id="read")
LOGS: list[AnyMessage] = [TASK, *blocks(30, 186), READ, QUESTION]
"""Thirty blocks of three tools, of about 3,750 tokens each."""


@pytest.mark.requirement("S0.8", "S0.9", "S0.10")
@REAL
def test_the_newest_five_blocks_stay_whatever_their_tools(real: Replies, answered: Answered) -> None:
    """Not five of each tool; an older block leaves with its call and its result."""
    model = real()
    sent = answered(model, summary=SUMMARY)
    agent = agent_of(model, "selective")
    agent.invoke({"messages": LOGS}, CONFIG)
    (request,) = sent
    assert ids(request, "asks-") == [f"asks-{n}" for n in range(25, 30)]
    assert ids(request, "gets-") == [f"gets-{n}" for n in range(25, 30)]
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict) == ("precheck", "committed")
    assert row.tokens_before > 108_800
    assert (row.tokens_after or 0) < 57_600


@pytest.mark.requirement("S0.11", "S0.5")
@REAL
def test_a_summary_takes_the_place_of_what_left(real: Replies, answered: Answered) -> None:
    """One, written by the agent's own model although the blocks alone made room; nothing else stands for a block."""
    model = real()
    sent = answered(model, summary=SUMMARY)
    agent = agent_of(model, "selective", summarizer=None)
    agent.invoke({"messages": LOGS}, CONFIG)
    assert len(sent.summaries) == 1
    (request,) = sent
    new = [message for message in request if message.id not in set(ids(LOGS))]
    assert [is_summary(message) for message in new] == [True]
    assert "the sheds were read" in new[0].text
    assert ids(CompactionThread(agent, CONFIG).transcript())[: len(LOGS)] == ids(LOGS)


LARGE: list[AnyMessage] = [
    *said(8, 150),
    *block(1, "read", "The log of the shed names crate 4711. " + SENTENCE * 3_200),
    AIMessage("The log is read.", id="read"),
]
"""Eight rounds of about 6,000 tokens, all of which stay, and one result of about 64,000 tokens."""
CRATE = "<summary>The log of the shed names crate 4711; the ferry leaves at nine.</summary>"


@pytest.mark.requirement("S0.51")
@REAL
def test_a_result_that_is_only_shortened_is_summarized(real: Replies, answered: Answered) -> None:
    """The model reads the whole result alone; its summary stands before the call, and `undo` takes it back."""
    model = real()
    sent = answered(model, summary=CRATE)
    agent = agent_of(model, "selective", summarizer=None)
    agent.invoke({"messages": [*LARGE, QUESTION]}, CONFIG)
    (asked,) = sent.summaries
    assert asked[-1].text.count(SENTENCE.strip()) >= 3_200
    assert "Note 7." not in asked[-1].text
    (request,) = sent
    assert [message.id for message in request if not is_summary(message)] == ids([*LARGE, QUESTION])
    place = next(index for index, message in enumerate(request) if is_summary(message))
    assert request[place + 1].id == "asks-1"
    assert "crate 4711" in request[place].text
    (row,) = ledger(agent)
    assert (row.verdict, row.strategy, row.dropped) == ("committed", "selective+model", ())
    assert row.seen == {"full": [], "cut": {}, "shortened": ["asks-1", "gets-1"]}
    thread = CompactionThread(agent, CONFIG)
    assert ids(thread.transcript())[:-1] == ids([*LARGE, QUESTION])
    thread.undo()
    assert frozen(values(agent)["messages"][:-1]) == frozen([*LARGE, QUESTION])


@pytest.mark.requirement("S0.51")
def test_in_langchains_agent_a_shortened_result_is_summarized_too(answered: Answered) -> None:
    """By the model that the middleware finds in the request; `undo` takes it back."""
    model = gpt("gpt-4o")
    sent = answered(model, summary=CRATE)
    middleware = CompactionMiddleware(settings=CompactionSettings())
    agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": [*LARGE, QUESTION]}, CONFIG)
    assert len(sent.summaries) == 1
    place = next(index for index, message in enumerate(sent[0]) if is_summary(message))
    assert sent[0][place + 1].id == "asks-1"
    assert "crate 4711" in sent[0][place].text
    thread = CompactionThread(agent, CONFIG)
    (row,) = thread.history()
    assert (row.verdict, row.strategy, (row.seen or {})["shortened"]) == (
        "committed",
        "selective+model",
        ["asks-1", "gets-1"],
    )
    thread.undo()
    assert frozen(values(agent)["messages"][:-1]) == frozen([*LARGE, QUESTION])


@pytest.mark.requirement("S0.51")
def test_the_next_summary_takes_in_the_one_before(answered: Answered) -> None:
    """A second large result is shortened; what was shortened before is not read again."""
    model = gpt("gpt-4o")
    sent = answered(model, summary=CRATE)
    agent = agent_of(model, "selective", summarizer=None)
    agent.invoke({"messages": [*LARGE, QUESTION]}, CONFIG)
    more = [HumanMessage("And the other?", id="other"), *block(2, "read", "Crate 4712. " + SENTENCE * 3_200)]
    agent.invoke({"messages": [*more, AIMessage("Read.", id="done"), HumanMessage("Which?", id="which")]}, CONFIG)
    _, asked = sent.summaries
    assert "crate 4711" in asked[-1].text
    assert asked[-1].text.count(SENTENCE.strip()) in range(3_200, 3_210)
    assert [message.id for message in sent[-1] if is_summary(message)] == [
        f"summary-{ledger(agent)[-1].compaction_id}"
    ]


@pytest.mark.requirement("S0.51")
@pytest.mark.parametrize("given", [{"summarizer": "digest"}, {"summary_mode": "if_needed"}])
def test_a_result_is_shortened_alone_where_no_model_has_to_write(given: Any, answered: Answered) -> None:
    """The digest leaves the beginning of a result to speak for it, and `if_needed` asks for nothing."""
    model = gpt("gpt-4o")
    sent = answered(model, summary=CRATE)
    agent = agent_of(model, "selective", **{"summarizer": None, **given})
    agent.invoke({"messages": [*LARGE, QUESTION]}, CONFIG)
    assert (sent.summaries, ids(sent[0])) == ([], ids([*LARGE, QUESTION]))
    assert ledger(agent)[0].verdict == "committed"


@pytest.mark.requirement("S0.51", "S0.25")
@pytest.mark.parametrize("then", ["nothing", "digest"])
def test_after_a_failed_summary_a_result_is_only_shortened_where_the_digest_may_follow(
    answered: Answered, then: str
) -> None:
    """By default the whole result is sent again; with `digest` it is shortened all the same, without a summary."""
    model = gpt("gpt-4o")
    sent = answered(model, summary="")
    agent = agent_of(model, "selective", summarizer=None, on_summary_failure=then)
    agent.invoke({"messages": [*LARGE, QUESTION]}, CONFIG)
    agent.invoke({"messages": "And then?"}, CONFIG)
    assert ledger(agent)[0].verdict == "rejected_empty"
    assert (ledger(agent)[-1].verdict == "degraded_deterministic") == (then == "digest")
    assert (frozen(sent[-1][: len(LARGE)]) == frozen(LARGE)) == (then == "nothing")
    assert not any(map(is_summary, sent[-1]))


def clipped(answered: Answered, result: int, arguments: int, **given: Any) -> tuple[Any, Any]:
    """Return a kept call and its result after a compaction, which had so many tokens."""
    model = gpt("gpt-4o")
    answered(model, summary=SUMMARY)
    agent = agent_of(model, "selective", **given)
    size = counter().text(arguments_json({"n": 99, "text": words(100)})) - 100
    kept = block(99, "write", words(result), text=words(arguments - size))
    agent.invoke({"messages": [*said(60, 45), *kept, AIMessage("Done.", id="done"), QUESTION]}, CONFIG)
    held = {message.id: message for message in values(agent)["messages"]}
    assert standing(agent)["epoch"] == 1
    return held["asks-99"], held["gets-99"]


@pytest.mark.requirement("S0.12", "S0.13", "S0.15")
def test_fields_at_their_thresholds_stay_as_they_are(answered: Answered) -> None:
    """600 tokens of a result, 500 of arguments."""
    call, result = clipped(answered, 600, 500)
    assert result.text == words(600)
    assert "[TRUNCATED" not in str(call.tool_calls)


@pytest.mark.requirement("S0.12", "S0.13", "S0.14")
def test_fields_above_their_thresholds_keep_two_hundred_tokens(answered: Answered) -> None:
    """One token more, and the last line tells the original size."""
    call, result = clipped(answered, 601, 501)
    assert result.text == f"{words(200)}\n[TRUNCATED original~601 tokens]"
    assert "[TRUNCATED original~" in call.tool_calls[0]["args"]["text"]


@pytest.mark.requirement("S0.16", "S0.18", "S0.19")
@REAL
def test_twelve_rounds_stay_and_five_messages_of_each_type_before_them(real: Replies, answered: Answered) -> None:
    """The question is the newest of the twelve; a meta message begins none."""
    model = real()
    sent = answered(model, summary=SUMMARY)
    agent = agent_of(model, "selective")
    talk = said(40, 75)
    aside = HumanMessage("The time is ten.", id="aside", additional_kwargs={"compaction": {"is_meta": True}})
    agent.invoke({"messages": [*talk[:-2], aside, *talk[-2:], QUESTION]}, CONFIG)
    (request,) = sent
    assert ids(request, "note-") == [f"note-{n}" for n in range(24, 40)]
    assert ids(request, "read-") == [f"read-{n}" for n in range(24, 40)]


@tool
def read_shed(shed: int) -> str:
    """Read the log of a shed."""
    return f"Shed {shed}. " + SENTENCE * 200


@pytest.mark.requirement("S0.1", "S0.2", "S0.45")
def test_results_of_tools_are_checked_before_the_next_call(answered: Answered) -> None:
    """99,000 tokens and a result of 4,000 are over the trigger of 102,400 and under the limit of 115,200."""
    model = gpt("gpt-4o")
    sent = answered(model, calls(("read_shed", {"shed": 1})), "Read.", summary=SUMMARY)
    agent = agent_of(model, "selective", [read_shed])
    given = {"messages": [*said(50, 49), QUESTION]}
    chunks = list(agent.stream(given, CONFIG, stream_mode=["updates", "custom"]))
    assert [event["trigger"] for event in events(chunks, "PreCompactEvent")] == ["precheck"]
    found = steps(chunks)
    assert found[: found.index("selective_compaction")] == ["token_check", "model", "tools", "token_check"]
    assert len(sent) == 2
    assert len(sent[1]) < len(sent[0])


@pytest.mark.requirement("S0.1", "S0.3")
@pytest.mark.parametrize(("used", "fires"), [(102_399, False), (102_400, True)])
def test_the_usage_that_the_provider_reports_decides_after_the_answer(
    used: int, fires: bool, answered: Answered
) -> None:
    """Four fifths of 128,000, whatever this package counts itself."""
    model = gpt("gpt-4o")
    answered(model, usage(AIMessage("At nine."), used - 10, 10))
    agent = agent_of(model, "selective")
    given = {"messages": [*said(40, 50), QUESTION]}
    chunks = list(agent.stream(given, CONFIG, stream_mode=["updates", "custom"]))
    assert [event["trigger"] for event in events(chunks, "PreCompactEvent")] == ["check"] * fires


@pytest.mark.requirement("S0.6", "S0.26", "S0.27")
@REAL
def test_a_model_that_writes_no_summary_changes_nothing(
    real: Replies, answered: Answered, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt asks three times and is rolled back: the conversation is the same to the byte, and answered."""
    caplog.set_level(logging.INFO, "langgraph_compaction")
    model = real()
    sent = answered(model, "At nine.", summary="")
    agent = agent_of(model, "selective", summarizer=None)
    agent.invoke({"messages": LOGS}, CONFIG)
    assert [(row.trigger, row.verdict, row.reason) for row in ledger(agent)] == [
        ("precheck", "rejected_empty", "empty_summary"),
        ("check", "rejected_empty", "empty_summary"),
    ]
    assert (len(sent.summaries), len(sent)) == (2 * 3, 1)
    assert frozen(values(agent)["messages"][:-1]) == frozen(LOGS)
    assert values(agent)["messages"][-1].text == "At nine."
    logged = " ".join(record.getMessage() for record in caplog.records)
    for words_of_the_document in ("开始选择性压缩", "执行 LLM Summary", "压缩失败，已回滚"):
        assert words_of_the_document in logged


CUT = {"finish_reason": "length"}


@pytest.mark.requirement("S0.22", "S0.24", "S0.25", "S0.28")
@pytest.mark.parametrize(
    ("reply", "verdict", "reason", "calls"),
    [
        (RuntimeError("no summary today"), "failed_permanent", "summary_exception:RuntimeError", 3),
        ("Happy to help with anything else!", "rejected_not_a_summary", "nothing_covered", 1),
        ("<summary> </summary>", "rejected_empty", "empty_tag_body", 3),
        (AIMessage([{"type": "thinking", "thinking": "Ferries."}]), "rejected_empty", "thinking_only_no_content", 3),
        (AIMessage("", response_metadata=CUT), "rejected_empty", "max_tokens_no_content", 3),
        (AIMessage("<summary>The ferry", response_metadata=CUT), "rejected_truncated", "max_tokens_truncated", 3),
    ],
)
def test_what_is_no_summary_is_rolled_back_with_its_reason(
    answered: Answered, reply: Any, verdict: str, reason: str, calls: int
) -> None:
    """And the turn is answered on the whole conversation."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.", summary=reply)
    agent = agent_of(model, "selective", summarizer=None, hooks=("pre_model",))
    prose = {"gets-0": {"content": PROSE}}
    given = [message.model_copy(update=prose.get(str(message.id))) for message in LOGS]
    agent.invoke({"messages": given}, CONFIG)
    (row,) = ledger(agent)
    assert (row.verdict, row.reason, row.summary_calls, len(sent.summaries)) == (verdict, reason, calls, calls)
    assert frozen(values(agent)["messages"][:-1]) == frozen(given)
    assert ids(sent[0]) == ids(given)


@pytest.mark.requirement("S0.36", "S0.37", "S0.38")
@pytest.mark.parametrize("streamed", [True, False])
def test_a_run_switches_the_phases_on_for_who_streams_and_for_the_log(
    answered: Answered, caplog: pytest.LogCaptureFixture, streamed: bool
) -> None:
    """By its context; a caller that does not stream finds them in the log alone."""
    caplog.set_level(logging.DEBUG, "langgraph_compaction")
    model = gpt("gpt-4o")
    answered(model, summary=SUMMARY)
    agent, context = agent_of(model, "selective", summarizer=None), {"emit_compaction_meta_events": True}
    if streamed:
        chunks = list(agent.stream({"messages": LOGS}, CONFIG, context=context, stream_mode=["custom", "updates"]))
        assert len(events(chunks, "CompactionMetaEvent")) == 4
    else:
        agent.invoke({"messages": LOGS}, CONFIG, context=context)
    assert "summary_done" in " ".join(record.getMessage() for record in caplog.records)


@pytest.mark.requirement("S0.46", "S0.47", "S0.48")
def test_after_repeated_failures_attempts_are_skipped_for_eight_seconds(
    answered: Answered, caplog: pytest.LogCaptureFixture
) -> None:
    """The summarizer is not asked meanwhile; afterwards it is. The log has the document's words for each step."""
    caplog.set_level(logging.INFO, "langgraph_compaction")
    model, clock = gpt("gpt-4o"), Clock()
    sent = answered(model, "At nine.", summary="")
    agent = agent_of(model, "selective", summarizer=None, now=clock)
    agent.invoke({"messages": LOGS}, CONFIG)
    asked = len(sent.summaries)
    clock.time += 7.9
    agent.invoke({"messages": "And then?"}, CONFIG)
    assert {row.verdict for row in ledger(agent)[2:]} == {"deferred_cooldown"}
    assert len(sent.summaries) == asked
    clock.time += 0.2
    sent.summary = SUMMARY
    agent.invoke({"messages": "And then?"}, CONFIG)
    assert ledger(agent)[-1].verdict == "committed"
    assert len(sent.summaries) == asked + 1
    logged = [record.getMessage() for record in caplog.records]
    for phrase in ("(开始选择性压缩)", "(执行 LLM Summary)", "(压缩失败，已回滚)", "cool-down"):
        assert any(phrase in line for line in logged), phrase


@pytest.mark.requirement("S0.7")
def test_a_call_of_two_tools_and_both_results_are_one_block(answered: Answered) -> None:
    """Of twelve such blocks five stay with both results, in whatever order these stand."""
    model = gpt("gpt-4o")
    sent = answered(model, summary=SUMMARY)
    agent = agent_of(model, "selective")
    given: list[AnyMessage] = [TASK]
    for n in range(12):
        asks, first = block(2 * n, "read", SENTENCE * 222)
        also, second = block(2 * n + 1, "list", SENTENCE * 222)
        both = [*asks.tool_calls, *also.tool_calls]
        given += [asks.model_copy(update={"tool_calls": both}), second, first]
    agent.invoke({"messages": [*given, READ, QUESTION]}, CONFIG)
    (request,) = sent
    assert ids(request, "asks-") == [f"asks-{n}" for n in range(14, 24, 2)]
    assert ids(request, "gets-") == [f"gets-{n}" for n in range(14, 24)]


@pytest.mark.requirement("S0.4", "S0.25", "S0.35", "S0.29", "S0.30", "S0.31", "S0.32", "S0.33", "S0.34")
@pytest.mark.parametrize(("summary", "switched"), [(SUMMARY, True), ("", True), (SUMMARY, False)])
def test_first_is_chosen_then_summarized_and_at_last_committed(summary: str, *, switched: bool) -> None:
    """Only a summary that passed is followed by a commit; the builder's setting tells the phases and their counts.

    Five blocks of thirty stay and their results are shortened; the last phase tells the reason.
    """
    told = story(
        gpt("gpt-4o"),
        "selective",
        {"messages": LOGS},
        summary=summary,
        emit_compaction_meta_events=switched,
        hooks=("pre_model",),
    )
    ends = "commit" if summary else "rollback"
    assert steps(told.chunks) == ["token_check", "selective_compaction", "summarize", ends, "model"]
    assert any(map(is_summary, told.request)) == bool(summary)
    found = events(told.chunks, "CompactionMetaEvent")
    phases = ["selective_start", "selective_done", "summary_start", "summary_done" if summary else "rollback"]
    assert [event["phase"] for event in found] == (phases if switched else [])
    if switched:
        begun, done, _, last = found
        assert begun["tokens_before"] > 102_400
        assert done["tokens_after"] < done["tokens_before"]
        assert (done["tool_blocks_kept"], done["tool_blocks_dropped"]) == (5, 25)
        assert (done["tool_results_truncated"], done["tool_calls_truncated"]) == (5, 0)
        assert (last["tokens_after"] < begun["tokens_before"]) == bool(summary)
        assert last["reason"] == ("success" if summary else "empty_summary")


@pytest.mark.requirement("S0.20", "S0.21")
def test_a_choice_that_raises_is_rolled_back_to_what_was_stored_before_it(answered: Answered) -> None:
    """The attempt's snapshot is the whole conversation, and what the model is given is the same to the byte."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.")

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    settings: dict[str, Any] = {"settings": CompactionSettings(strategies=("broken",), hooks=("pre_model",))}
    agent: Any = create_compacting_agent(
        model, extensions=Extensions(strategies={"broken": broken}), checkpointer=InMemorySaver(), **settings
    )
    agent.invoke({"messages": LOGS}, CONFIG)
    (row,) = ledger(agent)
    assert (row.verdict, row.reason) == ("failed_permanent", "selective:ZeroDivisionError")
    assert frozen(CompactionThread(agent, CONFIG).show(row.compaction_id).began_with) == frozen(LOGS)
    assert frozen(values(agent)["messages"][:-1]) == frozen(LOGS)
    assert ids(sent[0]) == ids(LOGS)


@pytest.mark.requirement("S0.49")
def test_a_model_that_is_named_writes_in_the_place_of_the_agents_own(answered: Answered) -> None:
    """The agent answers, the other one summarizes."""
    model, other = gpt("gpt-4o"), claude()
    own, named = answered(model, summary=SUMMARY), answered(other, summary=SUMMARY)
    agent = agent_of(model, "selective", summarizer=other)
    agent.invoke({"messages": LOGS}, CONFIG)
    assert (len(own), len(own.summaries), len(named), len(named.summaries)) == (1, 0, 0, 1)
    assert ledger(agent)[0].strategy == "selective+model"


@pytest.mark.requirement("S0.52")
def test_an_unknown_exception_is_followed_by_two_more_calls(answered: Answered) -> None:
    """The third one's summary is committed."""
    model = gpt("gpt-4o")
    sent = answered(model, summary=[RuntimeError("odd"), RuntimeError("odd"), SUMMARY])
    agent = agent_of(model, "selective", summarizer=None)
    agent.invoke({"messages": LOGS}, CONFIG)
    assert [(row.verdict, row.summary_calls) for row in ledger(agent)] == [("committed", 3)]
    assert len(sent.summaries) == 3


@pytest.mark.requirement("S0.50", "S0.23")
@pytest.mark.parametrize("over", [False, True])
def test_an_empty_reply_may_change_nothing_below_the_limit(answered: Answered, over: bool) -> None:
    """It is rolled back and starts the cool-down; over the limit the digest follows."""
    model, clock = gpt("gpt-4o"), Clock()
    sent = answered(model, "At nine.", summary="")
    agent = agent_of(model, "selective", summarizer=None, now=clock)
    more = [HumanMessage(words(6_000), id="more"), AIMessage("Noted.")] if over else []
    agent.invoke({"messages": [*more, *LOGS]}, CONFIG)
    assert ledger(agent)[0].verdict == "rejected_empty"
    assert ledger(agent)[-1].verdict == ("degraded_deterministic" if over else "rejected_empty")
    assert (ids(sent[0]) == ids(LOGS)) == (not over)
    assert standing(agent)["breaker"].get("cooldown_until", 0) == (0 if over else clock.time + 8)


SETTINGS: list[tuple[dict[str, Any], list[str]]] = [
    ({"tool_blocks_keep_recent": 3}, ["asks-27", "asks-28", "asks-29"]),
    ({"summary_mode": "if_needed"}, [f"asks-{n}" for n in range(25, 30)]),
]
"""A setting of another value, and the calls that stay."""


@pytest.mark.requirement("S0.39", "S0.44")
@pytest.mark.parametrize(("given", "kept"), SETTINGS)
def test_how_many_blocks_stay_and_whether_a_summary_follows_are_settings(given: Any, kept: list[str]) -> None:
    """Five and always, where nothing is set."""
    told = story(gpt("gpt-4o"), "selective", {"messages": LOGS}, summary=SUMMARY, **given)
    assert ids(told.request, "asks-") == kept
    assert any(map(is_summary, told.request)) == ("summary_mode" not in given)


@pytest.mark.requirement("S0.40", "S0.41", "S0.42")
def test_thresholds_and_what_is_kept_of_a_field_are_settings(answered: Answered) -> None:
    """One token more than the preset's thresholds, which are higher here; and 50 tokens instead of 200."""
    call, result = clipped(answered, 601, 501, tool_result_threshold=601, tool_call_threshold=501)
    assert result.text == words(601)
    assert "[TRUNCATED" not in str(call.tool_calls)
    call, result = clipped(answered, 601, 501, preview_tokens=50)
    assert result.text == f"{words(50)}\n[TRUNCATED original~601 tokens]"
    assert call.tool_calls[0]["args"]["text"].startswith(f"{words(50)}\n[TRUNCATED")


@pytest.mark.requirement("S0.17", "S0.43")
def test_a_meta_message_begins_no_round_of_the_three_that_stay(answered: Answered) -> None:
    """However many there are: the number of rounds is a setting, and five messages of each type stay before them."""
    model = gpt("gpt-4o")
    sent = answered(model, summary=SUMMARY)
    agent = agent_of(model, "selective", dialogue_rounds_keep_min=3)
    marked = {"compaction": {"is_meta": True}}
    aside = [HumanMessage(f"It is {n}.", id=f"aside-{n}", additional_kwargs=marked) for n in range(4)]
    talk = said(40, 75)
    agent.invoke({"messages": [*talk[:-2], *aside, *talk[-2:], QUESTION]}, CONFIG)
    (request,) = sent
    assert ids(request, "note-") == [f"note-{n}" for n in range(33, 40)]
    assert ids(request, "read-") == [f"read-{n}" for n in range(33, 40)]


@pytest.mark.requirement("S0.8", "S0.9", "S0.18")
@REAL
def test_in_langchains_agent_it_is_the_same(real: Replies, answered: Answered) -> None:
    """Five blocks of thirty, and the dialogue around them."""
    model = real()
    sent = answered(model)
    middleware = CompactionMiddleware(settings=CompactionSettings(), summarizer="digest")
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": LOGS}, CONFIG)
    (request,) = sent
    assert ids(request, "asks-") == [f"asks-{n}" for n in range(25, 30)]
    assert {"task", "read", "question"} <= set(ids(request))
    assert standing(agent)["last"]["verdict"] == "committed"
