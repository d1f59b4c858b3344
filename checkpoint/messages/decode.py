"""The form of a value in a row, and how it becomes a value again. Each message and each blob is read and built once.

An encoded value is a list `[tag, ...]` of values that msgpack knows. It names messages and large values by number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, starmap
from typing import Any

import ormsgpack
import sqlalchemy as sa
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.types import Overwrite, Send

from ..db.row_codec import intact
from ..db.thread_row import Thread
from ..errors import RowError, ValueTypeError
from . import blobs
from .message_codec import bytes_hash
from .message_store import MessageStore
from .sequence_runs import Runs, decode_runs, expand

INLINE, RUNS, MESSAGE, MESSAGE_WITHOUT_ID, BLOB, DICT, LIST, SEND, DELTA, OVERWRITE, SHARED_RUNS = range(11)
"""The tags.

INLINE is a serialized value, BLOB the number of one. RUNS is a list of messages, MESSAGE a single one, and
MESSAGE_WITHOUT_ID a single one whose id was None. DICT, LIST, SEND, DELTA and OVERWRITE contain encoded values.
SHARED_RUNS is a list of messages in so many runs that most of them are in blobs, which similar lists share.
"""

_LISTS = frozenset({RUNS, SHARED_RUNS})
_SINGLE = frozenset({MESSAGE, MESSAGE_WITHOUT_ID})


def references(encoded: Iterable[Any], run_blobs: Mapping[int, bytes]) -> tuple[list[Runs], set[int]]:
    """Return the runs of messages and the numbers of blobs that encoded values refer to.

    `run_blobs` holds at least the blobs that `run_blob_numbers` names.
    """
    found = list(chain.from_iterable(map(leaves, encoded)))
    runs: list[Runs] = []
    for leaf in found:
        if leaf[0] in _LISTS:
            runs.append(decode_runs(leaf[-1]))
        if leaf[0] == SHARED_RUNS:
            runs.extend(decode_runs(run_blobs[number]) for number in leaf[1])
        if leaf[0] in _SINGLE:
            runs.append(((leaf[1], 1),))
    return runs, set(chain.from_iterable(map(_blob_numbers, found)))


def run_blob_numbers(encoded: Iterable[Any]) -> set[int]:
    """Return the numbers of the blobs that hold runs."""
    found = chain.from_iterable(map(leaves, encoded))
    return set(chain.from_iterable(leaf[1] for leaf in found if leaf[0] == SHARED_RUNS))


def leaves(encoded: Any) -> Iterator[Any]:
    """Yield the parts of an encoded value that refer to messages or blobs; ValueError for an unknown form."""
    match encoded:
        case [int(tag), str(), bytes()] if tag == INLINE:
            return
        case [int(tag), bytes()] if tag == RUNS:
            yield encoded
        case [int(tag), int()] if tag == BLOB or tag in _SINGLE:
            yield encoded
        case [int(tag), list() as numbers, bytes()] if tag == SHARED_RUNS and set(map(type, numbers)) <= {int}:
            yield encoded
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
            raise ValueError("not an encoded value")


def _blob_numbers(leaf: Any) -> list[int]:
    if leaf[0] == BLOB:
        return [leaf[1]]
    return list(leaf[1]) if leaf[0] == SHARED_RUNS else []


@dataclass(slots=True)
class ValueDecoder:
    """Builds the values of one read; a message that occurs in several of them becomes one object.

    First `expect` all encoded values, then `fetch`, then `build` each of them.
    """

    conn: sa.Connection
    thread: Thread
    store: MessageStore
    serde: SerializerProtocol
    messages: dict[int, BaseMessage] = field(default_factory=dict[int, BaseMessage])
    blobs: dict[int, bytes] = field(default_factory=dict[int, bytes])
    hashes: dict[int, int] | None = None
    """Results of `hash_bytes` for the bytes of each message that is read; None where they are not needed."""
    hash_bytes: Callable[[bytes], int] = bytes_hash
    expected: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    _longest: dict[int, list[BaseMessage]] = field(default_factory=dict[int, list[BaseMessage]])

    def expect(self, row: str, encoded: Iterable[Any]) -> None:
        """Register the references of a row's encoded values for the next `fetch`; RowError names a damaged row."""
        with intact(row):
            self.expected.extend((row, leaf) for value in encoded for leaf in leaves(value))

    def fetch(self) -> None:
        """Read the expected messages and blobs that were not read before."""
        numbers = set(chain.from_iterable(_blob_numbers(leaf) for _, leaf in self.expected))
        self.blobs.update(blobs.get(self.conn, self.thread, numbers - self.blobs.keys()))
        runs = [self._runs(leaf, row) for row, leaf in self.expected if leaf[0] in _LISTS | _SINGLE]
        read = self.store.get_many(
            self.conn, self.thread, runs, self.messages, self.hashes, hash_bytes=self.hash_bytes
        )
        self.messages.update(read)
        self.expected.clear()

    def runs(self, encoded: Any, row: str) -> Runs | None:
        """Return the runs of a fetched list of messages; None for any other encoded value."""
        return self._runs(encoded, row) if encoded[0] in _LISTS else None

    def hashes_of(self, runs: Runs) -> list[int]:
        """Return the `hashes` of fetched messages in their order; [] where hashes are not collected."""
        return [] if self.hashes is None else list(map(self.hashes.__getitem__, expand(runs)))

    def build(self, encoded: Any, row: str) -> Any:
        """Return the value of a fetched encoded value; RowError, naming `row`, for a value that may not be loaded."""
        with intact(row):
            return self._build(encoded, row)

    def load(self, typed: tuple[str, bytes], row: str) -> Any:
        """Return a serialized value; RowError, naming `row`, for a value that may not be loaded."""
        try:
            with intact(row):
                return self.serde.loads_typed(typed)
        except ValueTypeError as error:
            raise RowError(f"{row} cannot be loaded: {error}") from error

    def _build(self, encoded: Any, row: str) -> Any:
        match encoded:
            case [int(tag), *_] if tag in _LISTS:
                return list(chain.from_iterable(starmap(self._messages, self._runs(encoded, row))))
            case [int(tag), int(seq)] if tag in _SINGLE:
                message = self.messages[seq]
                return message if tag == MESSAGE else message.model_copy(update={"id": None})
            case [int(tag), str(kind), bytes(data)] if tag == INLINE:
                return self.load((kind, data), row)
            case [int(tag), int(number)] if tag == BLOB:
                return self._blob(number)
            case _:
                return self._container(encoded, row)

    def _blob(self, number: int) -> Any:
        row = self.thread.codec.describe(f"blob {number}")
        with intact(row):
            kind, data = ormsgpack.unpackb(self.blobs[number])
        return self.load((kind, data), row)

    def _container(self, encoded: Any, row: str) -> Any:
        match encoded:
            case [int(tag), dict() as held] if tag == DICT:
                return {key: self._build(part, row) for key, part in held.items()}
            case [int(tag), list() as parts] if tag == LIST:
                return list(chain.from_iterable(self._part(part, row) for part in parts))
            case [int(tag), str(name), argument, timeout] if tag == SEND:
                limit = None if timeout is None else self._build(timeout, row)
                return Send(name, self._build(argument, row), timeout=limit)
            case [int(tag), held] if tag == DELTA:
                return DeltaSnapshot(self._build(held, row))
            case [int(tag), held] if tag == OVERWRITE:
                return Overwrite(self._build(held, row))
            case _:
                raise RowError(f"{row} is damaged: a value in it has an unknown form")

    def _messages(self, start: int, length: int) -> list[BaseMessage]:
        """Return the messages of a run, cut from the longest run with this start: most lists differ at the end."""
        longest = self._longest.get(start, [])
        if len(longest) < length:
            longest = list(map(self.messages.__getitem__, range(start, start + length)))
            self._longest[start] = longest
        return longest[:length]

    def _part(self, part: Any, row: str) -> list[Any]:
        built = self._build(part, row)
        return built if part[0] in _LISTS else [built]

    def _runs(self, leaf: Any, row: str) -> Runs:
        if leaf[0] == RUNS:
            return decode_runs(leaf[1], row=row)
        if leaf[0] == SHARED_RUNS:
            shared = (
                decode_runs(self.blobs[number], row=self.thread.codec.describe(f"blob {number}"))
                for number in leaf[1]
            )
            return tuple(chain(*shared, decode_runs(leaf[2], row=row)))
        return ((leaf[1], 1),)
