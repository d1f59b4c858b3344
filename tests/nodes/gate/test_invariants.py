from collections.abc import Callable

import pytest
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.gate.invariants import Bounds, Finding, broken_invariant
from langgraph_compaction.nodes.selection.selector import Selector
from tests.fakes import summary_message
from tests.histories import asks, numbered, pinned, result, text_rounds, tool_blocks, user

METER = Meter(tiktoken_counter(), 0)
LONG = " one" * 400

SYSTEM, OLD, PIN, CALL, RESULT, EARLIER = 0, 1, 3, 5, 6, 8
"""Places in `BEFORE`; the floor of one round begins at `NEWEST`."""
BEFORE: list[AnyMessage] = numbered(
    [
        SystemMessage("rules"),
        user("old " + LONG),
        AIMessage("old answer"),
        pinned("pinned"),
        AIMessage("noted"),
        asks("a", "b"),
        result("a", "kept result"),
        result("b", "kept result"),
        summary_message("earlier", "zero"),
        asks("a"),
        user("interrupting"),
        AIMessage("answer"),
        user("newest"),
        result("nobody", "orphan"),
    ]
)
NEWEST = 12
SUMMARY = summary_message("what was said", "one")


def good() -> list[AnyMessage]:
    """Return a proposal that breaks nothing: the oldest round and the earlier summary became the new one."""
    return [BEFORE[SYSTEM], SUMMARY, *BEFORE[PIN:EARLIER], *BEFORE[EARLIER + 1 :]]


def judged(after: list[AnyMessage], *, ceiling: int = 10**6, before: int = 10**6, floor: int = 1) -> Finding | None:
    """Return the gate's finding on a proposal."""
    chooser = Selector(Transcript(BEFORE), CompactionSettings(), METER)
    return broken_invariant(chooser, after, Bounds(before=before, ceiling=ceiling), floor=floor)


def without(*places: int) -> list[AnyMessage]:
    """Return the good proposal without these messages of the conversation."""
    gone = {BEFORE[place].id for place in places}
    return [message for message in good() if message.id not in gone]


def changed(place: int, text: str = "changed") -> list[AnyMessage]:
    """Return the good proposal with another text in one message."""
    return [m.model_copy(update={"content": text}) if m.id == BEFORE[place].id else m for m in good()]


def swapped(first: int, second: int) -> list[AnyMessage]:
    """Return the good proposal with two messages of the conversation in each other's place."""
    found = good()
    one, two = found.index(BEFORE[first]), found.index(BEFORE[second])
    found[one], found[two] = found[two], found[one]
    return found


def with_call_id(place: int, call_id: str) -> list[AnyMessage]:
    """Return the good proposal with a result that answers another call."""
    return [m.model_copy(update={"tool_call_id": call_id}) if m.id == BEFORE[place].id else m for m in good()]


def test_a_good_proposal_passes() -> None:
    """Fewer tokens, under the ceiling, whole blocks, one summary, and all that is protected."""
    size = METER.request(good())
    assert judged(good()) is None
    assert judged(good(), ceiling=size, before=size + 1) is None


def test_a_clipped_block_passes() -> None:
    """Fields of tool blocks may change, as long as calls and results stay paired."""
    assert judged(changed(RESULT)) is None


def test_a_block_may_leave_whole() -> None:
    """With all its results; and an interrupted call, once a full answer follows it."""
    assert judged(without(CALL, CALL + 1, CALL + 2)) is None
    assert judged(without(9)) is None


def test_a_defect_of_the_input_may_stay_or_leave() -> None:
    """The result of no call stood there before."""
    assert judged(without(13)) is None


