"""The preset `progressive` and its variants, as their document tells them, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings but the summarizer are the preset's own.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    Extensions,
    GitDiff,
    SettingsError,
    create_compacting_agent,
    load_settings,
)
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.config.triggers import Count, Unit
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.acceptance.talks import (
    QUESTION,
    REAL,
    SENTENCE,
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
from tests.fakes import calls, gpt, usage
from tests.graph.harness import CONFIG, events, frozen, ledger, standing, values

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
def test_two_hundred_calls_of_the_model_compact_within_one_long_run(answered: Callable[..., Sent]) -> None:
    """One input that leads to 211 calls: before the two hundredth the whole is summarized, and the run goes on."""
    model = gpt("gpt-4o")
    sent = answered(model, *steps(210))
    agent = progressive(model, tools=[count_crates])
    end = agent.invoke({"messages": "Count the crates in every shed."}, {**CONFIG, "recursion_limit": 2_000})
    assert end["messages"][-1].text == "All sheds are counted."
    assert (len(sent), standing(agent)["calls"], standing(agent)["turns"]) == (211, 211, 1)
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict, row.strategy) == ("model_calls", "committed", "progressive/full+model")
    assert [len(request) for request in (sent[198], sent[199])] == [397, 4]
    assert "Count the crates in every shed." in "".join(message.text for message in sent[199])
    assert standing(agent)["calls_at_commit"] == 200


@pytest.mark.requirement("S2.58")
@pytest.mark.parametrize("preset", PRESETS)
def test_each_variant_counts_two_hundred_calls_of_the_model(preset: str) -> None:
    """And summarizes the whole at once."""
    counts = [one for one in CompactionSettings.model_validate({"preset": preset}).triggers if isinstance(one, Count)]
    assert counts == [Count(unit="model_calls", limit=200, full=True)]


@pytest.mark.usefixtures("unbraked")
@pytest.mark.requirement("S2.3", "S2.58")
@pytest.mark.parametrize(("unit", "fired"), [("turns", 0), ("model_calls", 4)])
def test_steps_with_tools_are_calls_of_the_model_and_no_turns(
    unit: Unit, fired: int, answered: Callable[..., Sent]
) -> None:
    """Two inputs that lead to thirteen calls: turns count the inputs alone."""
    model = gpt("gpt-4o")
    answered(model, *steps(11), "You are welcome.")
    count = (Count(unit=unit, limit=3, full=True),)
    agent = progressive(model, tools=[count_crates], triggers=count)
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
    assert (row.trigger, row.strategy) == ("precheck", "progressive/sliding_window+model")
    (request,) = sent
    assert roles(request) == "u" + "auauauaua" + "u"
    assert [message.id for message in request[1:]] == [
        *(f"{name}-{n}" for n in range(40, 45) for name in ("note", "read") if (name, n) != ("note", 40)),
        "question",
    ]


@pytest.mark.requirement("S2.61", "S2.28", "S2.44")
@pytest.mark.parametrize(("join", "expected"), [(True, "u"), (False, "uu")])
def test_a_request_never_begins_with_two_user_messages_where_roles_must_alternate(
    join: bool, expected: str, answered: Callable[..., Sent]
) -> None:
    """After a full summary only the question is left; `join_user_messages` is for providers that want alternation."""
    model = gpt("gpt-4o")
    sent = answered(model)
    agent = progressive(model, join_user_messages=join)
    agent.invoke({"messages": [*said(6, 420), QUESTION]}, CONFIG)
    assert ledger(agent)[0].strategy == "progressive/full+model"
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
    assert [(row.verdict, row.strategy) for row in ledger(agent)] == [("committed", f"{preset}/{strategy}+model")]


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


# A long piece of work, told once: a store of memories, a list of tasks, a repository, pins, and a system prompt.

GOAL = "Paint the sheds of the harbor. " + SENTENCE * 30 + "<Pin>The northern shed stays white.</Pin>"
TODOS = [{"content": "scrape", "status": "completed"}, {"content": "paint", "status": "pending"}]
PART, FIRST, SECOND, THIRD = (
    f"[{word}] The user wants the sheds painted; the notes about the ferry and the crates were read."
    for word in ("part", "one", "two", "three")
)


class Working(CompactionState):
    """The state of an agent with a list of tasks."""

    todos: list[dict[str, str]]


def repository(folder: Path) -> GitDiff:
    """Return the statistics of a repository with a change that is not committed."""
    git = [str(shutil.which("git")), "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for number, command in enumerate((["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"], ["diff"])):
        (folder / "paint.py").write_text("white\n" * (1 + number // 3))
        subprocess.run([*git, *command], check=True, capture_output=True)
    return GitDiff(folder)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Lead gpt-4o through a window, a command and a marker: three compactions of one thread in SQLite."""
    file, store = tmp_path_factory.mktemp("work") / "work.db", InMemoryStore()
    for n in range(12):
        store.put(("memories",), f"m{n}", {"content": f"shed {n} is dry"})
    begun = [HumanMessage(GOAL, id="goal"), AIMessage("I begin.", id="begun"), *said(44, 60), QUESTION]
    more = [
        m
        for n in range(6)
        for m in (
            HumanMessage(f"And crate {n}?", id=f"crate-{n}"),
            AIMessage(f"In shed {n}. " + SENTENCE * 20, id=f"shed-{n}"),
        )
    ]
    with SQLAlchemySaver.from_url(f"sqlite:///{file}") as saver:
        saver.setup()
        yield story(
            gpt("gpt-4o"),
            "progressive",
            {"messages": begun, "todos": TODOS},
            {"messages": [*more[:6], HumanMessage("/compact keep the crates", id="command")]},
            {"messages": [*more[6:], HumanMessage("Sum it up.")]},
            {"messages": "Thank you."},
            replies=["At nine.", "As you wish. <!!!SUMMARY!!!>", "You are welcome."],
            summary=[usage(AIMessage(text), 45_000, 30) for text in (PART, FIRST, SECOND, THIRD)],
            checkpointer=saver,
            store=store,
            state_schema=Working,
            extensions=Extensions(key_information=[repository(tmp_path_factory.mktemp("sheds"))]),
            system_prompt="You paint.",
        )


