"""A step of the model that is larger than the limit by itself: the turn is answered, and so is every later one."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, compact_messages
from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.state import messages_in_view
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, WORDS, Drive, agent, filler, said, values, verdicts
from tests.graph.middleware.agents import agent as middleware_agent
from tests.invariants import check_request
from tests.replay.payloads import refused

TOLD = "Your last step before this record"


def _calls(count: int, **args: Any) -> list[Any]:
    return [{"name": "look", "args": {"n": n, **args}, "id": f"c{n}"} for n in range(count)]


def _thoughts(words: int) -> AIMessage:
    thought = {"type": "thinking", "thinking": filler(words), "signature": "s"}
    return AIMessage([thought, {"type": "text", "text": "so"}], tool_calls=_calls(1), id="step")


STEPS: dict[str, Callable[[], AIMessage]] = {
    "many calls": lambda: AIMessage("", tool_calls=_calls(160), id="step"),
    "a long text": lambda: AIMessage(filler(1_500), tool_calls=_calls(1), id="step"),
    "a long text in blocks": lambda: AIMessage(
        [{"type": "text", "text": filler(700)}, {"type": "text", "text": filler(700, "x")}],
        tool_calls=_calls(1),
        id="step",
    ),
    "long thoughts": lambda: _thoughts(1_500),
    "long arguments": lambda: AIMessage("", tool_calls=_calls(1, text=filler(1_500)), id="step"),
}
CUT = {"a long text", "a long text in blocks", "long arguments"}
"""Steps of which the calls and results stay in view."""


@tool
def look(n: int, text: str = "") -> str:  # noqa: ARG001 - a long argument
    """Look at a page."""
    return f"page {n} is green"


BUILDS: dict[str, Callable[..., Any]] = {"graph": agent, "middleware": middleware_agent}


def _checked(model: ScriptedModel, limit: int = 1_000) -> None:
    for request in model.received:
        assert total(WORDS, request) <= limit
        check_request(request)
        assert not refused(request)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("kind", STEPS)
async def test_the_turn_is_answered_and_so_is_the_next(go: Drive, kind: str, build: str) -> None:
    """The model is asked with a request that fits, reads what became of its step, and nothing of it is lost."""
    model = ScriptedModel(replies=[STEPS[kind](), "done", "still here"])
    graph = BUILDS[build](model, "digest", tools=[look])
    await go.invoke(graph, said("read all", "question"))
    _checked(model)
    asked = model.received[1]
    assert values(graph)["messages"][-1].text == "done"
    assert "question" in {message.id for message in asked}
    assert any(isinstance(message, ToolMessage) for message in asked) == (kind in CUT)
    assert any(TOLD in message.text for message in asked) == (kind not in CUT)
    await go.invoke(graph, said("and now?"))
    assert values(graph)["messages"][-1].text == "still here"
    _checked(model)
    whole = CompactionThread(graph, CONFIG).transcript()
    assert [m.id for m in whole[:2]] == ["question", "step"]
    assert whole[1].model_dump() == STEPS[kind]().model_dump()


@pytest.mark.parametrize("kind", STEPS)
async def test_a_step_whose_calls_were_interrupted(go: Drive, kind: str) -> None:
    """While its calls are open it stays, and the error says what to give; a new message is answered."""
    model = ScriptedModel(replies=[STEPS[kind](), "done"])
    graph = agent(model, "digest", tools=[look])
    await go.stream(graph, said("read all", "question"), interrupt_before=["tools"])
    with pytest.raises(ContextExhaustedError, match="waits for its result"):
        await go.invoke(graph, {"messages": []})
    assert [m.id for m in messages_in_view(graph.get_state(CONFIG).values)] == ["question", "step"]
    await go.invoke(graph, said("never mind", "newer"))
    assert values(graph)["messages"][-1].text == "done"
    assert "newer" in {message.id for message in model.received[-1]}
    _checked(model)


async def test_a_summary_stands_for_the_step(go: Drive) -> None:
    """The summarizer reads the calls and their results; the line about the step stands beside its text."""
    summarizer = ScriptedModel(replies=["<summary>All 160 pages that were read are green.</summary>"])
    model = ScriptedModel(replies=[STEPS["many calls"](), "done"])
    graph = agent(model, summarizer, tools=[look])
    await go.invoke(graph, said("read all", "question"))
    read = "".join(message.text for request in summarizer.received for message in request)
    assert "page 0 is green" in read
    assert "page 159 is green" in read
    (record,) = [message for message in model.received[1] if TOLD in message.text]
    assert "All 160 pages that were read are green." in record.text
    assert "160 tool calls of which 160 have a result" in record.text
    assert verdicts(graph) == ["committed"]


@pytest.mark.parametrize("preset", ["selective", "typed_rules", "progressive", "layered_defence", "faithful"])
async def test_every_preset_goes_on(go: Drive, preset: str) -> None:
    """The step leaves whatever the strategies are."""
    model = ScriptedModel(replies=[STEPS["many calls"](), "done"])
    graph = agent(model, "digest", tools=[look], preset=preset)
    await go.invoke(graph, said("read all"))
    assert values(graph)["messages"][-1].text == "done"
    _checked(model)


def _conversation(kind: str) -> list[AnyMessage]:
    step = STEPS[kind]()
    results = [ToolMessage("green", tool_call_id=call["id"], id=f"r{call['id']}") for call in step.tool_calls]
    return [HumanMessage("read all", id="question"), step, *results]


@pytest.mark.parametrize("kind", STEPS)
def test_a_plain_list(kind: str) -> None:
    """`compact_messages` makes the list fit, unless calls of the step wait for their results."""
    found = compact_messages(_conversation(kind), max_tokens=1_000, token_counter=WORDS)
    assert total(WORDS, render(found)) <= 1_000
    assert any(TOLD in message.text for message in found) == (kind not in CUT)
    if kind == "many calls":
        with pytest.raises(ContextExhaustedError):
            compact_messages(_conversation(kind)[:-1], max_tokens=1_000, token_counter=WORDS)


def test_unread_results_without_a_call_leave_before_the_question() -> None:
    """They are too many to be shortened, and belong to no step that could leave."""
    results = [ToolMessage("page is green", tool_call_id=f"c{n}", name="look", id=f"r{n}") for n in range(200)]
    given = [HumanMessage("read all", id="question"), *results, HumanMessage("and now?", id="newer")]
    sent = render(compact_messages(given, max_tokens=300, token_counter=WORDS))
    assert total(WORDS, sent) <= 300
    assert sent[-1].text.endswith("and now?")


@tool
def read(n: int) -> str:
    """Read a page of so many words."""
    return filler(n, "line")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    ("words", "least"), [(700, 700), (920, 920), (1_100, 700), (3_000, 700)], ids=["small", "fits", "large", "huge"]
)
async def test_a_result_that_was_just_read_keeps_what_fits(go: Drive, words: int, least: int, build: str) -> None:
    """Whole where it fits, else its beginning and its end; once it is answered it may be a short preview."""
    call = {"name": "read", "args": {"n": words}, "id": "c"}
    model = ScriptedModel(replies=["noted"] * 3 + [AIMessage("", tool_calls=[call], id="step")] + ["done"] * 9)
    graph = BUILDS[build](model, "digest", tools=[read])
    for turn in ("one", "two", "three", "read it"):
        await go.invoke(graph, said(turn))
    _checked(model)
    (heard,) = [message.text.split() for message in model.received[4] if isinstance(message, ToolMessage)]
    assert len(heard) >= least
    assert heard[0] == "line0"
    assert f"line{words - 1}" in heard
    await go.invoke(graph, said("and now?"))
    _checked(model)
    assert values(graph)["messages"][-1].text == "done"
