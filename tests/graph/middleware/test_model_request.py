"""The messages of one request: what the compaction made of the state, and what other middleware made of it."""

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents.middleware.types import ModelRequest
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from langgraph_compaction.graph.model_request import Caller, as_shown, schemas
from tests.fakes import ScriptedModel

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


def test_messages_without_ids_have_the_same_ids_in_each_call() -> None:
    """If a middleware calls the model again, the messages have the ids of the first call, also those it added."""
    said: list[AnyMessage] = [HumanMessage("a"), HumanMessage("b")]
    request: ModelRequest[Any] = ModelRequest(
        model=ScriptedModel(), messages=[*said, HumanMessage("added")], state={"messages": said}
    )
    first, second = (Caller(request, lambda _: None) for _ in range(2))
    assert first.given == second.given
    assert [message.text for message in first.added] == ["added"]
    assert first.added == second.added


class Answer(BaseModel):
    """An answer in numbers."""

    n: int


class Doubt(BaseModel):
    """A question back."""


@dataclass
class Point:  # noqa: D101 - the description of a dataclass without a docstring is its signature
    x: int


SEARCH = {"type": "web_search"}


def as_tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of a tool with these arguments."""
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        parameters["required"] = [*properties]
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


BARE = as_tool("Answer", "An answer in numbers.", n={"type": "integer"})
TITLED = as_tool("Answer", "An answer in numbers.", n={"type": "integer", "title": "N"})


@pytest.mark.parametrize(
    ("response_format", "expected"),
    [
        (None, []),
        (Answer, [BARE]),
        (AutoStrategy(Answer), [BARE]),
        (ProviderStrategy(Answer), [TITLED]),
        (ToolStrategy(Answer | Doubt), [TITLED, as_tool("Doubt", "A question back.")]),
        (ToolStrategy({"title": "bare", "type": "object", "properties": {}}), [as_tool("bare", "")]),
        (ToolStrategy(Point), [as_tool("Point", "Point(x: int)", x={"type": "integer", "title": "X"})]),
    ],
    ids=["none", "a class", "auto", "of the provider", "tools", "without a description", "a dataclass"],
)
def test_the_schemas_of_tools_and_structured_output_are_counted(response_format: Any, expected: list[Any]) -> None:
    """The tool schemas of a request include the schema of the structured output, whichever strategy the agent uses.

    A tool of the provider counts as the dictionary that describes the tool.
    """
    request = ModelRequest(
        model=ScriptedModel(), messages=[], tools=[SEARCH], response_format=response_format, state={"messages": []}
    )
    assert schemas(request) == [SEARCH, *expected]
