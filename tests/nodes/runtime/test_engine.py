from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.nodes import CompactionSettings, Reply
from langgraph_compaction.nodes.config.summary_format import FormatChoice
from langgraph_compaction.nodes.conversation.clipping import recall_line
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.digest.listed_sentences import ListedSentences
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.runtime.engine import (
    ANY_ID,
    JOINTS,
    NO_PARTS,
    Call,
    SummaryParts,
    applied_to,
    demand,
    fitted_summary,
    frame,
    has_space,
    judge,
    needs_summary,
    propose,
    shortest_summary,
    summary_budget,
    summary_parts,
)
from langgraph_compaction.nodes.selection.selector import Selection
from langgraph_compaction.nodes.summary.fallback_chain import Level, after_failure, fallback_chain_of, strategy
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer, NoticeSummarizer
from langgraph_compaction.nodes.summary.summary_message import EARLIER_HANDLES, summary_message
from tests.fakes import ReplyingSummarizer
from tests.histories import asks, numbered, result, text_rounds, user

SUMMARIZER = ReplyingSummarizer(Reply(content="<summary>text</summary>"))
OWN, PIECES, DIGEST, NOTICE = fallback_chain_of(SUMMARIZER)
LONG = " one" * 100


def call(window: int = 10_000, scale: float = 1.0, **chosen: Any) -> Call:
    """Return a call of a model with this window and nothing kept free."""
    settings = CompactionSettings.model_validate({"output_reserve": 0, **chosen})
    return Call(
        settings=settings,
        sizes=sizes_of(settings, window=window, fixed=0),
        meter=Meter(tiktoken_counter(), 0, scale),
    )


def test_the_ladder_ends_without_a_model() -> None:
    """The summarizer, the same in pieces, the fallbacks, the digest, the notice; the digest stands there once."""
    other = ReplyingSummarizer(Reply(content="other"))
    assert fallback_chain_of(SUMMARIZER, [other]) == (OWN, PIECES, Level(other, "fallback-1"), DIGEST, NOTICE)
    assert fallback_chain_of(DIGEST.summarizer) == (DIGEST, NOTICE)
    assert (DIGEST.summarizer, NOTICE.summarizer) == (DigestSummarizer(), NoticeSummarizer())
    assert [level.is_deterministic for level in fallback_chain_of(SUMMARIZER)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("finding", "following"),
    [
        (Finding("rejected_truncated", "max_tokens_truncated"), 1),
        (Finding("rejected_not_a_summary", "no_summary_tags"), 1),
        (Finding("rejected_empty", "max_tokens_no_content"), 1),
        (Finding("rejected_empty", "empty_summary"), 2),
        (Finding("failed_transient", "summary_timeout"), 2),
        (Finding("failed_permanent", "summary_exception:BadRequestError", "", "overflow"), 1),
        (Finding("failed_permanent", "summary_exception:AuthenticationError", "", "auth"), 2),
        (Finding("failed_transient", "summary_exception:RateLimitError", "", "transient"), 2),
        (Finding("rejected_inflated", "not_smaller"), 2),
        (Finding("rejected_facts_lost", "fact_lost"), 2),
    ],
)
def test_a_failure_chooses_the_next_rung(finding: Finding, following: int) -> None:
    """Less to read is tried where it can help; a key that is wrong or a budget that is spent is not asked again."""
    assert after_failure(fallback_chain_of(SUMMARIZER), 0, finding) == following


def test_the_last_rung_is_followed_by_itself() -> None:
    """There is nothing after it; whether it was tried is the state's to know."""
    assert after_failure(fallback_chain_of(SUMMARIZER), 3, Finding("rejected_inflated", "not_smaller")) == 3


def test_a_strategy_is_named_by_preset_scope_and_rung() -> None:
    """The last level is what it is under every preset."""
    whole = CompactionSettings(summary_scope="all")
    assert [strategy(CompactionSettings(), level) for level in fallback_chain_of(SUMMARIZER)] == [
        "selective+own",
        "selective+own-pieces",
        "selective+digest",
        "hide",
    ]
    assert [strategy(whole, level) for level in fallback_chain_of(DIGEST.summarizer)] == [
        "selective-all+digest",
        "hide",
    ]


