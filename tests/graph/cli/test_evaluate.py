"""The command `evaluate`: what it prints and writes, what it reads, and what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.cli.output.online_table import print_online
from langgraph_compaction.graph.cli.output.recall_table import print_recall
from langgraph_compaction.graph.lab.evaluation.long_threads import KNOWN
from langgraph_compaction.graph.lab.evaluation.recoverable import RECOVERED
from langgraph_compaction.graph.lab.evaluation.scores import SAID, measured
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.graph.lab.replay.online_runs import run_of
from tests.graph.cli.replaying import READ, one_line, rounds, run, written

FIELDS = {
    *("policy", "budget", "runs", "identifiers", "recall", "bound", "calls"),
    *("tokens_over_cap", "within_cap", "broken_pairs", "ci95", "rules", "precision"),
}
ONLINE_FIELDS = {
    *("policy", "window", "runs", "requests", "identifiers", "available", "calls", "ci95", "compactions"),
    *("tokens_sent", "prefix_reuse", "cost", "over_window", "extra_calls", "course"),
}
OWN = """
from langgraph_compaction.nodes.selection.selector import Choice


def oldest_half(selector, demand):
    there = [i for i in range(len(selector.view.messages)) if i not in selector.untouchable]
    yield Choice(drop=frozenset(there[: len(there) // 2]))


STRATEGIES = {"oldest_half": oldest_half}
"""


def evaluate(*args: object, width: int = 80, **env: str) -> Result:
    """Run the command; stdout and stderr apart."""
    return CliRunner().invoke(app, ["evaluate", *map(str, args)], env={"COLUMNS": str(width), **env})


def rows(*args: object) -> list[dict[str, Any]]:
    """The lines that `--json` prints; the command succeeds in silence."""
    result = evaluate(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_policy_is_measured_at_each_budget_beside_chance_and_trim(recorded: Path) -> None:
    """With every figure, and none over its cap."""
    found = rows(recorded, "--preset", "faithful,recent_rounds", "--budget", "0.5,0.9")
    names = ["faithful", "recent_rounds", "random exchanges", "trim_messages"]
    assert [(row["budget"], row["policy"]) for row in found] == [(b, n) for b in (0.5, 0.9) for n in names]
    assert all(row.keys() >= FIELDS for row in found)
    assert {row["runs"] for row in found} == {1}
    assert all(row["within_cap"] == 1 and 0 < row["tokens_over_cap"] <= 1 for row in found)
    assert rows(recorded, "--preset", "faithful,recent_rounds", "--budget", "0.5,0.9") == found


def test_several_cuts_of_several_files(recorded: Path) -> None:
    """A run counts once, however often it is cut."""
    (row, *_) = rows(recorded, recorded, "--preset", "faithful", "--budget", "0.5", "--cut", "0.5,0.75")
    assert (row["runs"], row["cuts"]) == (1, 4)


def test_a_strategy_of_ones_own_is_measured_as_a_preset_is(recorded: Path, tmp_path: Path) -> None:
    """From the file that --use names."""
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    found = rows(recorded, "--use", path, "--preset", "oldest_half,selective", "--budget", "0.6")
    assert [row["policy"] for row in found][:2] == ["oldest_half", "selective"]
    assert found[0]["tokens_over_cap"] <= 1
    played = rows(recorded, "--online", "--use", path, "--preset", "oldest_half", "--window", "0.6")
    assert (played[0]["policy"], played[0]["over_window"]) == ("oldest_half", 0)
    assert played[0]["compactions"] > 0


def test_whole_runs_are_played_in_small_windows(recorded: Path) -> None:
    """A row a policy and window; beside no compaction at all, which is over the window and costs 1.

    `faithful` quotes handles, whose random parts differ in length by some tokens from run to run.
    """
    found = rows(recorded, "--online", "--preset", "faithful,recent_rounds", "--window", "0.4,0.8")
    names = ["faithful", "recent_rounds", "no compaction", "trim_messages", "random exchanges"]
    assert [(row["window"], row["policy"]) for row in found] == [(w, n) for w in (0.4, 0.8) for n in names]
    assert all(row.keys() >= ONLINE_FIELDS for row in found)
    again = rows(recorded, "--online", "--preset", "faithful,recent_rounds", "--window", "0.4,0.8")
    for row, other in zip(found, again, strict=True):
        near = {"tokens_sent", "prefix_reuse", "cost", "ci95", "course"} if row["policy"] == "faithful" else set()
        assert {name: row[name] for name in row.keys() - near} == {name: other[name] for name in other.keys() - near}
        assert other["cost"] == pytest.approx(row["cost"], rel=0.02)
        assert other["tokens_sent"] == pytest.approx(row["tokens_sent"], rel=0.02)
    by = {(row["window"], row["policy"]): row for row in found}
    for window in (0.4, 0.8):
        whole = by[window, "no compaction"]
        assert (whole["available"], whole["cost"], whole["tokens_sent"]) == (1.0, 1.0, 1.0)
        assert whole["over_window"] > by[window, "faithful"]["over_window"] == 0
        assert by[window, "faithful"]["tokens_sent"] < 1
    assert by[0.4, "faithful"]["compactions"] > by[0.8, "faithful"]["compactions"] > 0


def test_json_says_what_the_figures_do_not_show(recorded: Path) -> None:
    """In every row, whatever is measured."""
    for args in (("--budget", "0.5"), ("--online",)):
        assert {row["note"] for row in rows(recorded, "--preset", "faithful", *args)} == {SAID}


def test_the_table_says_what_the_figures_do_not_show(recorded: Path) -> None:
    """It fits 80 columns, names the runs, and explains its columns."""
    result = evaluate(recorded, "--preset", "faithful", "--budget", "0.5")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    assert SAID in words
    assert "1 runs, 1 cuts" in words
    assert all(name in words for name in ("faithful", "random exchanges", "trim_messages", "95 %"))
    assert "pairs broken" not in words


def test_the_table_of_an_online_replay_says_so_too(recorded: Path) -> None:
    """A table a window, in 80 columns with their headings; that a digest costs no call is said."""
    result = evaluate(recorded, "--online", "--preset", "faithful", "--window", "0.4,0.8")
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    assert SAID in words
    assert "no model was called to summarize" in words
    assert all(title in words for title in ("window 40%: 1 runs, 20 requests", "window 80%"))
    assert words.count("policy available 95 % calls times sent reused cost over") == 2


def test_the_table_of_an_online_replay_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interval is next to its figure. Without needed identifiers or requests over the limit, a cell is empty."""
    monkeypatch.setenv("COLUMNS", "80")
    about = {"window": 0.4, "runs": 2, "requests": 20, "identifiers": 8, "policy": "faithful", "extra_calls": 0}
    shares = {"available": 0.875, "ci95": {"available": [0.75, 1.0]}, "calls": 0.75, "prefix_reuse": 0.8}
    row = {**about, **shares, "over_window": 0.6, "compactions": 3.2, "tokens_sent": 0.61, "cost": 0.72}
    small = {**row, "window": 4_000}
    print_online([row, {**row, "policy": "none", "identifiers": 0, "over_window": 0.0}, small])
    tables, _, legend = capsys.readouterr().out.partition("Each run is played whole, ")
    headings = "policy    available    95 %  calls  times  sent  reused  cost  over"
    figures = "faithful       87.5  75-100   75.0    3.2  0.61      80  0.72    60"
    assert [line.rstrip() for line in tables.splitlines()] == [
        *("           window 40%: 2 runs, 20 requests, 8 identifiers", headings, "─" * 68, figures),
        "none                                  3.2  0.61      80  0.72",
        *("      window 4,000 tokens: 2 runs, 20 requests, 8 identifiers", headings, "─" * 68, figures),
    ]
    words = " ".join(legend.split())
    assert words.startswith("turn by turn, in a window of tokens, or of the system prompt, the tools and a share")
    explained = ("Available:", "95 %:", "Calls:", "Times:", "Sent:", "Reused:", "Cost:", "Over:")
    assert [words.count(heading) for heading in explained] == [1] * 8
    assert words.endswith(
        "Summaries are extracted digests: no model was called to summarize, and nothing is added to the cost. " + SAID
    )
    monkeypatch.setenv("COLUMNS", "60")
    print_online([{**row, "extra_calls": 3}, {**row, "extra_calls": 4}])
    told = capsys.readouterr().out
    assert len(told.partition("Each run is played whole, ")[0].splitlines()) == 5, "no row is broken"
    assert f"over runs. 7 calls of a summarizer are in the cost. {SAID}" in " ".join(told.split())


def test_the_table_of_what_recall_finds_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table shows shares as percentages with one decimal, and the text below the table explains every column."""
    monkeypatch.setenv("COLUMNS", "80")
    shares = {"hit@1": 0.125, "hit@5": 0.5, "found": 1.0, "in_reach": 0.0}
    rows = [{"query": "message", "search": "recall", "questions": 12, "tokens": 4_321, **shares}]
    print_recall(rows)
    table, _, legend = capsys.readouterr().out.partition("A thread holds ")
    assert [line.rstrip() for line in table.splitlines()] == [
        "     12 questions, threads of 4,321 tokens",
        "query    search  hit@1  hit@5  found  in reach",
        "─" * 47,
        "message  recall   12.5   50.0  100.0       0.0",
    ]
    words = " ".join(legend.split())
    monkeypatch.setenv("COLUMNS", "40")
    print_recall(rows)
    assert len(capsys.readouterr().out.partition("A thread holds ")[0].splitlines()) == 4, "no row is broken"
    headings = ("Query:", "hit@1, hit@5:", "Found:", "In reach:", "Run known:")
    assert [words.count(heading) for heading in headings] == [1] * 5
    assert words.endswith(f"only messages of the same run are searched. {SAID}")


def test_what_a_recall_brings_back_has_a_column_of_its_own(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was measured; blank for a policy that lost nothing."""

    def known(*args: Any, **given: Any) -> list[dict[str, Any]]:
        found = list(measured(*args, **given))
        nothing = {"recoverable": None, "recoverable_by_chance": None}
        return [
            {**found[0], "recoverable": 0.75, "recoverable_by_chance": 0.5},
            *({**r, **nothing} for r in found[1:]),
        ]

    monkeypatch.setattr("langgraph_compaction.graph.cli.commands.evaluate_command.measured", known)
    result = evaluate(recorded, "--preset", "faithful", "--budget", "0.5")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert next(line for line in result.stdout.splitlines() if "75/50" in line).startswith("50% faithful")
    assert " ".join(RECOVERED.split()) in " ".join(result.stdout.split())


def test_the_table_shows_shares_as_percentages_and_names_what_is_flawed(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table cell is empty if its figure is missing.

    A line below the table names each policy that has a context over its cap or a broken pair of messages.
    """
    about = {"runs": 2, "cuts": 4, "identifiers": 8, "later_calls": 6, "budget": 0.1, "policy": "faithful"}
    shares = {"recall": 0.875, "bound": 0.75, "calls": 0.5, "rules": {"top": 1.0, "middle": 0.5, "bottom": 0.0}}
    rest = {"precision": 0.9, "tokens_over_cap": 1.02, "within_cap": 0.875, "broken_pairs": 0}
    row = {**about, **shares, **rest, "ci95": {"bound": [0.5, 1.0]}, "recoverable": 0.75}
    given = [
        {**row, "recoverable_by_chance": 0.5},
        {**row, "policy": "random", "precision": None, "within_cap": 1, "broken_pairs": 2, "recoverable": None},
        {**row, "budget": 0.5, "policy": "none", "identifiers": 0, "within_cap": 1, "tokens_over_cap": 0.5},
    ]
    monkeypatch.setattr(
        "langgraph_compaction.graph.cli.commands.evaluate_command.measured", lambda *_, **__: iter(given)
    )
    shown = [line.rstrip() for line in evaluate(recorded).stdout.splitlines()]
    assert shown[:12] == [
        "           2 runs, 4 cuts, 8 identifiers of 6 later calls",
        "                                                              recov-",
        "cap policy   recall bound   95 % calls    rules precise  used erable",
        "─" * 68,
        "10% faithful   87.5  75.0 50-100  50.0 100/50/0    90.0 1.02!  75/50",
        "10% random     87.5  75.0 50-100  50.0 100/50/0          1.02",
        "",
        "50% none                               100/50/0    90.0  0.50     75",
        "faithful at 10%: 12.5 % over the cap, 0 pairs broken",
        "random at 10%: 0.0 % over the cap, 2 pairs broken",
        "Of the identifiers that calls after the cut need from before it, recall: those",
        "that are left; bound: those left near two of the words that gave them meaning.",
    ]
    assert " ".join(shown).endswith(f"In the table: the one / the other, in %. {SAID}")
    given[0]["recoverable"] = given[2]["recoverable"] = None
    unmeasured = [line.rstrip() for line in evaluate(recorded).stdout.splitlines()]
    assert unmeasured[1:4] == [
        "cap policy   recall bound   95 % calls    rules precise  used",
        "─" * 61,
        "10% faithful   87.5  75.0 50-100  50.0 100/50/0    90.0 1.02!",
    ]
    assert "Recoverable" not in " ".join(unmeasured)


@pytest.mark.parametrize(
    ("args", "bar", "counted"),
    [
        (("--budget", "0.5"), "contexts", "3/3"),
        (("--online", "--window", "0.9"), "runs", "4/4"),
        (("--recall",), "questions", "1/1"),
    ],
)
def test_a_terminal_shows_how_far_it_is_and_erases_this_in_the_end(
    tmp_path: Path, args: tuple[str, ...], bar: str, counted: str
) -> None:
    """In a terminal, the command draws a progress bar up to the total, and erases the bar at the end."""
    path = written(tmp_path / "talk.json", {"messages": told_and_needed("teal")})
    result = evaluate(path, "--preset", "faithful", *args, FORCE_COLOR="1", TERM="xterm")
    drawn = re.sub(r"\x1b\[[\d;]*m", "", result.stderr)
    assert drawn.endswith(f"\x1b[2K{bar} {'━' * 40} {counted}\n\x1b[?25h\r\x1b[1A\x1b[2K")


def test_what_recall_finds_in_long_threads(tmp_path: Path) -> None:
    """By the user's words and the query of `auto_recall`, beside BM25; each run among the other."""
    files = [tmp_path / f"{thing}.json" for thing in ("teal", "navy")]
    for file in files:
        file.write_text(json.dumps({"messages": told_and_needed(file.stem)}), encoding="utf-8")
    found = rows(*files, "--recall")
    searches = ("recall", "BM25 with stems", KNOWN)
    assert [(row["query"], row["search"]) for row in found] == [
        (q, s) for q in ("message", "auto_recall") for s in searches
    ]
    assert {(row["questions"], row["found"], row["note"]) for row in found} == {(2, 1.0, SAID)}
    result = evaluate(*files, "--recall")
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    assert all(said in words for said in (SAID, "2 questions", "hit@5", "BM25 with stems", "100.0"))


def told_and_needed(thing: str) -> list[dict[str, Any]]:
    """A run in which a number is said, two rounds pass, and a call needs the number."""
    pause = [{"role": "user", "content": "Wait"}, {"role": "assistant", "content": "I wait."}]
    function = {"name": "send", "arguments": json.dumps({"parcel": f"PX-{thing}-1"})}
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    return [
        {"role": "user", "content": f"My {thing} crate has the number PX-{thing}-1."},
        {"role": "assistant", "content": "Noted."},
        *(2 * pause),
        {"role": "user", "content": f"Now send the {thing} crate"},
        call,
    ]


def test_auto_recall_can_be_switched(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every preset; by default each has its own."""
    played: list[dict[str, bool]] = []

    def looked(_: Any, chosen: Any, *__: Any) -> list[dict[str, Any]]:
        played.append({name: settings.auto_recall for name, settings in chosen.items()})
        return []

    monkeypatch.setattr("langgraph_compaction.graph.cli.commands.evaluate_command._online", looked)
    for switch in ((), ("--auto-recall",), ("--no-auto-recall",)):
        rows(recorded, "--online", "--preset", "faithful,selective", *switch)
    both = ("faithful", "selective")
    assert played == [{"faithful": True, "selective": False}, dict.fromkeys(both, True), dict.fromkeys(both, False)]


def test_a_thread_of_a_database_is_read_whole(recorded: Path, tmp_path: Path) -> None:
    """With what its compactions took out of view."""
    db = f"sqlite:///{tmp_path / 'kept.db'}"
    assert run(recorded, "--db", db).exit_code == 0
    with SQLAlchemySaver.from_url(db) as saver:
        (thread,) = saver.threads()
    (kept, *_) = rows("--db", db, "--thread", thread, "--preset", "faithful", "--budget", "0.5")
    (read, *_) = rows(recorded, "--preset", "faithful", "--budget", "0.5")
    assert (kept["identifiers"], kept["later_calls"]) == (read["identifiers"], read["later_calls"])
    assert rows("--db", db, "--preset", "faithful", "--budget", "0.5")[0] == kept


def test_what_a_thread_needs_from_its_archive_is_measured_as_in_the_file(tmp_path: Path) -> None:
    """A call at the end needs a number that a compaction has taken out of view."""
    first, noted, *waiting, ask, call = told_and_needed("teal")
    talk = {"messages": [first, noted, *rounds(10)[1:], *waiting, ask, call], "tools": [READ]}
    file, db = written(tmp_path / "talk.json", talk), f"sqlite:///{tmp_path / 'kept.db'}"
    assert run(file, "--db", db, "--window", "800").exit_code == 0
    read = rows(file, "--preset", "recent_rounds", "--budget", "0.5")
    assert [row["identifiers"] for row in read] == [1, 1, 1]
    assert rows("--db", db, "--preset", "recent_rounds", "--budget", "0.5") == read


def test_the_variable_names_the_database_of_a_thread_alone(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files are given, the threads of that database are not read."""
    db = f"sqlite:///{tmp_path / 'kept.db'}"
    assert run(recorded, "--db", db).exit_code == 0
    monkeypatch.setenv("LANGGRAPH_COMPACTION_DATABASE_URL", db)
    with SQLAlchemySaver.from_url(db) as saver:
        (thread,) = saver.threads()
    options = ("--preset", "faithful", "--budget", "0.5")
    assert rows("--thread", thread, *options) == rows("--db", db, "--thread", thread, *options)
    assert {row["runs"] for row in rows(recorded, *options)} == {1}
    assert {row["runs"] for row in rows(recorded, "--thread", thread, *options)} == {2}


def test_a_window_is_tokens_or_a_share_as_in_other_commands(recorded: Path) -> None:
    """A run in a window of tokens is the run in the share that makes as many."""
    (run_,) = [run_of(one) for one in read_recordings(recorded)]
    tokens = run_.limit(0.5)
    found = rows(recorded, "--online", "--preset", "recent_rounds", "--window", f"{tokens},50%")
    assert [row["window"] for row in found[::4]] == [tokens, 0.5]
    for row, other in zip(found[:4], found[4:], strict=True):
        assert {**row, "window": 0.5} == other
    table = evaluate(recorded, "--online", "--preset", "recent_rounds", "--window", str(tokens)).stdout
    assert f"window {tokens:,} tokens: 1 runs" in " ".join(table.split())


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_the_chart_is_a_picture_of_the_rows(recorded: Path, tmp_path: Path, suffix: str) -> None:
    """With `--out`, the command draws retention against the budget, or with `--online` the course of the runs."""
    pytest.importorskip("matplotlib")
    path = tmp_path / f"chart{suffix}"
    assert evaluate(recorded, "--preset", "faithful", "--budget", "0.3,0.6", "--out", path).exit_code == 0
    drawn = path.read_bytes()
    assert drawn.startswith({".svg": b"<?xml", ".png": b"\x89PNG", ".html": b"<!doctype html>"}[suffix])
    assert evaluate(recorded, "--online", "--preset", "faithful", "--out", path).exit_code == 0
    course = path.read_bytes()
    assert course[:5] == drawn[:5]
    assert course != drawn


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name files of conversations, or threads of a database: --db URL --thread ID"),
        (("{file}", "--preset", "faithfull"), "did you mean faithful?"),
        (("--thread", "a"), "--db URL, or LANGGRAPH_COMPACTION_DATABASE_URL"),
        (("{file}", "--online", "--window", "5"), "no room for a conversation: window 5, system prompt and tools"),
        (("nowhere.json",), "no such file"),
        (("{file}", "--recall"), "nothing to look for"),
        (("{file}", "--recall", "--online"), "goes with neither"),
        (("{file}", "--no-auto-recall"), "need --online"),
        (("--db", "sqlite:///nowhere.db"), "there is no file nowhere.db"),
    ],
)
def test_what_cannot_be_measured_is_told_in_a_line(recorded: Path, args: tuple[str, ...], said: str) -> None:
    """And what to do instead."""
    result = evaluate(*(arg.format(file=recorded) for arg in args), width=400)
    assert result.exit_code == 2
    assert said in one_line(result)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--budget", "0.25,2"), "is no share"),
        (("--cut", "half"), "is neither a number of tokens nor a share"),
        (("--online", "--window", "half"), "is neither a number of tokens nor a share"),
        (("--out", "a.pdf"), "is none of"),
    ],
)
def test_a_wrong_option_is_a_usage_error(recorded: Path, args: tuple[str, ...], said: str) -> None:
    """That names it."""
    result = evaluate(recorded, *args, width=200)
    assert result.exit_code == 2
    assert said in result.stderr
    assert args[-2] in result.stderr
