"""How a person's answer to the question before a compaction is understood."""

from typing import Any

import pytest

from langgraph_compaction.nodes.confirm import WAYS, chosen, understood
from langgraph_compaction.nodes.state import FOCUS_CHARACTERS


@pytest.mark.parametrize(
    ("answer", "accepted", "focus"),
    [
        (True, True, None),
        (False, False, None),
        (None, False, None),
        (1, False, None),
        ("approve", True, None),
        ("reject", False, None),
        ("yes", False, None),
        ("perhaps", False, None),
        ({}, False, None),
        ({"accept": True}, True, None),
        ({"accept": "no"}, False, None),
        ({"accept": "approve", "focus": "the price"}, True, "the price"),
        ({"focus": "the price"}, True, "the price"),
        ({"accept": False, "focus": "the price"}, False, "the price"),
        ({"focus": None}, False, None),
        ({"accept": "perhaps"}, False, None),
    ],
)
def test_only_a_clear_answer_accepts(answer: Any, accepted: bool, focus: str | None) -> None:
    """A word of acceptance, the key `accept` of a mapping, or a focus alone accepts."""
    assert understood(answer) == (accepted, focus)


def test_a_long_focus_is_cut() -> None:
    """The state stores the beginning of a long focus."""
    accepted, focus = understood({"focus": "x" * 2_000})
    assert accepted
    assert focus is not None
    assert len(focus) <= FOCUS_CHARACTERS


@pytest.mark.parametrize(
    ("answer", "way", "focus"),
    [
        (True, "compact", None),
        ("Approve", "compact", None),
        ({"focus": "the price"}, "compact", "the price"),
        (" Drop_Oldest ", "drop_oldest", None),
        ("new_thread", "new_thread", None),
        ("raise", "raise", None),
        ({"accept": False, "focus": "the price"}, "raise", None),
        (False, "raise", None),
        ("what?", "raise", None),
    ],
)
def test_over_the_limit_an_answer_that_is_not_offered_raises(answer: Any, way: str, focus: str | None) -> None:
    """Acceptance compacts, the name of a way takes it, and only an acceptance has a focus."""
    assert chosen(answer, WAYS) == (way, focus)
    offered = tuple(one for one in WAYS if one != way)
    assert chosen(answer, offered)[0] == "raise"
