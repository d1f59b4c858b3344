"""Row bodies as they stand in the database: compressed where that pays, and bound to the place they stand in.

Without a key a body carries a checksum over its place and its bytes: truncated, flipped and swapped rows are
seen. With a `Keyring` it is encrypted (AES-GCM), with place, thread and key id as associated data, and a body
that is not encrypted is refused.
"""

import hmac
import os
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b

import zstandard

from ..errors import KeyringError, RowError

_CHECKED = b"\x01"
_ENCRYPTED = b"\x02"
_RAW = b"\x00"
_ZSTD = b"\x01"
_CHECKSUM_BYTES = 8
_NONCE_BYTES = 12
_KEY_BYTES = 32
_SALT_BYTES = 16
_SMALL = 128  # bytes; below, compression costs more than it saves
_LARGEST = 2**30  # bytes a row may hold; more is taken for a bomb
_LEVEL = 6


class Keyring:
    """The keys a database is encrypted with: `{key id: 32 bytes}`; new rows get the `current` one.

    To rotate, add a new key, make it `current`, call the saver's `rotate()`, then take the old key out.
    KeyringError for keys that are not 32 bytes and ids that are not 1 to 64 bytes of text.
    """

    def __init__(self, keys: Mapping[str, bytes], *, current: str) -> None:
        if current not in keys:
            raise KeyringError(f"the current key {current!r} is not among the keys {sorted(keys)}")
        for name, key in keys.items():
            if len(key) != _KEY_BYTES:
                raise KeyringError(f"the key {name!r} has {len(key)} bytes; AES-256 takes {_KEY_BYTES}")
            if not 0 < len(name.encode()) <= 64:  # noqa: PLR2004 - it is written into every row
                raise KeyringError(f"the key id {name!r} is not 1 to 64 bytes long")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise KeyringError("encryption needs `pip install 'langgraph-compaction[encryption]'`") from error
        self.current = current
        self._ciphers = {name: AESGCM(bytes(key)) for name, key in keys.items()}

    def __repr__(self) -> str:
        return f"Keyring({sorted(self._ciphers)}, current={self.current!r})"

    def encrypt(self, place: str, data: bytes) -> bytes:
        """Encrypt with the current key, bound to `place`."""
        nonce = os.urandom(_NONCE_BYTES)
        name = self.current.encode()
        sealed = self._ciphers[self.current].encrypt(nonce, data, _associated(place, name))
        return bytes([len(name)]) + name + nonce + sealed

    def decrypt(self, place: str, data: bytes) -> bytes:
        """Undo `encrypt`; KeyringError for an unknown key id, RowError for anything that does not verify."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        name, rest = data[1 : 1 + data[0]] if data else b"", data[1 + data[0] :] if data else b""
        cipher = self._ciphers.get(name.decode(errors="replace"))
        if cipher is None:
            raise KeyringError(f"{place} was encrypted with a key that is not in the keyring")
        if len(rest) < _NONCE_BYTES:
            raise RowError(f"{place} is damaged: it breaks off")
        try:
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _associated(place, name))
        except InvalidTag:
            raise RowError(f"{place} is damaged, or encrypted for another place or with another key") from None

    def is_current(self, sealed: bytes) -> bool:
        """Say whether a sealed body was encrypted with the current key."""
        name = self.current.encode()
        return sealed[:1] == _ENCRYPTED and sealed[1 : 2 + len(name)] == bytes([len(name)]) + name


class Seal:
    """Closes and opens the row bodies of one thread.

    `thread` is the thread's integer key. `salt` is a random value of the thread, None where nothing is
    encrypted: it keeps rows from other databases out, and its content hashes from being guessed.
    """

    def __init__(self, thread: int, keys: Keyring | None = None, salt: bytes | None = None) -> None:
        self.thread = thread
        self._keys = keys
        self._salt = salt

    def close(self, row: str, data: bytes, *, beside: str = "") -> bytes:
        """Return the bytes to store for `data` in `row`, a name that is unique within the thread.

        `beside` is what stands in the row's other columns and must not be changed apart from the body.
        """
        body = _squeezed(data)
        if self._keys is None:
            return _CHECKED + _checksum(f"{self.name(row)} {beside}", body) + body
        return _ENCRYPTED + self._keys.encrypt(self._place(row, beside), body)

    def open(self, row: str, sealed: bytes, *, beside: str = "") -> bytes:
        """Return what `close` was given; RowError names the row where the bytes are not what was stored."""
        kind, rest = sealed[:1], sealed[1:]
        if kind == _ENCRYPTED:
            if self._keys is None:
                raise KeyringError(f"{self.name(row)} is encrypted; open the database with its keys")
            return _inflated(self._keys.decrypt(self._place(row, beside), rest), self.name(row))
        if self._keys is not None:
            raise RowError(f"{self.name(row)} is not encrypted, and a key is set")
        body = rest[_CHECKSUM_BYTES:]
        if kind != _CHECKED or not hmac.compare_digest(
            rest[:_CHECKSUM_BYTES], _checksum(f"{self.name(row)} {beside}", body)
        ):
            raise RowError(f"{self.name(row)} is damaged: its bytes are not those that were stored there")
        return _inflated(body, self.name(row))

    def hash(self, digest: bytes) -> bytes:
        """Return the 16 bytes a message or blob is found by: its digest itself, or a keyed hash of it.

        The first six bytes depend on the digest's first six alone, so that a handle is found too.
        """
        if self._salt is None:
            return digest
        return self.hash_prefix(digest[:PREFIX_BYTES]) + _keyed(self._salt, digest)[: len(digest) - PREFIX_BYTES]

    def hash_prefix(self, start: bytes) -> bytes:
        """Return how the hash of every digest with these first six bytes starts."""
        return start if self._salt is None else _keyed(self._salt, start)[:PREFIX_BYTES]

    def mask(self, digest: str) -> str:
        """Return a digest as it may stand in a column: as it is, or keyed where the thread is encrypted."""
        return digest if self._salt is None else _keyed(self._salt, digest.encode()).hex()

    @property
    def open_hash(self) -> bool:
        """Whether a hash is the digest itself, so that any part of it can be searched for."""
        return self._salt is None

    def name(self, row: str) -> str:
        """Return the row's name for an error message."""
        return f"{row} of thread {self.thread}"

    def _place(self, row: str, beside: str) -> str:
        return f"{self.name(row)} {beside} {'' if self._salt is None else self._salt.hex()}"


