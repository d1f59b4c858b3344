"""How the database finds the checkpoints that a filter wants."""

from enum import StrEnum
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_compaction.checkpoint import Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints.checkpoint_rows import CheckpointRow
from langgraph_compaction.checkpoint.checkpoints.metadata_hashes import hashes_of, may_match, wanted_hashes
from langgraph_compaction.checkpoint.db.row_codec import RowCodec
from tests.checkpoint.contract.steps import Steps, id_of, ids, where
from tests.checkpoint.listening import statements

KEYS = Keyring({"k1": b"1" * 32}, current="k1")
OPEN, SEALED = RowCodec(1), RowCodec(1, KEYS, b"salt" * 4)


class Kind(StrEnum):
    """A text with a class of its own."""

    CHAT = "chat"


@pytest.mark.parametrize("codec", [OPEN, SEALED], ids=["open", "sealed"])
@pytest.mark.parametrize(
    ("held", "wanted", "found"),
    [
        ("chat", "chat", True),
        ("chat", "mail", False),
        (Kind.CHAT, "chat", True),
        ("chat", Kind.CHAT, True),
        (1, True, True),
        (2.0, 2, True),
        (2, "2", False),
        ({"a": 1}, "chat", False),
        (None, "chat", False),
        (uuid4(), "chat", True),
        ("chat", None, True),
        ("chat", {"a": 1}, True),
    ],
    ids=map(str, range(12)),
)
def test_hashes_pass_by_only_what_is_not_equal(codec: RowCodec, held: Any, wanted: Any, *, found: bool) -> None:
    """Equal values have one hash; a value of an unknown class, and a filter by a container, are compared later."""
    assert may_match(hashes_of(codec, {"key": held, "step": 3}), wanted_hashes(codec, {"key": wanted})) == found


@pytest.mark.parametrize(("codec", "stored"), [(OPEN, "hibzthOA"), (SEALED, "kVb8qceL")], ids=["open", "sealed"])
def test_hashes_that_an_earlier_version_stored_are_still_found(codec: RowCodec, stored: str) -> None:
    """The hashes are part of the format of the tables: rows keep those with which they were written."""
    assert may_match(stored, wanted_hashes(codec, {"user": "mia"}))


def test_hashes_of_an_encrypted_thread_are_its_own() -> None:
    """With a key the same metadata has other hashes in each thread, so they tell nothing across threads."""
    about = {"user": "ann"}
    codecs = (OPEN, SEALED, RowCodec(2, KEYS, b"tlas" * 4))
    assert len({hashes_of(codec, about) for codec in codecs}) == len(codecs)


@pytest.mark.parametrize(
    ("keys", "most"),
    [pytest.param(None, (4, 4, 4), id="open"), pytest.param(KEYS, (7, 7, 9), id="sealed")],
)
def test_a_filter_reads_only_what_may_be_wanted(
    monkeypatch: pytest.MonkeyPatch, keys: Keyring | None, most: tuple[int, int, int]
) -> None:
    """Of the checkpoints of one thread, of a copy and of all threads, only those that the filter wants are decoded.

    Few statements are sent for the 400 checkpoints.
    """
    decoded: list[str] = []
    decode = CheckpointRow.decode.__func__  # type: ignore[attr-defined] # of a class method

    def noted(cls: type[CheckpointRow], thread: Any, row: Any) -> CheckpointRow:
        decoded.append(row["id"])
        return decode(cls, thread, row)

    with SQLAlchemySaver.from_url("memory", keys=keys) as saver:
        saver.setup()
        stored = [
            id_of(Steps(saver, f"t{n % 3}").put({"x": n}, user="rare" if n in (70, 200) else "usual"))
            for n in range(400)
        ]
        saver.copy_thread("t2", "copy")
        monkeypatch.setattr(CheckpointRow, "decode", classmethod(noted))
        looked_for = ((where("t1"), [70]), (where("copy"), [200]), (None, [200, 200, 70]))
        for (config, wanted), allowed in zip(looked_for, most, strict=True):
            decoded.clear()
            with statements(saver.database) as sent:
                assert ids(saver.list(config, filter={"user": "rare"})) == [stored[n] for n in wanted]
            assert decoded == [stored[n] for n in wanted]
            assert len(sent) <= allowed


class InSmallLetters:
    """A serializer of an application that writes every text of the metadata in small letters."""

    def __init__(self) -> None:
        self.inner = JsonPlusSerializer()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the type and the bytes of a value."""
        if isinstance(obj, dict):
            obj = {key: value.lower() if isinstance(value, str) else value for key, value in obj.items()}
        return self.inner.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that was serialized to these bytes."""
        return self.inner.loads_typed(data)


def test_a_filter_compares_what_an_own_serializer_gives_back() -> None:
    """The serializer may change a value, so a checkpoint that it wrote has no metadata hashes in its row."""
    with SQLAlchemySaver.from_url("memory", serde=InSmallLetters()) as saver:
        saver.setup()
        stored = id_of(Steps(saver, "t").put({"x": 1}, user="Ann"))
        assert ids(saver.list(where("t"), filter={"user": "ann"})) == [stored]
        assert ids(saver.list(where("t"), filter={"user": "Ann"})) == []
