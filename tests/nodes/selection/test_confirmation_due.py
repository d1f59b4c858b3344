import pytest

from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes
from langgraph_compaction.nodes.selection.confirmation_due import TriggerHistory, decide

SIZES = Sizes(window=1_000, reserve=100, fixed=0, trigger=800, aim=450)


@pytest.mark.parametrize(("size", "decision"), [(800, "deferred"), (900, "deferred"), (901, "compact")])
def test_a_cooldown_defers_up_to_the_limit(size: int, decision: str) -> None:
    """At the limit itself a request still fits; over it nothing is deferred."""
    assert decide(size, SIZES, TriggerHistory(suspension_reason="failures")) == decision


@pytest.mark.parametrize(
    ("size", "decision"), [(800, "confirm"), (900, "confirm"), (901, "choose"), (9_999, "choose")]
)
def test_a_person_is_asked_whether_up_to_the_limit_and_how_over_it(size: int, decision: str) -> None:
    """Also where the conversation jumped over the limit at once, and whatever holds compactions off."""
    assert decide(size, SIZES, TriggerHistory(asks_first=True)) == decision
    if size > SIZES.limit:
        assert (
            decide(size, SIZES, TriggerHistory(asks_first=True, suspension_reason="failures", undone=True))
            == decision
        )


@pytest.mark.parametrize(("declined_at", "decision"), [(None, "confirm"), (800, "declined")])
def test_after_the_answer_a_person_is_asked_whether_also_over_the_limit(
    declined_at: int | None, decision: str
) -> None:
    """Nothing is about to be sent: after a no the choice waits for the next input."""
    standing = TriggerHistory(asks_first=True, declined_at=declined_at)
    assert decide(901, SIZES, standing, answered=True) == decision


def test_over_the_limit_who_is_not_to_be_asked_is_compacted_at_once() -> None:
    """Before the call and after the answer; the breaker, an undo and an earlier no do not prevent the compaction."""
    standing = TriggerHistory(suspension_reason="failures", undone=True, declined_at=800)
    assert [decide(901, SIZES, standing, answered=answered) for answered in (False, True)] == ["compact"] * 2


@pytest.mark.parametrize(("size", "decision"), [(800, "declined"), (849, "declined"), (850, "confirm")])
def test_a_declined_question_is_asked_again_after_growth(size: int, decision: str) -> None:
    """Five percent of the window, counted from where it was declined."""
    assert decide(size, SIZES, TriggerHistory(asks_first=True, declined_at=800)) == decision


@pytest.mark.parametrize(
    ("size", "answered", "decision"),
    [(900, False, "confirm"), (901, False, "choose"), (901, True, "declined"), (2_000, False, "choose")],
)
def test_after_a_no_the_question_comes_once_more_over_the_limit(size: int, decision: str, *, answered: bool) -> None:
    """At the limit exactly, the usual question is asked; over it, the choice, but only before the call."""
    standing = TriggerHistory(asks_first=True, declined_at=800, suspension_reason="failures")
    suspension_reason = TriggerHistory(asks_first=True, declined_at=800)
    assert decide(size, SIZES, standing if size > 900 else suspension_reason, answered=answered) == decision


def test_an_earlier_no_binds_only_while_people_are_asked() -> None:
    """With `require_confirmation` off again it means nothing."""
    assert decide(800, SIZES, TriggerHistory(declined_at=800)) == "compact"


def test_a_cooldown_comes_before_the_question() -> None:
    """While the breaker suspends compactions, a person is not asked to confirm one."""
    assert decide(800, SIZES, TriggerHistory(asks_first=True, suspension_reason="frequency")) == "deferred"
