"""What `tool_blocks`, the strategy of `selective`, does with skills' prompts and descriptions."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.gate.invariants import Bounds, broken_invariant
from langgraph_compaction.nodes.selection.selector import Demand, Selector
from langgraph_compaction.nodes.selection.strategies.dialogue_rounds_floor import Plan
from langgraph_compaction.nodes.selection.strategies.tool_blocks import keeps
from langgraph_compaction.nodes.selection.strategy_chain import choose
from tests.histories import applied, asks, meta, numbered, result, text_rounds, user

ANYTHING = Demand(before=10**9, ceiling=10**9, aim=10**9, summary=0)


def skill(kind: str = "skill_prompt", **mark: Any) -> HumanMessage:
    """What a skill says to the model."""
    return HumanMessage("do it so", additional_kwargs={"compaction": {"kind": kind, "is_meta": True, **mark}})


def selector(messages: Sequence[AnyMessage], **chosen: Any) -> Selector:
    """Return the selector of a conversation."""
    return Selector(Transcript(numbered(messages)), CompactionSettings(**chosen), Meter(approximate_counter(), 0))


def dropped(messages: Sequence[AnyMessage], **chosen: Any) -> frozenset[int]:
    """What leaves."""
    found = choose(selector(messages, **chosen), ANYTHING)
    assert found is not None
    return found.drop


@pytest.mark.parametrize("kind", ["skill_prompt", "skill_metadata"])
def test_skills_leave_from_the_protected_rounds_too(kind: str) -> None:
    """The application can give them again; another meta message stays in its round."""
    messages = [user("u"), skill(kind), meta("reminder"), AIMessage("done"), *text_rounds(2)]
    assert dropped(messages) == {1}
    found = selector(messages)
    after = applied(found.view.messages, {1}, {})
    assert broken_invariant(found, after, Bounds(before=10**9, ceiling=10**9), floor=12) is None


def test_skills_beyond_the_rounds_take_nobodys_place() -> None:
    """They are none of the five user messages that are kept before the floor."""
    messages = [*text_rounds(5), skill(), *text_rounds(12)]
    assert dropped(messages) == {10}


def test_a_skill_that_the_model_has_not_read_yet_stays() -> None:
    """As results do, where there is room for them."""
    messages = [user("u"), asks("a"), result("a"), skill()]
    assert dropped(messages) == frozenset()
    assert 3 in keeps(selector(messages), Plan(12, 5, 5, spare=True))
    assert 3 not in keeps(selector(messages), Plan(12, 5, 5))


def test_a_pinned_skill_and_one_in_the_header_stay() -> None:
    """Pins and system messages stand before everything."""
    header = SystemMessage("skills", additional_kwargs={"compaction": {"kind": "skill_metadata"}})
    assert dropped([header, user("u"), skill(pinned=True), AIMessage("done")]) == frozenset()
