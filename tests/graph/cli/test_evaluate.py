"""The command `evaluate`: what it prints and writes, what it reads, and what it refuses."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.lab import compare
from langgraph_compaction.graph.lab.evaluation.scores import SAID
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from tests.graph.cli.replaying import run

FIELDS = {
    *("policy", "budget", "runs", "identifiers", "recall", "bound", "calls"),
    *("tokens_over_cap", "within_cap", "broken_pairs", "ci95"),
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
    """A row a policy and window; beside no compaction at all, which is over the window and costs 1."""
    found = rows(recorded, "--online", "--preset", "faithful,recent_rounds", "--window", "0.4,0.8")
    names = ["faithful", "recent_rounds", "no compaction", "trim_messages", "random exchanges"]
    assert [(row["window"], row["policy"]) for row in found] == [(w, n) for w in (0.4, 0.8) for n in names]
    assert all(row.keys() >= ONLINE_FIELDS for row in found)
    by = {(row["window"], row["policy"]): row for row in found}
    for window in (0.4, 0.8):
        whole = by[window, "no compaction"]
        assert (whole["available"], whole["cost"], whole["tokens_sent"]) == (1.0, 1.0, 1.0)
        assert whole["over_window"] > by[window, "faithful"]["over_window"] == 0
        assert by[window, "faithful"]["tokens_sent"] < 1
    assert by[0.4, "faithful"]["compactions"] > by[0.8, "faithful"]["compactions"] > 0


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


def test_a_chart_without_matplotlib_is_told(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to install it, and which option to omit instead."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = evaluate(recorded, "--preset", "faithful", "--budget", "0.5", "--out", tmp_path / "a.svg", width=400)
    assert result.exit_code != 0
    assert "a chart needs matplotlib: " in result.stderr


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_the_chart_is_a_picture_of_the_rows(recorded: Path, tmp_path: Path, suffix: str) -> None:
    """With `--out`, the command draws retention against the budget, or with `--online` the course of the runs."""
    pytest.importorskip("matplotlib")
    path = tmp_path / f"chart{suffix}"
    assert evaluate(recorded, "--preset", "faithful", "--budget", "0.3,0.6", "--out", path).exit_code == 0
    drawn = path.read_bytes()
    assert drawn.startswith({".svg": b"<?xml", ".html": b"<!doctype html>"}[suffix])
    assert evaluate(recorded, "--online", "--preset", "faithful", "--out", path).exit_code == 0
    course = path.read_bytes()
    assert course[:5] == drawn[:5]
    assert course != drawn


def test_a_chart_of_one_budget_names_each_policy_on_its_axis(recorded: Path, tmp_path: Path) -> None:
    """A line through one point would show nothing: each policy has a row with its interval."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "chart.svg"
    assert evaluate(recorded, "--preset", "faithful", "--budget", "0.3", "--out", path).exit_code == 0
    drawn = path.read_text(encoding="utf-8")
    assert "<!-- still there at a budget of 30% of the tokens, % -->" in drawn
    for policy in ("faithful", "random exchanges", "trim_messages"):
        assert re.search(rf'<g id="ytick_\d+">(?:(?!</?g id="ytick).)*<!-- {policy} -->', drawn, re.DOTALL), policy


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name files of conversations, or threads of a database: --db URL --thread ID"),
        (("{file}", "--preset", "faithfull"), "did you mean faithful?"),
        (("--thread", "a"), "--db URL, or LANGGRAPH_COMPACTION_DATABASE_URL"),
        (("{file}", "--online", "--window", "5"), "no room for a conversation: window 5, system prompt and tools"),
        (("nowhere.json",), "no such file"),
        (("{file}", "--budget", "0.25,2"), "is no share"),
        (("{file}", "--out", "a.pdf"), "is none of"),
        (("--db", "sqlite:///nowhere.db"), "there is no file nowhere.db"),
    ],
)
def test_what_cannot_be_measured_is_told_in_a_line(recorded: Path, args: tuple[str, ...], said: str) -> None:
    """And what to do instead."""
    result = evaluate(*(arg.format(file=recorded) for arg in args), width=400)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert said in result.stderr


def test_the_same_comparison_in_python(recorded: Path) -> None:
    """`compare` yields the rows that the command prints; windows are tokens or shares."""
    (said,) = read_recordings(recorded)
    told: list[str] = []
    policies = {"recent": CompactionSettings(preset="recent_rounds")}
    found = list(compare([said], policies, [0.5], seen=lambda: told.append("run")))
    assert [row["policy"] for row in found] == ["recent", "no compaction", "trim_messages", "random exchanges"]
    assert len(told) == len(found)
    (printed, *_) = rows(recorded, "--online", "--preset", "recent_rounds", "--window", "50%")
    assert {**found[0], "policy": "recent_rounds", "note": SAID} == printed
    with pytest.raises(SettingsError, match="no room for a conversation"):
        list(compare([said], policies, [5]))
