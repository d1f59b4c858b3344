"""The preset `progressive` and its variants, as their document tells them, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings but the summarizer are the preset's own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.nodes.config.triggers import Count, Unit
from tests.fakes import calls, claude, gpt
from tests.graph.harness import CONFIG, ledger, standing

Replies = Callable[[], Any]
REAL = pytest.mark.parametrize("real", [lambda: gpt("gpt-4o"), claude], ids=["gpt-4o", "claude"])
PRESETS = ("progressive", "progressive_chart", "progressive_pseudocode")
SENTENCE = "The harbor office wrote that the ferry leaves at nine and that the crates stay in the northern shed. "


class Sent(list[list[BaseMessage]]):
    """The requests that a chat model was sent, oldest first; `replies` are its answers, the last one repeated."""

    def __init__(self, replies: Sequence[AIMessage | str]) -> None:
        super().__init__()
        self.replies: Iterator[AIMessage | str] = iter(replies)
        self.last: AIMessage | str = "Noted."

    def answer(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        """Stand in for `_generate` of a chat model."""
        self.append(list(messages))
        self.last = next(self.replies, self.last)
        reply = AIMessage(self.last) if isinstance(self.last, str) else self.last
        return ChatResult(generations=[ChatGeneration(message=reply.model_copy())])


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sent]:
    """Return a function that lets a chat model answer with these replies instead of calling its provider."""

    def replace(model: Any, *replies: AIMessage | str) -> Sent:
        sent = Sent(replies)
        monkeypatch.setattr(type(model), "_generate", lambda _, messages, *a, **k: sent.answer(messages, *a, **k))
        return sent

    return replace


def progressive(model: Any, preset: str = "progressive", tools: Sequence[Any] = (), **settings: Any) -> Any:
    """Build an agent with a preset's own settings."""
    return create_compacting_agent(
        model,
        tools,
        settings=CompactionSettings.model_validate({"preset": preset, **settings}),
        summarizer="digest",
        checkpointer=InMemorySaver(),
    )


@tool
def count_crates(shed: int) -> str:
    """Count the crates in a shed."""
    return f"{shed + 3} crates"


def steps(count: int) -> list[AIMessage | str]:
    """Return so many replies that each call a tool, and a last one that does not."""
    return [*(calls(("count_crates", {"shed": n}), start=n + 1) for n in range(count)), "All sheds are counted."]


@pytest.mark.requirement("S2.58", "S2.3", "S2.48")
@REAL
def test_two_hundred_calls_of_the_model_compact_within_one_long_run(
    real: Replies, answered: Callable[..., Sent]
) -> None:
    """One input that leads to 211 calls: before the two hundredth the whole is summarized, and the run goes on."""
    model = real()
    sent = answered(model, *steps(210))
    agent = progressive(model, tools=[count_crates])
    end = agent.invoke({"messages": "Count the crates in every shed."}, {**CONFIG, "recursion_limit": 2_000})
    assert end["messages"][-1].text == "All sheds are counted."
    assert (len(sent), standing(agent)["calls"], standing(agent)["turns"]) == (211, 211, 1)
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict, row.strategy) == ("model_calls", "committed", "progressive/full+digest")
    assert [len(request) for request in (sent[198], sent[199])] == [397, 4]
    assert "Count the crates in every shed." in "".join(message.text for message in sent[199])
    assert standing(agent)["calls_at_commit"] == 200


@pytest.mark.requirement("S2.58")
@pytest.mark.parametrize("preset", PRESETS)
def test_each_variant_counts_two_hundred_calls_of_the_model(preset: str) -> None:
    """And summarizes the whole at once."""
    counts = [one for one in CompactionSettings.model_validate({"preset": preset}).triggers if isinstance(one, Count)]
    assert counts == [Count(unit="model_calls", limit=200, full=True)]


@pytest.mark.requirement("S2.3", "S2.58")
@pytest.mark.parametrize(("unit", "fired"), [("turns", 0), ("model_calls", 4)])
def test_steps_with_tools_are_calls_of_the_model_and_no_turns(
    unit: Unit, fired: int, answered: Callable[..., Sent]
) -> None:
    """Two inputs that lead to thirteen calls: turns count the inputs alone."""
    model = gpt("gpt-4o")
    answered(model, *steps(11), "You are welcome.")
    count = (Count(unit=unit, limit=3, full=True),)
    agent = progressive(model, tools=[count_crates], triggers=count, breaker_frequency_calls=0)
    for said in ("Count the crates.", "Thank you."):
        agent.invoke({"messages": said}, {**CONFIG, "recursion_limit": 2_000})
    assert (standing(agent)["turns"], standing(agent)["calls"]) == (2, 13)
    assert [row.trigger for row in ledger(agent)] == [unit] * fired
