"""Short hashes of a checkpoint's metadata, by which the database finds the checkpoints that a filter of `list` wants.

A row holds four characters for each item of the metadata, in one text. A filter asks for the rows whose text contains
the hashes of all wanted items; what is found is then compared with the metadata itself, because two items may share a
hash. If encrypted, the hashes are keyed by the thread, so the text does not tell the metadata.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from ..db.row_codec import RowCodec

_HASH_BYTES = 3
_CONTAINERS = (dict, list, tuple, set, frozenset, bytes)
"""Types of values that no text and no number equals, so items with such values need no hash."""


def hashes_of(codec: RowCodec, metadata: Mapping[str, Any]) -> str | None:
    """Return the hashes of all items; None if an item has a value of a type that may equal texts or numbers."""
    found: list[str] = []
    for key, value in metadata.items():
        if (one := _hash(codec, key, value)) is not None:
            found.append(one)
        elif value is not None and not isinstance(value, _CONTAINERS):
            return None
    return "".join(sorted(found))


def wanted_hashes(codec: RowCodec, wanted: Mapping[str, Any]) -> list[str]:
    """Return the hashes that the row of a wanted checkpoint contains, in no order.

    Items with other values than texts and numbers are left out: they can only be compared with the metadata itself.
    """
    return [one for key, value in wanted.items() if (one := _hash(codec, key, value)) is not None]


def may_match(hashes: str | None, wanted: list[str]) -> bool:
    """Whether a row with these hashes may be wanted."""
    return hashes is None or all(one in hashes for one in wanted)


def _hash(codec: RowCodec, key: str, value: Any) -> str | None:
    """Return the hash of an item, the same for equal values; None if the value is neither a text nor a number."""
    if isinstance(value, str):
        told = f"{key}\0{value}"
    elif isinstance(value, int | float):
        told = f"{key}\1{hash(value)}"  # 1, 1.0 and True are equal
    else:
        return None
    content = blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return urlsafe_b64encode(codec.lookup_hash(content)[:_HASH_BYTES]).decode()
