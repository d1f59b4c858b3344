import json
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from typer.testing import CliRunner

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.compaction.ledger import PREPARED, PREPARING, READY
from langgraph_compaction.graph import CompactionState, CompactionThread, as_node, create_compaction_graph
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.cli.options import find_attempt
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.checkpoint.samples import opening
from tests.graph.cli.commanding import call, lines
from tests.graph.harness import (
    CONFIG,
    THREAD,
    WORDS,
    agent,
    filler,
    frozen,
    full,
    said,
    standing,
    tool_block,
    values,
    verdicts,
)

CLIPS = {"tool_result_threshold": 60, "preview_tokens": 20, "tool_blocks_keep_unread": False}


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Return the URL of a new database."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def graph(db: str) -> Any:
    """An agent with a compaction behind it, all in that database."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    made = agent(checkpointer=saver)
    made.invoke(full(), CONFIG)
    made.invoke(said("next", "next"), CONFIG)
    return made


def test_an_undo_by_command_is_what_the_thread_goes_on_from(graph: Any, db: str) -> None:
    """The originals stand again, the ledger tells, nothing is compacted until it is released."""
    whole, head = CompactionThread(graph, CONFIG).transcript(), standing(graph)["head"]
    before = graph.get_state(CONFIG)
    assert call("undo", THREAD, "--db", db, "--force", width=60).stdout == (
        f"undone: {head}. 20 messages are in view, about 3,286 tokens (trigger 800, limit 1,000). "
        f"Automatic compactions pause until `undo {THREAD} --release`.\n"
    )
    after = graph.get_state(CONFIG)
    assert after.metadata == {"source": "update", "step": before.metadata["step"] + 1, "parents": {}}
    assert (after.parent_config, after.next) == (before.config, ())
    assert frozen(after.values["messages"]) == frozen(whole)
    assert standing(graph)["held"]
    assert verdicts(graph)[-1] == "undone"
    assert call("history", THREAD, "--db", db).stdout.count(head[:8]) == 2, "the row of the undo names what it undid"
    graph.invoke(said("held"), CONFIG)
    assert standing(graph)["epoch"] == 1
    told = call("undo", THREAD, "--release", "--db", db).stdout
    assert f"Automatic compactions of {THREAD} are allowed again." in told
    graph.invoke(said("released"), CONFIG)
    assert standing(graph)["epoch"] == 2


@pytest.mark.parametrize("command", [("undo", "--force"), ("undo", "--release")])
def test_a_thread_on_which_a_run_works_is_left_alone(graph: Any, db: str, command: tuple[str, ...]) -> None:
    """The command waits as long as it may, says what to do, and changes nothing."""
    run = graph.stream(said("more"), CONFIG)
    next(run)
    name, *options = command
    told = call(name, THREAD, "--db", db, "--wait", "0", *options, expect=1).stderr
    assert (
        "another run has been working on thread 'thread' for the 0 s that this run may wait for it (--wait)" in told
    )
    assert "start it again when the other one is over" in told
    list(run)
    assert values(graph)["messages"][-2].text == "more"
    assert not standing(graph).get("held")
    call(name, THREAD, "--db", db, "--wait", "0", *options)


def test_over_the_limit_it_wants_to_be_forced(graph: Any, db: str) -> None:
    """By the tokens that are counted here; nothing changes."""
    before = values(graph)
    assert "--force undoes it all the same" in call("undo", THREAD, "--db", db, expect=1).stderr
    assert values(graph) == before


@pytest.mark.parametrize("as_json", [False, True])
def test_an_undo_where_no_limit_is_stored_needs_no_force(graph: Any, db: str, as_json: bool) -> None:
    """The checkpoints of older versions of the package store no limit, so the command reports no limit."""
    graph.update_state(CONFIG, {"compaction": {"sizes": {}}}, as_node="commit")
    head = standing(graph)["head"]
    if as_json:
        told = {"thread_id": THREAD, "undone": [head], "messages": 20, "tokens_about": 3_286}
        assert lines("undo", THREAD, "--db", db) == [{**told, "trigger": None, "limit": None}]
    else:
        assert call("undo", THREAD, "--db", db).stdout == (
            f"undone: {head}. 20 messages are in view, about 3,286 tokens. "
            f"Automatic compactions pause until `undo {THREAD} --release`.\n"
        )
    assert len(values(graph)["messages"]) == 20


def test_a_second_undo_wants_to_be_forced_too(graph: Any, db: str) -> None:
    """The limit is known after a compaction was undone, or was tried in vain, as well."""
    for n in range(20):
        graph.invoke(said(filler(50, f"later{n}-")), CONFIG)
    assert standing(graph)["epoch"] > 1
    CompactionThread(graph, CONFIG).compact()
    call("undo", THREAD, "--db", db, "--force")
    before = values(graph)
    assert "the limit was 1,000" in call("undo", THREAD, "1", "--db", db, expect=1).stderr
    assert values(graph) == before
    told = json.loads(call("undo", THREAD, "1", "--db", db, "--force", "--json").stdout)
    assert (told["trigger"], told["limit"]) == (800, 1_000)


def test_what_cannot_be_undone_says_so(graph: Any, db: str) -> None:
    """A compaction the state does not rest on, a thread that is not there, a turn that is not over."""
    assert "`history" in call("undo", THREAD, "0" * 16, "--db", db, expect=2).stderr
    call("undo", THREAD, "1", "--db", db, "--force")
    call("undo", THREAD, "--release", "--db", db)
    graph.invoke(said("more " * 300), CONFIG)
    assert "or several ids begin so" in call("undo", THREAD, "1", "--db", db, "--force", expect=1).stderr
    assert "there is no thread 'nobody'" in call("undo", "nobody", "--db", db, expect=2).stderr
    graph.update_state(CONFIG, {"compaction": {"step": "model"}}, as_node="token_check")
    assert "resume it first" in call("undo", THREAD, "--db", db, "--force", expect=1).stderr


class Notes(CompactionState):
    """A parent with a channel of its own."""

    notes: Annotated[list[str], lambda old, new: [*(old or []), *new]]


def test_other_channels_of_a_graph_stay(db: str) -> None:
    """The command knows nothing of the graph: what it does not change stays as it is."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    settings = CompactionSettings(context_window=1_000, output_reserve=0, dialogue_rounds_keep_min=2)
    inner = create_compaction_graph(settings=settings, database=saver.database, token_counter=WORDS)
    builder = StateGraph(Notes)
    builder.add_node("compact", as_node(inner))
    builder.add_edge(START, "compact")
    parent = builder.compile(checkpointer=saver)
    given = [*full()["messages"][:-1], HumanMessage("last", id="last")]
    parent.invoke({"messages": given, "notes": ["mine"]}, CONFIG)
    assert any(map(is_summary, parent.get_state(CONFIG).values["messages"]))
    call("undo", THREAD, "--db", db, "--force")
    state = parent.get_state(CONFIG)
    assert frozen(state.values["messages"]) == frozen(given)
    assert state.values["notes"] == ["mine"]
    assert state.next == ()
    assert parent.invoke({"messages": [], "notes": ["more"]}, CONFIG)["notes"] == ["mine", "more"]