def asked_by(told: Story, number: int) -> str:
    """Return the text of one request for a summary."""
    return "".join(message.text for message in told.sent.summaries[number])


@pytest.mark.requirement("S2.1", "S2.6", "S2.21")
def test_before_a_call_runs_short_the_oldest_become_a_summary(work: Story) -> None:
    """The first level is enough: only what is older than nine messages is shown to the summarizer."""
    row = ledger(work.agent)[0]
    assert (row.trigger, row.strategy) == ("precheck", "progressive/sliding_window+model")
    assert row.tokens_before in range(96_001, 112_000)
    asked = asked_by(work, 0) + asked_by(work, 1)
    assert ("Note 39. " in asked, "Read 39. " in asked, "Note 40. " in asked) == (True, False, False)
    assert is_summary(work.request[1])
    assert FIRST in work.request[1].text


@pytest.mark.requirement("S2.60", "S2.33", "S2.55")
def test_the_agents_own_model_writes_and_its_cost_is_told(work: Story) -> None:
    """The first in two parts; what the provider reports is added up, and the next request holds what was written."""
    assert len(work.sent.summaries) == 4
    told = [event for event in events(work.chunks, "CompactionEvent") if event["verdict"] == "committed"]
    costs = [(one["summary_calls"], one["summary_input_tokens"], one["summary_output_tokens"]) for one in told]
    assert costs == [(2, 90_000, 60), (1, 45_000, 30), (1, 45_000, 30)]
    assert [FIRST in request[1].text for request in work.sent] == [True, False, False]
    assert [SECOND in request[1].text for request in work.sent] == [False, True, False]
    assert [THIRD in request[1].text for request in work.sent] == [False, False, True]


@pytest.mark.requirement("S2.35", "S2.52")
def test_the_goal_stands_at_the_front_of_every_request(work: Story) -> None:
    """Whole and once, before what the model wrote."""
    for request, text in zip(work.sent, (FIRST, SECOND, THIRD), strict=True):
        told = request[1].text
        assert told.startswith("What the user asked for at the beginning")
        assert told.count("Paint the sheds of the harbor. " + SENTENCE * 30) == 1
        assert told.index("Paint the sheds") < told.index(text)


