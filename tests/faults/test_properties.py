"""Random conversations, settings and faults: every promise after every node. `make soak` plays many more."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from langgraph_compaction.nodes import CompactionSettings
from tests.faults.cases import Case, NodeContext, Reply, Writer, cases
from tests.faults.playing import play
from tests.graph.harness import rounds


def _said(words: int, *replies: Reply, during: Writer | None = None) -> NodeContext:
    turn = {"before": None, "pause": "rollback", "during": during, "seconds": 1.0, "agrees": True}
    return NodeContext(kind="say", words=words, replies=replies, **turn)


SMALL = CompactionSettings(context_window=1_000, output_reserve=0)
FOUND = {
    "thoughts that are not sent again counted": Case(
        history=[],
        settings=SMALL.model_copy(
            update={
                "trigger_ratio": 0.5,
                "target_ratio": 0.2,
                "dialogue_rounds_keep_min": 0,
            }
        ),
        summaries=(),
        turns=(_said(1), _said(1), _said(1, Reply(move="thinking", words=400, calls=())), _said(300)),
        reports=1.6,
    ),
    "the model was called with what a rollback had made too large": Case(
        history=rounds(1, words=1_200),
        settings=SMALL,
        summaries=("refusal",),
        turns=(_said(1, during=Writer(move="delete", place=0)),),
        reports=None,
    ),
}
"""What random cases have found, kept as small as it can be."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(name: str) -> None:
    """Each of these was red once."""
    assert play(FOUND[name], Counter()) == []


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: every fault is logged, and pytest keeps every record."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("wide", "count"), [(False, 140), (True, 60)], ids=["narrow", "wide"])
def test_every_invariant_holds_after_every_node(*, wide: bool, count: int) -> None:
    """Whatever was said, set and broken: all ten invariants, bounded calls, an answer or a documented error."""
    tally = Counter[str]()

    @settings(max_examples=count, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases(wide=wide))
    def every(case: Case) -> None:
        assert play(case, tally) == []

    every()
    for happened in ("committed", "rolled back", "answered", "compacted"):
        assert wide or tally[happened] > 5, f"hardly ever {happened}: {tally}"
    assert not wide or tally["checkpointer failed"] > 5
