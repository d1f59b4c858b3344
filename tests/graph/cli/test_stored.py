import json
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.checkpoint.usage import Usage
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.offline_edit import rewrite
from tests.checkpoint.contract.steps import Steps
from tests.graph.cli import foreign
from tests.graph.cli.commanding import call
from tests.graph.cli.foreign import GRAPHS, changed, config, state_of


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an SQLite file with a thread of every kind, one of which was compacted twice; it is to be copied."""
    path = tmp_path_factory.mktemp("filled") / "kept.db"
    _fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def kept(filled: Path, tmp_path: Path) -> str:
    """Return the URL of a copy that belongs to the test."""
    return f"sqlite:///{shutil.copy(filled, tmp_path)}"


def _fill(url: str) -> None:
    with SQLAlchemySaver.from_url(url) as saver:
        saver.setup()
        foreign.fill(saver)
        _compact(CompactionRecords(saver.database))


def _compact(records: CompactionRecords) -> None:
    messages = [HumanMessage("old", id="old"), AIMessage("older", id="older")]
    opening: dict[str, Any] = {"parent_id": None, "checkpoint_id": None, "epoch": 0, "trigger": "tokens"}
    opening |= {"strategy": "summary", "tokens_before": 12_345, "counter": "tiktoken"}
    for attempt, verdict in enumerate(("rejected_empty", "committed")):
        key = AttemptKey("talk", "", fingerprint_all(messages), 0, attempt)
        records.begin(key, messages, now=1_790_000_000.0, **opening)
        outcome = Outcome(
            verdict=verdict,
            now=1_790_000_001.0,
            reason="empty" if attempt == 0 else "",
            tokens_after=678,
            usage=Usage(
                calls=1,
                input_tokens=11_000 if attempt else 9_000,
                cache_read_tokens=8_000 if attempt else 0,
                output_tokens=321 if attempt else 0,
                cost=0.0125 if attempt else None,
            ),
        )
        if verdict == "committed":
            records.commit(key, outcome, archived=messages)
        else:
            records.close(key, outcome)


def run(*args: str, width: int = 120) -> Result:
    """Run a command; stdout and stderr apart."""
    return CliRunner().invoke(app, args, env={"COLUMNS": str(width), "TERMINAL_WIDTH": str(width)})


def lines(*args: str, code: int = 0) -> list[dict[str, Any]]:
    """What `--json` prints, an object a line and nothing else."""
    result = run(*args, "--json")
    assert (result.exit_code, result.stderr) == (code, ""), result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def shown(*args: str) -> str:
    """What is printed for people, in single spaces."""
    result = run(*args)
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    return " ".join(result.stdout.split())


def test_threads_are_listed_newest_first(kept: str) -> None:
    """Each with its checkpoints, its compactions and when it was written last."""
    rows = lines("threads", "--db", kept)
    assert {row["thread_id"] for row in rows} == set(GRAPHS)
    assert [row["updated_at"] for row in rows] == sorted((row["updated_at"] for row in rows), reverse=True)
    talk = next(row for row in rows if row["thread_id"] == "talk")
    assert (talk["checkpoints"], talk["compactions"]) == (15, 1)
    assert "talk 20" in shown("threads", "--db", kept)


def test_checkpoints_are_listed_newest_first(kept: str) -> None:
    """As the saver lists them, of all namespaces, as many as are asked for."""
    with SQLAlchemySaver.from_url(kept) as saver:
        found = list(saver.list(config("resumed")))
    rows = lines("threads", "resumed", "--db", kept)
    assert [row["checkpoint_id"] for row in rows] == [one.checkpoint["id"] for one in found]
    assert [row["writes"] for row in rows] == [len(one.pending_writes or []) for one in found]
    assert any(row["writes"] for row in rows)
    assert [row["parent_id"] for row in rows if row["source"] == "input"] == [None, None]
    root = [row for row in rows if not row["namespace"]]
    assert 0 < len(root) < len(rows)
    assert (root[0]["step"], root[0]["messages"], root[0]["writes"]) == (1, 2, 0)
    assert lines("threads", "resumed", "--db", kept, "--limit", "1") == rows[:1]
    assert rows[0]["checkpoint_id"] in shown("threads", "resumed", "--db", kept)
    assert "namespace" not in shown("threads", "talk", "--db", kept)


def test_compactions_are_listed_in_order(kept: str) -> None:
    """With trigger, verdict, reason and sizes; a thread that was never compacted says so."""
    first, second = lines("history", "talk", "--db", kept)
    assert (first["verdict"], first["reason"]) == ("rejected_empty", "empty")
    assert (second["verdict"], second["tokens_before"], second["tokens_after"]) == ("committed", 12_345, 678)
    printed = shown("history", "talk", "--db", kept)
    assert "2026-09-21 14:13:20 committed 12,345 678 11,000/321 $0.0125 tokens summary" in printed
    assert "9,000/0" in printed
    assert shown("history", "delta", "--db", kept) == "It was never compacted."


def test_the_bill_is_shown(kept: str) -> None:
    """Of each thread the agent's calls and the summaries; a cost that is not known is left out, and is no zero."""
    cost = "calls for the summary: 1, 11,000 tokens in (8,000 cached), 321 out, $0.0125"
    assert cost in shown("show", "talk", "last", "--db", kept)
    cost = "calls for the summary: 1, 9,000 tokens in, 0 out, price not known"
    assert cost in shown("show", "talk", "1", "--db", kept)
    spent: dict[str, Any] = {
        "calls": 3,
        "input_tokens": 30_000,
        "cache_read_tokens": 20_000,
        "output_tokens": 60,
        "cost": 1.5,
    }
    with SQLAlchemySaver.from_url(kept) as saver:
        found = saver.get_tuple(config("talk"))
        assert found is not None
        rewrite(saver, found, {"compaction": {"bill": spent}})
    (row,) = lines("threads", "talk", "--bill", "--db", kept)
    assert row["agent"] == {"reasoning_tokens": 0, "cache_write_tokens": 0, **spent}
    assert (row["summaries"]["calls"], row["summaries"]["cost"]) == (2, None)
    assert "talk 3 30,000 20,000 60 $1.50 2" in shown("threads", "--bill", "--db", kept)
    assert {row["thread_id"] for row in lines("threads", "--bill", "--db", kept)} == set(GRAPHS)