@pytest.mark.parametrize(
    ("trigger", "last", "before", "ceiling"),
    [
        ("precheck", False, 9_000, 7_999),
        ("check", False, 9_000, 7_999),
        ("precheck", True, 9_000, 8_999),
        ("precheck", True, 12_000, 10_000),
        ("manual", False, 12_000, 10_000),
        ("manual", False, 3_000, 2_999),
        ("overflow", False, 9_000, 7_200),
        ("overflow", True, 9_000, 7_200),
        ("overflow", False, 90_000, 10_000),
    ],
)
def test_the_ceiling_follows_the_trigger(trigger: str, *, last: bool, before: int, ceiling: int) -> None:
    """Below the trigger for a token trigger, else the limit, and always fewer tokens than before."""
    found = demand(call(), trigger=trigger, before=before, last=last)
    assert (found.before, found.ceiling) == (before, ceiling)
    assert found.aim == min(5_000, ceiling)


def test_a_provider_that_counts_more_needs_more_for_the_summary() -> None:
    """Everything is in the provider's tokens."""
    plain = demand(call(), trigger="manual", before=9_000, last=False).summary
    scaled = demand(call(scale=2.0), trigger="manual", before=9_000, last=False).summary
    assert 2 * plain - 2 <= scaled <= 2 * plain


def test_the_least_summary_is_a_twentieth_of_the_room_within_its_bounds() -> None:
    """At least 12 tokens, so that the notice fits, and at most 40, so that a small window is not filled by it."""
    windows = (100, 240, 400, 600, 799, 1_000, 100_000)
    least = [demand(call(window), trigger="manual", before=2 * window, last=False).least for window in windows]
    assert [size - least[0] + 12 for size in least] == [12, 12, 20, 30, 39, 40, 40]


def test_room_is_planned_for_the_handles_of_a_summary() -> None:
    """For its own and those of earlier compactions; on the last level for its own alone."""
    plain, naming = call(), replace(call(), names_handles=True)
    lines = {True: recall_line(ANY_ID), False: recall_line(*[ANY_ID] * (EARLIER_HANDLES + 1))}
    for last, line in lines.items():
        without, with_it = (demand(one, trigger="manual", before=9_000, last=last).summary for one in (plain, naming))
        assert 0 < plain.meter.counter.text(line) <= with_it - without <= plain.meter.counter.text(line) + 2


def test_a_summary_fits_between_what_stays_and_the_ceiling() -> None:
    """Its cap, the aim and the ceiling bound it, in the counter's tokens."""
    plain = call()
    goal = demand(plain, trigger="precheck", before=9_000, last=False)
    assert summary_budget(plain, OWN, goal, tokens=1_000, ceiling=7_999) == 1_024
    assert summary_budget(call(summary_max_tokens=300), OWN, goal, tokens=1_000, ceiling=7_999) == 300
    tight = summary_budget(plain, OWN, goal, tokens=7_900, ceiling=7_999)
    assert 40 <= tight <= 99
    half = (7_999 - 6_500 - frame(plain, NO_PARTS) - JOINTS) // 2
    assert summary_budget(plain, OWN, goal, tokens=6_500, ceiling=7_999) == half
    assert summary_budget(plain, OWN, goal, tokens=7_999, ceiling=7_999) == 1
    assert summary_budget(call(scale=2.0), OWN, goal, tokens=7_000, ceiling=7_999) < 500
    assert summary_budget(plain, DIGEST, goal, tokens=1_000, ceiling=7_999) == 1_024 + 1_000


def test_a_summary_is_due_when_something_left() -> None:
    """Always; or, where it is only wanted if needed, when the aim was missed or it is owed."""
    goal = demand(call(), trigger="precheck", before=9_000, last=False)
    always, if_needed = CompactionSettings(), CompactionSettings(summary_mode="if_needed")
    gone = frozenset({1})
    assert needs_summary(always, Selection(floor=1, drop=gone, tokens=10), goal)
    assert not needs_summary(always, Selection(floor=1, tokens=9_000), goal)
    assert not needs_summary(if_needed, Selection(floor=1, drop=gone, tokens=goal.aim), goal)
    assert needs_summary(if_needed, Selection(floor=1, drop=gone, tokens=goal.aim + 1), goal)
    assert needs_summary(if_needed, Selection(floor=1, drop=gone, tokens=10, owes_summary=True), goal)


