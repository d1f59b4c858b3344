"""What a summarizer is shown of the old part, call by call: all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage

from langgraph_compaction.nodes import CompactionSettings, Reply, SummaryRequest
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.transcript import message_id
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.digest.digest import facts_of
from langgraph_compaction.nodes.digest.listed_sentences import NOTHING_LISTED, ListedSentences
from langgraph_compaction.nodes.runtime.effects import run
from langgraph_compaction.nodes.runtime.engine import Call
from langgraph_compaction.nodes.runtime.summarize_chunks import (
    LEAST_PIECE,
    TimeLeft,
    Work,
    WrittenSummary,
    summarize,
)
from langgraph_compaction.nodes.summary.fallback_chain import Level
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.fakes import ReplyingSummarizer, StalledSummarizer, chars
from tests.graph.harness import WORDS, Clock, filler
from tests.histories import numbered, result


class Numbering(ReplyingSummarizer):
    """A summarizer that numbers its summaries."""

    def summarize(self, request: SummaryRequest) -> Any:
        """Return the next reply, with the name of its model."""
        super().summarize(request)
        number = len(self.requests)
        return Reply(
            content=f"<summary>The user spoke of matter {number}.</summary>", input_tokens=10, output_tokens=2
        )


def settled(
    messages: Sequence[AnyMessage],
    summarizer: Any,
    *,
    limit: int | None,
    in_pieces: bool = False,
    time: TimeLeft | None = None,
    kept: Mapping[int, AnyMessage] = MappingProxyType({}),
    **chosen: Any,
) -> WrittenSummary:
    """Summarize all messages but those in `kept`, by index in their new form; a call shows `limit` words at most."""
    chosen = {"context_window": 10_000, "output_reserve": 0, "summary_input_tokens": limit, **chosen}
    settings = CompactionSettings.model_validate(chosen)
    call = Call(settings=settings, sizes=sizes_of(settings, window=10_000, fixed=0), meter=Meter(WORDS, 0))
    level = Level(summarizer, "model", in_pieces=in_pieces)
    drop, clip = frozenset(range(len(messages))) - kept.keys(), {message_id(one): one for one in kept.values()}
    time = time or TimeLeft(60)
    work = Work(call=call, level=level, messages=messages, drop=drop, budget=100, clip=clip, time=time)
    return run(summarize(work))


def spoken(count: int, words: int = 400) -> list[AnyMessage]:
    """So many messages of so many words, each with a word of its own."""
    return numbered([HumanMessage(f"matter{n}. {filler(words)}") for n in range(count)])


def shown(summarizer: ReplyingSummarizer, word: str) -> list[int]:
    """Which requests show a word."""
    return [n for n, request in enumerate(summarizer.requests) if word in request.conversation]


def test_in_one_call_where_it_fits() -> None:
    """And what it cost is booked."""
    summarizer = Numbering(None)
    written = settled(spoken(3), summarizer, limit=2_000)
    assert (written.body, written.calls, written.input_tokens) == ("The user spoke of matter 1.", 1, 10)
    assert written.seen == {"full": ["m0", "m1", "m2"], "cut": {}}


@pytest.mark.parametrize(
    ("reserve", "words", "calls"), [(0, 7_300, 1), (0, 7_700, 2), (5_000, 4_300, 1), (5_000, 4_700, 2)]
)
def test_one_call_reads_three_quarters_of_the_window_or_nine_tenths_of_the_limit(
    reserve: int, words: int, calls: int
) -> None:
    """Without `summary_input_tokens`, the smaller of the two applies, here in a window of 10,000 tokens."""
    summarizer = Numbering(None)
    written = settled(spoken(10, words // 10), summarizer, limit=None, output_reserve=reserve)
    assert written.calls == calls


def test_a_summarizer_is_given_the_messages_that_stay() -> None:
    """They have the form in which the model continues to see them, so that a digest need not repeat what they say."""
    messages, summarizer = spoken(3), Numbering(None)
    shortened = HumanMessage("matter2.", id="m2")
    settled(messages, summarizer, limit=2_000, kept={1: messages[1], 2: shortened})
    assert [request.stays for request in summarizer.requests] == [(messages[1], shortened)]


def test_in_chunks_each_on_top_of_the_summary_so_far() -> None:
    """Every message is shown once; the next request holds the last summary."""
    summarizer = Numbering(None)
    written = settled(spoken(6), summarizer, limit=900)
    assert [shown(summarizer, f"matter{n}.") for n in range(6)] == [[0], [0], [1], [1], [2], [2]]
    assert [request.earlier for request in summarizer.requests] == [
        None,
        "The user spoke of matter 1.",
        "The user spoke of matter 2.",
    ]
    assert (written.calls, written.output_tokens) == (3, 6)


def test_in_pieces_each_by_itself_and_then_together() -> None:
    """Every message is shown once; the last request holds every part's summary, and the earlier one."""
    summarizer = Numbering(None)
    old = [summary_message("The user began.", "c"), *spoken(6)]
    written = settled(old, summarizer, limit=2_000, in_pieces=True)
    assert [shown(summarizer, f"matter{n}.") for n in range(6)] == [[n] for n in range(6)]
    assert [request.earlier for request in summarizer.requests[:-1]] == [None] * 6
    last = summarizer.requests[-1]
    assert last.earlier == "The user began."
    assert [f"The user spoke of matter {n + 1}." in last.conversation for n in range(6)] == [True] * 6
    assert last.conversation.count("<part number=") == 6
    assert written.calls == 7
    assert written.body == "The user spoke of matter 7."