def test_pruning_keeps_the_newest_and_says_what_went(kept: str) -> None:
    """Every thread stands where it stood, also one that waits; those that are not named stay as they are."""
    with SQLAlchemySaver.from_url(kept) as saver:
        before = {thread: state_of(saver, thread) for thread in GRAPHS}
    (row,) = lines("prune", "talk", "--db", kept)
    assert (row["checkpoints_erased"], row["checkpoints_left"], row["dry_run"]) == (14, 1, False)
    assert row["total_bytes_erased"] > 0
    with SQLAlchemySaver.from_url(kept) as saver:
        assert len(state_of(saver, "talk")) == 1
        assert all(state_of(saver, thread) == before[thread] for thread in GRAPHS if thread != "talk")
    lines("prune", "--all", "--db", kept)
    with SQLAlchemySaver.from_url(kept) as saver:
        for thread, states in before.items():
            assert state_of(saver, thread)[0][:6] == states[0][:6]


def test_a_terminal_is_shown_how_long_pruning_still_takes(kept: str) -> None:
    """A bar over the threads, on stderr; where that is no terminal, nothing."""
    bar = call("prune", "--all", "--dry-run", "--db", kept, colors=True).stderr
    assert re.search(rf"{len(GRAPHS)}/{len(GRAPHS)}.*\d:\d\d:\d\d", bar)
    assert call("prune", "--all", "--dry-run", "--db", kept).stderr == ""


def test_a_dry_run_says_the_same_and_erases_nothing(kept: str) -> None:
    """The figures of --dry-run are those of the run itself."""
    before = lines("threads", "--sizes", "--db", kept)
    options = ("prune", "--all", "--keep-last", "2", "--archive", "drop", "--db", kept)
    rehearsed = lines(*options, "--dry-run")
    assert "would be erased" in shown(*options, "--dry-run")
    assert lines("threads", "--sizes", "--db", kept) == before
    pruned = lines(*options)
    assert all(row["dry_run"] is True for row in rehearsed)
    assert [{**row, "dry_run": False} for row in rehearsed] == pruned
    assert shown(*options).startswith("erased thread")
    assert sum(row["checkpoints_erased"] for row in pruned) > 10
    assert [row["checkpoints"] for row in lines("threads", "--sizes", "--db", kept)] == [
        row["checkpoints_left"] for row in pruned
    ]


