"""Defines the encoded form of a value in a row, and decodes it. A read builds each message once.

An encoded value is a list `[tag, ...]` of values that msgpack can write. An encoded value names messages and large
values (blobs) by number.
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
"""The tags of encoded values.

INLINE holds a serialized value, BLOB the number of a serialized value that is stored as a blob. RUNS stands for a
list of messages, as runs of consecutive sequence numbers. MESSAGE stands for a single message, MESSAGE_WITHOUT_ID for
a single message whose id was None. DICT, LIST, SEND, DELTA and OVERWRITE contain encoded values. SHARED_RUNS stands
for a list of messages with very many runs: most of the runs are in blobs, which similar lists share.
"""

_LISTS = frozenset({RUNS, SHARED_RUNS})
_SINGLE = frozenset({MESSAGE, MESSAGE_WITHOUT_ID})


def references(encoded: Iterable[Any], run_blobs: Mapping[int, bytes]) -> tuple[list[Runs], set[int]]:
    """Return the runs of sequence numbers and the numbers of the blobs that encoded values refer to.

    `run_blobs` maps blob numbers to blobs; it holds all the blobs whose numbers `run_blob_numbers` returns.
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
    """Return the numbers of the blobs that hold runs of sequence numbers (see SHARED_RUNS)."""
    found = chain.from_iterable(map(leaves, encoded))
    return set(chain.from_iterable(leaf[1] for leaf in found if leaf[0] == SHARED_RUNS))


def leaves(encoded: Any) -> Iterator[Any]:
    """Yield the parts of an encoded value that refer to messages or blobs; raise ValueError for an unknown form."""
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
    """Builds the values of one read; a message that occurs in several values becomes one object.

    First call `expect` for all encoded values, then `fetch` once, then `build` for each encoded value.
    """

    conn: sa.Connection
    thread: Thread
    store: MessageStore
    serde: SerializerProtocol
    messages: dict[int, BaseMessage] = field(default_factory=dict[int, BaseMessage])
    blobs: dict[int, bytes] = field(default_factory=dict[int, bytes])
    hashes: dict[int, int] | None = None
    """The result of `hash_bytes` for each message that is read, by number; None if hashes are not needed."""
    hash_bytes: Callable[[bytes], int] = bytes_hash
    stored: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    """Bodies of message rows that were read already, by sequence number."""
    stored_blobs: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    """Bodies of blob rows that were read already, by number."""
    expected: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    _longest: dict[int, list[BaseMessage]] = field(default_factory=dict[int, list[BaseMessage]])

    def expect(self, row: str, encoded: Iterable[Any]) -> None:
        """Register the references in a row's encoded values for `fetch`; raise `RowError` if the row is damaged."""
        with intact(row):
            self.expected.extend((row, leaf) for value in encoded for leaf in leaves(value))

    def fetch(self) -> None:
        """Read the registered messages and blobs that were not read before."""
        numbers = set(chain.from_iterable(_blob_numbers(leaf) for _, leaf in self.expected))
        self.blobs.update(blobs.get(self.conn, self.thread, numbers - self.blobs.keys(), self.stored_blobs))
        runs = [self._runs(leaf, row) for row, leaf in self.expected if leaf[0] in _LISTS | _SINGLE]
        read = self.store.get_many(
            self.conn,
            self.thread,
            runs,
            self.messages,
            self.hashes,
            hash_bytes=self.hash_bytes,
            stored=self.stored,
        )
        self.messages.update(read)
        self.expected.clear()

    def runs(self, encoded: Any, row: str) -> Runs | None:
        """Return the runs of sequence numbers of an encoded list of messages; None for any other encoded value."""
        return self._runs(encoded, row) if encoded[0] in _LISTS else None

    def hashes_of(self, runs: Runs) -> list[int]:
        """Return the hashes of the fetched messages in the order of `runs`; [] if hashes are not collected."""
        return [] if self.hashes is None else list(map(self.hashes.__getitem__, expand(runs)))

    def build(self, encoded: Any, row: str) -> Any:
        """Decode a fetched value; raise `RowError`, naming `row`, if loading the value's type is not allowed."""
        with intact(row):
            return self._build(encoded, row)

    def load(self, typed: tuple[str, bytes], row: str) -> Any:
        """Deserialize a value; raise `RowError`, naming `row`, if loading the value's type is not allowed."""
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
        """Return the messages of one run.

        The longest list so far is kept for each start of a run. Most lists of a thread start with the same messages,
        so a shorter run is a slice of a list that was already built.
        """
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
