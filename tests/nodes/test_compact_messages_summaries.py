import random
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from langgraph_compaction.nodes import (
    CompactionSettings,
    ContextExhaustedError,
    Reply,
    SummaryRequest,
    compact_messages,
)
from tests.fakes import ReplyingSummarizer, ScriptedModel, summary_message, texts
from tests.graph.harness import PROSE
from tests.histories import asks, numbered, result, text_rounds, tool_blocks, user
from tests.invariants import check_transition, is_summary
from tests.nodes.compacting import COUNTER, LONG, Compact, both, compacted, count


class NeedleSummarizer:
    """Copies every needle it is shown, and counts what it is asked."""

    name = "needles"

    def __init__(self, needles: Sequence[str]) -> None:
        self.needles = needles
        self.requests: list[SummaryRequest] = []
        self.max_input_tokens: int | None = None

    def summarize(self, request: SummaryRequest) -> Reply:
        """Answer with the needles of conversation and earlier summary."""
        self.requests.append(request)
        shown = f"{request.earlier}\n{request.conversation}"
        return Reply(content=f"<summary>{' '.join(n for n in self.needles if n in shown)}</summary>")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """The same."""
        return self.summarize(request)


@both
def test_a_fact_that_the_summarizer_was_shown_survives(compact: Compact) -> None:
    """Chunk by chunk it is shown everything it replaces, each chunk with the record so far."""
    needles = [f"needle-{n}" for n in range(40)]
    messages = numbered([m for n in needles for m in (user(f"{n}{LONG}"), AIMessage(f"ok{LONG}"))])
    summarizer = NeedleSummarizer(needles)
    summarizer.max_input_tokens = 2_667
    found = compact(messages, max_tokens=4_000, summarizer=summarizer)
    assert [needle for needle in needles if needle not in texts(found.new_messages)] == []
    assert len(summarizer.requests) == 3
    assert all(COUNTER.text(request.conversation) <= 2_000 for request in summarizer.requests)
    shown = [message.id for request in summarizer.requests for message in request.messages]
    left = {message.id for message in found.new_messages}
    assert shown == [message.id for message in messages if message.id not in left]


class TalkativeSummarizer(NeedleSummarizer):
    """Writes one sentence more than it is asked for."""

    def summarize(self, request: SummaryRequest) -> Reply:
        """Answer with sentences, each of other words."""
        self.requests.append(request)
        draw, text = random.Random(1), ""  # noqa: S311 - no secret; the seed repeats the summary
        while request.counter.text(text) <= request.max_tokens:
            words = ("".join(draw.choices("aeioubdklmnrst", k=6)) for _ in range(6))
            text += f"The user asked for {' '.join(words)}. "
        return Reply(content=f"<summary>{text.strip()}</summary>")


def test_a_digest_may_fill_the_size_and_a_summary_of_a_model_half_of_it() -> None:
    """The digest may use all tokens that the messages leave free.

    The summary of a model, with the user's own words beside it, may use at most half of the size.
    """
    rounds = [(user(f"Look behind door {n}."), AIMessage(f"Hall {n * 7} is empty.")) for n in range(120)]
    messages = numbered([message for one in rounds for message in one])
    found = compacted(messages, 1_000)
    assert 970 < found.new_token_count <= 1_000
    assert COUNTER.text(found.summary or "") > 600
    summarizer = NeedleSummarizer(["door 1."])
    compacted(messages, 1_000, summarizer=summarizer)
    assert [350 < request.max_tokens < 500 for request in summarizer.requests] == [True]


def test_a_summary_a_little_too_long_is_cut_at_a_sentence() -> None:
    """A few tokens over the space are no reason to throw a good summary away."""
    messages = numbered(text_rounds(30, say=LONG))
    found = compacted(messages, 1_200, summarizer=TalkativeSummarizer(()))
    assert found.verdict == "committed"
    assert found.summary is not None
    assert found.summary.startswith("The user asked for")
    assert found.summary.endswith(".")


