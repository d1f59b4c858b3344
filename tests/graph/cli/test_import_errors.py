import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.graph.cli.foreign import OFFICIAL
from tests.graph.cli.importing import imported, refused, run


def test_the_source_is_only_read(source: str, target: str) -> None:
    """Its file is the same byte for byte, and one that cannot be written to will do."""
    path = Path(source.removeprefix("sqlite:///"))
    before = sha256(path.read_bytes()).digest()
    imported(source, target)
    assert sha256(path.read_bytes()).digest() == before


class _Rot13:
    """A cipher for tests."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Hide a text from nobody."""
        return "rot", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Never reached."""
        raise NotImplementedError(ciphername)


@pytest.mark.parametrize(
    ("serde", "told"),
    [
        (EncryptedSerializer(_Rot13()), "a value of the checkpoint is encrypted (msgpack+rot)"),
        (JsonPlusSerializer(pickle_fallback=True), "a value of the form 'pickle' is never loaded"),
    ],
)
def test_what_is_encrypted_or_pickled_is_not_read(tmp_path: Path, target: str, serde: Any, told: str) -> None:
    """It is listed with the reason, and nothing is built from it."""
    source = f"sqlite:///{tmp_path / 'odd.db'}"
    with OFFICIAL["sqlite"](source) as saver:
        saver.serde = serde
        values = {"text": "said", **({"odd": Path.cwd} if "pickle" in told else {})}
        checkpoint = {**empty_checkpoint(), "channel_values": values}
        saver.put({"configurable": {"thread_id": "odd", "checkpoint_ns": ""}}, checkpoint, {}, {})
    (failed,) = imported(source, target, code=1)["failed"]
    assert told in failed["reason"]


def test_ctrl_c_says_that_it_can_go_on(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends with 130, and the next run carries the rest over."""
    put = SQLAlchemySaver.put
    calls = []

    def interrupted(self: SQLAlchemySaver, *args: Any) -> Any:
        calls.append(args)
        if len(calls) > 10:
            raise KeyboardInterrupt
        return put(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(SQLAlchemySaver, "put", interrupted)
        result = run(source, target)
    assert result.exit_code == 130
    assert result.stderr == "stopped; run the command again to go on (10 checkpoints written in this run)\n"
    assert imported(source, target)["already"] == 10


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("sqlite:///{folder}/missing.db", "sqlite:///{folder}/to.db", "there is no file {folder}/missing.db"),
        ("sqlite:///{folder}/text.db", "sqlite:///{folder}/to.db", "file is not a database"),
        ("sqlite:///{folder}/empty.db", "sqlite:///{folder}/to.db", "does not hold the tables of a SqliteSaver"),
        ("mariadb://root@127.0.0.1/test", "sqlite:///{folder}/to.db", "there is nothing to import from mariadb://"),
        ("memory", "sqlite:///{folder}/to.db", "there is nothing to import from sqlite:///"),
        ("sqlite:///{folder}/empty.db", "memory", "would end with the command"),
        ("nonsense", "sqlite:///{folder}/to.db", "this is no database URL"),
        ("postgresql://root@127.0.0.1:1/x", "sqlite:///{folder}/to.db", "postgresql://127.0.0.1:1/x"),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_line(tmp_path: Path, source: str, target: str, told: str) -> None:
    """The command ends with 2, or with 1 for a server that does not answer, and leaves no file."""
    (tmp_path / "text.db").write_text("no database at all " * 100)
    (tmp_path / "empty.db").touch()
    code = 1 if ":1/x" in source else 2
    line = refused(source.format(folder=tmp_path), target.format(folder=tmp_path), code=code)
    assert told.format(folder=tmp_path) in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "text.db"]


def test_a_missing_package_is_named_with_the_way_to_get_it(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers are an optional extra."""
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    line = refused(source, target)
    assert "'langgraph.checkpoint.sqlite' is missing" in line
    assert "pip install '.[import]' in the project's folder" in line


@pytest.mark.parametrize(
    ("allow", "told"),
    [("nonsense", "nonsense"), ("no.such:Class", "no.such"), ("json:loads", "no class")],
)
def test_an_allowed_class_must_be_there(source: str, target: str, allow: str, told: str) -> None:
    """A name that cannot be imported, or is no class, is told before anything is opened."""
    line = refused(source, target, "--allow", allow)
    assert line.startswith(f"--allow {allow}: ")
    assert told in line
    assert not Path(target.removeprefix("sqlite:///")).exists()
