from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.nodes import (
    CompactionSettings,
    ContextExhaustedError,
    SettingsError,
    compact_messages,
    render,
)
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, total
from tests.fakes import summary_message
from tests.histories import asks, histories, numbered, result, user
from tests.invariants import check_request, check_transition, is_summary
from tests.nodes.compacting import NOTICE, least, must_yield

COUNTER = approximate_counter()


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
        assert least(messages, chosen, COUNTER) > min(max_tokens, count(messages) - 1) - NOTICE
        return None
    finally:
        assert fingerprint_all(messages) == before, "the caller's messages were changed"
    assert count(found) <= max_tokens
    may_leave = must_yield(messages, max_tokens, chosen, COUNTER)
    check_transition(messages, found, count=count, ceiling=max_tokens, input_may_leave=may_leave)
    check_request(render(found))
    assert compact_messages(found, max_tokens=max_tokens, token_counter=COUNTER, settings=chosen) == found
    return found


options: st.SearchStrategy[CompactionSettings] = st.builds(
    CompactionSettings,
    tool_blocks_keep_recent=st.integers(0, 5),
    dialogue_rounds_keep_min=st.sampled_from([0, 1, 2, 12]),
    dialogue_beyond_keep=st.integers(0, 5),
    summary_mode=st.sampled_from(["always", "if_needed"]),
    strategies=st.sampled_from([("tool_blocks",), ("full",)]),
    long_input=st.sampled_from(["keep", "summarize"]),
)


@settings(max_examples=150, deadline=None)
@given(history=histories(max_size=40), share=st.floats(0.02, 1), chosen=options)
def test_a_compaction_keeps_every_invariant(
    history: list[AnyMessage], share: float, chosen: CompactionSettings
) -> None:
    """On any conversation and at any size: a sound result that stays as it is, or a justified error."""
    compacted(history, max(1, int(count(history) * share)), chosen)


def test_an_abandoned_step_leaves_before_the_message_of_the_user_is_shortened() -> None:
    """The summary of the last level is so short that the message fits whole, so no earlier level shortens it."""
    calls = [{"name": "read", "args": {"path": "配置 " * 30, "line": 7}, "id": name} for name in "abc"]
    said = user("配置 " * 180)
    history = numbered([AIMessage("", tool_calls=calls), said])
    found = compacted(history, int(count(history) * 0.75), CompactionSettings(tool_blocks_keep_recent=0))
    assert found is not None
    assert found[-1].content == said.content


@pytest.mark.parametrize("preset", ["selective", "faithful"])
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 1_500), min_size=2, max_size=8),
    arguments=st.integers(1, 300),
    results=st.lists(st.integers(1, 2_000), max_size=3),
    cap=st.integers(210, 2_000),
)
def test_a_conversation_is_refused_at_no_size(
    preset: Preset, sizes: list[int], arguments: int, results: list[int], cap: int
) -> None:
    """Whether a long question or results of any number and size wait, the shortest form of both fits."""
    rounds = [message for size in sizes[1:] for message in (user("alpha " * size), AIMessage("beta " * size))]
    calls = [f"c{number}" for number in range(len(results))]
    step = [asks(*calls, path="src/app.py " * arguments)] if calls else []
    step += [result(call, "order-4711 " * size) for call, size in zip(calls, results, strict=True)]
    messages = numbered([*rounds, user("gamma " * sizes[0]), *step])
    assert compacted(messages, cap, CompactionSettings(preset=preset)) is not None


def test_the_last_level_reserves_no_more_than_its_notice() -> None:
    """A notice replaces an earlier summary and two unfinished steps if the input leaves room for the notice only."""
    steps = [asks("a"), user("alpha"), asks("b", "c")]
    old = [summary_message("first record", "one"), user("alpha " * 1_800), *steps]
    history = numbered([*old, user("beta " * 600)])
    kept = CompactionSettings(dialogue_rounds_keep_min=0, dialogue_beyond_keep=0, long_input="keep")
    assert compacted(history, least(history, kept, COUNTER) + 70, kept) is not None


@pytest.mark.parametrize("left", [28, 40, 55, 56, 60])
def test_an_input_that_fits_beside_an_unfinished_step_and_the_notice_stays_whole(left: int) -> None:
    """The last level compares the input with the tokens that its notice needs, not with those of a longer summary."""
    step = [asks("a", "b", path="配置 " * 200), user("alpha " * 30), result("a", "alpha")]
    history = numbered([*step, user("src/app.py " * 700)])
    whole = least(history, CompactionSettings(tool_blocks_keep_recent=0, long_input="keep"), COUNTER, steps=True)
    chosen = CompactionSettings(
        tool_blocks_keep_recent=0, dialogue_rounds_keep_min=0, dialogue_beyond_keep=0, long_input="summarize"
    )
    found = compacted(history, whole + left, chosen)
    assert found is not None
    assert found[-1].content == history[-1].content


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