def test_facts_survive_one_compaction_after_another() -> None:
    """A new summary absorbs the old: one at a time, no bigger each time, nothing dropped on the way."""
    needles = [f"needle-{n}" for n in range(26)]
    summarizer = NeedleSummarizer(needles)
    messages: list[AnyMessage] = []
    sizes: list[int] = []
    for turn, needle in enumerate(needles):
        said = [user(f"{needle}{LONG * 3}", id=f"u{turn}"), AIMessage(f"ok{LONG * 3}", id=f"a{turn}")]
        before = [*messages, *said]
        found = compact_messages(before, max_tokens=2_500, summarizer=summarizer, return_result=True)
        messages = found.new_messages
        check_transition(before, messages)
        assert sum(map(is_summary, messages)) <= 1
        assert [n for n in needles[: turn + 1] if n not in texts(messages)] == []
        sizes.append(found.new_token_count)
    assert max(sizes) <= 2_500
    assert len(summarizer.requests) > 3


@both
def test_a_bad_reply_is_asked_for_again_with_the_defect_named(compact: Compact) -> None:
    """An empty one three times; another is asked for once more with less to read, then the digest takes over."""
    messages = numbered(text_rounds(30, say=LONG))
    model = ScriptedModel(replies=["", "<summary> </summary>", "<summary>good for four words</summary>"])
    found = compact(messages, max_tokens=1_500, summarizer=model)
    assert (found.summary, found.verdict) == ("good for four words", "committed")
    assert "empty_summary" in model.received[1][1].text
    assert "empty_tag_body" in model.received[2][1].text
    stubborn = ScriptedModel(replies=["Sure, what next?"])
    found = compact([user(PROSE), *messages], max_tokens=1_500, summarizer=stubborn)
    assert found.verdict == "degraded_deterministic"
    assert len(stubborn.received) == 2
    assert "what next" not in texts(found.new_messages)


@both
def test_a_summarizer_that_raises_is_replaced_by_the_digest(compact: Compact) -> None:
    """A passing or unknown failure is tried again, a refused key is not; an error is never anybody's summary."""
    messages = numbered(text_rounds(30, say=LONG))
    refused = ValueError("bad key")
    refused.status_code = 401  # as the errors of providers' clients have it
    for error, asked in ((TimeoutError("late"), 3), (ValueError("unknown"), 3), (refused, 1)):
        summarizer = ReplyingSummarizer(error)
        found = compact(messages, max_tokens=1_500, summarizer=summarizer)
        assert found.verdict == "degraded_deterministic"
        assert len(summarizer.requests) == asked
        assert [request.defect for request in summarizer.requests] == [None] * asked
        assert f"{type(error).__name__}: {error}" not in texts(found.new_messages)


def test_a_deterministic_summarizer_is_asked_once() -> None:
    """It takes the old part whole, and would give the same bad answer again."""
    summarizer: Any = ReplyingSummarizer(Reply(content=""))
    summarizer.deterministic = True
    found = compacted(text_rounds(30, say=LONG), 1_500, summarizer=summarizer)
    assert found.verdict == "degraded_deterministic"
    assert len(summarizer.requests) == 1
    assert len(summarizer.requests[0].messages) == found.compacted_messages


@both
def test_a_summarizer_of_the_wrong_form_is_replaced_by_the_digest(compact: Compact) -> None:
    """One that returns plain text breaks the protocol, not the compaction."""
    found = compact(numbered(text_rounds(30, say=LONG)), max_tokens=1_500, summarizer=ReplyingSummarizer("text"))
    assert found.verdict == "degraded_deterministic"


@both
def test_a_summary_longer_than_what_it_replaces_is_not_taken(compact: Compact) -> None:
    """The digest is."""
    summarizer = ReplyingSummarizer(Reply(content=f"<summary>{LONG * 100}</summary>"))
    found = compact(numbered(text_rounds(30, say=LONG)), max_tokens=1_500, summarizer=summarizer)
    assert found.verdict == "degraded_deterministic"
    assert found.new_token_count <= 1_500


def test_a_kept_tail_over_the_limit_is_shrunk() -> None:
    """The floor yields, and the summarizer is asked once."""
    summarizer = ReplyingSummarizer(Reply(content="<summary>what was said</summary>"))
    found = compacted(text_rounds(12, say=LONG * 3), 1_000, summarizer=summarizer)
    assert len(summarizer.requests) == 1
    assert found.summary == "what was said"


