"""The README tells the truth: its code runs, its settings and commands exist."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.nodes import CompactionSettings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(
    "block", BLOCKS, ids=[f"{n}: {block.splitlines()[0][:50]}" for n, block in enumerate(BLOCKS)]
)
def test_every_python_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block can be pasted as it stands."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - it is our own README
    for value in names.values():
        if hasattr(value, "builder"):
            assert {"token_check", "compact", "answer"} & set(value.builder.nodes)


def test_the_first_example_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The list shrinks below its limit and the reservation is still in the summary."""
    exec(compile(BLOCKS[0], "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - it is our own README
    sizes, kept = capsys.readouterr().out.splitlines()
    before, after = (int(number) for number in re.findall(r"\d+", sizes))
    assert before > 10_000
    assert after <= 4_000
    assert kept == "True"


def test_the_table_of_settings_is_right() -> None:
    """Each setting named exists, with the default given."""
    settings = CompactionSettings()
    table = README.partition("## What happens, in figures")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|", table, re.MULTILINE)
    assert len(rows) > 5
    for names, values in rows:
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=False):
            default = getattr(settings, name)
            assert default is None or float({"true": "1"}.get(value, value)) == float(default), name


def test_every_command_named_exists() -> None:
    """`langgraph-compaction X` in the README answers to --help, and each make target is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"langgraph-compaction ([\w-]+)", README))
    assert commands
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command
    for target in set(re.findall(r"\bmake (\w+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
