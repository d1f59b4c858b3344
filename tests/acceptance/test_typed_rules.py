"""The preset `typed_rules` as its document tells it, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings are the preset's own: the triggers are evaluated after the answer, gpt-4o's at 102,400 tokens and Claude's at
108,800.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.acceptance.talks import QUESTION, REAL, Replies, Sent, agent_of, block, counter, ids, said, words
from tests.fakes import claude, gpt, usage
from tests.graph.harness import CONFIG, events, frozen, ledger, standing, steps, values

Answered = Callable[..., Sent]
SUMMARY = "<summary>The user asked when the ferry leaves; the logs of five sheds were read.</summary>"
PART = 2_200
"""Tokens of what each rule takes."""
SYSTEM = SystemMessage("You work at the harbor. " + words(2_000), id="system")
LATER = SystemMessage("The harbor is closed today. " + words(100), id="later-system")
TAKEN = (("asks-0", "gets-0"), ("skill",), ("old-answer",), ("description",), ("old-question",))
"""What leaves by each rule, in the order of the types: results, skills, answers, descriptions, user messages."""


def typed(kind: str, name: str, text: str) -> HumanMessage:
    """Return a message of the application that tells its type."""
    return HumanMessage(text, id=name, additional_kwargs={"compaction": {"kind": kind, "is_meta": True}})


def talk(trigger: int, rules: int) -> list[AnyMessage]:
    """Return a conversation that is below the trigger as soon as so many of the five rules were applied.

    No rule takes the newest three results, the newest five answers (one is still to come) and the newest five user
    messages (the question is one of them).
    """
    old: list[AnyMessage] = [
        SYSTEM,
        typed("subagent_strategy", "strategy", "Ask the subagent for the ferry."),
        HumanMessage(words(PART), id="old-question"),
        *block(0, "read", words(PART)),
        typed("skill_metadata", "description", words(PART)),
        typed("skill_prompt", "skill", words(PART)),
        LATER,
        AIMessage(words(PART), id="old-answer"),
    ]
    recent = said(4, 20)
    around = sum(counter().message(message) for message in (*old, *recent, QUESTION))
    rest = trigger + PART * rules - PART // 2 - around
    kept = [message for n in (1, 2, 3) for message in block(n, "read", words(rest // 3))]
    return [*old, *kept, *recent, QUESTION]


def trigger_of(model: Any) -> int:
    """Return the trigger of the preset with this model, as the guide's table tells it."""
    return 102_400 if isinstance(model, type(gpt("gpt-4o"))) else 108_800


def gone(agent: Any, given: Sequence[AnyMessage]) -> list[str]:
    """Return the ids that are not in the view any more."""
    held = set(ids(values(agent)["messages"]))
    return [name for name in ids(given) if name not in held]


@pytest.mark.requirement("S1.22", "S1.25", "S1.11")
@REAL
@pytest.mark.parametrize("rules", [1, 2, 3, 4, 5])
def test_types_leave_one_after_the_other_until_enough_is_freed(real: Replies, rules: int, answered: Answered) -> None:
    """By type and priority; the tokens of each item tell when to stop, and the originals are found by their ids."""
    model = real()
    answered(model, "At nine.")
    agent, given = agent_of(model, "typed_rules"), talk(trigger_of(model), rules)
    found = steps(list(agent.stream({"messages": given}, CONFIG)))
    assert found == ["token_check", "model", "selective_compaction", "commit"]
    expected = {name for taken in TAKEN[:rules] for name in taken}
    assert set(gone(agent, given)) == expected
    kept = [message for message in given if message.id not in expected]
    assert frozen(values(agent)["messages"][:-1]) == frozen(kept)
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict, row.summary) == ("check", "committed", None)
    assert frozen(CompactionThread(agent, CONFIG).transcript()[:-1]) == frozen(given)


@pytest.mark.requirement("S1.24", "S1.26", "S1.29")
def test_of_results_three_stay_and_of_answers_five(answered: Answered) -> None:
    """The newest ones; the answer that was just given is one of the five, and no user message has to leave."""
    model = gpt("gpt-4o")
    answered(model, "At nine.")
    agent = agent_of(model, "typed_rules")
    given: list[AnyMessage] = [SYSTEM, *said(9, 285), *(m for n in range(6) for m in block(n, "read", words(500)))]
    agent.invoke({"messages": [*given, QUESTION]}, CONFIG)
    left = values(agent)["messages"]
    assert ids(left, "gets-") == ["gets-3", "gets-4", "gets-5"]
    assert ids(left, "read-") == [f"read-{n}" for n in range(5, 9)]
    assert ids(left, "note-") == [f"note-{n}" for n in range(9)]


@pytest.mark.requirement("S1.8", "S1.9", "S1.10")
@REAL
def test_only_the_conversation_is_compacted_and_the_header_stands(real: Replies, answered: Answered) -> None:
    """System messages and a subagent's strategy are the header wherever they stand; all else leaves for the summary.

    The answer that was just given stays as well.
    """
    model = real()
    sent = answered(model, "At nine.", "You are welcome.", summary=SUMMARY)
    agent, given = agent_of(model, "typed_rules", summarizer=None), talk(trigger_of(model), 6)
    agent.invoke({"messages": given}, CONFIG)
    left = values(agent)["messages"]
    assert frozen([message for message in left if message.type == "system"]) == frozen([SYSTEM, LATER])
    assert set(gone(agent, given)) == set(ids(given)) - {"system", "strategy", "later-system"}
    assert frozen([message for message in left if message.id == "strategy"]) == frozen(given[1:2])
    assert sorted(message.type for message in left) == ["ai", "human", "human", "system", "system"]
    shown = "".join(request[-1].text for request in sent.summaries)
    assert "The harbor office wrote" in shown
    assert "You work at the harbor" not in shown
    assert "Ask the subagent" not in shown