def test_a_result_larger_than_the_window_is_clipped() -> None:
    """Its beginning stays, a line says how long it was, and the summarizer reads all of it."""
    summarizer = ReplyingSummarizer(Reply(content="<summary>what was said</summary>"))
    messages = [user("u"), asks("a"), result("a", "START" + LONG * 100)]
    found = compacted(messages, 800, summarizer=summarizer)
    assert found.summary == "what was said"
    assert [m.content for request in summarizer.requests for m in request.messages] == [
        m.content for m in messages[1:]
    ]
    assert [message.type for message in found.new_messages] == ["human", "human", "ai", "tool"]
    assert str(found.new_messages[3].content).startswith("START one one")
    assert "[TRUNCATED original~10001 tokens]" in str(found.new_messages[3].content)


def test_all_is_summarized_beside_a_result_that_has_to_be_clipped() -> None:
    """Where the unread result is larger than the window, it stays shortened, and the rounds before it leave."""
    messages = [*text_rounds(10, say=LONG), user("u"), asks("a"), result("a", "START" + LONG * 100)]
    summarizer = ReplyingSummarizer(Reply(content="<summary>what was said</summary>"))
    settings = CompactionSettings(strategies=("full",))
    found = compacted(messages, 2_000, settings=settings, summarizer=summarizer)
    assert found.summary is not None
    assert "what was said" in found.summary
    assert [message.type for message in found.new_messages] == ["human", "human", "ai", "tool"]
    assert str(found.new_messages[3].content).startswith("START one one")


def test_a_result_that_is_clipped_leaves_a_digest_nothing_to_do() -> None:
    """Its beginning stays, and there is no summary."""
    messages = [user("u"), asks("a"), result("a", "START" + LONG * 100)]
    found = compacted(messages, 800)
    assert found.summary is None
    assert str(found.new_messages[2].content).startswith("START one one")


def test_the_strategy_full_leaves_one_summary_and_what_may_not_go() -> None:
    """The seed read literally."""
    messages = [SystemMessage("s"), *text_rounds(20, say=LONG), user("newest")]
    settings = CompactionSettings(strategies=("full",))
    new = compacted(messages, 1_500, settings=settings).new_messages
    assert [message.type for message in new] == ["system", "human", "human"]


def test_the_summary_may_be_left_out_where_nothing_is_owed_to_it() -> None:
    """`if_needed`: what selective compaction alone brings under the size is not summarized."""
    messages = [*text_rounds(2), user("u"), *tool_blocks(9, content=LONG), AIMessage("done")]
    size = count(numbered(messages))
    assert compacted(messages, size - 1, settings=CompactionSettings(summary_mode="if_needed")).summary is None
    assert compacted(messages, size - 1).summary is not None


def test_an_earlier_summary_is_never_dropped_without_a_new_one() -> None:
    """Not even where no new one would be needed for its size."""
    settings = CompactionSettings(summary_mode="if_needed", dialogue_rounds_keep_min=1, dialogue_beyond_keep=0)
    messages = numbered(text_rounds(20, say=LONG))
    once = compact_messages(messages, max_tokens=600, settings=CompactionSettings())
    more = [*once, *numbered(text_rounds(9, say=LONG))]
    for position, message in enumerate(more):
        message.id = f"x{position}"
    twice = compact_messages(more, max_tokens=900, settings=settings)
    check_transition(more, twice)
    assert sum(map(is_summary, twice)) == 1


@pytest.mark.parametrize("words", [20, 60, 80, 100])
def test_a_small_record_holds_both_of_two_earlier_summaries(words: int) -> None:
    """Nothing else holds what an earlier summary says: it comes before facts that the summary has no room to show."""
    call = {"name": "read", "args": {"path": "alpha", "line": 7}, "id": "a"}
    messages = [
        summary_message("first record", "one"),
        *(user("alpha ", id=f"said-{number}") for number in range(3)),
        user("alpha " * words, id="long"),
        *(AIMessage("", tool_calls=[call], id=f"interrupted-{number}") for number in range(3)),
        summary_message("second record", "two"),
        user("alpha ", id="newest"),
    ]
    absorbed = 0
    for percent in range(30, 60, 5):
        try:
            found = compact_messages(messages, max_tokens=count(messages) * percent // 100, token_counter=COUNTER)
        except ContextExhaustedError:
            continue
        (summary,) = filter(is_summary, found)
        record = summary.additional_kwargs["compaction"]["record"]
        assert {"first record", "second record"} <= {row[-1] for row in record["entries"]}
        absorbed += 1
    assert absorbed >= 2