PREFIX_BYTES = 6
"""Bytes of a digest that a handle shows, and by which alone a message can be found."""


def new_salt() -> bytes:
    """Return the random bytes a thread of an encrypted database is given."""
    return os.urandom(_SALT_BYTES)


def _associated(place: str, key_id: bytes) -> bytes:
    return place.encode("utf-8", "surrogatepass") + b"\x00" + key_id


def _keyed(salt: bytes, data: bytes) -> bytes:
    return blake2b(data, digest_size=16, key=salt).digest()


def _checksum(place: str, body: bytes) -> bytes:
    whole = b"%b\x00%b" % (place.encode("utf-8", "surrogatepass"), body)
    return blake2b(whole, digest_size=_CHECKSUM_BYTES).digest()


def _squeezed(data: bytes) -> bytes:
    if len(data) < _SMALL:
        return _RAW + data
    tools = _idle_tools()
    small = tools.compressor.compress(data)
    _IDLE.append(tools)
    return _ZSTD + small if len(small) < len(data) else _RAW + data


def _inflated(body: bytes, row: str) -> bytes:
    if body[:1] == _RAW:
        return body[1:]
    try:
        if body[:1] != _ZSTD or zstandard.frame_content_size(body[1:]) > _LARGEST:
            raise RowError(f"{row} is damaged: it is not of a known form")
        tools = _idle_tools()
        data = tools.decompressor.decompress(body[1:])
    except zstandard.ZstdError as error:
        raise RowError(f"{row} is damaged: {error}") from error
    _IDLE.append(tools)
    return data


class _Tools:
    """Neither of the two may be used by two threads at once."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_IDLE: deque[_Tools] = deque()
"""Those that nobody uses. LangGraph starts new threads for every run, and making a pair takes as long as its use."""


def _idle_tools() -> _Tools:
    try:
        return _IDLE.pop()
    except IndexError:
        return _Tools()
