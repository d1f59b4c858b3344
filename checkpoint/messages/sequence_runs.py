"""Runs of consecutive sequence numbers: the form in which a row refers to a list of messages.

A list of messages that mostly grows at its end takes one to three runs of a few bytes each, however long the list is.
Runs keep order and repetitions; the numbers within a run count upwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..db.row_codec import RowCodec
from ..errors import RowError

Runs = tuple[tuple[int, int], ...]
"""(start, length) pairs of runs of consecutive sequence numbers, in order; every length is at least 1."""

_SEVEN_BITS = 0x7F
_MORE = 0x80
_LARGEST = 2**62  # start + length must fit into the 64 bits of a database


def runs_of(seqs: Iterable[int]) -> Runs:
    """Join ordered sequence numbers into the fewest runs."""
    runs: list[tuple[int, int]] = []
    start = after = -1
    for seq in seqs:
        if seq != after:
            if after > start:
                runs.append((start, after - start))
            start = seq
        after = seq + 1
    if after > start:
        runs.append((start, after - start))
    return tuple(runs)


def first(runs: Runs, count: int) -> Runs:
    """Return the runs of the first `count` sequence numbers."""
    left = count
    taken: list[tuple[int, int]] = []
    for start, length in runs:
        if left <= 0:
            break
        taken.append((start, min(length, left)))
        left -= length
    return tuple(taken)


def extended(runs: Runs, seqs: Iterable[int]) -> Runs:
    """Return the runs with `seqs` appended."""
    more = runs_of(seqs)
    if not (runs and more and sum(runs[-1]) == more[0][0]):
        return (*runs, *more)
    (start, length), (_, added) = runs[-1], more[0]
    return (*runs[:-1], (start, length + added), *more[1:])


def expand(runs: Runs) -> Iterator[int]:
    """Yield every sequence number of the runs, in order."""
    return chain.from_iterable([range(start, start + length) for start, length in runs])


def count(runs: Runs) -> int:
    """Return how many sequence numbers the runs hold, repetitions included."""
    return sum(length for _, length in runs)


def covering(many: Iterable[Runs]) -> Runs:
    """Return sorted runs without overlap that together hold every sequence number of the given runs."""
    merged: list[tuple[int, int]] = []
    for start, length in sorted(run for runs in many for run in runs):
        end = start + length
        if merged and start <= merged[-1][0] + merged[-1][1]:
            first, held = merged[-1]
            merged[-1] = (first, max(first + held, end) - first)
        else:
            merged.append((start, length))
    return tuple(merged)


def encode_runs(runs: Runs) -> bytes:
    """Serialize runs as varints: start, length, start, length ..."""
    out = bytearray()
    for run in runs:
        for number in run:
            rest = number
            while rest > _SEVEN_BITS:
                out += bytes((rest & _SEVEN_BITS | _MORE,))
                rest >>= 7
            out += bytes((rest,))
    return bytes(out)


def decode_runs(data: bytes, *, row: str = "the row") -> Runs:
    """Return the runs that `encode_runs` wrote; raise `RowError`, naming `row`, for any other bytes."""
    numbers = _varints(data, row)
    if len(numbers) % 2 or not all(numbers[1::2]) or max(numbers, default=0) > _LARGEST:
        raise RowError(f"{row} is damaged: its runs are not valid")
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def runs_to_body(codec: RowCodec, row: str, runs: Runs, *, bound: str = "") -> bytes:
    """Return the body of a row that holds only runs of sequence numbers; `bound` as in `RowCodec.encode`."""
    return codec.encode(row, encode_runs(runs), bound=bound)


def runs_from_body(codec: RowCodec, row: str, body: bytes, *, bound: str = "") -> Runs:
    """Return the runs that a row's body holds; raise `RowError`, naming the row, if the bytes were changed."""
    return decode_runs(codec.decode(row, bytes(body), bound=bound), row=codec.describe(row))


def _varints(data: bytes, row: str) -> Sequence[int]:
    numbers: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & _SEVEN_BITS) << shift
        shift = shift + 7 if byte & _MORE else 0
        if not shift:
            numbers += (value,)
            value = 0
    if shift:
        raise RowError(f"{row} is damaged: its runs are cut off")
    return numbers
