"""A step of the model that is larger than the limit by itself: the turn is answered, and so is every later one."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_compaction.graph import CompactionSettings, CompactionThread, ContextExhaustedError, compact_messages
from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.runtime import engine
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, WORDS, Drive, agent, filler, said, values, verdicts
from tests.graph.middleware.agents import agent as middleware_agent
from tests.graph.test_embedding import World
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


def builds() -> dict[str, Callable[..., Any]]:
    """The agent of this package, and LangChain's with the middleware."""
    return {"graph": agent, "middleware": middleware_agent}


def _checked(model: ScriptedModel, limit: int = 1_000) -> None:
    for request in model.received:
        assert total(WORDS, request) <= limit
        check_request(request)  # type: ignore[arg-type] # any messages
        assert not refused(request)


@pytest.mark.parametrize("build", builds())
@pytest.mark.parametrize("kind", STEPS)
async def test_the_turn_is_answered_and_so_is_the_next(go: Drive, kind: str, build: str) -> None:
    """The model is asked with a request that fits, reads what became of its step, and nothing of it is lost."""
    model = ScriptedModel(replies=[STEPS[kind](), "done", "still here"])
    graph = builds()[build](model, "digest", tools=[look])
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
    assert [message.id for message in values(graph)["messages"]] == ["question", "step"]
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


async def test_a_dead_summarizer_changes_nothing(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every level of the fallback chain lets the step leave: the last one tells of it in a notice."""
    monkeypatch.setattr(engine, "_longest", lambda *_: 1)
    model = ScriptedModel(replies=[STEPS["many calls"](), "done"])
    graph = agent(model, ScriptedModel(replies=[ValueError("down")]), tools=[look])
    await go.invoke(graph, said("read all"))
    assert any(TOLD in message.text for message in model.received[1])
    _checked(model)


async def test_the_usual_window(go: Drive) -> None:
    """A step of more than 128,000 tokens is no other case than a small one."""
    step = AIMessage(filler(130_000), tool_calls=_calls(1), id="step")
    model = ScriptedModel(replies=[step, "done", "still here"])
    graph = agent(model, "digest", tools=[look], context_window=128_000, output_reserve=None)
    await go.invoke(graph, said("read all"))
    await go.invoke(graph, said("and now?"))
    assert values(graph)["messages"][-1].text == "still here"
    _checked(model, 128_000 - 16_000)


async def test_an_answer_over_the_limit(go: Drive) -> None:
    """Text without calls is the answer of its turn; the next turn begins by taking it into the summary."""
    model = ScriptedModel(replies=[AIMessage(filler(1_500), id="long"), "done"])
    graph = agent(model, "digest")
    await go.invoke(graph, said("tell me everything"))
    assert values(graph)["messages"][-1].id == "long"
    await go.invoke(graph, said("and now?"))
    assert values(graph)["messages"][-1].text == "done"
    _checked(model)
    assert "long" in {message.id for message in CompactionThread(graph, CONFIG).transcript()}


def _conversation(kind: str) -> list[AnyMessage]:
    step = STEPS[kind]()
    results = [ToolMessage("green", tool_call_id=call["id"], id=f"r{call['id']}") for call in step.tool_calls]
    return [HumanMessage("read all", id="question"), step, *results]


@pytest.mark.parametrize("kind", STEPS)
def test_inside_another_graph(kind: str) -> None:
    """The parent's list shrinks to what fits, and its own model is asked."""
    world = World(summarizer="digest", model=ScriptedModel(replies=["done"]))
    world.graph.invoke({"messages": _conversation(kind)}, CONFIG)
    assert world.messages[-1].text == "done"
    assert any(TOLD in message.text for message in world.messages) == (kind not in CUT)
    _checked(world.model)


@pytest.mark.parametrize("kind", STEPS)
def test_a_plain_list(kind: str) -> None:
    """`compact_messages` makes the list fit."""
    found = compact_messages(_conversation(kind), max_tokens=1_000, token_counter=WORDS)
    assert total(WORDS, render(found)) <= 1_000
    assert any(TOLD in message.text for message in found) == (kind not in CUT)


def test_a_plain_list_with_open_calls_stays() -> None:
    """Results are still to come for them: what cannot be cut to fit is an error."""
    with pytest.raises(ContextExhaustedError):
        compact_messages(_conversation("many calls")[:-1], max_tokens=1_000, token_counter=WORDS)


async def test_a_step_that_fits_stays(go: Drive) -> None:
    """Below the limit the results that the model waits for are never taken away, only what is older."""
    model = ScriptedModel(replies=[AIMessage("", tool_calls=_calls(60), id="step"), "done"])
    graph = agent(model, "digest", tools=[look], trigger_ratio=0.5, target_ratio=0.2)
    await go.invoke(graph, said(filler(90), "question"))
    assert sum(isinstance(message, ToolMessage) for message in model.received[1]) == 60


async def test_a_pinned_step_stays_where_there_is_room(go: Drive) -> None:
    """With its results it may hold half of the room; a larger one is not pinned."""
    for count in (40, 160):
        step = AIMessage("", tool_calls=_calls(count), id="step", additional_kwargs={"compaction": {"pinned": True}})
        graph = agent(ScriptedModel(replies=[step, "done"]), "digest", tools=[look])
        await go.invoke(graph, said("read all"))
        assert values(graph)["messages"][-1].text == "done"
        assert [pin.message_id for pin in CompactionThread(graph, CONFIG).pins()] == (["step"] if count == 40 else [])


def test_settings_of_a_clipped_text_name_the_original() -> None:
    """With `recall` a text that was cut ends with the handle by which the whole comes back."""
    found = compact_messages(
        _conversation("a long text"),
        max_tokens=1_000,
        token_counter=WORDS,
        settings=CompactionSettings(recall="tool"),
    )
    (step,) = [message for message in found if message.id == "step"]
    assert "[TRUNCATED original~1500 tokens]\n[recall: " in step.text


@tool
def read(n: int) -> str:
    """Read a page of so many words."""
    return filler(n, "line")


@pytest.mark.parametrize("build", builds())
@pytest.mark.parametrize(
    ("words", "least"), [(700, 700), (920, 920), (1_100, 700), (3_000, 700)], ids=["small", "fits", "large", "huge"]
)
async def test_a_result_that_was_just_read_keeps_what_fits(go: Drive, words: int, least: int, build: str) -> None:
    """Whole where it fits, else its beginning and its end; once it is answered it may be a short preview."""
    call = {"name": "read", "args": {"n": words}, "id": "c"}
    model = ScriptedModel(replies=["noted"] * 3 + [AIMessage("", tool_calls=[call], id="step")] + ["done"] * 9)
    graph = builds()[build](model, "digest", tools=[read])
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
