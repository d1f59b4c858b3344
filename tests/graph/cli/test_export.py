"""Threads go out to LangGraph's own savers, and go on there without this package."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from typer.testing import CliRunner

from langgraph_compaction.checkpoint import Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.maintenance.export_checkpoints import export_checkpoints
from langgraph_compaction.graph.cli.main import app
from tests.checkpoint.contract.steps import Steps, values_of, where
from tests.conftest import server_database
from tests.fakes import ScriptedModel, calls
from tests.graph.cli import foreign
from tests.graph.cli.foreign import GRAPHS, OFFICIAL, config, said, sqlite_saver, state_of
from tests.graph.middleware.agents import agent


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a database of ours with a thread of every kind; only for reading."""
    url = f"sqlite:///{tmp_path_factory.mktemp('filled') / 'ours.db'}"
    with SQLAlchemySaver.from_url(url) as saver:
        saver.setup()
        foreign.fill(saver)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def official(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Return a kind of official saver, and the URL of a database for it."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            yield request.param, stack.enter_context(server_database(request.param))
        else:
            yield request.param, f"sqlite:///{tmp_path / 'langgraph.db'}"


def exported(db: str, target: str, *more: str, code: int = 0) -> dict[str, Any]:
    """Run the command; return the figures of `--json`, the only output."""
    result = CliRunner().invoke(app, ["export-checkpoints", "--db", db, "--to", target, *more, "--json"])
    assert (result.exit_code, result.stderr) == (code, ""), result.exception
    return json.loads(result.stdout)


def test_every_thread_goes_out_as_it_is(filled: str, official: tuple[str, str]) -> None:
    """Every state of every history is equal, on both branches of a fork too; a second run writes nothing."""
    kind, target = official
    first = exported(filled, target)
    assert (first["threads"], first["already"], first["failed"]) == (len(GRAPHS), 0, [])
    assert first["checkpoints"] == first["written"] == first["verified"] > 50
    with SQLAlchemySaver.from_url(filled) as before, OFFICIAL[kind](target) as after:
        for thread in GRAPHS:
            assert state_of(after, thread) == state_of(before, thread)
    assert exported(filled, target) == {**first, "already": first["checkpoints"], "written": 0}


def test_threads_that_wait_or_failed_go_on_there(filled: str, official: tuple[str, str]) -> None:
    """The answer reaches the subgraph that asked; a fork and a delta channel go on from their last value."""
    kind, target = official
    exported(filled, target)
    with OFFICIAL[kind](target) as saver:
        asked = foreign.asking().compile(checkpointer=saver)
        assert asked.invoke(Command(resume="yes"), config("asked"))["messages"][-1].text == "approved: yes"
        for thread in ("talk", "forked", "delta"):
            graph = GRAPHS[thread]().compile(checkpointer=saver)
            before = graph.get_state(config(thread)).values["messages"]
            after = graph.invoke(said("one more"), config(thread))["messages"]
            assert after[: len(before)] == before
            assert after[len(before)].text == "one more"
            assert len(after) > len(before) + 1


@pytest.mark.parametrize("thread", ["resumed", "forked", "fanned"])
def test_an_export_that_was_stopped_goes_on(filled: str, tmp_path: Path, thread: str) -> None:
    """Wherever it was stopped: between the checkpoints of a subgraph and of its parent, too."""
    with SQLAlchemySaver.from_url(filled) as ours:
        count = len(list(ours.list(config(thread))))
        for stop in range(1, count):
            with sqlite_saver(f"sqlite:///{tmp_path / f'{stop}.db'}") as theirs:
                for one in islice(export_checkpoints(ours, theirs, [thread]), stop):
                    assert one.written
                rest = list(export_checkpoints(ours, theirs, [thread]))
                assert (len(rest), {one.problem for one in rest}) == (count, {None})
                assert 0 < sum(one.written for one in rest) < count
                assert state_of(theirs, thread) == state_of(ours, thread)


def test_branches_of_equal_versions_keep_their_values(official: tuple[str, str]) -> None:
    """PostgresSaver stores a value once for each version of its channel: two branches have different versions."""
    kind, target = official
    with SQLAlchemySaver.from_url("memory") as ours, OFFICIAL[kind](target) as theirs:
        ours.setup()
        steps = Steps(ours, "forked")
        root = steps.put({"x": ["root"]})
        heads = [steps.put({"x": [name]}, on=root) for name in ("one", "other")]
        assert [one.problem for one in export_checkpoints(ours, theirs)] == [None] * 3
        assert [values_of(theirs, head) for head in heads] == [{"x": ["one"]}, {"x": ["other"]}]


def test_an_agents_thread_goes_on_without_this_package(official: tuple[str, str], tmp_path: Path) -> None:
    """All that was said, with tools and behind compactions, is there; the private channels do no harm."""

    @tool
    def look(word: str) -> str:
        """Look a word up."""
        return f"{word} was found"

    kind, target = official
    db = f"sqlite:///{tmp_path / 'ours.db'}"
    thread: Any = {"configurable": {"thread_id": "talk"}}
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        said_by_model = [(calls(("look", {"word": f"word {n}"}), start=n), f"it is {n} " * 60) for n in range(12)]
        model = ScriptedModel(replies=[reply for pair in said_by_model for reply in pair])
        ours = agent(model, tools=[look], summarizer="digest", checkpointer=saver)
        for turn in range(12):
            ours.invoke(said(f"question {turn} " * 40), thread)
        values = ours.get_state(thread).values
    assert values["compaction_view"]["summary"]
    assert exported(db, target)["failed"] == []
    with OFFICIAL[kind](target) as saver:
        plain = create_agent(
            ScriptedModel(replies=[calls(("look", {"word": "more"}), start=99), "done"]), [look], checkpointer=saver
        )
        assert plain.get_state(thread).values["messages"] == values["messages"]
        after = plain.invoke(said("and now?"), thread)["messages"]
        assert after[:-4] == values["messages"]
        assert [message.type for message in after[-4:]] == ["human", "ai", "tool", "ai"]
        assert plain.invoke(said("and then?"), thread)["messages"][: len(after)] == after


def test_only_the_named_threads_go_out(filled: str, tmp_path: Path) -> None:
    """An encrypted database is exported by the function, to any saver; a thread that is not there is an error."""
    keys = Keyring({"1": bytes(32)}, current="1")
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'sealed.db'}", keys=keys) as ours:
        ours.setup()
        for name in ("one", "other"):
            Steps(ours, name).put({"x": 1})
        theirs = InMemorySaver()
        assert [one.thread_id for one in export_checkpoints(ours, theirs, ["other"])] == ["other"]
        assert values_of(theirs, where("other")) == {"x": 1}
        assert theirs.get_tuple(where("one")) is None
    target = f"sqlite:///{tmp_path / 'langgraph.db'}"
    assert exported(filled, target, "--thread", "talk", "--thread", "delta")["threads"] == 2
    assert "holds no thread 'tlak'" in _refused(filled, target, "--thread", "tlak")


@pytest.mark.parametrize("target", ["memory", "mariadb://root@127.0.0.1/x", "sqlite:////no/such/folder/x.db"])
def test_a_target_that_cannot_be_written_to_is_named(filled: str, target: str) -> None:
    """One line without a traceback."""
    told = _refused(filled, target)
    assert "threads cannot be exported to" in told or "unable to open database file" in told


def test_what_differs_is_listed(tmp_path: Path) -> None:
    """The official savers go by the ids, and ours by the order of arrival: a clock that was set back is told."""
    db, target = f"sqlite:///{tmp_path / 'ours.db'}", f"sqlite:///{tmp_path / 'langgraph.db'}"
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        steps = Steps(saver, "odd")
        steps.put({"x": 1})
        steps.put({"x": 2}, name="1e000000-0000-6000-8000-000000000000")
    (failed,) = exported(db, target, code=1)["failed"]
    assert failed["reason"] == "the target has another one as the newest of its namespace"


def _refused(db: str, target: str, *more: str) -> str:
    result = CliRunner().invoke(app, ["export-checkpoints", "--db", db, "--to", target, *more])
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)
    (line,) = result.stderr.splitlines()
    return line
