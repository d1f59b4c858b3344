from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.nodes import (
    CompactionSettings,
    ContextExhaustedError,
    SettingsError,
    compact_messages,
    render,
)
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Selector
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import histories
from tests.invariants import check_request, check_transition, is_summary

COUNTER = approximate_counter()
NOTICE = 100
"""Tokens that the shortest summary takes, frame and all, with the line that tells of a step which left."""


def count(messages: Sequence[AnyMessage]) -> int:
    """Return the tokens of the request that a list renders to."""
    return total(COUNTER, render(messages))


def compacted(messages: list[AnyMessage], max_tokens: int, chosen: CompactionSettings) -> list[AnyMessage] | None:
    """Compact and check all that holds of a result; None where nothing can be done, and rightly so."""
    before = fingerprint_all(messages)
    try:
        found = compact_messages(messages, max_tokens=max_tokens, token_counter=COUNTER, settings=chosen)
    except SettingsError:
        header = [message for message in messages if message.type == "system"]
        assert total(COUNTER, header) >= max_tokens
        return None
    except ContextExhaustedError:
        assert least(messages) > min(max_tokens, count(messages) - 1) - NOTICE
        return None
    finally:
        assert fingerprint_all(messages) == before, "the caller's messages were changed"
    assert count(found) <= max_tokens
    check_transition(messages, found, count=count, ceiling=max_tokens)
    check_request(render(found))
    assert compact_messages(found, max_tokens=max_tokens, token_counter=COUNTER, settings=chosen) == found
    return found


def least(messages: Sequence[AnyMessage]) -> int:
    """Return the tokens of what must stay, cut as short as it can be, once steps have left."""
    selector = Selector(Transcript(messages), CompactionSettings(), Meter(COUNTER, 0))
    stay = selector.untouchable - selector.steps
    drop = frozenset(range(len(messages))) - stay
    return selector.tokens(drop, selector.tight_clip(stay, drop, 0, texts=True))


options: st.SearchStrategy[CompactionSettings] = st.builds(
    CompactionSettings,
    tool_blocks_keep_recent=st.integers(0, 5),
    dialogue_rounds_keep_min=st.sampled_from([0, 1, 2, 12]),
    dialogue_beyond_keep=st.integers(0, 5),
    summary_mode=st.sampled_from(["always", "if_needed"]),
    summary_scope=st.sampled_from(["old_part", "all"]),
)


@pytest.mark.requirement("B9", "B18", "B43")
@settings(max_examples=150, deadline=None)
@given(history=histories(max_size=40), share=st.floats(0.02, 1), chosen=options)
def test_a_compaction_keeps_every_invariant(
    history: list[AnyMessage], share: float, chosen: CompactionSettings
) -> None:
    """On any conversation and at any size: a sound result that stays as it is, or a justified error."""
    compacted(history, max(1, int(count(history) * share)), chosen)


@pytest.mark.requirement("B33", "B1", "B5")
@settings(max_examples=60, deadline=None)
@given(parts=st.lists(histories(max_size=12), min_size=2, max_size=4), share=st.floats(0.1, 0.8), chosen=options)
def test_compactions_may_follow_each_other(
    parts: list[list[AnyMessage]], share: float, chosen: CompactionSettings
) -> None:
    """Each result is the beginning of the next conversation; there is one summary at any time."""
    messages: list[AnyMessage] = []
    for turn, part in enumerate(parts):
        messages += [message.model_copy(update={"id": f"t{turn}-{message.id}"}) for message in part]
        found = compacted(messages, max(1, int(count(messages) * share)), chosen)
        assume(found is not None)
        messages = found or []
        assert sum(map(is_summary, messages)) <= 1


@settings(max_examples=40, deadline=None)
@given(histories(max_size=10), histories(max_size=10), st.floats(0.3, 1))
def test_joined_lists_with_two_summaries_are_compacted_like_any_other(
    first: list[AnyMessage], second: list[AnyMessage], share: float
) -> None:
    """A new summary absorbs both: where its text has no room, the record that the next one is made of still has them.

    The shortest summary, which says no more than that something left, has what fits of them.
    """
    parts: list[Any] = [
        summary_message("first record", "one"),
        *(message.model_copy(update={"id": f"a{message.id}"}) for message in first),
        summary_message("second record", "two"),
        *second,
    ]
    found = compacted(parts, int(count(parts) * share), CompactionSettings())
    if found and not {"summary-one", "summary-two"} <= {message.id for message in found}:
        (summary,) = filter(is_summary, found)
        if "earlier messages are no longer in view" not in summary.text:
            record = summary.additional_kwargs["compaction"]["record"]
            absorbed = "\n".join([summary.text, *(row[-1] for row in record["entries"])])
            assert "first record" in absorbed
            assert "second record" in absorbed