@pytest.mark.requirement("S2.30", "S2.31", "S2.38")
def test_what_the_application_knows_stands_around_the_summary(work: Story) -> None:
    """Goal, pins and the newest ten memories before it, changes and tasks behind it."""
    for request, text in zip(work.sent, (FIRST, SECOND, THIRD), strict=True):
        told = request[1].text
        parts = ('name="goal"', "<pinned>\n- The northern shed stays white.", 'name="memories"')
        marks = [*parts, f"<summary>\n{text}", 'name="git_diff"', 'name="tasks"']
        assert [told.count(mark) for mark in marks] == [1] * 6
        assert [told.index(mark) for mark in marks] == sorted(told.index(mark) for mark in marks)
        assert re.findall(r"shed (\d+) is dry", told) == [str(n) for n in range(2, 12)]


@pytest.mark.requirement("S2.39", "S2.40", "S2.37")
def test_tasks_and_changes_are_told_and_the_prompt_stays(work: Story) -> None:
    """How far each task is, how much has changed; the system prompt to the byte."""
    for request in work.sent:
        told = request[1].text
        assert "2 tasks: 1 completed, 1 pending\n- [completed] scrape\n- [pending] paint" in told
        assert "1 file changed, 1 insertion(+)" in told
        assert (request[0].type, request[0].text) == ("system", "You paint.")


@pytest.mark.requirement("S2.5", "S2.20")
def test_a_command_in_the_input_compacts_without_a_call(work: Story) -> None:
    """It is the complete summary, and the words behind it are shown to the summarizer; the command is not kept."""
    row = ledger(work.agent)[1]
    assert (row.trigger, row.strategy) == ("command", "progressive/full+model")
    assert "keep the crates" in asked_by(work, 2)
    assert roles(work.sent[1][2:]) == "uauaua" + "u"
    assert [ids(work.sent[1], name)[0] for name in ("crate-", "shed-")] == ["crate-3", "shed-3"]


@pytest.mark.requirement("S2.4", "S2.29", "S2.32")
def test_a_marker_in_the_answer_has_the_whole_summarized(work: Story) -> None:
    """By the model; prompt, summary and what comes after it are all that is left, and the marker is nowhere."""
    row = ledger(work.agent)[2]
    assert (row.trigger, row.strategy) == ("marker", "progressive/full+model")
    assert "In shed 5." in asked_by(work, 3)
    assert roles(work.sent[2]) == "su" + "au"
    assert [message.text for message in work.sent[2][2:]] == ["As you wish.", "Thank you."]


@pytest.mark.requirement("S2.51")
def test_everything_is_read_back_from_the_database(work: Story) -> None:
    """To the byte, in its order, after three compactions."""
    found = CompactionThread(work.agent, CONFIG).transcript()
    assert frozen(found[: len(work.begun)]) == frozen(work.begun)
    assert ids(found, "crate-") == [f"crate-{n}" for n in range(6)]


# The orders: the window is set to more than half of the messages, so that it does not apply and the next one is seen.

WORDING = {
    "code": "Change the code of it. ",
    "analysis": "Search for it. ",
    "conversation": "",
    "mixed": "Search for the code of it. ",
    "unknown": "",
}
"""What the user says of each type; who holds a conversation says little else."""
ORDERS = {
    "code": ("key_events", "incremental"),
    "analysis": ("importance", "incremental"),
    "conversation": ("importance", "incremental"),
    "mixed": ("incremental", "incremental"),
    "unknown": ("importance", "incremental"),
}
"""What is taken where the window does not apply, and where every message is of importance besides."""


def task(kind: str, answer: str = "Noted") -> list[AnyMessage]:
    """Return 45 rounds of a task, whose user says little and whose model writes much."""
    size = 0 if kind == "conversation" else 12
    talk: list[AnyMessage] = []
    for n in range(45):
        said = f"Part {n}. {WORDING[kind]}" + SENTENCE * size
        found = "The error was fixed" if n == 3 else answer
        told = f"{found}. " + SENTENCE * (112 - size)
        talk += [HumanMessage(said, id=f"part-{n}"), AIMessage(told, id=f"wrote-{n}")]
    return talk


def taken(agent: Any) -> list[str]:
    """Return the strategies of the attempts."""
    return [row.strategy for row in ledger(agent)]


@cache
def ordered(kind: str, answer: str = "Noted", rounds: int = 45, summarizer: Any = "digest") -> Story:
    """Compact a task whose window does not apply; a question that is long tells no type of task."""
    size = 100 * 45 // rounds
    talk = [
        m.model_copy(update={"content": m.text + SENTENCE * (size - 100)}) for m in task(kind, answer)[: 2 * rounds]
    ]
    asked = HumanMessage(SENTENCE * 12, id="question")
    return story(
        gpt("gpt-4o"),
        "progressive",
        {"messages": [*talk, asked]},
        sliding_window_size=99,
        summarizer=summarizer,
        summary=[FIRST, SECOND],
    )


