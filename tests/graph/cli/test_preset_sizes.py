"""`presets --model`: the sizes that each preset would have with a model, printed without network and key."""

import json
import socket
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.nodes.config.policies import PRESETS

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the keys away, and make every connection an error."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


def presets(*args: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["presets", *args], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})


def read(*args: str) -> dict[str, tuple[int, ...]]:
    """The sizes that the command prints as JSON: window, limit, trigger and aim by preset."""
    result = presets(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = json.loads(result.stdout)
    assert [list(row) for row in rows] == [["preset", "window", "limit", "trigger", "aim"]] * len(rows)
    return {preset: tuple(sizes) for preset, *sizes in (row.values() for row in rows)}


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"])
def test_the_sizes_of_a_model_by_its_name(name: str) -> None:
    """With its provider and without; every preset in its order."""
    found = read("--model", name)
    assert list(found) == list(PRESETS)
    assert found["selective"] == (200_000, 136_000, 108_800, 68_000)
    assert found["layered_defence"] == (200_000, 136_000, 122_401, 68_000)
    assert found["faithful"] == (200_000, 136_000, 136_000, 54_400)


def test_one_preset_and_ones_own_figures() -> None:
    """A name limits the list; `--window` stands over what the model says, or stands alone."""
    assert list(read("layered_defence", "--model", "gpt-4o")) == ["layered_defence"]
    assert read("--model", "gpt-99", "--window", "64000")["selective"][:3] == (64_000, 57_600, 51_200)
    assert read("--window", "64000")["selective"][:3] == (64_000, 57_600, 51_200)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "gpt-99"], "no context window is known for gpt-99"),
        (["--model", "nobody:gpt-4o"], "names no chat model that can be opened"),
        (["--model", "mistralai:mistral-large-latest"], "langchain-mistralai"),
        (["--window", "25%"], "the model's own window is not known"),
    ],
)
def test_what_cannot_be_told_is_a_usage_error(arguments: list[str], said: str) -> None:
    """Nothing is printed, and the error names the way out."""
    result = presets(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.replace("│", " ").split())
