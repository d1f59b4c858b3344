"""What was said since a summary was prepared: what it must name, and what contradicts it."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import facts_of
from langgraph_compaction.nodes.digest.examination import MOST_USED, contradiction, used_since
from tests.histories import asks, result


def read(call_id: str, order: str = "#W1001", /, **fields: Any) -> list[AnyMessage]:
    """A lookup of an order that answers with its id and these fields."""
    return [asks(call_id, order_id=order), result(call_id, json.dumps({"order_id": order, **fields}))]


@pytest.mark.parametrize(
    ("body", "before", "after"),
    [
        ("The user Mei placed order #W1001 on 2024-05-15; 1 attempt.", {"attempts": 1}, {"attempts": 2}),
        ("Order #W1001 comes at 12 sharp.", {"attempts": 12}, {"attempts": 13}),
        ("Order #W1001 costs 1450 dollars.", {"total": 450}, {"total": 460}),
        ("The order was depending on customs.", {"status": "pending"}, {"status": "shipped"}),
        ("Two questions are pending.", {"status": "pending"}, {"status": "shipped"}),
        ("Order #W1001 is shipped.", {"status": "pending"}, {"status": "shipped"}),
        ("Order #W1001 is pending.", {"status": "pending"}, {"status": "pending"}),
        ("Some days are pending.", {"etaDays": "pending"}, {"etaDays": "shipped"}),
    ],
    ids=[
        "digit_in_a_date",
        "two_digits",
        "part_of_a_number",
        "part_of_a_word",
        "of_something_else",
        "new_value",
        "unchanged",
        "part_of_a_key",
    ],
)
def test_a_value_that_the_summary_does_not_state_contradicts_nothing(
    body: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Neither a part of another word or number, nor a value too short to be found, nor one of something else."""
    assert contradiction(body, read("a", **before), read("b", **after)) is None


@pytest.mark.parametrize(
    "body",
    [
        "Order #W1001 is Pending.",
        "Facts: the order's status is pending, as of today.",
        "- eta: Friday\n- status: pending",
        "订单 #W1001 现在是pending。",
    ],
)
def test_a_value_that_was_read_again_contradicts_the_summary(body: str) -> None:
    """The sentence names the object, or the field where only one object has it."""
    found = contradiction(body, read("a", status="pending"), read("b", status="shipped"))
    assert found == "status pending"


def test_a_field_of_another_object_is_not_contradicted() -> None:
    """Where several objects have a field, a sentence must name the one that changed."""
    old = [*read("a", status="pending"), *read("b", "#W2002", status="pending")]
    since = read("c", status="shipped")
    assert contradiction("The status of order #W2002 is pending.", old, since) is None
    assert contradiction("The status of order #W1001 is pending.", old, since) == "status pending"


def test_a_change_before_the_preparation_is_none() -> None:
    """The summarizer has seen it."""
    old = [*read("a", status="pending"), *read("b", status="shipped")]
    assert contradiction("Order #W1001 was pending.", old, read("c", status="shipped")) is None


OLD: list[AnyMessage] = [
    HumanMessage("Never schedule a delivery on Fridays. I have items KX-1 and KX-12."),
    *read("a", "#W1001", ship="Ocean Queen", captain="Li", state="open"),
    AIMessage("Noted."),
]


@pytest.mark.parametrize(
    ("said", "body", "found"),
    [
        ("What about KX-1?", "It holds item KX-12.", ["KX-1"]),
        ("What about KX-1?", "It holds KX-12, KX-1.", []),
        ("Is she on the ocean queen?", "A ship.", ["Ocean Queen"]),
        ("Is she on the Ocean Queen?", "The ship is the Ocean Queen.", []),
        ("Is it for Li?", "A ship.", []),
        ("Schedule the next delivery for me.", "A ship.", ["Never schedule a delivery on Fridays."]),
        ("Schedule the next delivery.", "Never schedule deliveries on a Friday.", []),
        ("Thanks.", "A ship.", []),
    ],
)
def test_what_is_used_and_not_in_the_summary(said: str, body: str, found: list[str]) -> None:
    """Identifiers and values as wholes, and rules whose words are used."""
    assert used_since(body, OLD, [HumanMessage(said)]) == found


