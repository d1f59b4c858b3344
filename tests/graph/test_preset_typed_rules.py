"""The preset `typed_rules` through the real graph: when it compacts, what is left, and the seed's worked examples."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_compaction.graph import CompactionSettings, CompactionThread, compact_messages
from tests.fakes import ScriptedModel, calls, usage
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    WORDS,
    Drive,
    agent,
    events,
    filler,
    frozen,
    ledger,
    rounds,
    said,
    standing,
    steps,
    tool_block,
    values,
)

COMPACTED = ["selective_compaction", "summarize", "commit"]


def typed(model: Any = None, summarizer: Any = None, **options: Any) -> Any:
    """The small agent under the preset: the trigger is 800 of 1,000 tokens."""
    return agent(model, summarizer, preset="typed_rules", **options)


def kind(name: str, words: int, tag: str) -> HumanMessage:
    """A message that says what it is, of so many words."""
    return HumanMessage(filler(words, tag), id=tag, additional_kwargs={"compaction": {"kind": name, "is_meta": True}})


def tokens(messages: Sequence[AnyMessage]) -> int:
    """Tokens as the agent counts them."""
    return sum(map(WORDS.message, messages))


@tool
def read(words: int) -> str:
    """Read so many words."""
    return filler(words, "read")


@pytest.mark.parametrize(("used", "fires"), [(799, False), (800, True)])
async def test_the_real_usage_of_the_answer_decides(go: Drive, used: int, fires: bool) -> None:
    """At 80 % of the window, inclusive, and after the answer: the model is called once and not again."""
    model = ScriptedModel(replies=[usage(AIMessage("fine"), used - 10)])
    chunks = await go.stream(typed(model), {"messages": rounds(7)[:-1]}, stream_mode=["updates", "custom"])
    assert steps(chunks)[:2] == ["token_check", "model"]
    assert ("selective_compaction" in steps(chunks)) == fires
    assert [event["trigger"] for event in events(chunks, "PreCompactEvent")] == ["check"] * fires
    assert len(model.received) == 1


@pytest.mark.parametrize(("size", "expected"), [(1_000, "model"), (1_001, "selective_compaction")])
async def test_before_the_call_only_what_is_over_the_limit_is_compacted(go: Drive, size: int, expected: str) -> None:
    """The preset asks after the answer alone; the limit holds always."""
    given = {"messages": [*rounds(7), HumanMessage(filler(size - 7 * 108 - 4))]}
    assert steps(await go.stream(typed(), given))[1] == expected


@pytest.mark.parametrize(("used", "fires"), [(799, False), (800, True)])
async def test_an_answer_that_calls_tools_is_checked_when_they_are_done(go: Drive, used: int, fires: bool) -> None:
    """By its own usage, without their results: while a call is open nothing is compacted."""
    model = ScriptedModel(replies=[usage(calls(("read", {"words": 40})), used - 10), "done"])
    given = {"messages": rounds(6)[:-1]}
    chunks = await go.stream(typed(model, tools=[read]), given, stream_mode=["updates", "custom"])
    found = steps(chunks)
    assert found[:4] == ["token_check", "model", "tools", "token_check"]
    assert found[4] == ("selective_compaction" if fires else "model")
    assert (800 in [event["current_tokens"] for event in events(chunks, "PreCompactEvent")]) == fires


async def test_the_threshold_is_that_of_the_model_that_answered(go: Drive) -> None:
    """The same conversation is over the small model's threshold and under the large one's."""
    small = ScriptedModel(profile_window=400, name_="small")
    large = ScriptedModel(profile_window=2_000, name_="large")

    def choose(state: dict[str, Any], _: Any) -> ScriptedModel:
        return small if "small" in state["messages"][-1].text else large

    graph = typed(choose, context_window=None)
    given = {"messages": [*rounds(3), HumanMessage("go on")]}
    assert steps(await go.stream(graph, given)) == ["token_check", "model"]
    assert "selective_compaction" in steps(await go.stream(graph, said("now small")))


# Worked examples: tokens are those of the seed, the window is such that every type of the first one has to go.
HEADER = SystemMessage(filler(24_996, "system"), id="header")
EXAMPLE: list[AnyMessage] = [
    HEADER,
    kind("skill_metadata", 996, "metadata"),
    HumanMessage("read them", id="task"),
    *tool_block(0, 4_996),
    kind("skill_prompt", 2_996, "prompt"),
    *tool_block(1, 1),
    *tool_block(2, 1),
    *tool_block(3, 7_996),
    HumanMessage(filler(196, "recent-user"), id="recent-user"),
]
ANSWER = AIMessage(filler(146, "recent-answer"), id="recent-answer")
WINDOW = 42_550
TARGET = 0.2
"""Less than by default: the system messages take more than half of the window, and with 0.2 the trigger is still
80 % of the window, as in the document."""


async def test_the_first_worked_example(go: Drive) -> None:
    """Old result (5,000), skill prompt (3,000) and metadata (1,000) are gone, all else stands, and no summary."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = typed(ScriptedModel(replies=[ANSWER]), summarizer, context_window=WINDOW, target_ratio=TARGET)
    chunks = await go.stream(graph, {"messages": EXAMPLE})
    assert steps(chunks) == ["token_check", "model", "selective_compaction", "commit"]
    kept = [message for message in EXAMPLE if message.id not in ("metadata", "prompt", "call-message-0", "result-0")]
    held = values(graph)["messages"]
    assert frozen(held) == frozen([*kept, ANSWER])
    assert summarizer.received == []
    sizes = {message.id: WORDS.message(message) for message in [*EXAMPLE, ANSWER]}
    assert (sizes["result-0"], sizes["prompt"], sizes["metadata"]) == (5_000, 3_000, 1_000)
    assert (sizes["recent-user"], sizes["recent-answer"], sizes["result-3"]) == (200, 150, 8_000)
    (row,) = ledger(graph)
    assert row.tokens_before - (row.tokens_after or 0) == 9_000 + sizes["call-message-0"]
    assert (row.tokens_after or 0) < int(WINDOW * 0.8) <= (row.tokens_after or 0) + 1_000
    assert frozen(CompactionThread(graph, CONFIG).transcript()) == frozen([*EXAMPLE, ANSWER])


