"""What the archive is searched for before a request: the newest messages, and what they refer to."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.nodes.runtime.archive_quotation import found_for, query_for
from tests.histories import meta, user

TALK: list[AnyMessage] = [
    user("first question"),
    AIMessage("first answer"),
    user("second question"),
    AIMessage("", tool_calls=[{"name": "read", "args": {"invoice": "INV-77"}, "id": "c"}]),
    ToolMessage("paid by BU-33", tool_call_id="c"),
    AIMessage("second answer"),
    user("third question"),
    AIMessage("third answer"),
]


@pytest.mark.requirement("S2.51")
def test_what_the_newest_messages_refer_to_is_searched_too() -> None:
    """The query also has the last answer, two earlier user messages, and the identifiers in arguments of calls."""
    query = query_for([*TALK, user("and now?"), meta("a note"), user("quickly")])
    assert query.splitlines() == [
        "and now?",
        "quickly",
        "third answer",
        "third question",
        "second question",
        "INV-77",
    ]
    assert query_for([user("hello")]) == "hello"


@pytest.mark.requirement("S2.51")
def test_without_a_new_message_of_a_user_nothing_is_searched() -> None:
    """After an answer, a tool result or a meta message, the query is empty."""
    for newest in (TALK[:6], TALK[:5], [*TALK, meta("a note")], []):
        assert query_for(newest) == ""


@pytest.mark.requirement("S2.51")
def test_of_a_long_message_both_ends_are_searched() -> None:
    """The query has at most 4,000 characters of the newest message, and 2,000 of each earlier one."""
    whole = "a" * 2_000 + "b" * 2_000
    assert query_for([user(whole)]) == whole
    assert query_for([user("a" * 2_000 + "xyz" + "b" * 2_000)]) == f"{'a' * 2_000}\n{'b' * 2_000}"
    before: list[AnyMessage] = [user("c" * 3_000), AIMessage("d" * 3_000)]
    assert query_for([*before, user("now")]).splitlines() == ["now", "d" * 2_000, "c" * 2_000]


@dataclass(frozen=True)
class Searched:
    """Records whose search finds `direct` for what a message asks, and `found` for this and what it refers to."""

    direct: list[SearchHit]
    found: list[SearchHit]

    def search(self, _thread: str, _query: str, *, follow: bool = False, **_options: Any) -> list[SearchHit]:
        """Return the hits that were given."""
        return self.found if follow else self.direct


def hit(text: str, score: float) -> SearchHit:
    """Return a hit whose text is its handle too."""
    message = HumanMessage(text, id=text)
    return SearchHit(message=message, handle=text, compaction_id="c1", archived_at=0.0, score=score)


@pytest.mark.requirement("S2.51")
@pytest.mark.parametrize(("best", "score"), [(20.0, 20.0), (12.0, 12.0), (4.0, 12.0)])
def test_what_a_message_asks_for_comes_before_what_it_refers_to(best: float, score: float) -> None:
    """The hits for the question itself come first, at least with their own score and with the best score of all."""
    asked = hit("crate C-102", 12.0)
    other = hit("captain K-6", best)
    records = cast("CompactionRecords", Searched([asked], [other, replace(asked, score=1.0)]))
    match = found_for(records, "t", [user("Who owns crate C-102 of INV-77 today?")])
    assert match.is_asked
    assert [(one.handle, one.score) for one in match.hits] == [("crate C-102", score), ("captain K-6", best)]
