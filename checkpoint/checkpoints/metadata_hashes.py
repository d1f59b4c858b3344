"""Short hashes of a checkpoint's metadata, by which the database finds the checkpoints that a filter of `list` wants.

A row holds four characters for each item of the metadata, in one text. A filter asks for the rows whose text contains
the hashes of all wanted items; what is found is then compared with the metadata itself, because two items may share a
hash. If encrypted, the hashes are keyed by the thread, so the text does not tell the metadata.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from ..db.row_codec import Keyring, RowCodec

_PLAIN = RowCodec(0)
_HASH_BYTES = 3
_KNOWN_ITEMS = 1_024  # most items are the same in all checkpoints of a run
_CONTAINERS = (dict, list, tuple, set, frozenset, bytes)
"""Types of values that no text and no number equals, so items with such values need no hash."""


def hashes_of(codec: RowCodec, metadata: Mapping[str, Any]) -> str | None:
    """Return the hashes of all items; None if an item has a value of a type that may equal texts or numbers."""
    found: list[str] = []
    hash_of = _plain_hash if codec.hashes_are_plain else partial(_hash, codec)
    for key, value in metadata.items():
        kind = type(value)
        if kind is str or kind is int or isinstance(value, str | int | float):
            found.append(hash_of(key, value))
        elif value is not None and not isinstance(value, _CONTAINERS):
            return None
    found.sort()
    return "".join(found)


def wanted_hashes(codec: RowCodec, wanted: Mapping[str, Any]) -> list[str]:
    """Return the hashes that the row of a wanted checkpoint contains, in no order.

    Items with other values than texts and numbers are left out: they can only be compared with the metadata itself.
    """
    return [_hash(codec, key, value) for key, value in wanted.items() if isinstance(value, str | int | float)]


def hashes_for_database(keys: Keyring | None, wanted: Mapping[str, Any]) -> list[str]:
    """Return the hashes by which the database chooses among all threads; none if each thread has keyed ones."""
    return wanted_hashes(_PLAIN, wanted) if keys is None else []


def may_match(hashes: str | None, wanted: list[str]) -> bool:
    """Whether a row with these hashes may be wanted."""
    return hashes is None or all(one in hashes for one in wanted)


def _hash(codec: RowCodec, key: str, value: str | float) -> str:
    """Return the hash of an item, the same for equal values: 1, 1.0 and True are equal."""
    told = f"{key}\0" + str.__str__(value) if isinstance(value, str) else f"{key}\1{hash(value)}"
    content = blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return urlsafe_b64encode(codec.lookup_hash(content)[:_HASH_BYTES]).decode()


_plain_hash = lru_cache(_KNOWN_ITEMS)(partial(_hash, _PLAIN))