LONG_SUMMARY = " ".join(first + second for first in "bcdfghjklmnpqrstvwxz" for second in "abcdefghijklmnopqrstuvwx")
"""480 words."""
TOO_MUCH: list[AnyMessage] = [HEADER, *rounds(5, 1_400), HumanMessage("and now?", id="question")]
"""Five rounds are within every rule, and 39,000 tokens over the trigger of 34,040."""


async def test_the_second_worked_example(go: Drive) -> None:
    """The header, one summary of about 500 tokens, and the answer that the caller is about to read."""
    summarizer = ScriptedModel(replies=[f"<summary>{LONG_SUMMARY}</summary>"])
    graph = typed(ScriptedModel(replies=[ANSWER]), summarizer, context_window=WINDOW, target_ratio=TARGET)
    assert steps(await go.stream(graph, {"messages": TOO_MUCH})) == ["token_check", "model", *COMPACTED]
    header, summary, answer = values(graph)["messages"]
    assert frozen([header, answer]) == frozen([HEADER, ANSWER])
    assert (summary.type, summary.additional_kwargs["compaction"]["kind"]) == ("human", "compaction_summary")
    assert f"<summary>\n{LONG_SUMMARY}\n</summary>" in summary.text
    assert 480 < WORDS.message(summary) < 520


def test_the_second_worked_example_where_nobody_waits_for_an_answer() -> None:
    """Of a list the header and exactly one user-role summary are left."""
    found = compact_messages(
        [*TOO_MUCH[:-1]],
        max_tokens=30_000,
        preset="typed_rules",
        settings=CompactionSettings(summary_max_tokens=600),
        summarizer=ScriptedModel(replies=[f"<summary>{LONG_SUMMARY}</summary>"]),
        token_counter=WORDS,
    )
    assert found[0] == HEADER
    assert [message.type for message in found[1:]] == ["human"]
    assert f"<summary>\n{LONG_SUMMARY}\n</summary>" in found[1].text


async def test_the_conversation_is_replaced_and_never_appended_to(go: Drive) -> None:
    """14,000 tokens and a summary of 500 make 500 and the answer, not 14,500."""
    graph = typed(
        ScriptedModel(replies=[ANSWER]),
        ScriptedModel(replies=[f"<summary>{LONG_SUMMARY}</summary>"]),
        context_window=WINDOW,
        target_ratio=TARGET,
    )
    await go.invoke(graph, {"messages": TOO_MUCH})
    assert tokens(TOO_MUCH[1:]) > 14_000
    assert tokens(values(graph)["messages"][1:]) < 700


async def test_the_next_request_is_what_the_compaction_left(go: Drive) -> None:
    """The system prompt as it was, the summary, the last answer, the new message; and it stays so."""
    model = ScriptedModel(replies=[ANSWER, "fine"])
    graph = typed(model, context_window=WINDOW, target_ratio=TARGET, system_prompt="you are kind")
    await go.invoke(graph, {"messages": TOO_MUCH})
    assert steps(await go.stream(graph, said("next"))) == ["token_check", "model"]
    prompt, header, summary, answer, asked = model.received[-1]
    assert (prompt.text, header.text, answer.text, asked.text) == (
        "you are kind",
        HEADER.text,
        ANSWER.text,
        "next",
    )
    assert "what was said before" in summary.text
    assert frozen([header]) == frozen([HEADER])


