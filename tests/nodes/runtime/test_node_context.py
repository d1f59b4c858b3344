"""What a context that is derived from another one shares with it, and what it does not."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime

from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.node_context import NodeContext


@pytest.fixture
def context() -> NodeContext:
    """Return the context of a thread with one message, which the state holds without an id."""
    dependencies: Any = object.__new__(Dependencies)  # none is used
    return NodeContext({"messages": [HumanMessage("said")]}, {}, Runtime(), dependencies)


@pytest.mark.requirement("S0.6")
def test_a_context_with_restored_messages_reads_those(context: NodeContext) -> None:
    """Sizes and fingerprints after a rollback are those of the snapshot, not of the draft's conversation."""
    assert [message.text for message in context.messages] == ["said"]
    restored = [HumanMessage("restored", id="a")]
    assert context.with_state(messages=restored).messages == restored


def test_a_context_with_another_goal_has_the_same_messages(context: NodeContext) -> None:
    """A message that got an id keeps it: the update of the state names the ids that the events name."""
    later = context.with_state(memory={"goal": "book a flight"})
    assert later.memory == {"goal": "book a flight"}
    assert later.messages is context.messages
    assert context.memory == {}
