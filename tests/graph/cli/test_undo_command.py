from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from typer.testing import CliRunner

from langgraph_compaction.checkpoint import Keyring, SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.nodes.testing import ScriptedModel
from tests.graph.cli.commanding import call, lines
from tests.graph.harness import CONFIG, THREAD, agent, frozen, full, said, standing, values, verdicts


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
    told = call("undo", THREAD, "--db", db, "--force").stdout
    assert told.startswith(f"undone: {head}. 20 messages are in view, about ")
    assert "that is over the limit of 1,000, and the next turn compacts again" in told
    after = graph.get_state(CONFIG)
    assert after.next == ()
    assert frozen(after.values["messages"]) == frozen(whole)
    assert standing(graph)["held"]
    assert verdicts(graph)[-1] == "undone"
    assert call("history", THREAD, "--db", db).stdout.count(" of 1 ") == 1, "the row of the undo names what it undid"
    assert "committed, undone by 2" in call("history", THREAD, "--db", db).stdout
    assert "committed, undone by 2" in call("show", THREAD, "1", "--db", db).stdout.splitlines()[0]
    told = call("undo", THREAD, "1", "--db", db, expect=1).stderr
    assert "compaction 1 is undone already, by no. 2; `undo thread --redo` brings it back" in told
    graph.invoke(said("held"), CONFIG)
    assert standing(graph)["epoch"] == 1
    told = call("undo", THREAD, "--release", "--db", db).stdout
    assert f"Automatic compactions of {THREAD} are allowed again." in told
    graph.invoke(said("released"), CONFIG)
    assert standing(graph)["epoch"] == 2


def test_the_command_counts_system_prompt_and_tools_as_the_method_does(db: str) -> None:
    """What it compares with the limit is the whole next request."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    graph = agent(checkpointer=saver, system_prompt="Answer briefly. " * 10, token_counter=None, context_window=4_000)
    graph.invoke(full(), CONFIG)
    (told,) = lines("undo", THREAD, "--db", db, "--force")
    assert standing(graph)["last"]["tokens_after"] == told["tokens_about"]
    thread = CompactionThread(graph, CONFIG)
    thread.redo()
    assert thread.undo(force=True).tokens == told["tokens_about"]
    assert f"{told['tokens_about']:,} tokens" in standing(graph)["last"]["text"]
    assert "automatic compactions pause until a release" in standing(graph)["last"]["text"], "it is below the limit"


def test_an_encrypted_database_is_read_and_changed_with_the_keys_of_the_environment(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them the refusal names the variable."""
    saver = SQLAlchemySaver(db, keys=Keyring({"2026": b"k" * 32}, current="2026"))
    saver.setup()
    graph = agent(checkpointer=saver)
    graph.invoke(full(), CONFIG)
    assert "LANGGRAPH_COMPACTION_KEYS" in call("history", THREAD, "--db", db, expect=1).stderr
    monkeypatch.setenv("LANGGRAPH_COMPACTION_KEYS", f"2026={b64encode(b'k' * 32).decode()}")
    assert "committed" in call("history", THREAD, "--db", db).stdout
    assert call("undo", THREAD, "--db", db, "--force").stdout.startswith("undone: ")
    assert standing(graph)["held"]
    call("inspect", THREAD, "--db", db, "--out", str(tmp_path / "page.html"))
    assert call("prune", "--all", "--db", db).exit_code == 0


def test_a_thread_whose_agent_has_called_tools_is_at_rest_after_its_turn(db: str) -> None:
    """Not while a call waits: the tasks of LangGraph's `Send` stay in each later checkpoint, as an empty list."""

    @tool
    def read(n: int) -> str:
        """Read."""
        return f"read {n}"

    saver = SQLAlchemySaver(db)
    saver.setup()
    calls = AIMessage("", tool_calls=[{"name": "read", "args": {"n": 1}, "id": "call"}])
    model = ScriptedModel(replies=["answered", calls, "answered"])
    graph = agent(model, tools=[read], checkpointer=saver)
    graph.invoke(full(), CONFIG)
    graph.invoke(said("read"), CONFIG, interrupt_before=["tools"])
    assert "resume it first" in call("undo", THREAD, "--db", db, "--force", expect=1).stderr
    graph.invoke(None, CONFIG)
    assert call("undo", THREAD, "--db", db, "--force").stdout.startswith("undone: ")
    assert call("undo", THREAD, "--redo", "--db", db).stdout.startswith("done again: ")
    graph.invoke(said("on"), CONFIG)


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


def test_what_cannot_be_undone_says_so(graph: Any, db: str) -> None:
    """A compaction the state does not rest on, a thread that is not there, a turn that is not over."""
    assert "`history" in call("undo", THREAD, "0" * 16, "--db", db, expect=2).stderr
    call("undo", THREAD, "1", "--db", db, "--force")
    call("undo", THREAD, "--release", "--db", db)
    graph.invoke(said("more " * 300), CONFIG)
    told = call("undo", THREAD, "1", "--db", db, "--force", expect=1).stderr
    assert told == "compaction 1 is undone already, by no. 2\n", "nothing brings it back behind another compaction"
    assert "there is no thread 'nobody'" in call("undo", "nobody", "--db", db, expect=2).stderr
    graph.update_state(CONFIG, {"compaction": {"step": "model"}}, as_node="token_check")
    assert "resume it first" in call("undo", THREAD, "--db", db, "--force", expect=1).stderr


def test_a_compaction_is_named_in_short(graph: Any, db: str) -> None:
    """By its number in the list of them, as `last`, or by the beginning of its id, whichever the command."""
    for _ in range(2):
        graph.invoke(said("more " * 300), CONFIG)
    first, last = (row.compaction_id for row in CompactionThread(graph, CONFIG).history())
    listed = call("history", THREAD, "--db", db, width=40).stdout.splitlines()  # an attempt is one line everywhere
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
    assert state.next == ()
    assert len(graph.invoke(said("on"), config)["messages"]) > 1
    assert "already" in call("undo", THREAD, row.compaction_id, "--db", db, "--branch", "second", expect=2).stderr


def test_a_thread_is_forgotten_only_after_a_yes(graph: Any, db: str) -> None:
    """It asks; `--yes` does not."""
    assert CliRunner().invoke(app, ["forget", THREAD, "--db", db], input="n\n").exit_code == 1
    assert values(graph)
    call("forget", THREAD, "--db", db, "--yes")
    assert graph.get_state(CONFIG).values == {}
    assert lines("threads", "--db", db) == []
