"""The preset `recent_rounds` as its document tells it, with a real model and the document's own settings file."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_compaction.graph import CompactionThread, create_compacting_agent
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes import (
    CompactionSettings,
    ContextExhaustedError,
    SettingsError,
    acompact_messages,
    compact_messages,
    compaction_count,
    load_settings,
    should_compact,
)
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, tiktoken_counter, total
from langgraph_compaction.nodes.events import CONTEXT_COMPACTED
from tests.acceptance.talks import QUESTION, Sent, Story, agent_of, counter, ids, said, story
from tests.fakes import chars, claude, gpt
from tests.graph.cli.provider import provider
from tests.graph.cli.test_chat import heard as chat
from tests.graph.cli.test_chat import of_kind
from tests.graph.harness import CONFIG, events, frozen, ledger, standing, steps, values
from tests.nodes.config.test_loading import SEED

Answered = Callable[..., Sent]
TOLD = "The user noted when the ferry leaves, and the assistant read the notes about the harbor office."
ROUNDS = 82
"""Rounds whose size lies between the trigger, 64,000 tokens, and the limit, 72,000."""


def talk(rounds: int = ROUNDS) -> list[AnyMessage]:
    """Return a conversation of so many rounds, 820 tokens each."""
    return said(rounds, 20)


@pytest.mark.requirement("S4.28", "S4.45", "S4.47")
@pytest.mark.parametrize(
    ("language", "question"), [("en", "Compact the conversation?"), ("zh", "是否压缩当前对话？")]
)
def test_the_documents_own_file_runs_the_documents_system(answered: Answered, language: Any, question: str) -> None:
    """Its figures take effect: asked at 64,000 of 80,000 tokens, two rounds stay beside a summary."""
    model = gpt("gpt-4o")
    answered(model, "At nine.", summary=TOLD)
    settings = load_settings(SEED, language=language)
    assert settings.preset == "recent_rounds"
    agent = create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver())
    agent.invoke({"messages": [*talk(), QUESTION]}, CONFIG)
    (asked,) = agent.get_state(CONFIG).interrupts
    assert (asked.value["question"], asked.value["max_tokens"]) == (question, 80_000)
    assert 64_000 <= asked.value["current_tokens"] <= asked.value["limit"] == 80_000
    agent.invoke(Command(resume=True), CONFIG)
    messages = values(agent)["messages"]
    assert ids(messages, "note") == [f"note-{ROUNDS - 2}", f"note-{ROUNDS - 1}"]
    assert TOLD in messages[0].text


@tool
def ferries(day: str) -> str:
    """Tell the ferries of a day."""
    return day


def at_eighty_thousand(answered: Answered, rounds: int = ROUNDS, file: str = SEED, **given: Any) -> tuple[Any, Sent]:
    """Build the document's system with a prompt and a tool, and lead it to its question."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.", summary=TOLD)
    agent = create_compacting_agent(
        model,
        [ferries],
        system_prompt="You keep the notes of the harbor.",
        settings=load_settings(file, **given),
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": [*talk(rounds), QUESTION]}, CONFIG)
    return agent, sent


@pytest.mark.requirement("S4.24", "S4.29")
def test_after_a_refusal_the_whole_conversation_is_sent(answered: Answered) -> None:
    """The preset asks; on a no nothing is summarized, and what the model is given is the same to the byte."""
    agent, sent = at_eighty_thousand(answered)
    agent.invoke(Command(resume=False), CONFIG)
    assert sent.summaries == []
    assert ids(sent[0]) == [*ids(talk()), "question"]
    assert frozen(values(agent)["messages"][:-1]) == frozen([*talk(), QUESTION])
    assert [row.verdict for row in ledger(agent)] == ["declined"]


@pytest.mark.requirement("S4.2", "S4.3", "S4.32")
@pytest.mark.parametrize(("tokens", "asks"), [(63_999, False), (64_000, True)])
def test_sixty_four_thousand_tokens_before_the_input_fire(answered: Answered, tokens: int, asks: bool) -> None:
    """Exactly four fifths of 80,000; the input itself, of 2,000 tokens, is not counted."""
    model = gpt("gpt-4o")
    sent = answered(model, "Noted.", summary=TOLD)
    agent = create_compacting_agent(model, settings=load_settings(SEED), checkpointer=InMemorySaver())
    begun = talk(ROUNDS - 12)
    missing = tokens - total(counted := counter(), begun) - 4
    filled = HumanMessage("word" + " word" * (missing - 1), id="filled")
    agent.update_state(CONFIG, {"messages": [*begun[:-1], filled, begun[-1]]}, as_node="model")
    assert total(counted, values(agent)["messages"]) == tokens
    agent.invoke({"messages": "word " * 1_500}, CONFIG)
    assert bool(agent.get_state(CONFIG).interrupts) == asks
    assert len(sent) == (not asks)


@pytest.mark.requirement("S4.46")
def test_over_the_limit_a_new_thread_is_offered_at_once(answered: Answered) -> None:
    """No answer before is needed, and the question says that the request does not fit otherwise."""
    model = gpt("gpt-4o")
    answered(model, "At nine.", summary=TOLD)
    agent = create_compacting_agent(model, settings=load_settings(SEED), checkpointer=InMemorySaver())
    agent.invoke({"messages": [*talk(ROUNDS + 40), QUESTION]}, CONFIG)
    (asked,) = agent.get_state(CONFIG).interrupts
    assert asked.value["answers"] == ["compact", "drop_oldest", "new_thread", "raise"]
    assert "does not fit without a compaction" in asked.value["question"]
    assert asked.value["current_tokens"] > asked.value["limit"]


@pytest.mark.requirement("S4.11")
def test_a_plain_list_can_wait_for_the_presets_trigger() -> None:
    """With force=False a list is compacted from the trigger on, and below it only where it does not fit."""
    low, due, over = talk(ROUNDS - 20), talk(ROUNDS + 3), talk(ROUNDS + 40)
    for messages, fires in ((low, False), (due, True), (over, True)):
        options: dict[str, Any] = {"max_tokens": 80_000, "preset": "recent_rounds"}
        assert should_compact(messages, **options) is fires
        found = compact_messages(messages, force=False, return_result=True, **options)
        assert (found.verdict == "committed") is fires
        assert any(map(is_summary, found.new_messages)) is fires
        assert found.new_token_count < 64_000
    kept = compact_messages(due, max_tokens=80_000, preset="recent_rounds")
    assert kept == due, "by default a list that fits is not compacted"


# The document's system at its question, answered once with yes; and what follows.


@pytest.fixture(scope="module")
def agreed() -> Story:
    """Lead the document's system to its question, agree, and go on."""
    return story(
        gpt("gpt-4o"),
        "recent_rounds",
        {"messages": [*talk(), QUESTION]},
        Command(resume=True),
        {"messages": "Thank you."},
        replies=["At nine.", "You are welcome."],
        summary=TOLD,
        tools=[ferries],
        system_prompt="You keep the notes of the harbor.",
        context_window=80_000,
    )


@pytest.mark.requirement("S4.1", "S4.4", "S4.5", "S4.7", "S4.17", "S4.33")
def test_a_long_history_is_neither_cut_off_nor_refused(agreed: Story) -> None:
    """Prompt, summary, the newest two rounds to the byte, and the question, with every tool; and it stays so."""
    newest = talk()[-4:]
    assert agreed.sent.tools == [["ferries"]] * 2
    assert agreed.request[6].id == "question"
    for request, more in zip(agreed.sent, (1, 3), strict=True):
        assert request[0].text == "You keep the notes of the harbor."
        assert is_summary(request[1])
        assert TOLD in request[1].text
        assert frozen(request[2:6]) == frozen(newest)
        assert len(request) == 6 + more
    assert len(CompactionThread(agreed.agent, CONFIG).transcript()) == 2 * ROUNDS + 4


@pytest.mark.requirement("S4.23", "S4.44", "S4.15")
def test_a_person_is_asked_before_the_agents_own_model_is(agreed: Story) -> None:
    """With the sizes, and with how many messages would leave: the history, not the rounds nor the input."""
    ((asked,),) = [
        chunk["__interrupt__"] for mode, chunk in agreed.chunks if mode == "updates" and "__interrupt__" in chunk
    ]
    assert (asked.value["max_tokens"], asked.value["messages_leaving"]) == (80_000, 2 * (ROUNDS - 2))
    assert 64_000 <= asked.value["current_tokens"] < 72_000
    assert asked.value["tokens_after_about"] < 10_000
    found = steps(agreed.chunks)
    assert found.index("confirm") < found.index("summarize")
    assert [row.strategy for row in ledger(agreed.agent)] == ["recent_rounds+model"]


@pytest.mark.requirement("S4.8", "S4.31", "S4.34", "S4.35", "S4.36", "S4.42")
def test_an_event_tells_what_was_saved_and_the_thread_how_often(agreed: Story) -> None:
    """Seventy thousand tokens come to less than a seventh; listeners know the event by its constant.

    The window is that of the configuration, not of the model.
    """
    assert compaction_count(values(agreed.agent)) == 1
    (told,) = events(agreed.chunks, "CompactContextEvent")
    assert told["type"] == CONTEXT_COMPACTED == "context_compacted"
    assert 64_000 < told["original_tokens"] < 72_000
    assert told["new_tokens"] < told["original_tokens"] / 7
    assert told["saved_ratio"] == round(1 - told["new_tokens"] / told["original_tokens"], 4)
    assert TOLD in told["summary"]
    before = [event for event in events(agreed.chunks, "PreCompactEvent") if event["trigger"] == "input"]
    assert [event["threshold"] for event in before] == [64_000]


@pytest.mark.requirement("S4.6", "S4.16", "S4.22")
def test_the_model_is_given_the_history_to_summarize_and_nothing_else(agreed: Story) -> None:
    """Neither the system prompt nor the two newest rounds nor the question; five hundred characters are asked for."""
    text = " ".join(message.text for asked in agreed.sent.summaries for message in asked)
    for told in ("Note 0. ", f"Note {ROUNDS - 3}. ", f"Read {ROUNDS - 3}. ", " 500 characters"):
        assert told in text
    for left_out in (f"Note {ROUNDS - 2}. ", f"Read {ROUNDS - 1}. ", QUESTION.text, "You keep the notes"):
        assert left_out not in text


def word(number: int) -> str:
    """Return a word that is like no other."""
    return "".join(chr(ord("a") + number * 7_919 // 26**place % 26) for place in range(5))


@pytest.mark.requirement("S4.23", "S4.29", "S4.44")
@pytest.mark.parametrize("accepted", [True, False])
def test_in_langchains_agent_claude_is_asked_for_a_summary_after_the_person(
    answered: Answered, *, accepted: bool
) -> None:
    """At 80 % of 80,000 tokens, as with every model; before the person's answer no model is called."""
    model = claude()
    sent = answered(model, "At nine.", summary=TOLD)
    middleware = CompactionMiddleware(settings=CompactionSettings(preset="recent_rounds", summary_ahead=False))
    agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": [*talk(), QUESTION]}, CONFIG)
    (asked,) = agent.get_state(CONFIG).interrupts
    assert (asked.value["max_tokens"], asked.value["limit"]) == (80_000, 80_000)
    assert 64_000 <= asked.value["current_tokens"] <= 80_000
    assert (len(sent), sent.summaries) == (0, [])
    agent.invoke(Command(resume=accepted), CONFIG)
    (request,) = sent
    if not accepted:
        assert ids(request) == [*ids(talk()), "question"]
        assert frozen(values(agent)["messages"][:-1]) == frozen([*talk(), QUESTION])
        assert (sent.summaries, [row.verdict for row in ledger(agent)]) == ([], ["declined"])
        return
    assert TOLD in request[0].text
    newest = [f"{word}-{n}" for n in (ROUNDS - 2, ROUNDS - 1) for word in ("note", "read")]
    assert ids(request[1:]) == [*newest, "question"]
    assert [(row.verdict, row.strategy) for row in ledger(agent)] == [("committed", "recent_rounds+model")]
    assert len(CompactionThread(agent, CONFIG).transcript()) == 2 * ROUNDS + 2


@pytest.mark.requirement("S4.44", "S4.6")
@pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")
def test_over_http_claude_writes_the_summary_and_answers_on_it() -> None:
    """Two requests of the Messages API: the history for a summary, then summary, two rounds and the question."""

    def reply(request: dict[str, Any]) -> str:
        return TOLD if "<conversation>" in json.dumps(request["messages"]) else "At nine."

    with provider(answer=reply) as server:
        model = claude(base_url=server.base_url.removesuffix("/v1"), max_retries=0)
        settings = CompactionSettings(preset="recent_rounds", require_confirmation=False, summary_ahead=False)
        agent = create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver())
        agent.invoke({"messages": [*talk(140), QUESTION]}, CONFIG)
    *summaries, last = server.requests
    assert {(one["model"], one["max_tokens"]) for one in server.requests} == {("claude-sonnet-4-5", 64_000)}
    told = " ".join(json.dumps(one["messages"]) for one in summaries)
    assert "Note 0. " in told
    assert "Note 137. " in told
    assert "Note 138. " not in told
    texts = json.dumps(last["messages"])
    assert TOLD in texts
    assert "Note 137. " not in texts
    assert "Note 138. " in texts
    assert QUESTION.text in texts
    assert values(agent)["messages"][-1].text == "At nine."
    (row,) = ledger(agent)
    assert (row.verdict, row.strategy) == ("committed", "recent_rounds+model")
    assert [row.summary_input_tokens, row.summary_output_tokens] == [20 * len(summaries), 3 * len(summaries)]


@pytest.mark.requirement("S4.30", "S4.38")
@pytest.mark.parametrize(("given", "most"), [({}, 1_000), ({"summary_max_length": 400}, 400)])
def test_a_summary_that_is_too_long_is_cut(answered: Answered, given: dict[str, Any], most: int) -> None:
    """At the end of a sentence; a thousand characters where the document's file does not say how many."""
    agent, sent = at_eighty_thousand(answered, file=SEED.replace("  summary_max_length: 1000\n", ""), **given)
    long = "The user noted the ferries. " + " ".join(f"{word(n)} {word(n + 200)} {word(n + 400)}." for n in range(80))
    sent.summary = long
    agent.invoke(Command(resume=True), CONFIG)
    text = sent[0][1].text.partition("<summary>\n")[2].partition("\n</summary>")[0]
    assert long.startswith(text)
    assert text.endswith(".")
    assert most - 100 < len(text) <= most


@pytest.mark.requirement("S4.39")
@pytest.mark.parametrize("answer", ["drop_oldest", "new_thread", "raise"])
def test_over_the_limit_there_are_three_other_ways(answered: Answered, answer: str) -> None:
    """The oldest messages leave without a summary, a new thread begins, or an error says what to do."""
    agent, sent = at_eighty_thousand(answered, ROUNDS + 20)
    if answer == "raise":
        with pytest.raises(ContextExhaustedError, match="nothing was compacted"):
            agent.invoke(Command(resume=answer), CONFIG)
        assert (sent.summaries, len(sent)) == ([], 0)
        return
    agent.invoke(Command(resume=answer), CONFIG)
    if answer == "drop_oldest":
        assert sent.summaries == []
        assert ids(sent[0], "note-")[-1] == f"note-{ROUNDS + 19}"
        assert len(ids(sent[0], "note-")) < ROUNDS + 20
        assert len(CompactionThread(agent, CONFIG).transcript()) == 2 * (ROUNDS + 20) + 2
    else:
        handed = CompactionThread(agent, CONFIG).handoff()
        other: Any = {"configurable": {"thread_id": "other"}}
        agent.invoke(handed, other)
        assert TOLD in sent[-1][1].text
        assert sent[-1][-1].text == QUESTION.text
        assert len(sent[-1]) < 10


@pytest.mark.requirement("S4.40")
def test_while_it_is_still_too_much_fewer_rounds_are_kept(answered: Answered) -> None:
    """The newest two rounds are of 33,000 tokens each: one of them stays."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.", summary=TOLD)
    settings = load_settings(SEED, require_confirmation=False)
    agent = create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver())
    agent.invoke({"messages": [*said(2, 800), QUESTION]}, CONFIG)
    (request,) = sent
    assert TOLD in request[0].text
    assert ids(request[1:]) == ["note-1", "read-1", "question"]


@pytest.mark.requirement("S4.25", "S4.14")
@pytest.mark.parametrize(("given", "rounds"), [({"enabled": False}, ROUNDS), ({}, ROUNDS - 8)])
def test_switched_off_or_below_the_threshold_nothing_is_done(answered: Answered, given: Any, rounds: int) -> None:
    """Nobody is asked, and the whole conversation is sent."""
    agent, sent = at_eighty_thousand(answered, rounds, **given)
    assert agent.get_state(CONFIG).interrupts == ()
    assert len(sent[0]) == 1 + 2 * rounds + 1
    assert ledger(agent) == []


@pytest.mark.requirement("S4.26", "S4.27", "S4.10")
@pytest.mark.parametrize(
    ("given", "threshold"),
    [({"max_context_tokens": 80_004}, 64_003), ({"max_context_tokens": 120_000, "trigger_ratio": 0.55}, 66_000)],
)
def test_window_and_ratio_are_settings_and_the_threshold_is_rounded_down(
    answered: Answered, given: dict[str, Any], threshold: int
) -> None:
    """64,003.2 tokens are 64,003."""
    agent, _ = at_eighty_thousand(answered, **given)
    (asked,) = agent.get_state(CONFIG).interrupts
    assert asked.value["max_tokens"] == given["max_context_tokens"]
    agent.invoke(Command(resume=True), CONFIG)
    assert standing(agent)["sizes"]["trigger"] == threshold


@pytest.mark.requirement("S4.9")
def test_eighty_thousand_are_assumed_for_a_model_of_an_unknown_name(answered: Answered) -> None:
    """Its trigger is 64,000 and its limit 72,000 tokens."""
    model = gpt("a-model-of-ones-own")
    answered(model, "At nine.", summary=TOLD)
    agent = agent_of(model, "recent_rounds", summarizer=None)
    agent.invoke({"messages": [*talk(), QUESTION]}, CONFIG)
    (asked,) = agent.get_state(CONFIG).interrupts
    assert (asked.value["max_tokens"], asked.value["limit"]) == (80_000, 72_000)


CHINESE = "渡船九点出发，箱子都留在北边的仓库里。"
BY_WORDS = TokenCounter(
    "by words",
    lambda text: len(text.split()) * 13 // 10 if text.isascii() else len(text) * 3 // 2,
)
"""The document's rule: a word of English 1.3 tokens, a Chinese character 1.5."""
COUNTERS: list[tuple[TokenCounter, str, int]] = [
    (BY_WORDS, CHINESE * 50, 4 + 50 * 19 * 3 // 2),
    (BY_WORDS, "ferry " * 1_000, 4 + 1_300),
    (chars(2), CHINESE * 99, 4 + 940),
    (chars(2), "ferry " * 1_000, 4 + 3_000),
]
"""A counter, a text, and its tokens as the document counts them, with four for the message."""


@pytest.mark.requirement("S4.19", "S4.20", "S4.21")
@pytest.mark.parametrize(("counted", "text", "tokens"), COUNTERS)
def test_characters_and_words_are_counted_by_the_documents_rules(
    answered: Answered, counted: TokenCounter, text: str, tokens: int
) -> None:
    """The question tells the size of a conversation of such messages."""
    model = gpt("gpt-4o")
    answered(model, "At nine.", summary=TOLD)
    agent = create_compacting_agent(
        model, settings=load_settings(SEED), checkpointer=InMemorySaver(), token_counter=counted
    )
    count = 64_000 // tokens + 2
    count += count % 2
    given = [(AIMessage if n % 2 else HumanMessage)(text, id=f"said-{n}") for n in range(count)]
    agent.invoke({"messages": [*given, QUESTION]}, CONFIG)
    (asked,) = agent.get_state(CONFIG).interrupts
    assert asked.value["current_tokens"] == count * tokens + counted.message(QUESTION)


@pytest.mark.requirement("S4.13", "S4.18", "S4.41")
def test_the_result_of_a_list_tells_what_went_and_what_is_left() -> None:
    """A hundred messages of 90,000 tokens: fewer messages, fewer tokens, 48 rounds gone."""
    given = said(50, 45)
    found = compact_messages(given, max_tokens=80_000, preset="recent_rounds", return_result=True)
    assert found.original_token_count == total(tiktoken_counter(), given) > 80_000
    assert found.new_token_count == total(tiktoken_counter(), found.new_messages) < 10_000
    assert (found.compacted_rounds, found.compacted_messages, len(found.new_messages)) == (48, 96, 5)
    assert found.summary
    assert found.summary in found.new_messages[0].text


@pytest.mark.requirement("S4.12")
async def test_a_list_is_compacted_on_an_event_loop_too() -> None:
    """With the same result, or as a plain list."""
    given, options = said(50, 45), {"max_tokens": 80_000, "preset": "recent_rounds"}
    whole = await acompact_messages(given, return_result=True, **options)
    plain = await acompact_messages(given, **options)
    assert whole.new_messages == plain
    assert whole.new_messages == compact_messages(given, max_tokens=80_000, preset="recent_rounds")


@pytest.mark.requirement("S4.37")
def test_the_chat_shows_the_compaction_and_how_full_the_window_is() -> None:
    """With a model of 128,000 tokens over HTTP: the gauge rises to the trigger, a person agrees, and it falls."""

    def answer(request: dict[str, Any]) -> str:
        script.counted = sum(len(str(message["content"]).split()) for message in request["messages"])
        return TOLD if "<conversation>" in str(request["messages"][-1]) else "Noted."

    with provider(answer=answer) as script:
        lines = [f"Note {n}. " + "word " * 8_400 for n in range(9)]
        heard = chat(*lines[:8], lines[8], "yes", args=["--preset", "recent_rounds"], env=script.env)
    gauges = [(one["tokens"], one["trigger"], one["limit"]) for one in of_kind(heard, "gauge")]
    assert {gauge[1:] for gauge in gauges} == {(64_000, 80_000)}
    assert len(of_kind(heard, "question")) == 1
    assert max(tokens for tokens, *_ in gauges) > 56_000
    assert gauges[-1][0] < 30_000
    assert "committed" in [event.get("verdict") for event in of_kind(heard, "event")]


def test_own_strategies_are_understood_when_a_list_is_asked_about() -> None:
    """Settings that name an application's strategy are accepted with the function, as in `compact_messages`."""
    settings = CompactionSettings(strategies=("mine",))
    with pytest.raises(SettingsError, match="mine"):
        should_compact(talk(2), max_tokens=80_000, settings=settings)
    assert not should_compact(talk(2), max_tokens=80_000, settings=settings, strategies={"mine": lambda _, __: ()})
