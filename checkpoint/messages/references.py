"""The items that a row refers to, in a column beside the row's body: so nobody has to decode values to know them."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import ormsgpack

from ..db.row_codec import intact
from .sequence_runs import Runs, covering

_OPTION = ormsgpack.OPT_NON_STR_KEYS


class References(NamedTuple):
    """The items that a row refers to."""

    runs: Runs = ()
    """The messages, as sorted runs of sequence numbers."""
    values: tuple[int, ...] = ()
    """The numbers of values."""
    shared: tuple[int, ...] = ()
    """The numbers of values that hold runs of further messages: those of lists with very many runs."""

    def encode(self) -> bytes:
        """Return the bytes for the column."""
        parts: list[Sequence[int]] = [list(chain.from_iterable(self.runs))]
        if self.values or self.shared:
            parts.append(self.values)
        if self.shared:
            parts.append(self.shared)
        return ormsgpack.packb(parts)


def decode(data: bytes, row: str) -> References:
    """Return what `References.encode` encoded; raise `RowError`, naming the row, for other bytes."""
    with intact(row):
        parts: list[list[int]] = [*ormsgpack.unpackb(data, option=_OPTION), [], []]
        flat, values, shared = parts[:3]
        if not {int}.issuperset(map(type, chain(flat, values, shared))) or min((0, *values, *shared)) < 0:
            raise ValueError("a reference is a number")
        return References(tuple(zip(flat[::2], flat[1::2], strict=True)), tuple(values), tuple(shared))


def joined(many: Iterable[References]) -> References:
    """Return the references of several rows together."""
    found = list(many)
    if len(found) == 1:
        return found[0]
    return References(
        covering(one.runs for one in found),
        tuple({number for one in found for number in one.values}),
        tuple({number for one in found for number in one.shared}),
    )
