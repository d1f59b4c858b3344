"""The preset `typed_rules` as its document tells it, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings are the preset's own: the triggers are evaluated after the answer, gpt-4o's at 102,400 tokens and Claude's at
108,800.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.acceptance.talks import (
    QUESTION,
    REAL,
    Replies,
    Sent,
    Story,
    agent_of,
    block,
    counter,
    ids,
    said,
    story,
    words,
)
from tests.fakes import calls, claude, gpt, usage
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
    asked = "".join(request[-1].text for request in sent.summaries)
    assert "The harbor office wrote" in "".join(one.text for request in sent.summaries for one in request)
    assert "You work at the harbor" not in asked
    assert "Ask the subagent" not in asked


@pytest.mark.requirement("S1.44", "S1.31")
@pytest.mark.parametrize("dropped", [False, True])
def test_the_rule_none_alone_saves_what_says_that_it_is_a_system_prompt(answered: Answered, *, dropped: bool) -> None:
    """No rule takes it, so that the whole is summarized; under another rule it leaves. A system message stands."""
    model = gpt("gpt-4o")
    answered(model, "At nine.")
    rules: dict[str, Any] = {"type_rules": {"system_prompt": {"action": "drop"}}} if dropped else {}
    agent, given = agent_of(model, "typed_rules", summarizer="digest", **rules), talk(102_400, 5)
    given.insert(1, typed("system_prompt", "prompt", words(PART)))
    agent.invoke({"messages": given}, CONFIG)
    assert {"system", "later-system"}.isdisjoint(gone(agent, given))
    assert [row.summary is None for row in ledger(agent)] == [dropped]
    assert ("gets-3" in gone(agent, given)) == (not dropped)


HEADER = [typed(kind, kind, "In the header.") for kind in ("system_prompt", "subagent_strategy", "skill_strategy")]


@pytest.mark.requirement("S1.9", "S1.32")
@pytest.mark.parametrize("preset", ["layered_defence", "progressive", "selective", "reserve_tokens"])
def test_under_every_preset_the_types_of_the_header_stay_whatever_their_role(preset: str, answered: Answered) -> None:
    """A complete summary leaves them."""
    talk, model = said(60, 48), gpt("gpt-4o")
    sent = answered(model, "At nine.")
    agent = agent_of(model, preset, summarizer="digest")
    agent.invoke({"messages": [*talk[:2], *HEADER, *talk[2:], QUESTION]}, CONFIG)
    assert ledger(agent)[0].verdict == "committed"
    assert frozen([message for message in sent[0] if message in HEADER]) == frozen(HEADER)


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


LONG = "\n".join(f"Shed {n} holds {7 * n + 3} crates and {n + 11} ropes." for n in range(36))
"""About 500 tokens."""
AGAIN = (
    "<summary>The logs of five sheds were read, and then four more; the user asked when the ferry leaves.</summary>"
)
INTERRUPTED: list[AnyMessage] = [
    AIMessage("", tool_calls=[{"name": "read", "args": {"n": 77}, "id": "call-77"}], id="interrupted"),
    HumanMessage("Stop.", id="stop"),
    AIMessage("I have stopped.", id="stopped"),
]


@pytest.fixture(scope="module")
def replaced() -> Story:
    """Lead gpt-4o beyond the rules, then to the trigger of the rules alone, and at last beyond them again."""
    given = talk(102_400, 6)
    more = [m for n in range(10, 14) for m in block(n, "read", f"Log {n}. " + words(26_000))]
    return story(
        gpt("gpt-4o"),
        "typed_rules",
        {"messages": [*given[:-1], *INTERRUPTED, given[-1]]},
        {"messages": [*more, AIMessage("Four more.", id="four"), HumanMessage("Go on.", id="go")]},
        {"messages": [HumanMessage("Log 14. " + words(26_000), id="much")]},
        {"messages": "Thank you."},
        replies=["At nine.", "I go on.", "I see.", "You are welcome."],
        summary=[*[f"<summary>\n{LONG}\n</summary>"] * 2, AGAIN],
        system_prompt="You read logs.",
    )


@pytest.mark.requirement("S1.7", "S1.12", "S1.13")
def test_the_whole_conversation_is_shown_in_order_and_no_call_dangles(replaced: Story) -> None:
    """As text in a user message, in two parts of which each ends with what to write."""
    shown = replaced.sent.summaries[:2]
    assert [[message.type for message in request] for request in shown] == [["system", "human"]] * 2
    text = "".join(request[-1].text for request in shown)
    names = ("Note 0. ", "Note 3. ", '<call>read({"n": 77})</call>', "Stop.", "I have stopped.", QUESTION.text)
    places = [text.index(name) for name in names]
    assert places == sorted(places)
    assert text.count("word word word") >= 5 * PART // 3
    assert [request[-1].text.rstrip().endswith("</summary>.") for request in shown] == [True, True]


def told_to_write(told: Story) -> str:
    """Return what the summarizer is told, its white space made even."""
    return " ".join(told.sent.summaries[0][0].text.split())


@pytest.mark.requirement("S1.14", "S1.20", "S1.21")
def test_the_prompt_says_what_the_record_is_for(replaced: Story) -> None:
    """It takes the conversation's place, the work goes on at once, and nothing is done twice; in tags."""
    told = told_to_write(replaced)
    for phrase in ("take the conversation's place", "go on at once", "doing work twice", "repeating mistakes"):
        assert phrase in told
    assert "between <summary> and </summary>" in told


