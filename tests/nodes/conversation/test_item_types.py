import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.config.policies import PRIORITIES
from langgraph_compaction.nodes.conversation.item_types import is_skill, item_type, unread, without_pin_mark
from langgraph_compaction.nodes.conversation.transcript import Transcript
from tests.histories import asks, meta, result, user


def kind(name: object, text: str = "text") -> HumanMessage:
    """A user-role message that says what it is."""
    return HumanMessage(text, additional_kwargs={"compaction": {"kind": name}})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user("u"), "user_message"),
        (meta("m"), "user_message"),
        (AIMessage("a"), "assistant_message"),
        (asks("c", text="looking"), "tool_call"),
        (result("c"), "tool_result"),
        (SystemMessage("s"), "system_prompt"),
        (kind("skill_prompt"), "skill_prompt"),
        (kind("my own"), "my own"),
        (kind(7), "user_message"),
        (SystemMessage("s", additional_kwargs={"compaction": {"kind": "skill_metadata"}}), "skill_metadata"),
        (
            asks("c").model_copy(update={"additional_kwargs": {"compaction": {"kind": "skill_prompt"}}}),
            "tool_call",
        ),
    ],
)
def test_a_message_is_what_it_says_or_what_its_role_tells(message: AnyMessage, expected: str) -> None:
    """Calls are calls whatever they say: they go with their results."""
    assert item_type(message) == expected
    assert is_skill(message) == (expected in ("skill_prompt", "skill_metadata"))


def test_the_priorities_are_the_originals() -> None:
    """Results leave first, then skills' prompts, answers, skills' descriptions, user messages."""
    assert list(PRIORITIES.items())[:5] == [
        ("tool_result", 10),
        ("skill_prompt", 20),
        ("assistant_message", 30),
        ("skill_metadata", 40),
        ("user_message", 50),
    ]
    assert list(PRIORITIES.values()) == sorted(PRIORITIES.values())
    assert (PRIORITIES["compaction_summary"], PRIORITIES["subagent_strategy"]) == (80, 95)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], set[int]()),
        ([user("u")], {0}),
        ([user("u"), AIMessage("a")], set[int]()),
        ([user("u"), asks("a"), result("a"), meta("m")], {2, 3}),
    ],
)
def test_what_stands_behind_the_last_assistant_message_is_unread(
    messages: list[AnyMessage], expected: set[int]
) -> None:
    """Calls count: whoever called has read all that stood before."""
    assert unread(Transcript(messages)) == expected


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"pinned": True}, {}),
        ({"kind": "subagent_strategy"}, {}),
        ({"pinned": True, "kind": "system_prompt", "is_meta": True}, {"is_meta": True}),
        ({"pinned": True, "kind": "skill_prompt"}, {"kind": "skill_prompt"}),
        ({}, {}),
    ],
)
def test_a_released_message_keeps_its_other_marks(given: dict[str, object], left: dict[str, object]) -> None:
    """The pin and a `kind` of the header are removed; what the application stored in the message stays."""
    message = HumanMessage("u", additional_kwargs={"x": 1, **({"compaction": given} if given else {})})
    expected = {"x": 1, **({"compaction": left} if left else {})}
    assert without_pin_mark(message).additional_kwargs == expected
