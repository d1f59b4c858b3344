import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph_compaction.graph import SettingsError
from langgraph_compaction.graph.agent import agent as served_agent
from langgraph_compaction.nodes.confirm import BAR_WIDTH
from langgraph_compaction.nodes.testing import calls
from tests.fakes import ScriptedModel, texts
from tests.graph.harness import (
    BEFORE,
    CONFIG,
    SUMMARY,
    Drive,
    agent,
    events,
    filler,
    full,
    ledger,
    rounds,
    said,
    standing,
    steps,
    tool_block,
    values,
    verdicts,
)
from tests.graph.middleware.agents import agent as langchain_agent

APPROVED = {"decisions": [{"type": "approve"}]}


def edited(**arguments: str) -> dict[str, Any]:
    """The answer of a person who approves with other arguments, as chat front ends send it."""
    action = {"name": "compact_conversation", "args": arguments}
    return {"decisions": [{"type": "edit", "edited_action": action}]}


def asking(model: Any = None, summarizer: Any = None, **options: Any) -> Any:
    """An agent that asks before the model is called."""
    return agent(model, summarizer, require_confirmation=True, hooks=BEFORE, **options)


def question(graph: Any) -> dict[str, Any]:
    """What the person is asked."""
    (interrupt,) = graph.get_state(CONFIG).interrupts
    found: dict[str, Any] = interrupt.value
    return found


@pytest.mark.parametrize("build", [agent, langchain_agent], ids=["graph", "middleware"])
@pytest.mark.parametrize("answer", [True, False])
async def test_the_question_stands_below_an_answer(go: Drive, build: Any, answer: bool) -> None:
    """Front ends show buttons there. A request that does not fit is asked about before, also after a refusal."""
    model = ScriptedModel()
    graph = build(model, require_confirmation=True)
    await go.invoke(graph, full())
    assert question(graph)["answers"] == ["approve", "reject"]
    assert values(graph)["messages"][-1].text == "ok"
    await go.invoke(graph, Command(resume=answer))
    assert (len(model.received), verdicts(graph)) == (1, ["committed" if answer else "declined"])
    if not answer:
        await go.invoke(graph, said(filler(200)))
        assert question(graph)["answers"] == ["compact", "drop_oldest", "new_thread", "raise"]
        assert len(model.received) == 1


@pytest.mark.parametrize("build", [agent, langchain_agent], ids=["graph", "middleware"])
async def test_in_a_loop_of_tool_calls_the_question_stands_below_a_result(go: Drive, build: Any) -> None:
    """Front ends show buttons there too, and the loop may be long."""

    def look() -> str:
        """Look at a page."""
        return filler(200)

    model = ScriptedModel(replies=[calls(("look", {})), "done"])
    graph = build(model, require_confirmation=True, tools=[look])
    await go.invoke(graph, {"messages": rounds(6)[:-1]})
    assert question(graph)["answers"] == ["approve", "reject"]
    assert (values(graph)["messages"][-1].type, len(model.received)) == ("tool", 1)
    await go.invoke(graph, Command(resume=True))
    assert (values(graph)["messages"][-1].text, verdicts(graph)) == ("done", ["committed"])


async def test_the_question_says_what_would_happen(go: Drive) -> None:
    """A person is told the sizes now, how much would go and about what is left; nothing has happened yet."""
    graph = asking()
    await go.invoke(graph, full())
    asked = question(graph)
    assert (asked["current_tokens"], asked["trigger"], asked["max_tokens"]) == (870, 800, 1_000)
    assert "870 tokens. A compaction starts at 800" in asked["action_requests"][0]["description"]
    (action,), (review,) = asked["action_requests"], asked["review_configs"]
    assert action["args"] == {"focus": ""}
    assert review["action_name"] == action["name"]
    assert review["allowed_decisions"] == ["approve", "edit", "reject"]
    assert "14 messages would leave" in action["description"]
    *_, leaving, edit = action["description"].split("\n\n")
    assert leaving.count("\n- human: ") + leaving.startswith("- human: ") == 4, "the first eight of them are shown"
    bars = action["description"].split("\n\n")[2].splitlines()
    assert [len(line) for line in bars[:2]] == [4 + BAR_WIDTH] * 2, "what fills the window now and then"
    assert {line[:4] for line in bars} == {"    "}, "a code block in Markdown"
    assert bars[-1].split() == ["░", "100", "->", "100", "reserve"] or bars[-1].endswith("free")
    assert edit.startswith("Edit `focus`"), "a paragraph of its own, as front ends render Markdown"
    assert asked["messages_leaving"] == 14
    assert asked["tokens_after_about"] < 500
    assert json.loads(json.dumps(asked)) == asked, "Studio and any other client read it as JSON"
    assert graph.get_state(CONFIG).next == ("confirm",)
    assert ledger(graph) == []
    assert len(values(graph)["messages"]) == 17
    await go.invoke(graph, Command(resume=True))
    (row,) = ledger(graph)
    assert row.seen is not None
    assert len(row.seen["full"]) == 14


async def test_the_question_shows_the_calls_that_would_leave(go: Drive) -> None:
    """An answer that only calls tools has no text."""
    graph = asking()
    blocks = [message for n in range(9) for message in tool_block(n, 80)]
    await go.invoke(graph, {"messages": [*rounds(1), *blocks, *said("go on")["messages"]]})
    (action,) = question(graph)["action_requests"]
    assert """- ai: "read({'n': 0})\"""" in action["description"].splitlines()