def test_what_cannot_be_split_is_not_asked_about() -> None:
    """One message, or less than the smallest piece: no call is made."""
    for old in (spoken(1, LEAST_PIECE), spoken(2, LEAST_PIECE // 4)):
        summarizer = Numbering(None)
        written = settled(old, summarizer, limit=2_000, in_pieces=True)
        assert written.finding is not None
        assert (written.finding.verdict, written.finding.reason) == ("rejected_insufficient", "no_smaller_pieces")
        assert summarizer.requests == []


def test_a_piece_that_fails_ends_the_attempt() -> None:
    """With the finding of its last reply, after one call: the defects were named before."""
    summarizer = ReplyingSummarizer(Reply(content="no tags here"))
    written = settled(spoken(6), summarizer, limit=2_000, in_pieces=True)
    assert written.finding is not None
    assert written.finding.reason == "no_summary_tags"
    assert (written.calls, len(summarizer.requests)) == (1, 1)


class Lengthy(Numbering):
    """A summarizer of which one reply is three times as long as it may be: its `number`-th, from 1."""

    def __init__(self, number: int) -> None:
        super().__init__(None)
        self.number = number

    def summarize(self, request: SummaryRequest) -> Any:
        """Give the next summary."""
        reply = super().summarize(request)
        if len(self.requests) != self.number:
            return reply
        return replace(reply, content=f"<summary>The user spoke of {filler(3 * request.max_tokens)}.</summary>")


@pytest.mark.parametrize(("in_pieces", "calls"), [(False, 3), (True, 7)])
def test_what_only_the_next_call_reads_may_not_be_much_longer_than_asked(*, in_pieces: bool, calls: int) -> None:
    """It is asked for again with that defect, a piece is not; the size of the last reply is for the gate to judge."""
    messages, limit = spoken(6), 2_000 if in_pieces else 900
    for number in range(1, calls):
        written = settled(messages, summarizer := Lengthy(number), limit=limit, in_pieces=in_pieces)
        if in_pieces:
            assert (written.calls, written.finding and written.finding.reason) == (number, "longer_than_asked")
        else:
            assert (written.calls, written.finding) == (calls + 1, None)
            assert summarizer.requests[number].defect == "longer_than_asked"
    last = settled(messages, Lengthy(calls), limit=limit, in_pieces=in_pieces)
    assert (last.calls, last.finding) == (calls, None)
    assert WORDS.text(last.body) > 300


def test_a_message_over_the_limit_shows_both_ends_and_what_a_digest_finds_between() -> None:
    """And the ledger is told how much of it was seen."""
    talk = "and so on " * 200
    text = f"begin {talk} The reservation is FQ8APE. {talk} finish"
    summarizer = Numbering(None)
    written = settled(numbered([result("a", text)]), summarizer, limit=200)
    (request,) = summarizer.requests
    assert [word in request.conversation for word in ("begin", "FQ8APE", "finish")] == [True] * 3
    assert WORDS.text(request.conversation) <= 200 + 20
    (tokens, of) = written.seen["cut"]["m0"]
    assert tokens < of
    assert written.seen["full"] == []


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_summary_that_repeats_a_message_is_none(*, in_pieces: bool) -> None:
    """A reply that repeats the shown conversation, or a piece of it, is rejected as an echo."""
    echoing = ReplyingSummarizer(Reply(content=f"<summary>matter0. {filler(9)}</summary>"))
    written = settled(spoken(6), echoing, limit=4_000, in_pieces=in_pieces)
    assert written.finding is not None
    assert (written.finding.verdict, written.finding.reason) == ("rejected_not_a_summary", "echo")


def test_the_summary_of_all_pieces_may_be_that_of_one() -> None:
    """A summary that repeats a piece's summary is no echo: no message is left that it could repeat."""
    written = settled(
        spoken(6),
        ReplyingSummarizer(Reply(content="<summary>The user spoke of matters.</summary>")),
        limit=2_000,
        in_pieces=True,
    )
    assert (written.body, written.finding) == ("The user spoke of matters.", None)


def test_the_joined_pieces_are_no_longer_than_the_limit() -> None:
    """The tags and line breaks between pieces count too. A piece that exceeds the limit begins a new chunk.

    Together the chunks hold all pieces in their order, numbered and quoted.
    """
    counter, texts = chars(1), ['The user said "a < b".'] * 9
    quoted = [f'<part number="{n}">\nThe user said "a &lt; b".\n</part>' for n in range(1, 10)]
    whole, half = len("\n".join(quoted)) + 1, len("\n".join(quoted[:4])) + 1
    for limit, count in ((whole, 1), (whole - 1, 2), (half, 3)):
        settings = CompactionSettings(context_window=10_000, output_reserve=0, summary_input_tokens=limit)
        call = Call(settings=settings, sizes=sizes_of(settings, window=10_000, fixed=0), meter=Meter(counter, 0))
        level = Level(Numbering(None), "model", in_pieces=True)
        work = Work(call=call, level=level, messages=[], drop=frozenset(), budget=100)
        chunks = [chunk.text for chunk in work.joined(texts)]
        assert "\n".join(chunks) == "\n".join(quoted)
        assert (len(chunks), max(map(len, chunks)) <= limit) == (count, True)


def test_rules_are_asked_for_where_messages_are_shown_and_facts_stand_beside_the_summary() -> None:
    """The request that joins pieces asks for no rules, and no request does without facts beside the summary."""
    for facts, first in ((True, ()), (False, None)):
        summarizer = Numbering(None)
        settled(spoken(3), summarizer, limit=2_000, in_pieces=True, facts_beside_summary=facts)
        assert [request.rules for request in summarizer.requests] == [*[first] * 3, None]


@pytest.mark.parametrize(("limit", "shown"), [(120, 2), (119, 1), (1_000, 3)])
def test_of_the_rules_beside_an_earlier_summary_the_newest_are_shown(limit: int, shown: int) -> None:
    """The rules may take a tenth of the tokens that the summarizer reads at once."""
    rules = ["Always answer in English.", "Never delete any files.", "Always use metric units."]
    facts = facts_of(
        numbered([HumanMessage(rule) for rule in rules]), None, budget=400, counter=WORDS, rules_first=400
    )
    old = [summary_message("The user began.", "c", facts=facts), *spoken(1, 20)]
    summarizer = Numbering(None)
    settled(old, summarizer, limit=limit)
    told = summarizer.requests[0].rules or ()
    assert [any(rule in line for line in told) for rule in rules] == [place >= 3 - shown for place in range(3)]


@pytest.mark.parametrize("asked", [True, False])
def test_a_list_between_the_tags_of_a_summary_is_no_part_of_it(*, asked: bool) -> None:
    """If the request asked for the list, the package reads the rules and removes the list from the summary.

    Otherwise, the text between the tags stays unchanged.
    """
    told, listed = "The user spoke of matters.", "<rules>\nrule: Reports go to Anna.\n</rules>"
    summarizer = ReplyingSummarizer(Reply(content=f"<summary>{told}\n{listed}</summary>", input_tokens=10))
    written = settled(spoken(2), summarizer, limit=2_000, facts_beside_summary=asked)
    found = ListedSentences(rules=("Reports go to Anna.",))
    assert (written.body, written.listed, written.input_tokens) == (
        (told, found, 10) if asked else (f"{told}\n{listed}", NOTHING_LISTED, 10)
    )


def test_a_reply_of_thoughts_alone_is_named_where_a_list_was_asked_for() -> None:
    """The search for the list does not change the content blocks of the reply."""
    thoughts = [{"type": "thinking", "thinking": "The user spoke of matters."}]
    summarizer = ReplyingSummarizer(Reply(content=thoughts))
    finding = settled(spoken(2), summarizer, limit=2_000).finding
    assert summarizer.requests[0].rules == ()
    assert finding is not None
    assert (finding.verdict, finding.reason) == ("rejected_empty", "thinking_only_no_content")


def test_the_time_for_summaries_runs_out() -> None:
    """The time left follows the clock, does not shrink if the clock is set back, and is 0 after the end."""
    clock = Clock()
    time = TimeLeft(10, clock)
    assert (time.passed(), time.left()) == (0, 10)
    clock.time += 4
    assert (time.passed(), time.left()) == (4, 6)
    clock.time += 7
    assert (time.passed(), time.left()) == (11, 0)
    clock.time -= 100
    assert (time.passed(), time.left()) == (0, 10)
    time.end()
    assert time.left() == 0


class Slow(StalledSummarizer):
    """A summarizer that takes a minute by the clock and does not answer."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def summarize(self, request: SummaryRequest) -> Any:
        """Wait."""
        self.clock.time += 60
        return super().summarize(request)


def test_a_summarizer_that_stalls_until_the_deadline_is_late() -> None:
    """The finding names the deadline of the compaction and not the time-out of one call."""
    slow = Slow(clock := Clock())
    try:
        finding = settled(spoken(1), slow, limit=2_000, time=TimeLeft(0.05, clock)).finding
    finally:
        slow.let_go.set()
    assert finding is not None
    assert slow.calls == 1
    assert (finding.verdict, finding.reason, finding.kind) == ("failed_transient", "summary_deadline", "transient")
    assert "summary_deadline_s" in finding.detail


def test_a_stalled_summarizer_is_not_late_while_time_is_left() -> None:
    """One second before the deadline of the compaction, the finding names the time-out of the call."""
    slow = Slow(clock := Clock())
    try:
        written = settled(spoken(1), slow, limit=2_000, time=TimeLeft(61, clock), summary_timeout_s=0.05)
    finally:
        slow.let_go.set()
    assert written.finding is not None
    assert (written.calls, written.finding.reason) == (1, "summary_timeout")


class Lasting(ReplyingSummarizer):
    """A summarizer of which each call takes half a minute by the clock."""

    def __init__(self, reply: Any, clock: Clock, *, deterministic: bool = False) -> None:
        super().__init__(reply)
        self.clock, self.deterministic = clock, deterministic

    def summarize(self, request: SummaryRequest) -> Any:
        """Give the reply."""
        self.clock.time += 30
        return super().summarize(request)


UNUSABLE = Reply(content="no tags here")


@pytest.mark.parametrize(("seconds", "calls", "left"), [(0, 0, 0), (59, 1, 0), (60, 1, 0), (61, 2, 0), (600, 3, 510)])
def test_no_call_begins_that_would_end_at_the_deadline_or_later(seconds: int, calls: int, left: int) -> None:
    """Each call is expected to last as long as the one before.

    If no call begins for this reason, no time is left. The finding is that of the last reply or, without any call,
    names the deadline.
    """
    summarizer, time = Lasting(UNUSABLE, clock := Clock()), TimeLeft(seconds, clock)
    written = settled(spoken(1), summarizer, limit=2_000, time=time, summary_retries=2)
    assert (len(summarizer.requests), written.calls, time.left()) == (calls, calls, left)
    assert written.finding is not None
    assert written.finding.reason == ("no_summary_tags" if calls else "summary_deadline")
    assert [request.defect for request in summarizer.requests] == [None, *["no_summary_tags"] * 2][:calls]


@pytest.mark.parametrize("retries", [0, 1])
def test_an_unusable_reply_is_asked_for_again_as_often_as_the_settings_say(retries: int) -> None:
    """After the last of these calls, the finding is that of its reply."""
    written = settled(spoken(1), summarizer := ReplyingSummarizer(UNUSABLE), limit=2_000, summary_retries=retries)
    assert (len(summarizer.requests), written.calls) == (1 + retries, 1 + retries)
    assert written.finding is not None
    assert written.finding.reason == "no_summary_tags"


def test_a_deterministic_summarizer_is_asked_once_and_has_no_deadline() -> None:
    """The same request gives the same reply, and the reply comes at once."""
    for reply, finding in ((Reply(content="<summary>It works.</summary>"), None), (UNUSABLE, "no_summary_tags")):
        summarizer = Lasting(reply, clock := Clock(), deterministic=True)
        written = settled(spoken(1), summarizer, limit=2_000, time=TimeLeft(0, clock), summary_retries=2)
        assert (written.calls, len(summarizer.requests)) == (1, 1)
        assert (written.finding and written.finding.reason) == finding


def test_an_error_after_the_deadline_is_named_by_itself() -> None:
    """The finding tells the error, because more time would not have helped."""
    lasting = Lasting(ValueError("no such model"), clock := Clock())
    written = settled(spoken(1), lasting, limit=2_000, time=TimeLeft(20, clock), summary_retries=0)
    assert written.finding is not None
    assert (written.finding.verdict, written.finding.reason) == ("failed_permanent", "summary_exception:ValueError")


@pytest.mark.parametrize(("words", "defect"), [(200, None), (201, "longer_than_asked")])
def test_a_summary_that_only_the_next_call_reads_may_have_twice_the_tokens(words: int, defect: str | None) -> None:
    """The budget is 100 tokens here."""
    long = Reply(content=f"<summary>The user spoke of {filler(words - 4)}</summary>")
    written = settled(spoken(6), ReplyingSummarizer(long), limit=900, summary_retries=0)
    assert (written.finding and written.finding.reason) == defect
    assert written.calls == (1 if defect else 3)