@pytest.mark.requirement("S1.35", "S1.36", "S1.37")
@REAL
def test_where_the_rules_are_not_enough_one_summary_takes_the_conversations_place(
    real: Replies, answered: Answered
) -> None:
    """A user message in tags, written by the agent's model; the next request is built from it."""
    model = real()
    sent = answered(model, "At nine.", "You are welcome.", summary=SUMMARY)
    agent, given = agent_of(model, "typed_rules", summarizer=None), talk(trigger_of(model), 6)
    chunks = list(agent.stream({"messages": given}, CONFIG, stream_mode=["updates", "custom"]))
    told = [event["detail"] for event in events(chunks, "ContextEvent")]
    assert any(detail.startswith("conversation replaced with ") for detail in told)
    (summary,) = [message for message in values(agent)["messages"] if is_summary(message)]
    assert (summary.type, summary.additional_kwargs["compaction"]["kind"]) == ("human", "compaction_summary")
    assert "the logs of five sheds were read.\n</summary>" in summary.text
    agent.invoke({"messages": "Thank you."}, CONFIG)
    assert summary.id in ids(sent[-1])
    assert sum(counter().message(message) for message in sent[-1]) < 3_000


@pytest.mark.requirement("S1.44", "S1.31")
@pytest.mark.parametrize("dropped", [False, True])
def test_the_rule_none_alone_saves_what_says_that_it_is_a_system_prompt(answered: Answered, *, dropped: bool) -> None:
    """No rule takes it, so that the whole is summarized; under another rule it leaves. A system message stands."""
    model = gpt("gpt-4o")
    answered(model, "At nine.")
    rules: dict[str, Any] = {"type_rules": {"system_prompt": {"action": "drop"}}} if dropped else {}
    agent, given = agent_of(model, "typed_rules", **rules), talk(102_400, 5)
    given.insert(1, typed("system_prompt", "prompt", words(PART)))
    agent.invoke({"messages": given}, CONFIG)
    assert {"system", "later-system"}.isdisjoint(gone(agent, given))
    assert [row.summary is None for row in ledger(agent)] == [dropped]
    assert ("gets-3" in gone(agent, given)) == (not dropped)


HEADER = [typed(kind, kind, "In the header.") for kind in ("system_prompt", "subagent_strategy", "skill_strategy")]


@pytest.mark.requirement("S1.9", "S1.32")
@pytest.mark.parametrize("preset", ["layered_defence", "progressive", "selective", "reserve_tokens"])
def test_under_every_preset_the_types_of_the_header_stay_whatever_their_role(preset: str, answered: Answered) -> None:
    """A complete summary leaves them; where a rule of one's own drops such a type, it leaves as others do."""
    talk = said(60, 48)
    for dropped in (False, True):
        model = gpt("gpt-4o")
        sent = answered(model, "At nine.")
        rules: dict[str, Any] = {"type_rules": {"subagent_strategy": {"action": "drop"}}} if dropped else {}
        agent = agent_of(model, preset, **rules)
        agent.invoke({"messages": [*talk[:2], *HEADER, *talk[2:], QUESTION]}, CONFIG)
        assert ledger(agent)[0].verdict == "committed"
        kept = [message for message in HEADER if not (dropped and message.id == "subagent_strategy")]
        assert frozen([message for message in sent[0] if message in HEADER]) == frozen(kept)


@pytest.mark.requirement("S1.32", "S1.34")
def test_a_type_with_the_rule_none_is_skipped_and_the_next_one_is_taken(answered: Answered) -> None:
    """The strategy of a subagent stays, and memory, which would leave after it, goes by a rule of one's own."""
    model = gpt("gpt-4o")
    answered(model, "At nine.")
    agent = agent_of(model, "typed_rules", type_rules={"memory": {"action": "drop"}})
    given = talk(102_400, 5)
    given += [typed("memory", "memory", words(PART)), AIMessage("I know."), given.pop()]
    agent.invoke({"messages": given}, CONFIG)
    assert "memory" in gone(agent, given)
    assert "strategy" not in gone(agent, given)
    assert [row.summary for row in ledger(agent)] == [None]


@pytest.mark.requirement("S1.1", "S1.2", "S1.3")
@pytest.mark.parametrize(
    ("model", "used", "fires"),
    [
        (gpt("gpt-4o"), 102_399, False),
        (gpt("gpt-4o"), 102_400, True),
        (claude(), 108_799, False),
        (claude(), 108_800, True),
    ],
)
def test_four_fifths_fire_after_the_answer(model: Any, used: int, fires: bool, answered: Answered) -> None:
    """By the usage that the provider reports, for the model that answered."""
    answered(model, usage(AIMessage("At nine."), used - 10, 10))
    agent = agent_of(model, "typed_rules")
    given = {"messages": [*said(40, 55), QUESTION]}
    chunks = list(agent.stream(given, CONFIG, stream_mode=["updates", "custom"]))
    assert [event["trigger"] for event in events(chunks, "PreCompactEvent")] == ["check"] * fires


@pytest.mark.requirement("S1.22", "S1.25")
@REAL
def test_in_langchains_agent_it_is_the_same(real: Replies, answered: Answered) -> None:
    """Old results and the skill's prompt leave, and nothing else."""
    model = real()
    answered(model, "At nine.")
    middleware = CompactionMiddleware(settings=CompactionSettings(preset="typed_rules"), summarizer="digest")
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    given = talk(trigger_of(model), 2)
    agent.invoke({"messages": given}, CONFIG)
    assert set(gone(agent, given)) == {"asks-0", "gets-0", "skill"}
    assert standing(agent)["last"]["verdict"] == "committed"
