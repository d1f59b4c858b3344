"""The messages of one request: what the compaction made of the state, and what other middleware made of it."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.model_request import as_shown

A, B, C = (HumanMessage(name, id=name) for name in "abc")
GIVEN = [A, B, C]
SUMMARY, NEW, EDITED = HumanMessage("summary", id="s"), HumanMessage("new", id="n"), HumanMessage("edited", id="b")
SHORTENED = HumanMessage("b…", id="b")
ALSO, LAST = (HumanMessage(name, id=name) for name in ("also", "last"))
PAIR: list[AnyMessage] = [
    AIMessage("", id="call", tool_calls=[{"name": "look", "args": {}, "id": "call-1"}]),
    ToolMessage("seen", tool_call_id="call-1", id="result"),
]
STAND_IN = ToolMessage("no result", tool_call_id="x", id="t")


@pytest.mark.parametrize(
    ("rendered", "others", "sent"),
    [
        (GIVEN, [A, B, C], [A, B, C]),
        (GIVEN, [A, EDITED, C], [A, EDITED, C]),
        (GIVEN, [A, C], [A, C]),
        ([A, SHORTENED, C], [A, EDITED, C], [A, SHORTENED, C]),
        ([A, SHORTENED, C], [A, C], [A, C]),
        ([SUMMARY, C], [A, B, C], [SUMMARY, C]),
        ([SUMMARY, C], [A, EDITED], [SUMMARY]),
        (GIVEN, [NEW, A, B, C], [NEW, A, B, C]),
        (GIVEN, [A, NEW, B, C], [A, NEW, B, C]),
        (GIVEN, [A, NEW, ALSO, B, C, LAST], [A, NEW, ALSO, B, C, LAST]),
        ([SUMMARY, C], [A, NEW, B, C], [SUMMARY, NEW, C]),
        ([SUMMARY], [A, B, NEW, C], [SUMMARY, NEW]),
        (GIVEN, [*PAIR, A, B, C], [*PAIR, A, B, C]),
        ([SUMMARY, C], [NEW, A, B, C], [NEW, SUMMARY, C]),
        ([SUMMARY], [NEW, AIMessage("more", id="m")], [SUMMARY, NEW, AIMessage("more", id="m")]),
        (GIVEN, [A, B, C, STAND_IN], [A, B, C]),
        ([SUMMARY, STAND_IN, C], [A, B, C], [SUMMARY, STAND_IN, C]),
    ],
    ids=[
        "unchanged",
        "edited",
        "omitted",
        "shortened by the compaction and edited",
        "shortened and omitted",
        "compacted",
        "compacted and omitted",
        "added in front",
        "added between",
        "added between, several, and at the end",
        "added before a message that was removed",
        "added before messages that were all removed",
        "an example of a call with its result",
        "added before a summary",
        "nothing left of the state",
        "a placeholder of another middleware",
        "a placeholder of ours",
    ],
)
def test_the_request_holds_what_both_have_made_of_it(
    rendered: list[AnyMessage], others: list[AnyMessage], sent: list[AnyMessage]
) -> None:
    """Edits and omissions of other middleware count, except for what the compaction has changed itself."""
    assert as_shown(rendered, GIVEN, others) == sent
