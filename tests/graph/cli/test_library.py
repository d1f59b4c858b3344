"""The standard library as tools: all of it, and nothing else."""

import argparse
from pathlib import Path

import pytest

from langgraph_compaction.graph.lab.demo.library_tools import (
    ROOT,
    library_tools,
    list_folder,
    parts_of,
    read_file,
    search,
)


def test_a_folder_lists_its_modules_and_packages() -> None:
    """Files come with their sizes, folders with a slash; compiled and installed files are left out."""
    listed = list_folder.invoke({}).splitlines()
    assert f"argparse.py {Path(argparse.__file__).stat().st_size}" in listed
    assert "asyncio/" in listed
    assert not {"site-packages/", "__pycache__/"} & set(listed)


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
