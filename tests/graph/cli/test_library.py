"""The standard library as tools: all of it, and nothing else."""

from pathlib import Path

import pytest

from langgraph_compaction.graph.lab.demo import library_tools as tools
from langgraph_compaction.graph.lab.demo.library_tools import library_tools, read_file, search


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the tools read a small folder instead of the standard library, and return this folder."""
    for name in ("b.py", "a/c.py", "a/__pycache__/d.py", "site-packages/e.py", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\nwave wave\n" if name == "a/c.py" else "wave\n", encoding="utf-8")
    monkeypatch.setattr(tools, "ROOT", tmp_path.resolve())
    return tmp_path


@pytest.mark.usefixtures("small")
def test_only_modules_and_packages_are_listed_and_searched() -> None:
    """The tools search no other files, compiled files or installed packages."""
    found = "2 files match wave\n2 matches, 1 parts: a/c.py\n1 matches, 1 parts: b.py"
    assert search.invoke({"pattern": "wave"}) == found
    assert search.invoke({"pattern": "storm"}) == "0 files match storm"
    assert read_file.invoke({"path": "a/c.py"}) == "a/c.py, part 1 of 1, from line 1\na/c.py\nwave wave\n"


@pytest.mark.parametrize(
    "path", ["../../secret", "/etc/passwd", "site-packages", "site-packages/typer/main.py", ".."]
)
def test_nothing_outside_is_reachable(path: str) -> None:
    """A path that leaves the standard library is refused, whatever stands there."""
    for tool in library_tools():
        args = {"pattern": "x", "folder": path} if tool.name == "search" else {"path": path}
        with pytest.raises(ValueError, match="not in the standard library"):
            tool.invoke(args)


def test_a_missing_file_and_a_missing_part_are_errors_for_the_model() -> None:
    """The message says what there is."""
    with pytest.raises(FileNotFoundError, match=r"has no nothing\.py"):
        read_file.invoke({"path": "nothing.py"})
    with pytest.raises(ValueError, match="parts 1 to"):
        read_file.invoke({"path": "argparse.py", "part": 99})
