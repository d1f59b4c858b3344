"""The preset `recent_rounds` as its document tells it, with a real model and the document's own settings file."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AnyMessage
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
from tests.acceptance.talks import QUESTION, Sent, ids, said
from tests.fakes import gpt
from tests.graph.harness import CONFIG, values
from tests.nodes.config.test_loading import SEED

Answered = Callable[..., Sent]
TOLD = "The user noted when the ferry leaves, and the assistant read the notes about the harbor office."
ROUNDS = 82
"""Rounds whose size lies between the trigger, 64,000 tokens, and the limit, 72,000."""


def talk(rounds: int = ROUNDS) -> list[AnyMessage]:
    """Return a conversation of so many rounds, 820 tokens each."""
    return said(rounds, 16)


@pytest.mark.requirement("S4.45", "S4.47")
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
