"""What stands in a sealed row: msgpack, or runs."""

from typing import Any

import ormsgpack

from ..db.thread_row import Thread
from .sequence_runs import Runs, decode_runs, encode_runs

_OPTION = ormsgpack.OPT_NON_STR_KEYS


def unpacked(thread: Thread, row: str, sealed: bytes, beside: str = "") -> Any:
    """Open a row of msgpack; ValueError where it holds something else, which `intact` makes a RowError."""
    return ormsgpack.unpackb(thread.seal.open(row, sealed, beside=beside), option=_OPTION)


def sealed_runs(thread: Thread, row: str, runs: Runs) -> bytes:
    """Return runs as they stand in a row."""
    return thread.seal.close(row, encode_runs(runs))


def opened_runs(thread: Thread, row: str, sealed: bytes) -> Runs:
    """Return the runs of a row; RowError names it where the bytes are not what was stored."""
    return decode_runs(thread.seal.open(row, bytes(sealed)), row=thread.seal.name(row))


def expect_types(*pairs: tuple[Any, type]) -> None:
    """Raise TypeError unless each value is of exactly its type."""
    for value, kind in pairs:
        if type(value) is not kind:
            raise TypeError(f"a {type(value).__name__} stands where a {kind.__name__} should")