@pytest.mark.parametrize("answer", [True, "approve", " Approve", APPROVED, edited(focus="the price")])
async def test_an_acceptance_compacts(go: Drive, answer: Any) -> None:
    """Any clear yes goes on to the compaction."""
    graph = asking()
    await go.invoke(graph, full())
    chunks = await go.stream(graph, Command(resume=answer))
    assert [step for step in steps(chunks) if not step.startswith("__")] == [
        "confirm",
        "selective_compaction",
        "summarize",
        "commit",
        "model",
    ]


@pytest.mark.parametrize(
    "answer", [False, "reject", "", "what?", "yes", {"decisions": [{"type": "reject"}]}, {"decisions": []}, 1, []]
)
async def test_anything_else_declines(go: Drive, answer: Any) -> None:
    """The turn is answered on the whole conversation, and the ledger says who decided."""
    model = ScriptedModel()
    graph = asking(model)
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=answer))
    assert len(model.received[0]) == 17
    assert verdicts(graph) == ["declined"]
    assert standing(graph)["last"]["verdict"] == "declined"
    assert standing(graph).get("breaker", {}).get("failures", 0) == 0


async def test_a_decline_holds_until_the_conversation_has_grown(go: Drive) -> None:
    """The question comes back once five per cent of the window have been said since."""
    graph = asking()
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=False))
    chunks = await go.stream(graph, said(filler(10)), stream_mode=["updates", "custom"])
    assert steps(chunks) == ["token_check", "model"]
    assert events(chunks, "PreCompactEvent"), "the event is written also when the attempt is skipped"
    await go.invoke(graph, said(filler(40)))
    assert question(graph)["current_tokens"] >= 870 + 50


async def test_the_focus_reaches_the_summarizer_once(go: Drive) -> None:
    """What the person wants kept is asked of this summary and of no later one."""
    summarizer = ScriptedModel(replies=[SUMMARY])
    graph = asking(summarizer=summarizer)
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume=edited(focus="the price of eggs")))
    assert "the price of eggs" in texts(summarizer.received[0])
    await go.invoke(graph, {"messages": rounds(7, tag="later")})
    await go.invoke(graph, Command(resume=True))
    assert "the price of eggs" not in texts(summarizer.received[1])


@pytest.mark.parametrize("answer", [True, False])
async def test_a_message_sent_with_the_answer_is_kept(go: Drive, answer: bool) -> None:
    """`Command(resume, update)` may bring a message; it stays and the model reads it."""
    model = ScriptedModel()
    graph = asking(model)
    await go.invoke(graph, full())
    late = HumanMessage("and be quick", id="late")
    await go.invoke(graph, Command(resume=answer, update={"messages": [late]}))
    assert model.received[0][-1] == late
    assert late in values(graph)["messages"]
    assert standing(graph).get("epoch", 0) == int(answer)


async def test_a_new_input_instead_of_an_answer_asks_again(go: Drive) -> None:
    """Nothing is rolled back, nothing is lost: the question counts the new message too."""
    graph = asking()
    await go.invoke(graph, full())
    chunks = await go.stream(graph, said("are you there?", "second"))
    assert steps(chunks) == ["token_check", "__interrupt__"]
    assert question(graph)["current_tokens"] == 870 + 7
    await go.invoke(graph, Command(resume=True))
    assert verdicts(graph) == ["committed"]
    assert {"question", "second"} <= {message.id for message in values(graph)["messages"]}


@pytest.mark.parametrize("options", [{"checkpointer": True}, {"checkpointer": None}])
async def test_a_server_brings_the_checkpointer_itself(go: Drive, options: dict[str, Any]) -> None:
    """It compiles without one, is given one as LangGraph's server gives it, and asks there."""
    built = asking(**options)
    graph = built.copy(update={"checkpointer": InMemorySaver()})
    await go.invoke(graph, full())
    assert question(graph)["current_tokens"] == 870
    assert (await served_agent()).checkpointer is None, "the graph that the server loads builds with the defaults"


async def test_a_run_that_asks_for_questions_without_a_checkpointer_is_an_error(go: Drive) -> None:
    """By the settings or for one run: before any model is called, and with what to do."""
    model, asks = ScriptedModel(), {"require_confirmation": True}
    for built, options in (
        (agent(model, checkpointer=None), {"context": asks}),
        (agent(model, checkpointer=None, **asks), {}),
    ):
        with pytest.raises(SettingsError, match=r"give checkpointer=.*require_confirmation=False"):
            await go.invoke(built, full(), **options)
    assert model.received == []


async def test_an_answer_may_be_followed_by_the_question(go: Drive) -> None:
    """After the model's answer the person is asked too; either way the turn then ends."""
    model = ScriptedModel(replies=[filler(60)])
    graph = agent(model, require_confirmation=True)
    await go.invoke(graph, {"messages": [*rounds(7)[:-1], HumanMessage(filler(40))]})
    assert len(model.received) == 1
    assert graph.get_state(CONFIG).next == ("confirm",)
    await go.invoke(graph, Command(resume=True))
    assert len(model.received) == 1
    assert graph.get_state(CONFIG).next == ()
    assert verdicts(graph) == ["committed"]


async def test_the_question_shows_no_link_and_no_turned_text(go: Drive) -> None:
    """Front ends show it as Markdown, and what would leave may come from anybody."""
    graph = asking()
    first = HumanMessage("![a](http://b/c) \u202edneirf " + filler(50), id="first")
    await go.invoke(graph, {"messages": [first, *full()["messages"]]})
    described = question(graph)["action_requests"][0]["description"]
    assert '"![a] (http://b/c) dneirf' in described