def test_a_proposal_is_a_choice_or_says_why_there_is_none() -> None:
    """Nothing old is no failure; what must stay over the limit is one."""
    rounds = numbered(text_rounds(3))
    goal = demand(call(), trigger="manual", before=9_000, last=False)
    assert propose(call(), rounds, OWN, goal) == Finding("noop", "nothing_old")
    large: list[AnyMessage] = numbered([user(LONG * 9)])
    small = call(window=500, long_input="keep")
    tight = demand(small, trigger="manual", before=904, last=False)
    found = propose(small, large, OWN, tight)
    assert isinstance(found, Finding)
    assert (found.verdict, found.reason) == ("rejected_insufficient", "no_selection_fits")
    assert propose(small, large, NOTICE, tight) == Finding("noop", "nothing_old")


def test_what_must_stay_may_reach_up_to_the_limit() -> None:
    """Where it alone passes the trigger, the limit is the ceiling."""
    messages = numbered([*text_rounds(1, say=LONG), user(LONG * 8 + LONG)])
    tight = call(window=1_000)
    goal = demand(tight, trigger="precheck", before=1_015, last=False)
    assert goal.ceiling == 799
    found = propose(tight, messages, OWN, goal)
    assert isinstance(found, Selection)
    assert found.ceiling == 1_000
    assert found.drop == {0, 1}


def test_what_reaches_over_the_trigger_is_smaller_than_before() -> None:
    """One token is enough: a long task that has little to give goes on with what it can have."""
    messages = numbered([*text_rounds(1, say=LONG * 3), user(LONG * 9)])
    tight = call(window=1_100)
    goal = replace(demand(tight, trigger="precheck", before=1_100, last=False), must_fit=False)
    found = propose(tight, messages, OWN, goal)
    assert isinstance(found, Selection)
    assert (found.ceiling, found.drop) == (1_099, {0, 1})
    size = found.tokens + goal.summary
    assert size > goal.ceiling
    assert propose(tight, messages, OWN, replace(goal, before=size + 1)) == replace(found, ceiling=size)
    assert isinstance(propose(tight, messages, OWN, replace(goal, before=size)), Finding)


def test_a_draft_is_applied_with_the_summary_in_the_first_gap() -> None:
    """What is named leaves or is exchanged; all else stays in order, what arrived since behind it."""
    messages = numbered([user("a"), user("b"), user("c"), user("d")])
    summary, short = summary_message("s", "one"), user("C", id="m2")
    after = applied_to(messages, drop=["m1", "m3"], clip={"m2": short}, summary=summary)
    assert after == [messages[0], summary, short]
    assert applied_to(messages, drop=["m1"], clip={}, summary=None) == [messages[0], *messages[2:]]
    assert applied_to(messages, drop=[], clip={}, summary=summary) == messages
    assert applied_to(messages, drop=["gone"], clip={"gone": short}, summary=None) == messages
    assert applied_to(messages, drop=[], clip={"m2": short}, summary=summary) == [
        *messages[:2],
        summary,
        short,
        messages[3],
    ]


def test_the_gate_is_asked_with_the_choices_own_ceiling() -> None:
    """And with the size before."""
    messages = numbered(text_rounds(3))
    plain = call()
    after = [summary_message("s", "one"), *messages[2:]]
    size = plain.meter.request(messages)
    assert judge(plain, messages, messages[2:], ceiling=size, floor=1) is None
    found = judge(plain, messages, after, ceiling=size * 2, floor=1)
    assert found is not None
    assert found.verdict == "rejected_inflated"


def test_a_summary_has_space_up_to_the_ceiling() -> None:
    """The longest summary that has space fits under the ceiling with its message; one token more does not fit."""
    plain = call()
    space = 1_000 - 900 - frame(plain, NO_PARTS) - JOINTS
    assert plain.meter.counter.text(" one" * space) == space
    longest = NO_PARTS.message(" one" * space, ANY_ID)
    assert 900 + plain.meter.counter.message(longest) <= 1_000
    fits = [has_space(plain, " one" * size, tokens=900, ceiling=1_000, extra=NO_PARTS) for size in (space, space + 1)]
    assert fits == [True, False]