async def test_rules_leave_an_earlier_summary_and_the_next_summary_absorbs_it(go: Drive) -> None:
    """One summary at any time: the second is asked for with the first as its record."""
    summarizer = ScriptedModel(replies=["<summary>first of all</summary>", "<summary>first and second</summary>"])
    graph = typed(summarizer=summarizer)
    await go.invoke(graph, {"messages": [*rounds(4, 100), HumanMessage("and now?")]})
    blocks = [message for number in range(4) for message in tool_block(number, 200)]
    await go.invoke(graph, {"messages": [*blocks, AIMessage("read", id="read"), HumanMessage("go on")]})
    assert [row.summary is not None for row in ledger(graph)] == [True, False]
    assert "first of all" in values(graph)["messages"][0].text
    await go.invoke(graph, said(filler(200, "more")))
    assert "first of all" in summarizer.received[-1][1].text
    held = values(graph)["messages"]
    assert sum("<summary>" in message.text for message in held) == 1
    assert "first and second" in held[0].text


async def test_the_summarizer_is_given_the_whole_conversation_and_then_the_task(go: Drive) -> None:
    """In order, users, assistants and tools, behind it what to write, all in one user message."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    given = [HumanMessage("the first thing", id="a"), *tool_block(1, 190), *rounds(3, 95), HumanMessage("the last")]
    await go.invoke(typed(ScriptedModel(replies=["well"]), summarizer), {"messages": given})
    _, asked = summarizer.received[0]
    places = [asked.text.index(text) for text in ("the first thing", "t1-0 ", "ru0-0 ", "ra2-94", "the last")]
    assert places == sorted(places)
    assert asked.text.rindex("</summary>") > places[-1]
    assert asked.type == "human"
    assert len(summarizer.received[0]) == 2


async def test_no_call_dangles_in_what_the_summarizer_is_given(go: Drive) -> None:
    """Not even where the last calls were interrupted: it is shown text, and no message of it makes calls."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    interrupted = calls(("read", {"words": 7})).model_copy(update={"id": "interrupted"})
    given = [*rounds(3, 95), interrupted, HumanMessage(filler(195, "stop"), id="stop")]
    await go.invoke(typed(ScriptedModel(), summarizer), {"messages": given})
    assert '<call>read({"words": 7})</call>' in summarizer.received[0][1].text
    assert not any(getattr(message, "tool_calls", None) for request in summarizer.received for message in request)
    assert not any(isinstance(message, ToolMessage) for request in summarizer.received for message in request)


SECTIONS = {
    "Task Overview": ("asked for", "done", "constraints"),
    "Current State": ("is done", "files", "paths"),
    "Important Discoveries": ("constraints", "decisions", "errors", "did not work"),
    "Next Steps": ("actions", "blocks", "order"),
    "Context to Preserve": ("preferences", "domain", "promises"),
}


WITHIN_RULES: dict[str, Any] = {"messages": [*rounds(4, 95), HumanMessage("and now?")]}
"""No rule takes anything of it, and with an answer it holds 803 tokens."""


async def prompt(go: Drive) -> str:
    """What the summarizer is told to write."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    await go.invoke(typed(summarizer=summarizer), WITHIN_RULES)
    return summarizer.received[0][0].text


async def test_the_prompt_says_what_the_summary_is_for(go: Drive) -> None:
    """It takes the conversation's place, the work goes on at once and nothing is done twice; in tags."""
    told = await prompt(go)
    for words in ("take the conversation's place", "go on at once", "doing work twice", "repeating mistakes"):
        assert words in " ".join(told.split())
    assert "<summary>" in told
    assert "</summary>" in told


async def test_the_prompt_has_five_sections(go: Drive) -> None:
    """In order, each with what belongs into it."""
    told = await prompt(go)
    places = [told.index(title) for title in SECTIONS]
    assert places == sorted(places)
    ends = [*places[1:], len(told)]
    for words, start, end in zip(SECTIONS.values(), places, ends, strict=True):
        assert [word for word in words if word not in " ".join(told[start:end].split())] == []


async def test_the_last_two_sections_look_ahead(go: Drive) -> None:
    """Next steps with what blocks them and in which order; what the user likes and was promised."""
    told = " ".join((await prompt(go)).split())
    assert "what blocks them, in which order" in told
    assert "promises made to the user" in told


async def test_a_pinned_text_that_a_rule_takes_is_carried_on(go: Drive) -> None:
    """Its message leaves with the older ones, and a summary is written to hold it."""
    pinning = HumanMessage(f"<Pin>never on Sundays</Pin> {filler(300, 'p')}", id="pinning")
    model = ScriptedModel(replies=[usage(AIMessage("fine"), 850)])
    graph = typed(model, type_rules={"user_message": {"action": "truncate", "keep_recent": 2}})
    await go.invoke(graph, {"messages": [pinning, AIMessage("so be it"), *rounds(4, 40), HumanMessage("and now?")]})
    held = values(graph)["messages"]
    assert "pinning" not in {message.id for message in held}
    assert sum("never on Sundays" in message.text for message in held) == 1
    assert standing(graph)["last"]["verdict"] == "committed"
