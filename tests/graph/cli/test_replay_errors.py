"""What `replay` says of what it cannot do: one clear line, and an exit code."""

import json
from pathlib import Path

import pytest

from tests.graph.cli.replaying import one_line, rounds, run, written


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--preset", "there is no preset 'nonsense'; known are selective"),
        ("--summarizer", "'nonsense' is not one of 'digest', 'model'"),
    ],
)
def test_an_unknown_choice_is_a_usage_error(recorded: Path, option: str, said: str) -> None:
    """The command ends with 2 and names what there is."""
    result = run(recorded, option, "nonsense", width=200)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"PK\x03\x04\x00\x00", "a binary file"),
        (b"{", "not JSON"),
        (b'{"weather": "fine"}', "is not a message"),
        (b'[{"role": "user", "content": "hi"}, {"role": "oracle"}]', "message 2: role 'oracle'"),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The command ends with 2, as the file was named by the user, and names the place in it and what is wrong."""
    path = tmp_path / "[red]file.json"
    if content is not None:
        path.write_bytes(content)
    result = run(path, "--json")
    line = one_line(result)
    assert result.exit_code == 2
    assert line.startswith(str(path))
    assert said.replace("message 2", "entry 2") in line
    assert result.stdout == ""


def test_a_conversation_that_does_not_fit_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is named in one line with the sizes, and the command ends with 1."""
    long_prompt = {"role": "system", "content": "be brief " * 500}
    path = written(tmp_path / "two.json", [{"messages": [long_prompt, *rounds(2)[1:]]}, {"messages": rounds(8)}])
    result = run(path, "--window", "500", "--json")
    assert result.exit_code == 1
    assert one_line(result).startswith("two.json#1 (selective): no room for a conversation: window 500")
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == ["two.json#2"]


def test_a_database_that_cannot_be_opened_is_told_in_one_line(recorded: Path, tmp_path: Path) -> None:
    """The command ends with 2 and says what to check."""
    for url, said in (
        (f"sqlite:///{tmp_path / 'missing' / 'kept.db'}", "cannot connect to"),
        ("nonsense://here", "there is no support for 'nonsense' databases"),
    ):
        result = run(recorded, "--db", url)
        assert (result.exit_code, said in one_line(result)) == (2, True)


def test_a_model_needs_a_key(recorded: Path) -> None:
    """Without one the command ends with 2 and names the variable and the way out."""
    result = run(recorded, "--summarizer", "model", env={"OPENAI_API_KEY": None})
    assert result.exit_code == 2
    assert "OPENAI_API_KEY" in one_line(result)
    assert "--summarizer digest" in one_line(result)


def test_requests_never_overwrite_the_recording(recorded: Path, tmp_path: Path) -> None:
    """The file itself, and one in no folder, are usage errors, and the recording stays as it was."""
    before = recorded.read_bytes()
    result = run(recorded, "--requests", recorded, width=300)
    assert result.exit_code == 2
    assert "is the recording itself" in result.stderr
    assert recorded.read_bytes() == before
    missing = run(recorded, "--requests", tmp_path / "missing" / "out.jsonl", width=300)
    assert missing.exit_code == 2
    assert "cannot be written (No such file or directory)" in missing.stderr