def test_only_what_is_old_goes(kept: str) -> None:
    """Of a thread of today nothing is older than an hour; of one from last year all but the newest is."""
    (row,) = lines("prune", "talk", "--older-than", "1h", "--db", kept)
    assert row["checkpoints_erased"] == 0
    with SQLAlchemySaver.from_url(kept) as saver:
        for found in saver.list(config("talk")):
            found.checkpoint["ts"] = f"2025{found.checkpoint['ts'][4:]}"
            parent = (found.parent_config or config("talk", checkpoint_ns=""))["configurable"]
            saver.put({"configurable": parent}, found.checkpoint, found.metadata, {})
    (row,) = lines("prune", "talk", "--older-than", "4w", "--db", kept)
    assert (row["checkpoints_erased"], row["checkpoints_left"]) == (14, 1)


def test_threads_that_nobody_writes_to_are_erased(kept: str) -> None:
    """Whole, with their free pages; a dry run names the same threads and erases none of them."""
    changed(
        kept, "UPDATE compaction_thread SET updated_at = updated_at - 8640000 WHERE thread_id IN ('talk', 'delta')"
    )
    idle = ("prune", "--idle", "90d", "--db", kept)
    named = lines(*idle, "--dry-run")
    assert [(row["thread_id"], row["dry_run"]) for row in named] == [("talk", True), ("delta", True)]
    assert "─ talk delta" in shown(*idle, "--dry-run")
    assert len(lines("threads", "--db", kept)) == len(GRAPHS)
    assert lines(*idle) == [{**row, "dry_run": False} for row in named]
    assert {row["thread_id"] for row in lines("threads", "--db", kept)} == set(GRAPHS) - {"talk", "delta"}
    assert changed(kept, "SELECT count(*) FROM compaction_ledger") == [(0,)]
    assert changed(kept, "PRAGMA freelist_count") == [(0,)]
    assert shown(*idle) == "No thread was idle for so long."


def test_a_thread_can_be_erased_as_a_whole(kept: str) -> None:
    """Nothing of it is left, its compactions and free pages included; the others are there."""
    assert lines("forget", "talk", "--yes", "--db", kept) == [{"thread_id": "talk", "forgotten": True}]
    assert {row["thread_id"] for row in lines("threads", "--db", kept)} == set(GRAPHS) - {"talk"}
    assert changed(kept, "SELECT count(*) FROM compaction_ledger") == [(0,)]
    assert changed(kept, "PRAGMA freelist_count") == [(0,)]


@pytest.fixture
def users(tmp_path: Path) -> str:
    """Return the URL of a database with the threads of some users, whose ids begin alike."""
    url = f"sqlite:///{tmp_path / 'users.db'}"
    with SQLAlchemySaver.from_url(url) as saver:
        saver.setup()
        for name, user in (("u1:a", "u1"), ("u1:b", "u1"), ("u12:a", "u12"), ("U1:a", "u1"), ("other", "u2")):
            Steps(saver, name).put({"x": 1}, user=user)
    return url


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--prefix u1:", ["u1:a", "u1:b"]),
        ("--metadata user=u1", ["u1:a", "u1:b", "U1:a"]),
        ("--metadata user=u1 --metadata source=loop --prefix u", ["u1:a", "u1:b"]),
        ("--metadata user=u1 --metadata source=input", []),
        ("--prefix %", []),
    ],
)
def test_threads_of_a_user_are_listed_and_erased(users: str, options: str, found: list[str]) -> None:
    """Both commands mean the same threads; the question tells how many, and a no leaves all of them."""
    chosen = (*options.split(), "--db", users)
    assert {row["thread_id"] for row in lines("threads", *chosen)} == {*found}
    assert {row["thread_id"] for row in lines("threads", "--sizes", *chosen)} == {*found}
    if not found:
        assert shown("threads", *chosen) == shown("forget", *chosen) == "There are no such threads."
    else:
        refused = run("forget", *chosen)
        assert refused.exit_code == 1
        assert f"Erase all data of {len(found)} threads?" in refused.stderr
    assert len(lines("threads", "--db", users)) == 5
    assert lines("forget", *chosen, "--yes") == [{"thread_id": name, "forgotten": True} for name in found]
    assert not {row["thread_id"] for row in lines("threads", "--db", users)} & {*found}
    assert changed(users, "SELECT count(*) FROM compaction_thread") == [(5 - len(found),)]
    assert changed(users, "PRAGMA freelist_count") == [(0,)]


