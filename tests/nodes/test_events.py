"""The figures and texts of the events about compactions."""

from typing import Any

import pytest

from langgraph_compaction.nodes.events import (
    CompactContextEvent,
    ContextEvent,
    Counts,
    committed_events,
    cost_of,
    emit,
    meta_event,
    replaced_event,
    saved_ratio,
    warning_event,
)


def test_the_share_that_was_saved_is_of_the_tokens_before() -> None:
    """If there were no tokens before, the share is 0."""
    assert [saved_ratio(*sizes) for sizes in ((200, 50), (200, 200), (1, 0), (0, 0), (0, 5))] == [0.75, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("trigger", "told"), [("precheck", "auto_compact"), ("manual", "manual_compact"), ("command", "manual_compact")]
)
def test_a_commit_has_three_events(trigger: str, told: str) -> None:
    """They tell the tokens before and after, the number of messages and the summary; the share has four digits."""
    performed, replaced, compacted = committed_events(trigger, 900, 300, 7, "what was said")
    assert performed == ContextEvent(event_type="COMPACTION_PERFORMED", detail=f"{told}: 900 → 300 tokens")
    assert replaced == replaced_event(7)
    assert replaced == ContextEvent(event_type="CONVERSATION_REPLACED", detail="conversation replaced with 7 items")
    assert compacted == CompactContextEvent(
        type="context_compacted", original_tokens=900, new_tokens=300, saved_ratio=0.6667, summary="what was said"
    )


def test_a_warning_tells_how_full_the_window_is() -> None:
    """The message has a percentage, and the field `ratio` a share of four digits."""
    found = warning_event(2_000, 3_000, 2_400)
    assert found.message == "the context is 67% full; it is compacted at 2400 tokens"
    assert (found.type, found.tokens, found.ratio, found.will_compact_at) == ("context_warning", 2_000, 0.6667, 2_400)


def test_the_event_of_a_phase_has_the_counts_of_the_attempt() -> None:
    """Each count has its own field."""
    counts = Counts(blocks_kept=1, blocks_dropped=2, calls_clipped=3, results_clipped=4)
    found = meta_event("selective_done", 900, 300, counts, "done")
    assert (found.phase, found.tokens_before, found.tokens_after, found.reason) == (
        "selective_done",
        900,
        300,
        "done",
    )
    assert (found.tool_blocks_kept, found.tool_blocks_dropped) == (1, 2)
    assert (found.tool_calls_truncated, found.tool_results_truncated) == (3, 4)


def test_the_cost_of_a_summary_is_that_of_its_draft() -> None:
    """A draft whose summary was not written has cost nothing."""
    costs = cost_of({"calls": 2, "input_tokens": 900, "output_tokens": 40})
    assert costs == {"summary_calls": 2, "summary_input_tokens": 900, "summary_output_tokens": 40}
    assert set(cost_of({}).values()) == {0}


def test_an_event_is_a_dictionary_with_its_class_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A sink that fails is logged and ends nothing."""
    told = list[Any]()
    emit(told.append, replaced_event(2))
    assert told == [
        {
            "event": "ContextEvent",
            "event_type": "CONVERSATION_REPLACED",
            "detail": "conversation replaced with 2 items",
        }
    ]

    def failing(_: Any) -> None:
        raise ValueError("closed")

    emit(failing, replaced_event(2))
    assert "The event sink failed" in caplog.text
