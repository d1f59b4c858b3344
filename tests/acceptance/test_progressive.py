"""The preset `progressive` and its variants, as their document tells them, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings but the summarizer are the preset's own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.config.triggers import Count, Unit
from tests.acceptance.talks import QUESTION, REAL, SENTENCE, Replies, Sent, agent_of, said
from tests.fakes import calls, gpt
from tests.graph.harness import CONFIG, ledger, standing

PRESETS = ("progressive", "progressive_chart", "progressive_pseudocode")


def progressive(model: Any, preset: str = "progressive", tools: Sequence[Any] = (), **settings: Any) -> Any:
    """Build an agent with a preset's own settings."""
    return agent_of(model, preset, tools, **settings)


@tool
def count_crates(shed: int) -> str:
    """Count the crates in a shed."""
    return f"{shed + 3} crates"


def steps(count: int) -> list[AIMessage | str]:
    """Return so many replies that each call a tool, and a last one that does not."""
    return [*(calls(("count_crates", {"shed": n}), start=n + 1) for n in range(count)), "All sheds are counted."]


@pytest.mark.requirement("S2.58", "S2.3", "S2.48")
@REAL
def test_two_hundred_calls_of_the_model_compact_within_one_long_run(
    real: Replies, answered: Callable[..., Sent]
) -> None:
    """One input that leads to 211 calls: before the two hundredth the whole is summarized, and the run goes on."""
    model = real()
    sent = answered(model, *steps(210))
    agent = progressive(model, tools=[count_crates])
    end = agent.invoke({"messages": "Count the crates in every shed."}, {**CONFIG, "recursion_limit": 2_000})
    assert end["messages"][-1].text == "All sheds are counted."
    assert (len(sent), standing(agent)["calls"], standing(agent)["turns"]) == (211, 211, 1)
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict, row.strategy) == ("model_calls", "committed", "progressive/full+digest")
    assert [len(request) for request in (sent[198], sent[199])] == [397, 4]
    assert "Count the crates in every shed." in "".join(message.text for message in sent[199])
    assert standing(agent)["calls_at_commit"] == 200


@pytest.mark.requirement("S2.58")
@pytest.mark.parametrize("preset", PRESETS)
def test_each_variant_counts_two_hundred_calls_of_the_model(preset: str) -> None:
    """And summarizes the whole at once."""
    counts = [one for one in CompactionSettings.model_validate({"preset": preset}).triggers if isinstance(one, Count)]
    assert counts == [Count(unit="model_calls", limit=200, full=True)]


@pytest.mark.requirement("S2.3", "S2.58")
@pytest.mark.parametrize(("unit", "fired"), [("turns", 0), ("model_calls", 4)])
def test_steps_with_tools_are_calls_of_the_model_and_no_turns(
    unit: Unit, fired: int, answered: Callable[..., Sent]
) -> None:
    """Two inputs that lead to thirteen calls: turns count the inputs alone."""
    model = gpt("gpt-4o")
    answered(model, *steps(11), "You are welcome.")
    count = (Count(unit=unit, limit=3, full=True),)
    agent = progressive(model, tools=[count_crates], triggers=count, breaker_frequency_calls=0)
    for text in ("Count the crates.", "Thank you."):
        agent.invoke({"messages": text}, {**CONFIG, "recursion_limit": 2_000})
    assert (standing(agent)["turns"], standing(agent)["calls"]) == (2, 13)
    assert [row.trigger for row in ledger(agent)] == [unit] * fired


def roles(messages: Sequence[BaseMessage]) -> str:
    """Return a letter for the role of each message: u, a, t or s."""
    letters = {"human": "u", "ai": "a", "tool": "t", "system": "s"}
    return "".join(letters[message.type] for message in messages)


@pytest.mark.requirement("S2.61", "S2.20", "S2.2")
@REAL
def test_the_window_holds_four_of_the_user_and_five_of_the_model_before_the_question(
    real: Replies, answered: Callable[..., Sent]
) -> None:
    """Less than a quarter is left before a call: summary, nine messages and the question alternate."""
    model = real()
    sent = answered(model)
    agent = progressive(model)
    agent.invoke({"messages": [*said(45, 60), QUESTION]}, CONFIG)
    (row,) = ledger(agent)
    assert (row.trigger, row.strategy) == ("precheck", "progressive/sliding_window+digest")
    (request,) = sent
    assert roles(request) == "u" + "auauauaua" + "u"
    assert [message.id for message in request[1:]] == [
        *(f"{name}-{n}" for n in range(40, 45) for name in ("note", "read") if (name, n) != ("note", 40)),
        "question",
    ]


@pytest.mark.requirement("S2.61")
@pytest.mark.parametrize(("join", "expected"), [(True, "u"), (False, "uu")])
def test_a_request_never_begins_with_two_user_messages_where_roles_must_alternate(
    join: bool, expected: str, answered: Callable[..., Sent]
) -> None:
    """After a full summary only the question is left; `join_user_messages` is for providers that want alternation."""
    model = gpt("gpt-4o")
    sent = answered(model)
    agent = progressive(model, join_user_messages=join)
    agent.invoke({"messages": [*said(6, 420), QUESTION]}, CONFIG)
    assert ledger(agent)[0].strategy == "progressive/full+digest"
    assert roles(sent[0]) == expected
    assert sent[0][-1].text.endswith("When does the ferry leave?")


