"""Encodes row bodies: compresses a body where compression saves bytes, and binds each body to its row.

Without a key, a body carries a checksum over its row's name and its bytes, so that truncated, changed and swapped
bodies are detected. With a `Keyring`, a body is encrypted (AES-GCM) with the row's name, the thread and the key id as
associated data, and a body that is not encrypted is refused.
"""

import os
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import ormsgpack
import zstandard

from ..errors import KeyringError, RowError
from ..extras import how_to_install

HASH_PREFIX_BYTES = 6
"""Number of bytes, from the start of a message's hash, that the message's handle shows in hexadecimal characters.

`RowCodec.lookup_hash` makes messages findable by these bytes alone.
"""

OPEN_WITH_KEYS = "open the database with its keys (keys=Keyring(...); for commands LANGGRAPH_COMPACTION_KEYS)"

_CHECKED = b"\x01"
_ENCRYPTED = b"\x02"
_RAW = b"\x00"
_ZSTD = b"\x01"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""The first four bytes of every zstd frame: removed before a body is stored, and added again to decompress it."""
_CHECKSUM_BYTES = 8
_CHECKED_BYTES = 1 + _CHECKSUM_BYTES
_NONCE_BYTES = 12
KEY_BYTES = 32
_SALT_BYTES = 16
_SMALL = 32  # bytes; compressing fewer costs more than it saves
_LARGEST = 2**30  # bytes after decompression; a row that claims more is refused as a decompression bomb
_LEVEL = 6
_MSGPACK_OPTION = ormsgpack.OPT_NON_STR_KEYS


class Keyring:
    """The keys a database is encrypted with: `{key id: 32 bytes}`; new rows are encrypted with the `current` one.

    To rotate, add a new key, make it `current`, call the saver's `rotate()`, then remove the old key.
    Raise KeyringError for a key that is not 32 bytes long and for an id that is not a text of 1 to 64 bytes.
    """

    def __init__(self, keys: Mapping[str, bytes], *, current: str) -> None:
        if current not in keys:
            raise KeyringError(f"the current key {current!r} is not among the keys {sorted(keys)}")
        for name, key in keys.items():
            if len(key) != KEY_BYTES:
                raise KeyringError(f"the key {name!r} has {len(key)} bytes; AES-256 takes {KEY_BYTES}")
            if not 0 < len(name.encode()) <= 64:  # noqa: PLR2004 - every row holds the key id, so it is short
                raise KeyringError(f"the key id {name!r} is not 1 to 64 bytes long")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only installed with the extra
        except ModuleNotFoundError as error:
            raise KeyringError(f"encryption needs cryptography: {how_to_install('encryption')}") from error
        self.current = current
        self._ciphers = {name: AESGCM(bytes(key)) for name, key in keys.items()}

    def __repr__(self) -> str:
        return f"Keyring({sorted(self._ciphers)}, current={self.current!r})"

    def encrypt(self, place: bytes, data: bytes) -> bytes:
        """Encrypt data with the current key and bind the result to `place`."""
        nonce = os.urandom(_NONCE_BYTES)
        name = self.current.encode()
        encrypted = self._ciphers[self.current].encrypt(nonce, data, _associated_data(place, name))
        return bytes([len(name)]) + name + nonce + encrypted

    def decrypt(self, place: bytes, data: bytes, row: str) -> bytes:
        """Undo `encrypt`; raise KeyringError for an unknown key id, RowError if the bytes or `place` were changed.

        The errors name `row`, because `place` can hold the salt of a thread.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        name, rest = data[1 : 1 + data[0]] if data else b"", data[1 + data[0] :] if data else b""
        key_id = name.decode(errors="replace")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise KeyringError(f"{row} was encrypted with a key that is not in the keyring: {key_id!r}")
        if len(rest) < _NONCE_BYTES:
            raise RowError(f"{row} is damaged: it is cut off")
        try:
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _associated_data(place, name))
        except InvalidTag:
            raise RowError(f"{row} is damaged, or encrypted for another place or with another key") from None

    def is_current(self, body: bytes) -> bool:
        """Return whether a row's body was encrypted with the current key."""
        name = self.current.encode()
        return body[:1] == _ENCRYPTED and body[1 : 2 + len(name)] == bytes([len(name)]) + name