def test_a_compaction_is_named_in_short(graph: Any, db: str) -> None:
    """By its number in the list of them, as `last`, or by the beginning of its id, whichever the command."""
    for _ in range(2):
        graph.invoke(said("more " * 300), CONFIG)
    first, last = (row.compaction_id for row in CompactionThread(graph, CONFIG).history())
    listed = call("history", THREAD, "--db", db).stdout.splitlines()
    assert [line.split()[:2] for line in listed[-2:]] == [["1", first[:8]], ["2", last[:8]]]
    for name, meant in (("1", first), (first[:8], first), ("2", last), ("last", last)):
        (shown,) = lines("show", THREAD, name, "--db", db)
        assert shown["compaction_id"] == meant
        assert lines("show", "--diff", THREAD, name, "--db", db)[0]["compaction_id"] == meant
    assert lines("undo", THREAD, "1", "--branch", "new", "--db", db)[0]["from"] == THREAD
    assert lines("undo", THREAD, "1", "--db", db, "--force")[0]["undone"] == [first, last]
    (shown,) = lines("show", THREAD, "last", "--db", db)
    assert (shown["compaction_id"], shown["verdict"]) == (last, "committed")  # not the undo
    assert lines("threads", "--db", db)[0]["compactions"] == 2


def test_a_preparation_is_no_compaction(graph: Any, db: str, tmp_path: Path) -> None:
    """`last` is the compaction before it, and `threads` and `inspect` do not count it."""
    (row,) = CompactionThread(graph, CONFIG).history()
    with SQLAlchemySaver.from_url(db) as saver:
        records, ready = CompactionRecords(saver.database), Outcome(verdict=PREPARED, reason=READY, now=10.0)
        records.note(AttemptKey(THREAD, "", "base", 0, -1), ready, **opening(trigger=PREPARING))
        assert len(records.history(THREAD)) == 2
    assert lines("show", THREAD, "last", "--db", db)[0]["compaction_id"] == row.compaction_id
    assert lines("threads", "--db", db)[0]["compactions"] == 1
    assert "compactions: 1)" in call("inspect", THREAD, "--db", db, "--out", str(tmp_path / "t.html")).stdout