@pytest.mark.parametrize(
    "args",
    [
        "",
        "talk --prefix t",
        "talk --metadata user=u1",
        "--prefix=",
        "--metadata user",
        "--metadata user=",
        "--metadata =a",
    ],
)
def test_what_to_forget_must_be_said(kept: str, args: str) -> None:
    """Neither a thread nor a filter, both, or an empty one: a usage error, and nothing is erased."""
    _one_line("forget", *args.split(), "--yes", "--db", kept)
    assert changed(kept, "SELECT count(*) FROM compaction_thread") == [(len(GRAPHS),)]


def test_a_leased_thread_of_a_user_is_left_and_named(users: str) -> None:
    """The others are erased, and the command ends with 1."""
    with SQLAlchemySaver.from_url(users) as saver, saver.lease("u1:a"), ThreadPoolExecutor() as others:
        result = others.submit(run, "forget", "--prefix", "u1:", "--yes", "--json", "--db", users).result()
    assert (result.exit_code, "'u1:a' is leased" in result.stderr) == (1, True)
    assert [json.loads(line)["thread_id"] for line in result.stdout.splitlines()] == ["u1:b"]


def test_a_leased_thread_is_left_and_named(kept: str) -> None:
    """The others are pruned, and the command ends with 1."""
    with SQLAlchemySaver.from_url(kept) as saver, saver.lease("talk"), ThreadPoolExecutor() as others:
        result = others.submit(run, "prune", "talk", "forked", "--db", kept, "--json").result()
    assert result.exit_code == 1
    assert "'talk' is leased" in result.stderr
    assert [json.loads(line)["thread_id"] for line in result.stdout.splitlines()] == ["forked"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "name the threads, or give --all or --idle"),
        (("talk", "--all"), "name the threads, or give --all or --idle"),
        (("--idle", "90"), "--idle: '90' is not an age"),
        (("--idle", "90d", "talk"), "--idle erases whole threads"),
        (("--idle", "90d", "--all"), "--idle erases whole threads"),
        (("--idle", "90d", "--keep-last", "1"), "--idle erases whole threads"),
        (("--idle", "90d", "--older-than", "1d"), "--idle erases whole threads"),
        (("--idle", "90d", "--archive", "drop"), "--idle erases whole threads"),
        (("talk", "--older-than", "soon"), "'soon' is not an age"),
        (("talk", "--keep-last", "0"), "--keep-last"),
    ],
)
def test_what_to_prune_must_be_said(kept: str, args: tuple[str, ...], told: str) -> None:
    """A command line that does not say it is a usage error, and nothing is erased."""
    result = run("prune", *args, "--db", kept, width=200)
    assert result.exit_code == 2
    assert told in result.stderr
    assert changed(kept, "SELECT count(*) FROM compaction_thread") == [(len(GRAPHS),)]


@pytest.mark.parametrize("command", ["threads", "threads talk", "history talk", "threads --sizes", "prune talk"])
def test_looking_never_makes_a_database(tmp_path: Path, command: str) -> None:
    """No such file, a file of something else, no tables of ours, memory: one line, exit code 2, nothing changed."""
    (tmp_path / "text.db").write_text("no database at all " * 100)
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn:
        conn.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, told in (
        (f"sqlite:///{tmp_path / 'missing.db'}", "there is no file"),
        (f"sqlite:///{tmp_path / 'text.db'}", "file is not a database"),
        (f"sqlite:///{tmp_path / 'other.db'}", "holds no tables of langgraph-compaction"),
        ("memory", "a database in memory ends with its process"),
        ("nonsense", "this is no database URL"),
    ):
        assert told in _one_line(*command.split(), "--db", name)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("command", ["threads", "history", "show", "prune"])
def test_an_unknown_thread_is_told(kept: str, command: str) -> None:
    """The command ends with 2 and names the thread and the database."""
    line = _one_line(command, "tlak", "--db", kept)
    assert line.startswith("there is no thread 'tlak' in sqlite:///")


def _one_line(*args: str, expect: int = 2) -> str:
    result = run(*args)
    assert (result.exit_code, type(result.exception), result.stdout) == (expect, SystemExit, "")
    (line,) = result.stderr.splitlines()
    return line