class RowCodec:
    """Encodes and decodes the row bodies of one thread.

    `thread` is the thread's integer key, and `name` its thread_id: a row is bound to both, so that a thread whose
    name was changed cannot be read. `salt` is a random value of the thread, None where nothing is encrypted. The
    salt makes rows of other databases undecodable here, and keeps the stored hashes of messages from being guessed.
    """

    def __init__(
        self, thread: int, keys: Keyring | None = None, salt: bytes | None = None, *, name: str = ""
    ) -> None:
        self.thread = thread
        self.name = name
        self._keys = keys
        self._salt = salt
        self._of_thread = f" of thread {thread} {name!r} "
        self._salt_text = "" if salt is None else salt.hex()

    def encode(self, row: str, data: bytes, *, bound: str = "") -> bytes:
        """Return the bytes to store for `data` in `row`, a name that is unique within the thread.

        `bound` is a text made of the row's other columns; changing these columns makes the body undecodable.
        """
        body = _compress(data)
        place = f"{row}{self._of_thread}{bound} {self._salt_text}".encode("utf-8", "surrogatepass")
        if self._keys is None:
            return _CHECKED + blake2b(b"%b\x00%b" % (place, body), digest_size=_CHECKSUM_BYTES).digest() + body
        return _ENCRYPTED + self._keys.encrypt(place, body)

    def decode(self, row: str, body: bytes, *, bound: str = "") -> bytes:
        """Return the data that `encode` was given; raise RowError, naming the row, if the bytes were changed."""
        if type(body) is not bytes:  # some drivers return a memoryview
            body = bytes(body)
        kind = body[:1]
        place = f"{row}{self._of_thread}{bound} {self._salt_text}".encode("utf-8", "surrogatepass")
        try:
            if kind == _CHECKED and self._keys is None:
                data = body[_CHECKED_BYTES:]
                checksum = blake2b(b"%b\x00%b" % (place, data), digest_size=_CHECKSUM_BYTES).digest()
                if body[1:_CHECKED_BYTES] == checksum:
                    return _decompress(data)
            elif kind == _ENCRYPTED and self._keys is not None:
                return _decompress(self._keys.decrypt(place, body[1:], self.describe(row)))
        except (ValueError, zstandard.ZstdError) as error:
            raise RowError(f"{self.describe(row)} is damaged: {error}") from error
        if kind == _ENCRYPTED:
            raise KeyringError(f"{self.describe(row)} is encrypted; {OPEN_WITH_KEYS}")
        if self._keys is not None:
            raise RowError(f"{self.describe(row)} is not encrypted, but the database was opened with keys")
        raise RowError(f"{self.describe(row)} is damaged: its bytes are not those that were stored there")

    def unpack(self, row: str, body: bytes, *, bound: str = "") -> Any:
        """Decode a row of msgpack; raise ValueError (`intact` makes it a RowError) for data that is not msgpack."""
        return ormsgpack.unpackb(self.decode(row, body, bound=bound), option=_MSGPACK_OPTION)

    def lookup_hash(self, content_hash: bytes) -> bytes:
        """Return the 16 bytes by which a message or blob is looked up: its hash or, if encrypted, a keyed hash.

        The first six bytes depend only on the first six of `content_hash`, so that a handle can be looked up too.
        """
        if self._salt is None:
            return content_hash
        start, length = content_hash[:HASH_PREFIX_BYTES], len(content_hash) - HASH_PREFIX_BYTES
        return self.lookup_prefix(start) + _keyed_hash(self._salt, content_hash)[:length]

    def lookup_prefix(self, start: bytes) -> bytes:
        """Return the first six bytes of `lookup_hash(content_hash)`, given the first six bytes of `content_hash`."""
        return start if self._salt is None else _keyed_hash(self._salt, start)[:HASH_PREFIX_BYTES]

    def lookup_text(self, digest: str) -> str:
        """Return the text that a row holds for a digest: the digest itself or, if encrypted, a keyed hash of it.

        With a plain digest, anybody who guesses the text behind it could check the guess.
        """
        return digest if self._salt is None else _keyed_hash(self._salt, digest.encode()).hex()

    @property
    def hashes_are_plain(self) -> bool:
        """Whether nothing is encrypted, so that messages are stored under their own hashes.

        Then a message can be found by any number of characters of its hash. If encrypted, only the first six bytes of
        the keyed hash can be searched for.
        """
        return self._salt is None

    def describe(self, row: str) -> str:
        """Return the row's name for an error message."""
        return f"{row}{self._of_thread.rstrip()}"


def new_salt() -> bytes:
    """Return random bytes for a thread of an encrypted database."""
    return os.urandom(_SALT_BYTES)


