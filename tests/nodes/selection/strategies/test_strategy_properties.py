"""What holds of every strategy that writes a summary, whatever the conversation."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage

from langgraph_compaction.nodes.selection.selector import Demand
from langgraph_compaction.nodes.selection.strategies.registry import BUILT_IN
from tests.histories import histories
from tests.nodes.selection.strategies.selecting import selector, talk

SMALL: dict[str, Any] = {
    "sliding_window_size": 3,
    "importance_keep_low": 1,
    "key_events_keep_other": 1,
    "incremental_summary_chunk_size": 1,
}
DEMAND = Demand(before=10**6, ceiling=0, aim=0, summary=0)


NAMES = ("adaptive", "sliding_window", "importance", "key_events", "incremental")


def test_what_each_strategy_keeps() -> None:
    """Of 25 questions with their answers: what matters and the newest, the last chunk, or nothing at all."""
    seen = selector(talk(50), incremental_chunk_unit="message", incremental_chunk_from="end")
    telling = [0, *range(1, 50, 2), *range(42, 51, 2)]
    kept = {
        "importance": telling,
        "key_events": telling,
        "incremental": [0, *range(31, 51)],
        "sliding_window": [0, *range(42, 51)],
        "full": [0],
    }
    for name, left in kept.items():
        choice = next(iter(BUILT_IN[name](seen, DEMAND)))
        closed = seen.resolve(DEMAND, choice)
        assert [index for index in range(51) if index not in closed.drop] == sorted(left), name
        assert choice.summarize is True


@given(messages=histories(), unit=st.sampled_from(["turn", "message"]))
def test_one_choice_that_leaves_blocks_whole(unit: str, messages: list[AnyMessage]) -> None:
    """One at most, summarized; what must stay stays; the sections are what leaves, each once and in order."""
    seen = selector(messages, **SMALL, incremental_chunk_unit=unit)
    for name in NAMES:
        found = list(BUILT_IN[name](seen, DEMAND))
        assert len(found) <= 1
        for choice in found:
            closed = seen.resolve(DEMAND, choice)
            assert choice.summarize is True
            assert not closed.drop & seen.untouchable
            blocks = [block.indexes for block in seen.view.blocks]
            assert all(closed.drop.issuperset(block) or closed.drop.isdisjoint(block) for block in blocks)
            dealt = [index for part in closed.sections for index in sorted(part)]
            assert dealt == (sorted(closed.drop) if choice.sections else [])