SECTIONS = {
    "1. Task Overview": ("asked for", "done", "constraints"),
    "2. Current State": ("is done", "files", "paths"),
    "3. Important Discoveries": ("constraints", "decisions", "errors", "did not work"),
    "4. Next Steps": ("actions", "blocks", "order"),
    "5. Context to Preserve": ("preferences", "domain", "promises"),
}


def missing(told: str, titles: Sequence[str]) -> list[str]:
    """Return the words that the sections of these titles do not contain."""
    found = []
    for title in titles:
        section = re.split(r" \d\. ", told.partition(title)[2])[0]
        found += [word for word in SECTIONS[title] if word not in section]
    return found


@pytest.mark.requirement("S1.15", "S1.16", "S1.17", "S1.18", "S1.19")
def test_five_sections_look_back_and_ahead(replaced: Story) -> None:
    """The task, what is done, what was found out, what remains, and what was promised."""
    assert missing(told_to_write(replaced), list(SECTIONS)) == []


@pytest.mark.requirement("S1.38", "S1.40", "S1.41")
def test_the_conversation_is_replaced_and_the_next_request_is_built_from_what_is_left(replaced: Story) -> None:
    """75,000 tokens and a summary of 500 make 500; prompt and header are as they were."""
    request = replaced.sent[1]
    assert sum(counter().message(m) for m in replaced.begun if m.type != "system") > 75_000
    assert [m.id for m in request if m.id in set(ids(replaced.begun))] == ["system", "strategy", "later-system"]
    assert request[0].text == "You read logs."
    assert frozen([m for m in request if m.id == "system"]) == frozen([SYSTEM])
    own = [message for message in request if message.type != "system" and message.id != "strategy"]
    assert (is_summary(own[0]), own[1].text, own[2].id) == (True, "At nine.", "asks-10")
    assert sum(counter().message(message) for message in own[:2]) < 700


@pytest.mark.requirement("S1.35", "S1.36", "S1.37", "S1.39", "S1.43", "S1.45")
def test_the_second_worked_example(replaced: Story) -> None:
    """Where the rules are not enough, the header stays and one summary of about 500 tokens, a user message in tags.

    The agent's own model writes it; an event tells how many items are left.
    """
    first = ledger(replaced.agent)[0]
    assert (first.strategy, first.verdict, first.summary_calls) == ("typed_rules/full+model", "committed", 2)
    (summary,) = [message for message in replaced.sent[1] if is_summary(message)]
    assert (summary.type, summary.additional_kwargs["compaction"]["kind"]) == ("human", "compaction_summary")
    assert f"<summary>\n{LONG}\n</summary>" in summary.text
    assert 480 < counter().message(summary) < 620
    told = [event["detail"] for event in events(replaced.chunks, "ContextEvent")]
    assert "conversation replaced with 5 items" in told


@pytest.mark.requirement("S1.33")
def test_no_rule_takes_a_summary_and_the_next_one_absorbs_it(replaced: Story) -> None:
    """The second compaction takes a result and writes nothing; the third is shown what the first one wrote."""
    assert [row.strategy for row in ledger(replaced.agent)] == [
        "typed_rules/full+model",
        "typed_rules",
        "typed_rules/full+model",
    ]
    assert [LONG in "".join(m.text for m in request) for request in replaced.sent] == [False, True, True, False]
    assert ids(replaced.sent[2], "gets-") == ["gets-11", "gets-12", "gets-13"]
    assert LONG in replaced.sent.summaries[2][-1].text
    (summary,) = [message for message in replaced.sent[3] if is_summary(message)]
    assert "and then four more" in summary.text


def of_size(tokens: int, message: AnyMessage) -> AnyMessage:
    """Return the message with a text that makes it so many tokens in all."""
    around = counter().message(message.model_copy(update={"content": "word"})) - 1
    return message.model_copy(update={"content": words(tokens - around)})


