"""What the archive is searched for before a request: the newest messages, and what they refer to."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.runtime import Runtime

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.runtime.archive_quotation import found_for, query_for, quoted_archive
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import run
from langgraph_compaction.nodes.runtime.node_context import NodeContext
from tests.graph.harness import WORDS
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


def test_without_a_new_message_of_a_user_nothing_is_searched() -> None:
    """After an answer, a tool result or a meta message, the query is empty."""
    for newest in (TALK[:6], TALK[:5], [*TALK, meta("a note")], []):
        assert query_for(newest) == ""


def test_of_a_long_message_both_ends_are_searched() -> None:
    """The query has at most 4,000 characters of the newest message, and 2,000 of each earlier one."""
    whole = "a" * 2_000 + "b" * 2_000
    assert query_for([user(whole)]) == whole
    assert query_for([user("a" * 2_000 + "xyz" + "b" * 2_000)]) == f"{'a' * 2_000}\n{'b' * 2_000}"
    before: list[AnyMessage] = [user("c" * 3_000), AIMessage("d" * 3_000)]
    assert query_for([*before, user("now")]).splitlines() == ["now", "d" * 2_000, "c" * 2_000]


@dataclass(frozen=True)
class Searched:
    """These records return `direct` for the text of a message alone.

    The records return `found` if the search also uses the text that the message refers to.
    """

    direct: list[SearchHit]
    found: list[SearchHit]

    def search(self, thread: str, _query: str, *, follow: bool = False, **_options: Any) -> list[SearchHit]:
        """Return the hits that were given."""
        return [] if thread != "t" else self.found if follow else self.direct


def hit(text: str, score: float) -> SearchHit:
    """Return a hit whose text is its handle too."""
    message = HumanMessage(text, id=text)
    return SearchHit(message=message, handle=text, compaction_id="c1", archived_at=0.0, score=score)


@pytest.mark.parametrize(("best", "score"), [(20.0, 20.0), (12.0, 12.0), (4.0, 12.0)])
def test_what_a_message_asks_for_comes_before_what_it_refers_to(best: float, score: float) -> None:
    """The hits for the question itself come first, at least with their own score and with the best score of all."""
    asked = hit("crate C-102", 12.0)
    other = hit("captain K-6", best)
    records = cast("CompactionRecords", Searched([asked], [other, replace(asked, score=1.0)]))
    match = found_for(records, "t", [user("Who owns crate C-102 of INV-77 today?")])
    assert match.is_asked
    assert [(one.handle, one.score) for one in match.hits] == [("crate C-102", score), ("captain K-6", best)]


@pytest.mark.parametrize(("score", "count"), [(0.4, 0), (0.5, 1)])
def test_what_shares_hardly_a_word_with_the_messages_is_not_found(score: float, count: int) -> None:
    """The search for a short message also uses the text that the message refers to.

    Hits with a score below 0.5 do not count.
    """
    records = cast("CompactionRecords", Searched([], [hit("crate C-102", score)]))
    match = found_for(records, "t", [*TALK, user("yes")])
    assert (len(match.hits), match.is_asked) == (count, False)


def quoted(direct: list[SearchHit], found: list[SearchHit]) -> HumanMessage | None:
    """Return the quotation for a question if the archive finds these hits; see the class `Searched`."""
    settings = CompactionSettings(context_window=128_000, auto_recall=True)
    records = cast("CompactionRecords", Searched(direct, found))
    dependencies = Dependencies(settings=settings, records=records, counter=WORDS)
    state: Any = {"messages": [user("Which person owns that old wooden boat?")], "compaction": {"epoch": 1}}
    config: Any = {"configurable": {"thread_id": "t"}}
    return run(quoted_archive(NodeContext(state, config, Runtime(), dependencies)))


@pytest.mark.parametrize(
    ("last", "score", "is_quoted"),
    [("AB-7", 0.4, False), ("AB-7", 0.5, True), ("none", 1.9, False), ("none", 2.0, True)],
)
def test_what_no_message_asks_for_is_quoted_if_it_names_enough(last: str, score: float, is_quoted: bool) -> None:
    """Hits with seven new identifiers are quoted if the search with the message finds a hit of score 0.5 or more.

    Hits with six new identifiers are quoted only if the search with the message finds a hit of score 2.0.
    """
    hits = [hit(f"It says {names}.", 2.0) for names in ("AB-1 AB-2 AB-3", "AB-4 AB-5 AB-6", last)]
    message = quoted([replace(hits[0], score=score)], hits)
    lines = message.text.splitlines() if message else []
    said = [f"> {one.handle}" for one in hits if one.handle != "It says none."]
    assert [line for line in lines if line.startswith("> ")] == (said if is_quoted else [])


def test_a_quotation_of_little_that_a_message_asks_for_is_short() -> None:
    """The quotation has at most 200 tokens, although more of the found messages would fit."""
    hits = [hit(f"The record says {number} of AB-{number} and no more.", 2.0) for number in range(60)]
    message = quoted(hits[:1], hits)
    assert message is not None
    assert 150 < WORDS.message(message) <= 200