def test_a_summary_that_is_a_little_too_long_ends_with_a_whole_sentence() -> None:
    """A summary that would lose more than a quarter, or has no sentence to end at, stays whole."""
    plain, sentence = call(), "The user asked for the next number."
    body = " ".join([sentence] * 20)
    size = plain.meter.counter.text(body)

    def fitted(text: str, space: int) -> str:
        ceiling = 5_000 + frame(plain, NO_PARTS) + JOINTS + space
        return fitted_summary(plain, text, tokens=5_000, ceiling=ceiling, extra=NO_PARTS)

    assert fitted(body, size) == body
    assert fitted(body, size - 1) == " ".join([sentence] * 19)
    assert fitted(body, int(size * 0.85)) == " ".join([sentence] * 17)
    for space in (size // 2, 0, -1):
        assert fitted(body, space) == body
    words = "one " * 200
    assert fitted(words, 190) == words
    lines = "\n".join(f"- item {number} of the list" for number in range(20))
    assert fitted(lines, plain.meter.counter.text(lines) - 1) == lines.rpartition("\n")[0]
    kept = "The user asked for the number."
    # The kept sentence has 30 of 40 characters, and then 30 of 41 characters.
    for end, expected in (("One more.", kept), ("One more!!", f"{kept} One more!!")):
        assert fitted(f"{kept} {end}", plain.meter.counter.text(kept)) == expected


def test_where_nothing_leaves_the_summary_stands_before_the_call_of_a_shortened_result() -> None:
    """The summary is never between a call and its result."""
    messages = numbered([user("a"), asks("x"), result("x", "long"), user("b")])
    summary, short = summary_message("s", "one"), messages[2].model_copy(update={"content": "l"})
    after = applied_to(messages, drop=[], clip={"m2": short}, summary=summary)
    assert after == [messages[0], summary, messages[1], short, messages[3]]


@pytest.mark.parametrize(("left", "kept"), [(-1, ()), (0, ()), (1, ("Stop",))])
def test_pinned_texts_share_half_of_the_room_with_pinned_messages(left: int, kept: tuple[str, ...]) -> None:
    """A pinned text of one token is kept only if the pinned messages leave at least one token of this half."""
    messages = numbered([user(LONG * 3), user("<Pin>Stop</Pin> where you are.")])
    held = call().meter.counter.message(messages[0])
    pinning = replace(call(2 * (held + left)), pins=frozenset({"m0"}))
    assert pinning.pinned_texts(messages) == kept


def test_the_shortest_summary_is_that_of_the_last_level() -> None:
    """Its size is that of its message, of a text of twelve tokens, and of the sentence about a removed step.

    New system messages must leave room for this size.
    """
    for plain in (call(200), call(200, 1.5)):
        last = demand(plain, trigger="manual", before=300, last=True)
        assert shortest_summary(plain) == last.summary + last.step_notice
        around = SummaryParts(format_choice=FormatChoice("terse", "en", 1))
        assert last.summary - frame(plain, around) == plain.meter.scaled(12)


@pytest.mark.parametrize(("later", "shown"), [((), False), (("Good.",), True)])
def test_a_decision_in_a_turn_counts_only_once_the_user_went_on(later: Sequence[str], shown: bool) -> None:
    """The user message at the beginning of the turn stays in view, but confirms no decision of later steps."""
    chosen = "We keep the window seat for the second flight to Berlin."
    steps = (asks("a", text=chosen), result("a"), asks("b"), result("b"))
    view = numbered([user("Book it."), *steps, *map(user, later)])
    listed = ListedSentences(decisions=(chosen,))
    parts = summary_parts(call(preset="selective"), OWN, view, [1, 2], tokens=1_000, ceiling=6_000, listed=listed)
    assert (chosen in parts.facts.text) is shown


def test_a_kept_message_after_the_removed_ones_revises_a_removed_rule() -> None:
    """The facts beside the summary show the rule as its earlier form; a message before the rule revises nothing."""
    rule, later = user("Never email me about the order."), user("On reflection email is fine, forget that rule.")
    plain = call(preset="selective")

    def facts(*messages: AnyMessage) -> str:
        view = numbered(list(messages))
        drop = [index for index, message in enumerate(view) if message.text in (rule.text, "Noted.")]
        return summary_parts(plain, OWN, view, drop, tokens=1_000, ceiling=6_000).facts.text

    assert f"(was: {rule.text})" in facts(rule, AIMessage("Noted."), later)
    assert "(was: " not in facts(later, AIMessage("Well."), rule, AIMessage("Noted."))


def test_an_identifier_that_the_first_message_still_shows_comes_last_beside_the_summary() -> None:
    """With room for one fact, it is the one that is not in view, even if no user message is removed."""
    found = result("a", '{"reservation_id": "FQ8APE", "payment_id": "gift_7711235"}')
    view = numbered([user("It is about FQ8APE."), asks("a"), found, AIMessage("Well."), user("And now?")])
    parts = summary_parts(call(preset="selective"), OWN, view, [1, 2], tokens=1_000, ceiling=1_100)
    assert parts.facts.text == "Facts:\n- payment_id gift_7711235"
