"""The standard library as tools: all of it, and nothing else."""

import pytest

from langgraph_compaction.graph.library_tools import library_tools


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
    _, read_file = library_tools()
    with pytest.raises(FileNotFoundError, match=r"has no nothing\.py"):
        read_file.invoke({"path": "nothing.py"})
    with pytest.raises(ValueError, match="parts 1 to"):
        read_file.invoke({"path": "argparse.py", "part": 99})
