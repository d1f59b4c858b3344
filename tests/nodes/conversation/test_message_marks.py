"""The marks of messages: which are of applications, which only a compaction writes, and what a summary carries on."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.conversation.message_marks import (
    earlier_summary,
    first_inputs,
    is_pinned,
    is_summary,
    marked_by_us,
    refusal,
    with_our_marks,
    without_our_marks,
)
from langgraph_compaction.nodes.digest.digest import Facts
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.histories import meta, pinned, user

RECORD = {"v": 1, "entries": []}


def marked(text: str = "text", **mark: Any) -> HumanMessage:
    """Return a user message with this mark."""
    return HumanMessage(text, additional_kwargs={"compaction": mark})


def test_the_first_input_is_what_people_say_before_the_first_answer() -> None:
    """Without system messages, meta messages, summaries and refused messages."""
    first, second = user("first"), user("second")
    before = [SystemMessage("s"), first, meta("m"), summary_message("s", "c"), marked(refused=True), second]
    assert first_inputs([*before, AIMessage("answer"), user("third")]) == [first, second]
    assert first_inputs([AIMessage("hello"), first]) == []


def test_a_message_is_pinned_by_its_mark_or_its_id() -> None:
    """One of the two is enough."""
    assert is_pinned(pinned("u"))
    assert is_pinned(user("u", id="m1"), {"m1"})
    assert not is_pinned(user("u", id="m1"), {"m2"})
    assert not is_pinned(marked(pinned=False))


def test_the_newest_refusal_is_told() -> None:
    """Of several refused messages, the line of the last one is returned; without one, an empty text."""
    said = [marked("too long", refused=True), user("u"), marked("again too long", refused=True), AIMessage("a")]
    assert refusal(said) == "again too long"
    assert refusal([user("u")]) == ""


@pytest.mark.parametrize(
    ("message", "ours"),
    [
        (user("u"), False),
        (pinned("u"), False),
        (meta("m"), False),
        (marked(kind="skill_prompt"), False),
        (marked(clipped=True, handle="ab"), True),
        (marked(refused=True), True),
        (marked(kind="compaction_summary"), True),
        (summary_message("s", "c"), True),
        (HumanMessage("s", additional_kwargs={"lc_source": "summarization"}), False),
    ],
)
def test_marks_that_only_a_compaction_writes_are_told_from_an_applications(
    message: HumanMessage, *, ours: bool
) -> None:
    """After the package's own marks are removed, the message counts as an ordinary message."""
    assert with_our_marks([message]) == ([message] if ours else [])
    assert len(marked_by_us([message])) == ours
    bare = without_our_marks(message)
    assert (bare.text, with_our_marks([bare]), is_summary(bare)) == (message.text, [], False)


def test_an_applications_marks_stay_beside_ours() -> None:
    """The application's other fields stay, too; a mark that is empty is removed."""
    theirs = {"x": 1, "lc_source": "s", "lc_data": {"y": 2}}
    mark = {"pinned": True, "kind": "a"}
    both = HumanMessage("u", additional_kwargs={**theirs, "compaction": {**mark, "handle": "ab"}})
    assert without_our_marks(both).additional_kwargs == {**theirs, "compaction": mark}
    assert without_our_marks(marked(handle="ab")).additional_kwargs == {}


def test_a_summary_is_read_without_what_stands_around_it() -> None:
    """The record and the facts are returned with the text of the summary."""
    facts = Facts(text="Facts:\n- KX-1", record=RECORD, needed=())
    digest, model = summary_message("one", "c", RECORD), summary_message("two", "c", pins=["p"], facts=facts)
    assert (earlier_summary([user("u"), digest]).body, earlier_summary([digest]).record) == ("one", RECORD)
    found = earlier_summary([model, AIMessage("a")])
    assert (found.body, found.record, found.facts) == ("two", None, RECORD)
    after = f"a line in front\n{digest.text}"
    mark = {**digest.additional_kwargs["compaction"], "front": len("a line in front\n")}
    moved = digest.model_copy(update={"content": after, "additional_kwargs": {"compaction": mark}})
    assert earlier_summary([moved]).body == "one"


def test_several_summaries_are_joined_without_their_records() -> None:
    """A record describes one summary only."""
    found = earlier_summary([summary_message("one", "c", RECORD), summary_message("two", "d", RECORD)])
    assert (found.body, found.record, found.facts) == ("one\n\ntwo", None, None)
    assert earlier_summary([user("u")]).body == ""