def test_the_beginning_of_several_ids_names_none() -> None:
    """The error asks for more of the id."""
    rows = [Mock(compaction_id=f"abcd{n}") for n in range(2)]
    records: Any = Mock(history=lambda _thread: rows)
    assert find_attempt(records, "t", "abcd1") is rows[1]
    with pytest.raises(SettingsError, match="ids of 2 compactions of thread 't' begin with 'abcd'"):
        find_attempt(records, "t", "abcd")


def test_a_few_digits_are_a_number() -> None:
    """Also where an id begins with them; longer digits are the beginning of an id."""
    rows = [Mock(compaction_id="98012345aa"), Mock(compaction_id="1234567890")]
    records: Any = Mock(history=lambda _thread: rows)
    assert find_attempt(records, "t", "2") is rows[1]
    assert find_attempt(records, "t", "98012345") is rows[0]
    for name in ("9", "0", "1234567"):
        with pytest.raises(SettingsError, match=f"has no compaction '{name}': `history t` lists them"):
            find_attempt(records, "t", name)


def test_the_database_may_be_named_by_the_environment(graph: Any, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option overrides it."""
    assert standing(graph)["epoch"] == 1
    monkeypatch.setenv("LANGGRAPH_COMPACTION_DATABASE_URL", db)
    assert [row["thread_id"] for row in lines("threads")] == [THREAD]
    assert "there is no file" in call("threads", "--db", "sqlite:///elsewhere.db", expect=2).stderr


def test_a_branch_is_a_thread_to_talk_to(graph: Any, db: str) -> None:
    """It stands where the compaction began."""
    (row,) = CompactionThread(graph, CONFIG).history()
    (told,) = lines("undo", THREAD, row.compaction_id, "--db", db, "--branch", "second")
    config = {"configurable": {"thread_id": "second"}}
    assert told["messages"] == len(values(graph, config)["messages"]) == 17
    assert (told["thread_id"], told["from"]) == ("second", THREAD)
    state = graph.get_state(config)
    assert (state.next, state.metadata) == ((), {"source": "update", "step": 0, "parents": {}})
    assert [standing(graph, config)[name] for name in ("step", "route")] == ["end", "end"], "its turn is over"
    assert len(graph.invoke(said("on"), config)["messages"]) > 1
    assert "already" in call("undo", THREAD, row.compaction_id, "--db", db, "--branch", "second", expect=2).stderr


def test_a_thread_is_forgotten_only_after_a_yes(graph: Any, db: str) -> None:
    """It asks; `--yes` does not."""
    assert CliRunner().invoke(app, ["forget", THREAD, "--db", db], input="n\n").exit_code == 1
    assert values(graph)
    call("forget", THREAD, "--db", db, "--yes")
    assert graph.get_state(CONFIG).values == {}
    assert lines("threads", "--db", db) == []


def test_pins_stay_where_an_undo_by_command_gives_them_their_whole_text(db: str) -> None:
    """In their original form the pinned messages take more than half of the room. The undo keeps the pins."""
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        graph = agent(checkpointer=saver, **CLIPS)
        blocks = [message for number in range(4) for message in tool_block(number, 200)]
        graph.invoke({"messages": [HumanMessage("first", id="q0"), *blocks, HumanMessage("go on", id="q1")]}, CONFIG)
        thread = CompactionThread(graph, CONFIG)
        pinned = [str(message.id) for message in values(graph)["messages"] if str(message.id).startswith("result-")]
        for name in pinned:
            thread.pin(message_id=name)
        call("undo", THREAD, "--db", db, "--force")
        chunks = list(graph.stream(said("next"), CONFIG, stream_mode="custom"))
        assert "PinsRefusedEvent" not in [event["event"] for event in chunks]
        assert [pin.message_id for pin in thread.pins()] == pinned