NAMED = [f"x{first}{second}q" for first in "abcdefghij" for second in "klmno"]
LONG = f"Never {' '.join(NAMED)}."


@pytest.mark.parametrize(
    ("rule", "said", "body", "is_found"),
    [
        (LONG, " ".join(NAMED[:17]), "A ship.", True),
        (LONG, " ".join(NAMED[:16]), "A ship.", False),
        ("Never mix amber, cobalt and ivory paint.", "Amber, cobalt?", "Mixed amber.", True),
        ("Never mix amber, cobalt and ivory paint.", "Amber, cobalt?", "Mix amber, cobalt.", False),
    ],
)
def test_a_rule_counts_as_used_at_a_third_of_its_words_and_as_stated_at_three_fifths(
    rule: str, said: str, body: str, *, is_found: bool
) -> None:
    """These are 17 of 50 words, and three of five."""
    assert used_since(body, [HumanMessage(rule)], [HumanMessage(said)]) == [rule] * is_found


def test_what_a_call_is_given_is_used_and_a_result_is_not() -> None:
    """A result only brings values; the arguments of a call show what the assistant relies on."""
    assert used_since("A ship.", OLD, [asks("b", item="KX-12")]) == ["KX-12"]
    assert used_since("A ship.", OLD, [result("b", "KX-12")]) == []


def test_only_the_last_ones_are_returned() -> None:
    """The list is stored in the draft."""
    codes = [HumanMessage(" ".join(f"KX-{n}" for n in range(2 * MOST_USED)))]
    assert used_since("", codes, codes)[::MOST_USED] == [f"KX-{MOST_USED}"]


def test_what_is_used_comes_first_into_the_facts() -> None:
    """As a whole: of two ids of which one begins like the other, the one that was used; also a rule that is cut."""
    rule = f"Please mention the harbor {'of the big old town ' * 12}first."
    old = [HumanMessage(rule), HumanMessage("KX-2 came."), *(HumanMessage(f"KX-2{n} came.") for n in range(9))]
    for used, shown in (("KX-2", "KX-2 came"), (rule, "Please mention the harbor")):
        assert shown in facts_of(old, None, budget=16, counter=tiktoken_counter(), used=[used]).text


@pytest.mark.parametrize(
    ("body", "said", "found"),
    [
        ("It is sunny.\n- Never email me.", "Email is fine after all, forget that.", "Never email me."),
        ("- Never email me.", "You no longer need to avoid email, email me.", "Never email me."),
        ("- Never email me.", "The parcel has come.", None),
        ("- Never email me.", "Is email fine?", None),
        ("- Never email me about parcels.", "Parcels by email are stuck today.", None),
        ("It is sunny.", "Email is fine after all, forget that.", None),
    ],
)
def test_a_rule_that_the_user_takes_back_contradicts_the_summary(body: str, said: str, found: str | None) -> None:
    """The finding quotes the rule. A mention of its subject, or the assistant's words, revoke no rule."""
    assert contradiction(body, [], [HumanMessage(said)]) == found
    assert contradiction(body, [], [AIMessage(said)]) is None


@pytest.mark.parametrize("key", ["etaDays", "is_eta_in_days", "order.eta-days"])
def test_a_sentence_names_a_field_by_the_words_of_its_key(key: str) -> None:
    """The words of the key may be joined in any way, and words of one or two letters are ignored."""
    found = contradiction("The ETA in days is pending.", read("a", **{key: "pending"}), read("b", **{key: "shipped"}))
    assert found == f"{key} pending"


@pytest.mark.parametrize(("name", "found"), [("Li", False), ("Ann", True), ("李明", True), ("李", False)])
def test_a_name_is_found_again_if_it_is_long_enough(name: str, *, found: bool) -> None:
    """Shorter names occur by chance in other texts."""
    assert used_since("A ship.", read("a", captain=name), [HumanMessage(f"Ask {name} now.")]) == [name] * found