@pytest.mark.requirement("S2.14", "S2.15", "S2.16")
@pytest.mark.parametrize("kind", ["code", "analysis", "conversation"])
def test_behind_the_window_each_task_has_an_order_of_its_own(kind: str) -> None:
    """Key events for code and importance for the others; chunks where every message is of importance."""
    second, third = ORDERS[kind]
    assert taken(ordered(kind).agent) == [f"progressive/{second}+digest"]
    assert taken(ordered(kind, "The task is completed").agent) == [f"progressive/{third}+digest"]


@pytest.mark.requirement("S2.17", "S2.18")
def test_a_mixed_task_takes_chunks_before_importance_and_an_unknown_one_behind_it() -> None:
    """Thirty rounds are too few for chunks."""
    orders = [(kind, *taken(ordered(kind).agent)) for kind in ("mixed", "unknown")]
    assert orders == [("mixed", "progressive/incremental+digest"), ("unknown", "progressive/importance+digest")]
    assert taken(ordered("mixed", rounds=30).agent) == ["progressive/importance+digest"]
    assert taken(ordered("unknown", "The task is completed").agent) == ["progressive/incremental+digest"]


@pytest.mark.requirement("S2.22", "S2.23")
def test_messages_with_a_high_score_stay_word_for_word_and_five_others() -> None:
    """All of the user's, one answer that tells of an error, and the newest five."""
    left = values(ordered("conversation").agent)["messages"]
    assert ids(left, "part-") == [f"part-{n}" for n in range(45)]
    assert ids(left, "wrote-") == ["wrote-3", *(f"wrote-{n}" for n in range(40, 45))]
    given = {message.id: message for message in ordered("conversation").begun}
    assert frozen([m for m in left if m.id in given]) == frozen([given[m.id] for m in left if m.id in given])


@pytest.mark.requirement("S2.24", "S2.25")
def test_key_events_stay_word_for_word_and_five_others() -> None:
    """What the user said and the answer that tells of a problem; of the rest the newest five."""
    left = values(ordered("code").agent)["messages"]
    assert ids(left, "part-") == [f"part-{n}" for n in range(45)]
    assert ids(left, "wrote-") == ["wrote-3", *(f"wrote-{n}" for n in range(40, 45))]


@pytest.mark.requirement("S2.26", "S2.47")
def test_each_chunk_of_twenty_turns_is_summarized_by_itself() -> None:
    """Of 46 turns the newest twenty stay; the model is asked for the six before and for twenty."""
    told = ordered("mixed", summarizer=None)
    left = values(told.agent)["messages"]
    assert ids(left, "part-") == [f"part-{n}" for n in range(26, 45)]
    assert [("Part 0. " in asked_by(told, n), "Part 25. " in asked_by(told, n)) for n in range(2)] == [
        (True, False),
        (False, True),
    ]
    assert "Part 6. " in asked_by(told, 1)
    assert "Part 5. " in asked_by(told, 0)
    assert [f"Chunk {n + 1}]\n{text}" in left[0].text for n, text in enumerate((FIRST, SECOND))] == [True, True]


@pytest.mark.requirement("S2.27")
def test_what_is_kept_goes_from_the_important_messages_down_to_the_summary_alone(work: Story) -> None:
    """Importance and key events, the last chunk, the window of nine, and nothing but the question."""
    kept = [len(ids(ordered(kind).request)) for kind in ("conversation", "code", "mixed")]
    kept += [len(ids(request, "note-") + ids(request, "read-")) for request in (work.sent[0], work.sent[2])]
    assert kept == [45 + 6 + 2, 45 + 6 + 2, 2 * 19 + 2, 9, 0]


RECOGNIZED: list[tuple[str, dict[str, Any], str]] = [
    ("code", {}, "key_events"),
    ("analysis", {}, "importance"),
    ("conversation", {}, "sliding_window"),
    ("conversation", {"adaptive_task_type": "code"}, "key_events"),
]
"""Whose words the user speaks, what is set, and the strategy of the flow chart for the task."""


