import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    Runs,
    count,
    covering,
    decode_runs,
    encode_runs,
    expand,
    extended,
    first,
    runs_of,
)

SEQS = st.lists(st.integers(0, 40) | st.integers(0, 2**40))


@given(SEQS)
def test_runs_keep_order_and_repetitions(seqs: list[int]) -> None:
    """Any list of sequence numbers comes back from its runs, and from their bytes, as it was."""
    runs = runs_of(seqs)
    assert list(expand(runs)) == seqs
    assert count(runs) == len(seqs)
    assert decode_runs(encode_runs(runs)) == runs


@given(SEQS, SEQS, st.integers(0, 50))
def test_runs_are_cut_and_extended(seqs: list[int], more: list[int], length: int) -> None:
    """The first so many numbers of runs, with others behind them, are the runs of both in a row."""
    assert extended(first(runs_of(seqs), length), more) == runs_of([*seqs[:length], *more])


@given(st.lists(SEQS))
def test_a_covering_holds_every_number_once(many: list[list[int]]) -> None:
    """The covering of several runs is sorted, does not overlap and holds exactly their numbers."""
    assert list(expand(covering(map(runs_of, many)))) == sorted({seq for seqs in many for seq in seqs})


@pytest.mark.parametrize(
    ("seqs", "runs", "size"),
    [
        ([], (), 0),
        (range(10), ((0, 10),), 2),
        (range(4000), ((0, 4000),), 3),
        ([0, *range(3900, 4001)], ((0, 1), (3900, 101)), 5),
        ([5, 4, 3], ((5, 1), (4, 1), (3, 1)), 6),
    ],
    ids=["empty", "ten", "four thousand", "a header and the end", "backwards"],
)
def test_a_list_costs_a_few_bytes(seqs: list[int], runs: Runs, size: int) -> None:
    """Growth at the end costs nothing; every break in the order costs one run."""
    assert runs_of(seqs) == runs
    assert len(encode_runs(runs)) == size


@pytest.mark.parametrize(
    "data", [b"\x01", b"\x01\x80", b"\x01\x00", b"\xff" * 9 + b"\x01\x01", b"\x01" + b"\xff" * 10 + b"\x01"]
)
def test_damaged_runs_name_their_row(data: bytes) -> None:
    """An odd count, a broken number, an empty run and a number too large are errors naming the row."""
    with pytest.raises(RowError, match="snapshot ab of thread 1"):
        decode_runs(data, row="snapshot ab of thread 1")