def test_the_last_rung_has_no_floor() -> None:
    """What was said in the newest round may leave, its unanswered question may not."""
    chat = numbered([*text_rounds(3), user("newest")])
    chooser = Selector(Transcript(chat), CompactionSettings(), METER)
    bounds = Bounds(before=10**6, ceiling=10**6)
    assert broken_invariant(chooser, [SUMMARY, chat[-1]], bounds, floor=0) is None
    assert broken_invariant(chooser, [SUMMARY, chat[-1]], bounds, floor=1) is None
    broken = broken_invariant(chooser, [SUMMARY, chat[-1]], bounds, floor=2)
    assert broken == Finding("rejected_pairing", "round_floor_broken", "m4")


BREACHES: dict[str, tuple[Callable[[], list[AnyMessage]], str, str, str]] = {
    "order": (lambda: swapped(PIN, PIN + 1), "rejected_pairing", "order_changed", ""),
    "a message twice": (lambda: [*good(), BEFORE[-1]], "rejected_pairing", "order_changed", ""),
    "a result without its call": (lambda: without(CALL), "rejected_pairing", "tool_block_broken", ""),
    "a call without its result": (lambda: without(RESULT), "rejected_pairing", "tool_block_broken", ""),
    "a defect for a defect": (lambda: without(RESULT, 9), "rejected_pairing", "tool_block_broken", ""),
    "an orphan for an orphan": (lambda: without(CALL, RESULT, 13), "rejected_pairing", "tool_block_broken", ""),
    "another call's result": (lambda: with_call_id(RESULT, "b"), "rejected_pairing", "tool_block_broken", ""),
    "a foreign message": (
        lambda: [*good(), AIMessage("made up", id="new")],
        "rejected_pairing",
        "foreign_message",
        "2 new messages, 1 summaries",
    ),
    "two summaries": (
        lambda: [SUMMARY, *BEFORE[SYSTEM:OLD], *BEFORE[PIN:]],
        "rejected_pairing",
        "foreign_message",
        "1 new messages, 2 summaries",
    ),
    "the earlier summary lost": (
        lambda: [m for m in good() if m is not SUMMARY],
        "rejected_pairing",
        "summary_lost",
        "",
    ),
    "a system message gone": (lambda: without(SYSTEM), "rejected_pairing", "system_message_changed", "m0"),
    "a system message changed": (lambda: changed(SYSTEM), "rejected_pairing", "system_message_changed", "m0"),
    "the question gone": (lambda: without(NEWEST), "rejected_pairing", "unanswered_user_message_changed", "m12"),
    "the question changed": (lambda: changed(NEWEST), "rejected_pairing", "unanswered_user_message_changed", "m12"),
    "a pin gone": (lambda: without(PIN), "rejected_pin_lost", "pin_changed", "m3"),
    "a pin changed": (lambda: changed(PIN), "rejected_pin_lost", "pin_changed", "m3"),
    "another message changed": (lambda: changed(PIN + 1), "rejected_pairing", "message_changed", "m4"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_broken_invariant_is_found(breach: str) -> None:
    """The proposal breaks exactly one, and the finding names it."""
    propose, verdict, reason, detail = BREACHES[breach]
    assert judged(propose()) == Finding(verdict, reason, detail)


def test_the_floor_is_verbatim() -> None:
    """Its rounds may neither lose nor change what was said."""
    for after in (without(11), changed(11), without(10)):
        found = judged(after, floor=2)
        assert found is not None
        assert (found.verdict, found.reason) == ("rejected_pairing", "round_floor_broken")
    assert judged(without(10, 11), floor=1) is None


@pytest.mark.parametrize("more", [0, -1, -100])
def test_what_is_not_smaller_is_inflated(more: int) -> None:
    """The same size is no gain."""
    size = METER.request(good())
    found = judged(good(), before=size + more)
    assert found == Finding("rejected_inflated", "not_smaller", f"{size} tokens in place of {size + more}")


def test_what_is_over_the_ceiling_is_insufficient() -> None:
    """By one token."""
    size = METER.request(good())
    found = judged(good(), ceiling=size - 1)
    assert found == Finding("rejected_insufficient", "over_ceiling", f"{size} tokens, at most {size - 1}")


def test_sizes_are_those_of_the_rendered_request() -> None:
    """Overhead and scale of the meter count on both sides."""
    chooser = Selector(Transcript(BEFORE), CompactionSettings(), Meter(METER.counter, 1_000, 2.0))
    size = 2 * (1_000 + METER.request(good()))
    assert broken_invariant(chooser, good(), Bounds(before=size + 1, ceiling=size), floor=1) is None
    assert broken_invariant(chooser, good(), Bounds(before=size + 1, ceiling=size - 1), floor=1) is not None


def test_a_user_message_is_left() -> None:
    """Where there was one; a summary counts as one."""
    chat = numbered([user("u"), AIMessage("a"), *tool_blocks(1), AIMessage("b")])
    chooser = Selector(Transcript(chat), CompactionSettings(), METER)
    bounds = Bounds(before=10**6, ceiling=10**6)
    assert broken_invariant(chooser, chat[1:], bounds, floor=0) == Finding("rejected_pairing", "no_user_message")
    assert broken_invariant(chooser, [SUMMARY, *chat[1:]], bounds, floor=0) is None
    monologue = Selector(Transcript(chat[1:]), CompactionSettings(), METER)
    assert broken_invariant(monologue, chat[-1:], bounds, floor=0) is None


def test_a_pinned_summary_stands_beside_a_new_one() -> None:
    """A pin is verbatim, whatever it pins."""
    chooser = Selector(Transcript(BEFORE), CompactionSettings(), METER, frozenset({"m8"}))
    after = [BEFORE[SYSTEM], SUMMARY, *BEFORE[PIN:]]
    assert broken_invariant(chooser, after, Bounds(before=10**6, ceiling=10**6), floor=1) is None


def test_a_conversation_that_has_two_summaries_may_keep_them() -> None:
    """Lists that were joined hold two; clipping alone adds none."""
    other = Selector(Transcript(numbered([*BEFORE, SUMMARY])), CompactionSettings(), METER)
    messages = list(other.view.messages)
    messages[RESULT] = messages[RESULT].model_copy(update={"content": "k"})
    assert broken_invariant(other, messages, Bounds(before=10**6, ceiling=10**6), floor=1) is None


def test_an_unanswered_input_may_leave_where_the_settings_allow_it() -> None:
    """Once the model has read it; what stays of it stays unchanged."""
    chat = numbered([user("question"), *tool_blocks(2)])
    bounds = Bounds(before=10**6, ceiling=10**6)
    lost = Finding("rejected_pairing", "unanswered_user_message_changed", "m0")
    for setting, fresh, told in (("keep", 0, lost), ("summarize", 0, None), ("summarize", 4, lost)):
        history = [*chat[1 : 1 + fresh], chat[0], *chat[1 + fresh :]]
        chooser = Selector(Transcript(history), CompactionSettings(long_input=setting), METER)
        assert broken_invariant(chooser, [SUMMARY, *chat[1:]], bounds, floor=0) == told
    chooser = Selector(Transcript(chat), CompactionSettings(long_input="summarize"), METER)
    assert broken_invariant(chooser, [user("other", id="m0"), *chat[1:]], bounds, floor=0) == lost


@pytest.mark.parametrize(
    ("pins", "reason"),
    [
        (["was said"], None),
        (["was said", "never push"], ("rejected_pin_lost", "pinned_text_lost", "never push")),
    ],
)
def test_pins_must_be_sent(pins: list[str], reason: tuple[str, str, str] | None) -> None:
    """The request contains each pin word for word."""
    summary = SUMMARY.model_copy(update={"content": "what was said"})
    after = [summary if message is SUMMARY else message for message in good()]
    chooser = Selector(Transcript(BEFORE), CompactionSettings(), METER)
    bounds = Bounds(before=10**6, ceiling=10**6)
    found = broken_invariant(chooser, after, bounds, floor=1, pins=pins)
    assert found == (None if reason is None else Finding(*reason))