@pytest.mark.requirement("S2.9", "S2.10", "S2.11")
@pytest.mark.parametrize(("words_of", "given", "strategy"), RECOGNIZED)
def test_the_words_of_the_user_tell_the_task(words_of: str, given: dict[str, Any], strategy: str) -> None:
    """The flow chart has a strategy for each; the type can be set too."""
    preset = "progressive_chart"
    told = story(gpt("gpt-4o"), preset, {"messages": [*task(words_of), QUESTION]}, summarizer="digest", **given)
    assert taken(told.agent) == [f"{preset}/{strategy}+digest"]


KINDS = [("mixed", "incremental"), ("unknown", "key_events"), ("conversation", "importance")]


@pytest.mark.requirement("S2.11", "S2.12", "S2.13")
@pytest.mark.parametrize(("kind", "strategy"), KINDS)
def test_a_tie_is_mixed_and_no_word_at_all_unknown(kind: str, strategy: str) -> None:
    """And short inputs a conversation: each of the three with a strategy of its own set, and no other task."""
    orders = {
        "code": (),
        "analysis": (),
        "conversation": ("importance",),
        "mixed": ("incremental",),
        "unknown": ("key_events",),
    }
    asked = HumanMessage(SENTENCE * 12, id="question")
    given: dict[str, Any] = {"adaptive_orders": orders, "strategies": ("adaptive",), "summarizer": "digest"}
    told = story(gpt("gpt-4o"), "progressive", {"messages": [*task(kind), asked]}, **given)
    assert taken(told.agent) == [f"progressive/{strategy}+digest"]


