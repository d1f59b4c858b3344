"""The model asks for a compaction by a marker in its answer."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel, calls, usage
from tests.graph.harness import Drive, agent, events, ledger, rounds, said, steps, values, verdicts

MARKER = "!!!SUMMARY!!!"
MODES = ["updates", "custom"]
COMPACTION = ["selective_compaction", "summarize", "commit"]


def marking(model: Any, summarizer: Any = None, *, full: bool = True, **options: Any) -> Any:
    """An agent that heeds the marker."""
    return agent(model, summarizer, triggers=({"kind": "marker", "full": full},), **options)


def talk(text: str = "and now?") -> dict[str, Any]:
    """An input far below the trigger, with enough before it to compact."""
    return {"messages": [*rounds(4), HumanMessage(text, id="question")]}


@tool
def look(n: int) -> str:
    """Look."""
    return f"looked {n} {MARKER}"


@pytest.mark.parametrize("answer", [f"Done. {MARKER}", AIMessage([{"type": "text", "text": f"Done. {MARKER}"}])])
async def test_the_marker_compacts_after_the_answer(go: Drive, answer: Any) -> None:
    """Whatever the size: it is taken out of the answer, the turn ends, event and ledger name it."""
    model = ScriptedModel(replies=[answer, "ok"])
    graph = marking(model)
    chunks = await go.stream(graph, talk(), stream_mode=MODES)
    assert steps(chunks) == ["token_check", "model", *COMPACTION]
    assert events(chunks, "PreCompactEvent")[0]["trigger"] == "marker"
    assert (ledger(graph)[0].trigger, ledger(graph)[0].verdict) == ("marker", "committed")
    assert values(graph)["messages"][-1].text == "Done."
    assert MARKER not in json.dumps([message.text for message in values(graph)["messages"]])
    assert len(model.received) == 1
    await go.invoke(graph, said("more"))
    assert verdicts(graph) == ["committed"], "it held for one compaction"


async def test_calls_beside_the_marker_run_first(go: Drive) -> None:
    """The compaction happens at the next check, with the results in; then the model goes on."""
    asked = calls(("look", {"n": 1}), ("look", {"n": 2}))
    asked.content = f"I look. {MARKER}"
    model = ScriptedModel(replies=[asked, "seen"])
    graph = marking(model, tools=[look])
    chunks = await go.stream(graph, talk(), stream_mode=MODES)
    assert steps(chunks) == ["token_check", "model", "tools", "tools", "token_check", *COMPACTION, "model"]
    assert ledger(graph)[0].trigger == "marker"
    texts = [message.text for message in model.received[-1]]
    assert texts[-3:] == ["I look.", f"looked 1 {MARKER}", f"looked 2 {MARKER}"]
    assert is_summary(model.received[-1][0])
    assert values(graph)["messages"][-1].text == "seen"


async def test_only_the_models_own_words_count(go: Drive) -> None:
    """Not a tool's, not a person's, not a quotation's; and nothing without the trigger among the settings."""
    model = ScriptedModel(replies=[calls(("look", {"n": 1})), f"The tool said `{MARKER}`.", f"Bye {MARKER}"])
    graph = marking(model, tools=[look])
    await go.invoke(graph, talk(f"what is {MARKER}"))
    assert verdicts(graph) == []
    assert values(graph)["messages"][-1].text == f"The tool said `{MARKER}`."
    other = agent(ScriptedModel(replies=[f"Bye {MARKER}"]))
    await go.invoke(other, talk())
    assert verdicts(other) == []
    assert values(other)["messages"][-1].text == f"Bye {MARKER}"


async def test_an_answer_of_nothing_else_is_asked_for_again(go: Drive) -> None:
    """It is not kept; after the compaction the model answers the same question on what is left."""
    model = ScriptedModel(replies=[usage(AIMessage(MARKER), 300), "here"])
    graph = marking(model)
    chunks = await go.stream(graph, talk())
    assert steps(chunks) == ["token_check", "model", *COMPACTION, "model"]
    assert model.received[-1][-1].id == "question"
    assert [message.text for message in values(graph)["messages"][1:]] == ["and now?", "here"]
    assert verdicts(graph) == ["committed"]


@pytest.mark.usefixtures("unbraked")
async def test_a_model_that_says_nothing_else_does_not_loop(go: Drive) -> None:
    """The second time in a row the turn ends with what it said, and the ledger tells; the next turn may again."""
    model = ScriptedModel(replies=[MARKER])
    graph = marking(model)
    chunks = await go.stream(graph, talk())
    assert steps(chunks) == ["token_check", "model", *COMPACTION, "model"]
    assert len(model.received) == 2
    assert values(graph)["messages"][-1].text == MARKER
    assert [(row.trigger, row.verdict, row.reason) for row in ledger(graph)][1:] == [
        ("marker", "noop", "marker_again")
    ]
    await go.invoke(graph, {"messages": rounds(4, tag="s")[:-1]})
    assert verdicts(graph)[2] == "committed"
