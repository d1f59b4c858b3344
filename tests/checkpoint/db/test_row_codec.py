import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from langgraph_compaction.checkpoint import Keyring, KeyringError
from langgraph_compaction.checkpoint.db.row_codec import RowCodec, new_salt
from langgraph_compaction.checkpoint.errors import CheckpointError, RowError

KEY, OTHER = b"k" * 32, b"o" * 32
PLAIN = RowCodec(7)
KEYED = RowCodec(7, Keyring({"k": KEY}, current="k"), b"s" * 16)
CODECS = pytest.mark.parametrize("codec", [PLAIN, KEYED], ids=["plain", "encrypted"])
LONG = b"said again and again; " * 1000


@CODECS
@given(data=st.one_of(st.binary(max_size=300), st.builds(bytes.__mul__, st.binary(max_size=9), st.just(999))))
def test_what_is_closed_is_opened(codec: RowCodec, data: bytes) -> None:
    """Any bytes come back from the row they were closed for."""
    assert codec.decode("row", codec.encode("row", data)) == data


@CODECS
def test_every_changed_byte_is_seen(codec: RowCodec) -> None:
    """One flipped bit anywhere, a cut at any length and anything appended are errors that name the row."""
    for data in (b"short", LONG[:200]):
        sealed = codec.encode("message 3", data)
        flipped = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
        for bad in (*flipped, *(sealed[:at] for at in range(len(sealed))), sealed + b"\0"):
            with pytest.raises((RowError, KeyringError), match="message 3 of thread 7"):
                codec.decode("message 3", bad)


def test_a_message_that_an_earlier_version_stored_is_still_found() -> None:
    """The hash by which an encrypted thread finds a message again is part of the format of the tables."""
    assert KEYED.lookup_hash(b"c" * 16) == bytes.fromhex("53329972c818f4c6f9749505ca648577")
    assert PLAIN.lookup_hash(b"c" * 16) == b"c" * 16


@CODECS
def test_a_body_opens_in_its_own_place_only(codec: RowCodec) -> None:
    """A body that was moved to another row or to another thread is an error."""
    sealed = codec.encode("message 3", b"said")
    elsewhere = RowCodec(8) if codec is PLAIN else RowCodec(8, Keyring({"k": KEY}, current="k"), b"s" * 16)
    for one, row in ((codec, "message 4"), (elsewhere, "message 3")):
        with pytest.raises(RowError, match="damaged"):
            one.decode(row, sealed)


def test_an_encrypted_body_opens_with_its_key_and_salt_only() -> None:
    """Without the key, with another one, or from another database it is an error; a plain body is one too."""
    sealed = KEYED.encode("row", b"said")
    assert b"said" not in sealed
    with pytest.raises(KeyringError, match="open the database with its keys"):
        PLAIN.decode("row", sealed)
    with pytest.raises(KeyringError, match="not in the keyring: 'k'"):
        RowCodec(7, Keyring({"o": OTHER}, current="o"), b"s" * 16).decode("row", sealed)
    for keys, salt in (
        (Keyring({"k": OTHER}, current="k"), b"s" * 16),
        (Keyring({"k": KEY}, current="k"), b"t" * 16),
    ):
        with pytest.raises(RowError, match="another key"):
            RowCodec(7, keys, salt).decode("row", sealed)
    with pytest.raises(RowError, match="not encrypted"):
        KEYED.decode("row", PLAIN.encode("row", b"said"))


@pytest.mark.parametrize("key", [{"o": OTHER}, {"k": OTHER}], ids=["unknown", "another"])
@pytest.mark.parametrize("cut", [None, 5])
def test_no_error_tells_the_salt(key: dict[str, bytes], cut: int | None) -> None:
    """It keeps the hashes of messages from being guessed, and errors stand in logs."""
    sealed = KEYED.encode("row", b"said")[:cut]
    with pytest.raises(CheckpointError) as raised:
        RowCodec(7, Keyring(key, current=next(iter(key))), b"s" * 16).decode("row", sealed)
    assert (b"s" * 16).hex() not in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "current", "text"),
    [
        ({}, "k", "not among the keys"),
        ({"k": KEY}, "o", "not among the keys"),
        ({"k": KEY[:16]}, "k", "16 bytes"),
        ({"k": KEY, "": OTHER}, "k", "1 to 64 bytes"),
        ({"k": KEY, "ä" * 33: OTHER}, "k", "1 to 64 bytes"),
    ],
    ids=["none", "unknown", "short", "no name", "long name"],
)
def test_a_keyring_that_cannot_work_is_refused(keys: dict[str, bytes], current: str, text: str) -> None:
    """What is wrong with the keys is said when the ring is made, and never what they are."""
    with pytest.raises(KeyringError, match=text) as caught:
        Keyring(keys, current=current)
    assert KEY.decode() not in str(caught.value)


def test_a_keyring_shows_no_key() -> None:
    """Its text in a log names the keys and holds none."""
    assert repr(Keyring({"k": KEY, "o": OTHER}, current="o")) == "Keyring(['k', 'o'], current='o')"


def test_hashes_of_an_encrypted_thread_are_its_own() -> None:
    """No digest that anyone could compute stands there; those that start alike can be found by their start."""
    alike = [b"digest" + bytes([n]) * 10 for n in range(2)]
    assert [PLAIN.lookup_hash(one) for one in alike] == alike
    hashes = [KEYED.lookup_hash(one) for one in alike]
    assert {len(one) for one in hashes} == {16}
    assert hashes[0][:6] == hashes[1][:6] == KEYED.lookup_prefix(b"digest") != b"digest"
    assert hashes[0] != hashes[1]
    assert RowCodec(7, Keyring({"k": KEY}, current="k"), new_salt()).lookup_hash(alike[0]) not in hashes


def test_a_bomb_is_refused_unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that says it inflates beyond a gigabyte is damaged."""
    bomb = zstandard.ZstdCompressor().compress(b"")
    monkeypatch.setattr(zstandard, "frame_content_size", lambda _frame: 2**30 + 1)
    monkeypatch.setattr("langgraph_compaction.checkpoint.db.row_codec._compress", lambda _data: b"\x01" + bomb)
    with pytest.raises(RowError, match="not compressed in a known way"):
        PLAIN.decode("row", PLAIN.encode("row", b""))
