"""`make foreign` fails where a difference is new, where a known one is gone, and where something did not run."""

import json
import sys
from pathlib import Path

import pytest

from tests.foreign import run
from tests.foreign.run import Outcome, Played, Report
from tests.kept_results import keep

PASSED, FAILED = Outcome("passed", ""), Outcome("failed", "E   AssertionError")
THEIRS = Played({"t.py::test_one": PASSED, "t.py::test_two": PASSED})


@pytest.fixture(autouse=True)
def one_known_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """One test of the suite `delta` is known to fail with ours."""
    monkeypatch.setattr(run, "KNOWN", {"delta": ((("sqlite",), "*::test_two", "a reason"),)})


def added(ours: Played, theirs: Played = THEIRS) -> Report:
    """The report of a run of one suite."""
    report = Report()
    report.add("delta", "theirs", None, theirs)
    report.add("delta", "sqlite", theirs, ours)
    return report


def test_a_known_difference_is_counted_and_fails_nothing() -> None:
    """Its reason is kept with the column."""
    report = added(Played({"t.py::test_one": PASSED, "t.py::test_two": FAILED}))
    assert not report.failed
    assert report.rows[1] == {
        "suite": "delta",
        "column": "sqlite",
        "passed": 1,
        "failed": 1,
        "known": {"a reason": 1},
        "new": 0,
    }


def test_a_new_difference_fails() -> None:
    """It is reported with the test's name and its error."""
    report = added(Played({"t.py::test_one": FAILED, "t.py::test_two": FAILED}))
    assert report.failed
    assert report.new == ["delta, sqlite: t.py::test_one: E   AssertionError"]


def test_a_known_difference_that_no_longer_happens_fails() -> None:
    """The pattern is reported, so that it can be removed."""
    report = added(Played(THEIRS.found))
    assert report.failed
    assert report.stale == ["delta, sqlite: *::test_two"]


def test_what_was_cut_fails_and_is_not_kept() -> None:
    """A part of a suite says neither that a known difference is gone nor how many tests pass."""
    report = added(Played({"t.py::test_one": PASSED}, "stopped for time (1 s)"))
    assert report.failed
    assert report.not_run == ["delta, sqlite: stopped for time (1 s) after 1 tests"]
    assert not report.stale
    assert [row["column"] for row in report.rows] == ["theirs"]


def test_a_test_that_theirs_did_not_reach_is_no_difference() -> None:
    """Nothing is known of it; the run fails because theirs was cut."""
    report = added(Played({"t.py::test_one": FAILED}), Played({}, "stopped for time (1 s)"))
    assert report.failed
    assert not report.new
    assert not report.rows


def test_no_time_and_no_server_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column that was chosen and did not run."""
    monkeypatch.delenv("TEST_POSTGRES_URL", raising=False)
    report = run.run("delta", ["sqlite", "postgresql"], until=0)
    assert report.failed
    assert report.not_run == [
        "delta, theirs: no time was left",
        "delta, sqlite: no time was left",
        "delta, postgresql: TEST_POSTGRES_URL is not set",
    ]


@pytest.mark.parametrize(
    ("script", "seconds", "said"),
    [("import time; time.sleep(60)", 0.01, "stopped for time"), ("raise SystemExit(2)", 60, "ended with code 2")],
)
def test_a_suite_that_does_not_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, seconds: float, said: str
) -> None:
    """It is stopped when its time is over; a code of pytest other than 0 and 1 means that tests were left out."""
    command = tmp_path / "python"
    command.write_text(f"#!{sys.executable}\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "fetch", lambda _: tmp_path)
    monkeypatch.setattr(run.sys, "executable", str(command))
    assert said in (run.play("delta", "theirs", seconds).cut or "")


def test_a_row_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    """Of the same suite and column; all others stay."""
    path = tmp_path / "kept.json"
    keep(
        path,
        [{"suite": "a", "column": "x", "passed": 1}, {"suite": "b", "column": "x", "passed": 2}],
        "suite",
        "column",
    )
    keep(path, [{"suite": "a", "column": "x", "passed": 3}], "suite", "column")
    assert [row["passed"] for row in json.loads(path.read_text())] == [3, 2]
