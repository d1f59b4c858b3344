"""`make matrix` finds each Python that is installed, and runs its other parts after one that failed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.versions import run

JUNIT = '<testsuites><testsuite errors="1" failures="2" skipped="3" tests="10" /></testsuites>'


def installed(path: Path, says: str, code: int = 0) -> Path:
    """An executable file that stands for a Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing on PATH and no Python of pyenv; results in a folder of the test."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(run, "THIS", "3.11")
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "origin", lambda: {"date": "2026-01-31", "commit": "abc"})  # git is not on PATH


def test_a_python_of_pyenv_is_found_behind_a_shim_that_fails(tmp_path: Path) -> None:
    """The newest release of the version; folders with other names are no releases of CPython."""
    shim = installed(tmp_path / "bin" / "python3.12", "3.12.99", code=127)
    versions = tmp_path / "pyenv" / "versions"
    for release in ("3.12.9", "3.12-dev", "3.13.0"):
        installed(versions / release / "bin" / "python", release)
    expected = installed(versions / "3.12.10" / "bin" / "python", "3.12.10")
    assert run.interpreter("3.12") == expected
    shim.unlink()
    on_path = installed(shim, "3.12.3")
    assert run.interpreter("3.12") == on_path
    assert run.interpreter("3.14") is None


def test_a_python_of_another_version_is_not_taken(tmp_path: Path) -> None:
    """Whatever its name is."""
    installed(tmp_path / "bin" / "python3.12", "3.11.7")
    assert run.interpreter("3.12") is None


def test_a_part_that_fails_fails_the_run_after_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All are kept if asked to, with date and commit; the type checkers need no Python of the version."""

    def tested(_: str, python: str) -> dict[str, Any]:
        if python == "3.12":
            raise subprocess.CalledProcessError(1, "pip")
        return {"passed": 7, "failed": 0, "skipped": 1, "ok": True}

    monkeypatch.setattr(run, "test", tested)
    monkeypatch.setattr(run, "check", lambda python: {"failed_checkers": [], "ok": python != "3.14"})
    assert run.main(["oldest", "types", "--python", "3.12,3.13", "--keep"]) == 1
    kept = {(row["kind"], row["python"]): row for row in json.loads((tmp_path / "matrix.json").read_text())}
    assert [python for kind, python in kept if kind == "oldest"] == ["3.12", "3.13"]
    assert [python for kind, python in kept if kind == "types"] == list(run.PYTHONS)
    assert kept["oldest", "3.12"]["error"] == "CalledProcessError"
    assert kept["oldest", "3.13"].keys() >= {"passed", "seconds", "date", "commit"}
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "| 3.12 | failed |  |  | passed |",
        "| 3.13 | 7 passed |  |  | passed |",
        "| 3.14 |  |  |  | failed |",
    ]
    before = (tmp_path / "matrix.json").read_bytes()
    assert run.main(["oldest", "--python", "3.13"]) == 0
    assert (tmp_path / "matrix.json").read_bytes() == before


def test_every_is_each_python_that_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And no other."""
    installed(tmp_path / "bin" / "python3.13", "3.13.1")
    monkeypatch.setattr(run.sys, "executable", installed(tmp_path / "this", "3.11.7"))
    seen: list[tuple[str, str]] = []

    def tested(kind: str, python: str) -> dict[str, Any]:
        seen.append((kind, python))
        return {"ok": True}

    monkeypatch.setattr(run, "test", tested)
    assert run.main(["oldest", "newest", "--python", "every"]) == 0
    assert seen == [("oldest", "3.11"), ("oldest", "3.13"), ("newest", "3.11"), ("newest", "3.13")]


def test_tests_are_counted_as_pytest_reports_them(tmp_path: Path) -> None:
    """An error counts as a failure."""
    report = tmp_path / "report.xml"
    report.write_text(JUNIT)
    assert run.counts(report) == {"passed": 4, "failed": 3, "skipped": 3}


def test_tests_that_are_killed_fail_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a report of pytest nothing is known of them."""
    monkeypatch.setattr(run, "MADE", tmp_path)
    monkeypatch.setattr(run, "place", lambda *_: tmp_path)
    monkeypatch.setattr(run, "install", lambda *_: None)
    listed = json.dumps([{"name": each, "version": "1"} for each in run.SHOWN])
    installed(tmp_path / "bin" / "pip", f"'{listed}'")
    installed(tmp_path / "bin" / "pytest", "begins; kill -9 $$")
    found = run.row("oldest", "3.12", lambda: run.test("oldest", "3.12"))
    assert (found["ok"], found["error"]) == (False, "CalledProcessError")
    assert "SIGKILL" in capsys.readouterr().out