def typed_of(tokens: int, kind: str) -> AnyMessage:
    """Return a message of the application of so many tokens."""
    return of_size(tokens, typed(kind, kind, ""))


def block_of(tokens: int, number: int) -> list[AnyMessage]:
    """Return a tool block whose result is of so many tokens."""
    call, result = block(number, "read", "")
    return [call, of_size(tokens, result)]


@pytest.mark.requirement("S1.42", "S1.6")
def test_the_first_worked_example(answered: Answered) -> None:
    """Old result (5,000), skill prompt (3,000) and description (1,000) leave; 200, 150 and 8,000 tokens stay."""
    model = gpt("gpt-4o")
    answer = of_size(150, AIMessage("", id="answer"))
    answered(model, answer)
    agent = agent_of(model, "typed_rules")
    given = [
        of_size(25_000, SystemMessage("", id="header")),
        typed_of(1_000, "skill_metadata"),
        HumanMessage("Read them.", id="task"),
        *block_of(5_000, 0),
        typed_of(3_000, "skill_prompt"),
        *(message for n in (1, 2) for message in block_of(34_200, n)),
        *block_of(8_000, 3),
        of_size(200, HumanMessage("", id="recent-user")),
    ]
    found = steps(list(agent.stream({"messages": given}, CONFIG)))
    assert found == ["token_check", "model", "selective_compaction", "commit"]
    taken = {"skill_metadata", "asks-0", "gets-0", "skill_prompt"}
    assert frozen(values(agent)["messages"]) == frozen([*(m for m in given if m.id not in taken), answer])
    (row,) = ledger(agent)
    assert row.tokens_before - (row.tokens_after or 0) == 9_000 + counter().message(given[3])
    assert (row.tokens_after or 0) < 102_400 <= (row.tokens_after or 0) + 1_000


@pytest.mark.requirement("S1.23", "S1.27", "S1.28")
def test_skills_leave_all_of_them(answered: Answered) -> None:
    """Prompts and descriptions, the newest too."""
    kinds = ("skill_prompt", "skill_metadata")
    left = after_all_rules(answered, *(typed(kind, f"{kind}-{n}", words(500)) for n in range(3) for kind in kinds))
    assert ids(left, "skill") + ids(left, "description") == []


@pytest.mark.requirement("S1.30")
def test_of_user_messages_five_stay(answered: Answered) -> None:
    """The question is one of them, and what the application says is none."""
    left = after_all_rules(answered, *(HumanMessage(words(500), id=f"asked-{n}") for n in range(6)))
    assert [name for name in ids(left) if name.startswith(("asked-", "old-question", "note-", "question"))] == [
        *(f"note-{n}" for n in range(4)),
        "question",
    ]


def after_all_rules(answered: Answered, *more: AnyMessage) -> list[AnyMessage]:
    """Return what is left of a conversation, with these messages at its beginning, after the five rules."""
    model = gpt("gpt-4o")
    answered(model, "At nine.")
    agent = agent_of(model, "typed_rules")
    added = sum(counter().message(message) for message in more)
    given = talk(102_400, 5)
    shorter = [
        of_size(counter().message(m) - added // 3, m) if m.id in ("gets-1", "gets-2", "gets-3") else m for m in given
    ]
    agent.invoke({"messages": [*shorter[:2], *more, *shorter[2:]]}, CONFIG)
    left: list[AnyMessage] = values(agent)["messages"]
    return left


@pytest.mark.requirement("S1.4")
@REAL
def test_older_ephemeral_results_leave_before_each_call(real: Replies, answered: Answered) -> None:
    """Of pages of 5,000 tokens the newest stays; a line stands in the place of each older one."""
    model, pages = real(), iter(range(1, 4))

    @tool
    def look() -> str:
        """Look at the next page."""
        return f"Page {next(pages)}. " + words(5_000)

    look.metadata = {"ephemeral": 1}
    sent = answered(model, *(calls(("look", {}), start=n) for n in range(1, 4)), "All is read.")
    agent = agent_of(model, "typed_rules", [look])
    agent.invoke({"messages": [QUESTION]}, CONFIG)
    shown = [[m.text.split()[:2] for m in request if m.type == "tool"] for request in sent]
    assert [[len(m.text) > 5_000 for m in request if m.type == "tool"] for request in sent] == [
        [],
        [True],
        [False, True],
        [False, False, True],
    ]
    assert shown[3][2] == ["Page", "3."]
    assert [row.strategy for row in ledger(agent)] == ["ephemeral"] * 2


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
