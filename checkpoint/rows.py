"""What every reader of a sealed row of msgpack does first."""

from typing import Any

import ormsgpack

from .errors import RowError
from .threads import Thread

_OPTION = ormsgpack.OPT_NON_STR_KEYS


def unpacked(thread: Thread, row: str, sealed: bytes, beside: str = "") -> Any:
    """Open a row; RowError names it where the bytes are not what was stored."""
    try:
        return ormsgpack.unpackb(thread.seal.open(row, sealed, beside=beside), option=_OPTION)
    except ValueError as error:
        raise RowError(f"{thread.seal.name(row)} is damaged: {error}") from error


def expect_types(*pairs: tuple[Any, type]) -> None:
    """Raise TypeError unless each value is of exactly its type."""
    for value, kind in pairs:
        if type(value) is not kind:
            raise TypeError(f"a {type(value).__name__} stands where a {kind.__name__} should")
