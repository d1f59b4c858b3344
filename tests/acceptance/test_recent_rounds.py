"""The preset `recent_rounds` as its document tells it, with a real model and the document's own settings file."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_compaction.graph import create_compacting_agent
from langgraph_compaction.nodes import (
    CompactionSettings,
    SettingsError,
    compact_messages,
    load_settings,
    should_compact,
)
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import named_counter, total
from tests.acceptance.talks import QUESTION, Sent, ids, said
from tests.fakes import gpt
from tests.graph.harness import CONFIG, events, frozen, ledger, standing, values
from tests.nodes.config.test_loading import SEED

Answered = Callable[..., Sent]
TOLD = "The user noted when the ferry leaves, and the assistant read the notes about the harbor office."
ROUNDS = 82
"""Rounds whose size lies between the trigger, 64,000 tokens, and the limit, 72,000."""


def talk(rounds: int = ROUNDS) -> list[AnyMessage]:
    """Return a conversation of so many rounds, 820 tokens each."""
    return said(rounds, 16)


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
    assert 64_000 <= asked.value["current_tokens"] <= asked.value["limit"] < 80_000
    agent.invoke(Command(resume=True), CONFIG)
    messages = values(agent)["messages"]
    assert ids(messages, "note") == [f"note-{ROUNDS - 2}", f"note-{ROUNDS - 1}"]
    assert TOLD in messages[0].text


@tool
def ferries(day: str) -> str:
    """Tell the ferries of a day."""
    return day


def at_eighty_thousand(answered: Answered, rounds: int = ROUNDS, **given: Any) -> tuple[Any, Sent]:
    """Build the document's system with a prompt and a tool, and lead it to its question."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.", summary=TOLD)
    agent = create_compacting_agent(
        model,
        [ferries],
        system_prompt="You keep the notes of the harbor.",
        settings=load_settings(SEED, **given),
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": [*talk(rounds), QUESTION]}, CONFIG)
    return agent, sent


@pytest.mark.requirement("S4.4", "S4.5", "S4.17")
def test_the_next_request_has_prompt_tools_summary_rounds_and_question_in_this_order(answered: Answered) -> None:
    """The prompt to the byte, and every tool."""
    agent, sent = at_eighty_thousand(answered)
    agent.invoke(Command(resume=True), CONFIG)
    (request,) = sent
    assert request[0].text == "You keep the notes of the harbor."
    assert TOLD in request[1].text
    newest = [f"{word}-{n}" for n in (ROUNDS - 2, ROUNDS - 1) for word in ("note", "read")]
    assert [message.id for message in request[2:]] == [*newest, "question"]
    assert sent.tools == [["ferries"]]


@pytest.mark.requirement("S4.6", "S4.16", "S4.22")
def test_the_model_is_given_the_history_to_summarize_and_nothing_else(answered: Answered) -> None:
    """Neither the system prompt nor the two newest rounds nor the question; five hundred characters are asked for."""
    agent, sent = at_eighty_thousand(answered)
    agent.invoke(Command(resume=True), CONFIG)
    text = " ".join(message.text for asked in sent.summaries for message in asked)
    assert "Note 0. " in text
    assert f"Note {ROUNDS - 3}. " in text
    assert f"Read {ROUNDS - 3}. " in text
    for left_out in (f"Note {ROUNDS - 2}. ", f"Read {ROUNDS - 1}. ", QUESTION.text, "You keep the notes"):
        assert left_out not in text
    assert " 500 characters" in text


@pytest.mark.requirement("S4.24", "S4.29")
def test_after_a_refusal_the_whole_conversation_is_sent(answered: Answered) -> None:
    """The preset asks; on a no nothing is summarized, and the state is the same to the byte."""
    agent, sent = at_eighty_thousand(answered)
    agent.invoke(Command(resume=False), CONFIG)
    assert sent.summaries == []
    assert ids(sent[0]) == [*ids(talk()), "question"]
    assert frozen(values(agent)["messages"][:-1]) == frozen([*talk(), QUESTION])
    assert [row.verdict for row in ledger(agent)] == ["declined"]


@pytest.mark.requirement("S4.8", "S4.34", "S4.36")
def test_an_event_tells_what_was_saved(answered: Answered) -> None:
    """Seventy thousand tokens come to less than a seventh."""
    agent, _ = at_eighty_thousand(answered)
    chunks = list(agent.stream(Command(resume=True), CONFIG, stream_mode=["custom", "updates"]))
    (told,) = events(chunks, "CompactContextEvent")
    assert 64_000 < told["original_tokens"] < 72_000
    assert told["new_tokens"] < told["original_tokens"] / 7
    assert told["saved_ratio"] == round(1 - told["new_tokens"] / told["original_tokens"], 4)
    assert TOLD in told["summary"]
    assert standing(agent)["epoch"] == 1


@pytest.mark.requirement("S4.2", "S4.3", "S4.32")
@pytest.mark.parametrize(("tokens", "asks"), [(63_999, False), (64_000, True)])
def test_sixty_four_thousand_tokens_before_the_input_fire(answered: Answered, tokens: int, asks: bool) -> None:
    """Exactly four fifths of 80,000; the input itself, of 2,000 tokens, is not counted."""
    model = gpt("gpt-4o")
    sent = answered(model, "Noted.", summary=TOLD)
    agent = create_compacting_agent(model, settings=load_settings(SEED), checkpointer=InMemorySaver())
    begun = talk(ROUNDS - 12)
    missing = tokens - total(counted := named_counter("cjk_aware"), begun) - 4
    filled = HumanMessage("." * (2 * missing), id="filled")
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


def test_own_strategies_are_understood_when_a_list_is_asked_about() -> None:
    """Settings that name an application's strategy are accepted with the function, as in `compact_messages`."""
    settings = CompactionSettings(strategies=("mine",))
    with pytest.raises(SettingsError, match="mine"):
        should_compact(talk(2), max_tokens=80_000, settings=settings)
    assert not should_compact(talk(2), max_tokens=80_000, settings=settings, strategies={"mine": lambda _, __: ()})