@contextmanager
def intact(row: str) -> Generator[None]:
    """Raise a RowError that names the row, in place of any error of type or value that the `with` block raises."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise RowError(f"{row} is damaged: its content has an unknown form") from error


def expect_types(*pairs: tuple[Any, type]) -> None:
    """Raise TypeError unless each value is of exactly its type."""
    for value, kind in pairs:
        if type(value) is not kind:
            raise TypeError(f"expected a {kind.__name__}, found a {type(value).__name__}")


def _associated_data(place: bytes, key_id: bytes) -> bytes:
    return place + b"\x00" + key_id


def _keyed_hash(salt: bytes, data: bytes) -> bytes:
    return blake2b(data, digest_size=16, key=salt).digest()


def _compress(data: bytes) -> bytes:
    if len(data) < _SMALL:
        return _RAW + data
    try:
        tools = _IDLE.pop()
    except IndexError:
        tools = _Tools()
    small = tools.compressor.compress(data)[len(_ZSTD_MAGIC) :]
    _IDLE.append(tools)
    return _ZSTD + small if len(small) < len(data) else _RAW + data


def _decompress(body: bytes) -> bytes:
    """Return the data that `_compress` was given; raise ValueError or ZstdError for other bytes."""
    kind = body[:1]
    if kind == _RAW:
        return body[1:]
    frame = _ZSTD_MAGIC + body[1:]
    if kind != _ZSTD or zstandard.frame_content_size(frame) > _LARGEST:
        raise ValueError("it is not compressed in a known way")
    try:
        tools = _IDLE.pop()
    except IndexError:
        tools = _Tools()
    data = tools.decompressor.decompress(frame)
    _IDLE.append(tools)
    return data


def _typical_rows() -> bytes:
    """Return bytes that most messages, pending writes and checkpoints contain, the most frequent ones last.

    zstd writes whatever a row shares with these bytes as a reference of a few bytes: a checkpoint of an agent then
    takes 80 bytes instead of 200, a pending write 20 instead of 65. Never change these bytes after a version was
    published: rows that were compressed with other bytes cannot be read.
    """
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_token_details": {"cache_read": 0},
        "output_token_details": {"reasoning": 0},
    }
    message = {
        "content": "",
        "additional_kwargs": {},
        "response_metadata": {"model_name": "", "finish_reason": "tool_calls", "model_provider": "openai"},
        "type": "ai",
        "name": None,
        "id": "lc_run--",
        "tool_calls": [{"name": "", "args": {}, "id": "call_", "type": "tool_call"}],
        "invalid_tool_calls": [],
        "usage_metadata": usage,
    }
    step = 300
    versions = {"__start__": step, "messages": step, "branch:to:model": step, "branch:to:tools": step}
    seen = {
        "__input__": {},
        "__start__": {"__start__": step},
        "model": {"branch:to:model": step},
        "tools": {"branch:to:tools": step},
    }
    metadata = {"source": "loop", "step": step, "parents": {}}
    null = [0, "null", b""]
    typical: tuple[Any, ...] = (
        [["langchain_core.messages.human", "HumanMessage"], ["langchain_core.messages.tool", "ToolMessage"]],
        ["langchain_core.messages.ai", "AIMessage", message, "model_validate_json"],
        {"source": "input", "step": -1, "langgraph_version": "", "thread_id": "", "run_id": ""},
        [["~__pregel_pull, model", [[1, "branch:to:tools", null], [0, "messages", [1, b"\x8d\x03\x01"]]]]],
        [
            *(4, "2026-01-01T00:00:00.000000+00:00", versions, seen, ["branch:to:tools", "messages"]),
            *({"messages": [1, b"\x00\x8e\x03"], "branch:to:tools": null}, ["msgpack", ormsgpack.packb(metadata)]),
            None,
        ],
    )
    return b"".join(map(ormsgpack.packb, typical))


_DICTIONARY = zstandard.ZstdCompressionDict(_typical_rows(), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
_DICTIONARY.precompute_compress(level=_LEVEL)


class _Tools:
    """A zstd compressor and decompressor, of which only one OS thread at a time may use each."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=_DICTIONARY, write_dict_id=False)
        self.decompressor = zstandard.ZstdDecompressor(dict_data=_DICTIONARY)


_IDLE: deque[_Tools] = deque()
"""Compressors and decompressors that no OS thread is using now.

They are kept here and not in the OS threads, because LangGraph starts new OS threads for every run of a graph.
"""