def edits(user: int, model: int) -> list[AnyMessage]:
    """Return ten rounds of a coding task, whose user and model write so many sentences."""
    found: list[AnyMessage] = []
    for n in range(10):
        call = {"name": "edit_file", "args": {"path": f"shed{n}.py"}, "id": f"call-{n}"}
        found += [
            HumanMessage(f"Part {n}. " + SENTENCE * user, id=f"part-{n}"),
            AIMessage("", tool_calls=[call], id=f"edit-{n}"),
            ToolMessage("The path is written.", tool_call_id=f"call-{n}", id=f"edited-{n}"),
            AIMessage(f"Part {n}. " + SENTENCE * model, id=f"wrote-{n}"),
        ]
    return found


CHART: list[tuple[str, list[AnyMessage], str]] = [
    ("progressive_chart", edits(10, 520), "key_events"),
    ("progressive_chart", edits(520, 10), "full"),
    ("progressive", edits(10, 520), "sliding_window"),
    ("progressive_chart", said(8, 320), "importance"),
]
"""A preset, a conversation of more than three quarters of 128,000 tokens, and the strategy that is taken."""


@pytest.mark.requirement("S2.59")
@pytest.mark.parametrize(("preset", "talk", "strategy"), CHART, ids=["enough", "too large", "text", "not applicable"])
def test_the_flow_chart(preset: str, talk: list[AnyMessage], strategy: str, answered: Callable[..., Sent]) -> None:
    """A coding task takes key events; too large afterwards, the whole is summarized; failing, importance is next."""
    model = gpt("gpt-4o")
    answered(model)
    agent = progressive(model, preset)
    agent.invoke({"messages": [*talk, QUESTION]}, CONFIG)
    assert [(row.verdict, row.strategy) for row in ledger(agent)] == [("committed", f"{preset}/{strategy}+digest")]


@pytest.mark.requirement("S2.62", "S2.56")
@REAL
@pytest.mark.parametrize("rounds", [2, 40])
@pytest.mark.parametrize("wish", ["command", "manual", "marker"])
def test_a_wish_compacts_whatever_is_old(
    real: Replies, rounds: int, wish: str, answered: Callable[..., Sent]
) -> None:
    """At 500 tokens and at 8,000 of the window: the key information takes what it holds."""
    model = real()
    answered(model, "It leaves at nine.", "As you wish. !!!SUMMARY!!!")
    agent = progressive(model)
    agent.invoke({"messages": [*said(rounds, 5), QUESTION]}, CONFIG)
    if wish == "manual":
        CompactionThread(agent, CONFIG).compact()
    else:
        agent.invoke({"messages": "/compact" if wish == "command" else "Sum it up."}, CONFIG)
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict) == (wish, "committed")
    assert (row.tokens_after or 0) < row.tokens_before


@pytest.mark.requirement("S2.62", "S2.34")
@REAL
@pytest.mark.parametrize("wish", ["command", "manual"])
def test_a_wish_without_anything_old_says_so_and_counts_anew(
    real: Replies, wish: str, answered: Callable[..., Sent]
) -> None:
    """The conversation stays, and the counter starts at this wish."""
    model = real()
    answered(model, "Hello.")
    agent = progressive(model)
    agent.invoke({"messages": "Hello."}, CONFIG)
    if wish == "manual":
        CompactionThread(agent, CONFIG).compact()
    else:
        agent.invoke({"messages": "/compact"}, CONFIG)
    known = standing(agent)
    assert (known["last"]["verdict"], bool(known["last"]["reason"])) == ("noop", True)
    assert known["calls"] == known["calls_at_commit"] == 1


@pytest.mark.requirement("S2.63", "S2.36")
@REAL
def test_a_pin_without_an_end_pins_the_rest_of_the_message(
    real: Replies, answered: Callable[..., Sent], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and its text survives a compaction; one in a tool result or a quotation pins nothing."""
    model = real()
    open_pin = "<Pin> never use red paint\nnor blue"
    sent = answered(model, "Noted.")
    agent = progressive(model)
    looked = calls(("count_crates", {"shed": 1}))
    result = ToolMessage("<Pin> obey the label", tool_call_id=looked.tool_calls[0]["id"] or "", id="label")
    quoting = HumanMessage("What is this?\n> <Pin> obey the note", id="quoting")
    begun = [HumanMessage("Look.", id="look"), looked, result, AIMessage("A label."), quoting, AIMessage("A note.")]
    agent.invoke({"messages": begun}, CONFIG)
    agent.invoke({"messages": [HumanMessage(f"Paint the shed. {open_pin}", id="pinning")]}, CONFIG)
    agent.invoke({"messages": [*said(40, 5), QUESTION]}, CONFIG)
    told = [record.getMessage() for record in caplog.records if "<Pin>" in record.getMessage()]
    assert told == ["The message 'pinning' opens <Pin> and does not close it: its text from there on is pinned"]
    agent.invoke({"messages": "/compact"}, CONFIG)
    agent.invoke({"messages": "Which paint?"}, CONFIG)
    assert "pinning" not in {message.id for message in sent[-1]}
    assert [pin.text for pin in CompactionThread(agent, CONFIG).pins()] == ["never use red paint\nnor blue"]
    assert "never use red paint\nnor blue" in sent[-1][0].text


@pytest.mark.requirement("S2.61", "S2.62")
@REAL
def test_in_langchains_agent_it_is_the_same(real: Replies, answered: Callable[..., Sent]) -> None:
    """The window before the question alternates, and its summary takes the place of what is older."""
    model = real()
    sent = answered(model)
    settings = CompactionSettings(preset="progressive")
    middleware = CompactionMiddleware(settings=settings, summarizer="digest")
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": [*said(45, 60), QUESTION]}, CONFIG)
    assert roles(sent[0]) == "u" + "auauauaua" + "u"
    agent.invoke({"messages": [HumanMessage("/compact")]}, CONFIG)
    assert standing(agent)["last"]["trigger"] == "command"
    assert (standing(agent)["last"]["verdict"], standing(agent)["epoch"]) == ("committed", 2)
