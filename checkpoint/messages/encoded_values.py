"""What a value is in a row: `[tag, ...]` of what msgpack knows by itself, messages and large parts by number."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from .sequence_runs import Runs, decode_runs

INLINE, RUNS, ONE, BARE, BLOB, DICT, LIST, SEND, DELTA, OVERWRITE, PIECES = range(11)
"""The tags: a serialized value; a list of messages; a message, with its id and without; a serialized value in a
blob; three containers and two wrappers of nodes; and a list of messages in so many runs that most of them stand
in blobs, which the lists before and after it share.
"""

SEQS = frozenset({RUNS, PIECES, ONE, BARE})
"""Tags of what stands for messages."""


def seqs_and_blobs(nodes: Iterable[Any], pieces: Mapping[int, bytes]) -> tuple[list[Runs], set[int]]:
    """Return what the nodes keep alive; `pieces` holds at least the blobs that `piece_numbers` names."""
    found = list(chain.from_iterable(map(leaves, nodes)))
    runs: list[Runs] = []
    for leaf in found:
        if leaf[0] in {RUNS, PIECES}:
            runs.append(decode_runs(leaf[-1]))
        if leaf[0] == PIECES:
            runs.extend(decode_runs(pieces[number]) for number in leaf[1])
        if leaf[0] in {ONE, BARE}:
            runs.append(((leaf[1], 1),))
    return runs, set(chain.from_iterable(map(blob_numbers, found)))


def piece_numbers(nodes: Iterable[Any]) -> set[int]:
    """Return the numbers of the blobs that hold runs."""
    found = chain.from_iterable(map(leaves, nodes))
    return set(chain.from_iterable(leaf[1] for leaf in found if leaf[0] == PIECES))


def leaves(node: Any) -> Iterator[Any]:
    """Yield the nodes that stand for messages or blobs; ValueError for what is no node."""
    match node:
        case [int(tag), str(), bytes()] if tag == INLINE:
            return
        case [int(tag), bytes()] if tag == RUNS:
            yield node
        case [int(tag), int()] if tag in {ONE, BARE, BLOB}:
            yield node
        case [int(tag), list() as numbers, bytes()] if tag == PIECES and set(map(type, numbers)) <= {int}:
            yield node
        case [int(tag), dict() as held] if tag == DICT:
            yield from chain.from_iterable(map(leaves, held.values()))
        case [int(tag), list() as parts] if tag == LIST:
            yield from chain.from_iterable(map(leaves, parts))
        case [int(tag), str(), held, timeout] if tag == SEND:
            yield from leaves(held)
            yield from () if timeout is None else leaves(timeout)
        case [int(tag), held] if tag in {DELTA, OVERWRITE}:
            yield from leaves(held)
        case _:
            raise ValueError("no node")


def blob_numbers(leaf: Any) -> list[int]:
    """Return the numbers of the blobs a leaf names."""
    if leaf[0] == BLOB:
        return [leaf[1]]
    return list(leaf[1]) if leaf[0] == PIECES else []