@cache
def looked_up(tokens: int) -> Story:
    """Compact an analysis of twenty blocks, whose newest four are of so many tokens."""
    talk = [HumanMessage("Search for it.", id="task")]
    for n in range(20):
        size = tokens if n > 15 else (104_000 - 4 * tokens) // 16
        talk += block(n, "lookup", SENTENCE * (size // 20))
    given = {"messages": [*talk, AIMessage("It is found.", id="found"), QUESTION]}
    return story(gpt("gpt-4o"), "progressive", given, summarizer="digest")


@pytest.mark.requirement("S2.41", "S2.42", "S2.43")
@pytest.mark.parametrize(("tokens", "strategy"), [(21_000, "sliding_window"), (24_000, "sliding_window>importance")])
def test_after_each_strategy_the_size_is_compared_with_the_aim(tokens: int, strategy: str) -> None:
    """With the summary, four blocks of 21,000 tokens leave a quarter of the window and four of 24,000 do not."""
    assert taken(looked_up(tokens).agent) == [f"progressive/{strategy}+digest"]
    assert (ledger(looked_up(tokens).agent)[0].tokens_after or 0) < 96_001


@pytest.mark.requirement("S2.7", "S2.53", "S2.19")
def test_where_the_first_strategy_is_not_enough_the_next_one_takes_of_what_it_left() -> None:
    """Two of the four blocks stay; the whole is not cleared, and where the first is enough no other is tried."""
    assert ids(looked_up(21_000).request, "gets-") == [f"gets-{n}" for n in range(16, 20)]
    assert ids(looked_up(24_000).request, "gets-") == ["gets-18", "gets-19"]
    assert {"found", "question"} <= set(ids(looked_up(24_000).request))


def few(kind: str) -> list[AnyMessage]:
    """Return seventeen messages of 100,000 tokens to which no strategy of their task's order applies."""
    if kind == "code":
        return [
            HumanMessage("Change the code of it. ", id="task"),
            *(m for n in range(8) for m in block(n, "edit_file", SENTENCE * 620)),
        ]
    return [
        m
        for n in range(8)
        for m in (
            HumanMessage(f"Part {n}.", id=f"part-{n}"),
            AIMessage("The task and the goal. " + SENTENCE * (1_000 if n < 3 else 400), id=f"wrote-{n}"),
        )
    ]


@pytest.mark.requirement("S2.8")
@pytest.mark.parametrize(("kind", "strategy"), [("code", "importance"), ("conversation", "key_events")])
def test_where_the_tasks_own_order_fails_all_four_are_tried(kind: str, strategy: str) -> None:
    """In the order of the text; importance is none of code's strategies, and key events none of a conversation's."""
    told = story(gpt("gpt-4o"), "progressive", {"messages": [*few(kind), QUESTION]}, summarizer="digest")
    assert taken(told.agent) == [f"progressive/{strategy}+digest"]


VARIABLES = [
    ("SLIDING_WINDOW_SIZE", "15", "sliding_window", 7),
    ("IMPORTANCE_SCORE_THRESHOLD", "5.5", "importance", 2),
    ("INCREMENTAL_SUMMARY_CHUNK_SIZE", "10", "incremental", 9),
]
"""A variable, its value, the strategy that it is of, and how many of the user's messages are left."""


@pytest.mark.requirement("S2.45", "S2.46", "S2.49")
@pytest.mark.parametrize(("variable", "value", "strategy", "left"), VARIABLES)
def test_variables_of_the_environment_set_the_figures(
    answered: Callable[..., Sent], variable: str, value: str, strategy: str, left: int
) -> None:
    """Fifteen messages, a score that nobody's words reach, ten turns."""
    environment = {f"LANGGRAPH_COMPACTION_{variable}": value, "LANGGRAPH_COMPACTION_PRESET": "progressive"}
    settings = load_settings(env=environment, strategies=(strategy,))
    model = gpt("gpt-4o")
    sent = answered(model)
    saver = InMemorySaver()
    agent = create_compacting_agent(model, settings=settings, summarizer="digest", checkpointer=saver)
    agent.invoke({"messages": [*task("conversation"), QUESTION]}, CONFIG)
    assert taken(agent) == ["progressive+digest"]
    assert len(ids(sent[0], "part-")) == left


@pytest.mark.requirement("S2.2", "S2.50", "S2.57")
def test_exactly_a_quarter_left_does_not_fire_and_one_token_less_does(answered: Callable[..., Sent]) -> None:
    """32,000 of 128,000; the quarter is computed, and a setting of its name is refused with the one to use."""
    talk = said(45, 52)
    missing = 96_000 - sum(counter().message(message) for message in [*talk, QUESTION]) - 4
    for more, fired in ((0, []), (1, ["precheck"])):
        model = gpt("gpt-4o")
        answered(model)
        agent = progressive(model)
        filled = HumanMessage(words(missing + more), id="filled")
        agent.invoke({"messages": [*talk[:-1], filled, talk[-1], QUESTION]}, CONFIG)
        assert [row.trigger for row in ledger(agent)] == fired
    with pytest.raises(SettingsError, match="trigger"):
        load_settings(summary_remaining_token_threshold=0.3)


@pytest.mark.requirement("S2.54")
def test_a_failed_summary_does_not_end_the_turn() -> None:
    """Where even the complete summary fails, the turn is answered on the whole conversation; then the cool-down."""
    given = {"messages": [*said(45, 60), QUESTION]}
    told = story(gpt("gpt-4o"), "progressive", given, {"messages": "And then?"}, replies=["At nine."], summary="")
    assert [len(request) for request in told.sent] == [91, 93]
    *tried, last = [(row.verdict, row.strategy) for row in ledger(told.agent)]
    assert {verdict for verdict, _ in tried} == {"rejected_empty"}
    assert [tried[0][1], tried[-1][1]] == ["progressive/sliding_window+model", "progressive/full+model"]
    assert last[0] == "deferred_cooldown"


@pytest.mark.requirement("S2.8", "S2.54")
@pytest.mark.parametrize(
    ("preset", "order"),
    [
        ("progressive", ["sliding_window", "key_events", "incremental", "importance", "full"]),
        ("progressive_chart", ["key_events", "importance", "incremental", "sliding_window", "full"]),
    ],
)
@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_where_the_summary_of_a_strategy_fails_the_next_one_follows(
    preset: str, order: list[str], failing: int
) -> None:
    """In the same turn: those of the task first, then the others of the four, at last the complete summary.

    Each is asked for three times, and so is each of two chunks.
    """
    talk, chunks = task("code"), "incremental" in order[:failing]
    told = story(
        gpt("gpt-4o"),
        preset,
        {"messages": [*talk, QUESTION]},
        replies=["At nine."],
        summary=[*[""] * 3 * (failing + chunks), PART],
    )
    rows = ledger(told.agent)
    assert [row.strategy for row in rows] == [f"{preset}/{name}+model" for name in order[: failing + 1]]
    assert [row.verdict for row in rows] == ["rejected_empty"] * failing + ["committed"]
    assert len(told.sent[0]) < len(talk)


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
