"""What a context that is derived from another one shares with it, and what it does not."""

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import TextCounter
from langgraph_compaction.nodes.runtime.dependencies import NO_RECORDS, Dependencies
from langgraph_compaction.nodes.runtime.node_context import NodeContext
from tests.graph.harness import WORDS, filler


@pytest.fixture
def context() -> NodeContext:
    """Return the context of a thread with one message, which the state holds without an id."""
    dependencies: Any = object.__new__(Dependencies)  # none is used
    return NodeContext({"messages": [HumanMessage("said")]}, {}, Runtime(), dependencies)


def test_a_context_with_restored_messages_reads_those(context: NodeContext) -> None:
    """Sizes and fingerprints after a rollback are those of the snapshot, not of the draft's conversation."""
    assert [message.text for message in context.messages] == ["said"]
    restored = [HumanMessage("restored", id="a")]
    assert context.with_state(messages=restored).messages == restored


def test_a_context_with_restored_messages_has_the_sizes_of_their_system_messages() -> None:
    """The fixed part includes the system messages of the conversation, because no compaction removes these messages.

    A context with restored messages therefore computes the sizes again.
    """
    settings = CompactionSettings(context_window=1_000, output_reserve=0)
    dependencies = Dependencies(settings=settings, records=NO_RECORDS, counter=WORDS)
    rules = SystemMessage(filler(50), id="rules")
    context = NodeContext({"messages": [rules, HumanMessage("said")]}, {}, Runtime(), dependencies)
    assert (context.sizes.fixed, context.sizes.room) == (WORDS.message(rules), 1_000 - WORDS.message(rules))
    assert context.with_state(memory={"goal": "book a flight"}).sizes == context.sizes
    restored = context.with_state(messages=[HumanMessage("restored", id="a")])
    assert (restored.sizes.fixed, restored.sizes.room) == (0, 1_000)


def test_the_system_prompt_and_the_tools_are_counted_once_a_call() -> None:
    """A context that is derived from another one has its counter and what it has counted."""
    counted = list[Any]()

    def overhead(counter: Any) -> int:
        counted.append(counter)
        return 7

    dependencies: Any = SimpleNamespace(
        settings=None, counter_for=lambda *_: "counter", model_for=lambda *_: None, overhead=overhead
    )
    context = NodeContext({"messages": [HumanMessage("said")]}, {}, Runtime(), dependencies)
    derived = context.with_state(memory={"goal": "book a flight"})
    assert (context.meter.overhead, derived.meter.overhead, counted) == (7, 7, ["counter"])


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, 0),
        ({"tools": [{"name": "größe"}]}, len('[{"name": "größe"}]')),
        ({"system_prompt": SystemMessage("Be brief.")}, 9 + 4),
        ({"added": [HumanMessage("one"), HumanMessage("three")]}, 3 + 4 + 5 + 4),
    ],
    ids=["nothing", "tools", "system prompt", "added messages"],
)
def test_each_request_has_the_tokens_of_what_is_sent_with_the_conversation(
    sent: dict[str, Any], expected: int
) -> None:
    """Tool schemas as they are sent, the system prompt and added messages, with four tokens for each message."""
    characters = TextCounter("characters", len)
    dependencies = Dependencies(settings=CompactionSettings(), records=NO_RECORDS, counter=characters, **sent)
    assert dependencies.overhead(characters) == expected


def test_a_context_with_another_goal_has_the_same_messages(context: NodeContext) -> None:
    """A message that got an id keeps it: the update of the state names the ids that the events name."""
    later = context.with_state(memory={"goal": "book a flight"})
    assert later.memory == {"goal": "book a flight"}
    assert later.messages is context.messages
    assert context.memory == {}


@pytest.mark.parametrize(
    ("known", "turns", "calls", "anew"),
    [
        ({}, 0, 0, {"turns_at_commit": 0, "calls_at_commit": 1}),
        ({"route": "end"}, 0, 0, {"turns_at_commit": 0, "calls_at_commit": 0}),
        ({"turns": 5, "calls": 9}, 5, 9, {"turns_at_commit": 5, "calls_at_commit": 10}),
        (
            {"turns": 5, "calls": 9, "turns_at_commit": 3, "calls_at_commit": 4, "epoch": 2},
            *(2, 5),
            {"turns_at_commit": 5, "calls_at_commit": 10},
        ),
    ],
    ids=["new thread", "before the first call", "no compaction yet", "after a compaction"],
)
def test_inputs_and_calls_are_counted_from_the_last_compaction(
    context: NodeContext, known: dict[str, Any], turns: int, calls: int, anew: dict[str, int]
) -> None:
    """Without a compaction, all inputs and calls count. A commit right before a call counts that call too."""
    later = context.with_state(compaction=known)
    assert later.epoch == known.get("epoch", 0)
    assert later.turns_since_commit == turns
    assert (later.calls_since_commit("end"), later.calls_since_commit("model")) == (calls, calls + 1)
    assert later.counted_anew() == anew
