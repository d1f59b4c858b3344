"""The standard library as tools: all of it, and nothing else."""

import argparse
from pathlib import Path

import pytest

from langgraph_compaction.graph.lab.demo import library_tools as tools
from langgraph_compaction.graph.lab.demo.library_tools import (
    ROOT,
    library_tools,
    parts_of,
    read_file,
    search,
)


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


def test_a_search_names_sixty_files_at_most(small: Path) -> None:
    """The first line gives the number of all files that match.

    Files with the same number of matches are sorted by name.
    """
    for number in range(tools.MOST_FILES):
        (small / f"m{number:02}.py").write_text("storm\n", encoding="utf-8")
    (small / "z.py").write_text("storm storm\n", encoding="utf-8")
    first, *lines = search.invoke({"pattern": "storm"}).splitlines()
    assert first == "61 files match storm"
    names = ["z.py", *(f"m{number:02}.py" for number in range(59))]
    assert [line.partition(": ")[2] for line in lines] == names


def test_a_part_ends_with_the_line_that_fills_it(small: Path) -> None:
    """Each part except the last one ends with the line that reaches `PART_CHARS` characters.

    The remaining lines are the last part, and an empty file is one part.
    """
    line = "x" * 99 + "\n"
    least = tools.PART_CHARS // 100
    for lines, expected in ((0, [0]), (least - 1, [least - 1]), (least, [least]), (2 * least + 1, [least, least, 1])):
        (small / "long.py").write_text(line * lines, encoding="utf-8")
        assert [text.count("\n") for text in parts_of(small / "long.py")] == expected


def test_the_parts_of_a_file_are_the_file() -> None:
    """Read one after the other, the parts give the module's text back; each says where it stands."""
    whole, parts = "", parts_of(ROOT / "argparse.py")
    for number in range(1, len(parts) + 1):
        head, _, text = read_file.invoke({"path": "argparse.py", "part": number}).partition("\n")
        assert head == f"argparse.py, part {number} of {len(parts)}, from line {whole.count(chr(10)) + 1}"
        whole += text
    assert whole == Path(argparse.__file__).read_text(encoding="utf-8")
    assert len(parts) > 1


def test_a_search_ranks_files_by_matches() -> None:
    """The file with most matches comes first; a pattern that nothing matches says so."""
    lines = search.invoke({"pattern": "class _SubParsersAction"}).splitlines()
    assert lines == ["1 files match class _SubParsersAction", f"1 matches, {lines[1][11:]}"]
    assert lines[1].endswith(": argparse.py")
    counts = [
        int(line.split()[0]) for line in search.invoke({"pattern": "def run", "folder": "asyncio"}).splitlines()
    ]
    assert counts[1:] == sorted(counts[1:], reverse=True)


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
