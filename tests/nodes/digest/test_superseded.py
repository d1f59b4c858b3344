"""A value that a later message replaced is marked, and not kept as true."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import Digest, digest
from langgraph_compaction.nodes.digest.facts import SUPERSEDED
from tests.histories import asks, result

COUNTER = tiktoken_counter()


def read(call_id: str, booking: str, /, **fields: Any) -> list[AnyMessage]:
    """A lookup of a booking that answers with its id and these fields."""
    return [asks(call_id, booking_id=booking), result(call_id, json.dumps({"booking_id": booking, **fields}))]


def digested(*messages: AnyMessage, beside: tuple[AnyMessage, ...] = (), previous: Digest | None = None) -> Digest:
    """A digest with room for everything."""
    earlier = previous.record if previous else None
    return digest(messages, budget=400, counter=COUNTER, beside=beside, previous=earlier)


def test_what_was_read_again_with_another_value_is_marked() -> None:
    """The old value stands marked, the new one and what is the same do not."""
    first = read("a", "AB12CD", cabin="economy", flights=[{"flight_number": "HAT1", "date": "2024-05-01"}])
    then = read("b", "AB12CD", cabin="business", flights=[{"flight_number": "HAT9", "date": "2024-05-01"}])
    text = digested(HumanMessage("Upgrade it."), *first, *then).text
    assert f"cabin economy{SUPERSEDED}" in text
    assert f"flight_number HAT1{SUPERSEDED}" in text
    assert f"cabin business{SUPERSEDED}" not in text
    assert f"2024-05-01{SUPERSEDED}" not in text
    assert f"AB12CD{SUPERSEDED}" not in text


def test_an_earlier_digest_is_corrected_too() -> None:
    """By what leaves now, and once more by what comes later; a mark never stands twice."""
    earlier = digested(HumanMessage("Upgrade it."), *read("a", "AB12CD", cabin="economy"))
    second = digested(*read("b", "AB12CD", cabin="business"), previous=earlier)
    third = digested(*read("c", "AB12CD", cabin="first"), previous=second)
    assert f"cabin economy{SUPERSEDED}" in second.text
    assert f"cabin business{SUPERSEDED}" not in second.text
    assert f"cabin business{SUPERSEDED}" in third.text
    assert SUPERSEDED * 2 not in third.text


def test_what_stays_in_view_corrects_what_left() -> None:
    """The newest reading may still stand beside the digest."""
    text = digested(*read("a", "AB12CD", cabin="economy"), beside=tuple(read("b", "AB12CD", cabin="business"))).text
    assert f"cabin economy{SUPERSEDED}" in text


@pytest.mark.parametrize(
    "later",
    [
        read("b", "XY34ZK", cabin="business"),
        [asks("b", booking_id="AB12CD"), result("b", json.dumps([{"cabin": "business"}]))],
        [asks("b", day="2024-05-02"), result("b", json.dumps({"booking_id": "AB12CD", "cabin": "business"}))],
        [AIMessage("AB12CD is in business now.")],
    ],
    ids=["another thing", "a list without its id", "a search that met it", "prose"],
)
def test_what_may_be_about_something_else_replaces_nothing(later: list[AnyMessage]) -> None:
    """Only a result that names the very thing its call asked for."""
    assert SUPERSEDED not in digested(*read("a", "AB12CD", cabin="economy"), *later).text


def test_a_list_in_another_order_replaces_nothing() -> None:
    """Its elements have no keys by which two readings could be compared."""
    first = read("a", "AB12CD", seats=["SEAT-12A", "SEAT-14C"])
    then = read("b", "AB12CD", seats=["SEAT-14C", "SEAT-12A"])
    assert SUPERSEDED not in digested(*first, *then).text
