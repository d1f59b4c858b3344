"""From nodes back to values, each message and blob read and built once."""

from collections.abc import Callable, Iterable
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
from .encoded_values import (
    BARE,
    BLOB,
    DELTA,
    DICT,
    INLINE,
    LIST,
    ONE,
    OVERWRITE,
    PIECES,
    RUNS,
    SEND,
    SEQS,
    blob_numbers,
    leaves,
)
from .message_codec import bytes_hash
from .message_store import MessageStore
from .sequence_runs import Runs, decode_runs, expand


@dataclass(slots=True)
class Reading:
    """Builds the values of one read; a message that occurs in several of them is built once."""

    conn: sa.Connection
    thread: Thread
    store: MessageStore
    serde: SerializerProtocol
    messages: dict[int, BaseMessage] = field(default_factory=dict[int, BaseMessage])
    blobs: dict[int, bytes] = field(default_factory=dict[int, bytes])
    prints: dict[int, int] | None = None
    """What `hash_bytes` returned of the bytes of each message that was read, where that is wanted."""
    hash_bytes: Callable[[bytes], int] = bytes_hash
    awaited: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    _longest: dict[int, list[BaseMessage]] = field(default_factory=dict[int, list[BaseMessage]])

    def expect(self, row: str, nodes: Iterable[Any]) -> None:
        """Note what the nodes of a row stand for, to be read by the next `fetch`; RowError names a damaged row."""
        with intact(row):
            self.awaited.extend((row, leaf) for node in nodes for leaf in leaves(node))

    def fetch(self) -> None:
        """Read from the database all that is awaited and not yet there."""
        numbers = set(chain.from_iterable(blob_numbers(leaf) for _, leaf in self.awaited))
        self.blobs.update(blobs.get(self.conn, self.thread, numbers - self.blobs.keys()))
        runs = [self._runs(leaf, row) for row, leaf in self.awaited if leaf[0] in SEQS]
        read = self.store.get_many(
            self.conn, self.thread, runs, self.messages, self.prints, hash_bytes=self.hash_bytes
        )
        self.messages.update(read)
        self.awaited.clear()

    def runs(self, node: Any, row: str) -> Runs | None:
        """Return the runs of a fetched node that is a list of messages, None for any other."""
        return self._runs(node, row) if node[0] in {RUNS, PIECES} else None

    def prints_of(self, runs: Runs) -> list[int]:
        """Return what was told of fetched messages, in their order; nothing where that was not wanted."""
        return [] if self.prints is None else list(map(self.prints.__getitem__, expand(runs)))

    def build(self, node: Any, row: str) -> Any:
        """Return the value of a fetched node; RowError, naming `row`, for what may not be loaded."""
        with intact(row):
            return self._built(node, row)

    def _built(self, node: Any, row: str) -> Any:
        match node:
            case [int(tag), *_] if tag in {RUNS, PIECES}:
                return list(chain.from_iterable(starmap(self._messages, self._runs(node, row))))
            case [int(tag), int(seq)] if tag in {ONE, BARE}:
                message = self.messages[seq]
                return message if tag == ONE else message.model_copy(update={"id": None})
            case [int(tag), str(kind), bytes(data)] if tag == INLINE:
                return self.load((kind, data), row)
            case [int(tag), int(number)] if tag == BLOB:
                return self._blob(number)
            case _:
                return self._contained(node, row)

    def load(self, typed: tuple[str, bytes], row: str) -> Any:
        """Return a serialized value; RowError, naming `row`, for what may not be loaded."""
        try:
            with intact(row):
                return self.serde.loads_typed(typed)
        except ValueTypeError as error:
            raise RowError(f"{row} cannot be loaded: {error}") from error

    def _blob(self, number: int) -> Any:
        row = self.thread.codec.describe(f"blob {number}")
        with intact(row):
            kind, data = ormsgpack.unpackb(self.blobs[number])
        return self.load((kind, data), row)

    def _contained(self, node: Any, row: str) -> Any:
        match node:
            case [int(tag), dict() as held] if tag == DICT:
                return {key: self._built(part, row) for key, part in held.items()}
            case [int(tag), list() as parts] if tag == LIST:
                return list(chain.from_iterable(self._stretch(part, row) for part in parts))
            case [int(tag), str(name), argument, timeout] if tag == SEND:
                limit = None if timeout is None else self._built(timeout, row)
                return Send(name, self._built(argument, row), timeout=limit)
            case [int(tag), held] if tag == DELTA:
                return DeltaSnapshot(self._built(held, row))
            case [int(tag), held] if tag == OVERWRITE:
                return Overwrite(self._built(held, row))
            case _:
                raise RowError(f"{row} is damaged: a value in it is of no known form")

    def _messages(self, start: int, length: int) -> list[BaseMessage]:
        """Return the messages of a run, cut from the longest that starts there: most lists differ at their end."""
        longest = self._longest.get(start, [])
        if len(longest) < length:
            longest = list(map(self.messages.__getitem__, range(start, start + length)))
            self._longest[start] = longest
        return longest[:length]

    def _stretch(self, part: Any, row: str) -> list[Any]:
        built = self._built(part, row)
        return built if part[0] in {RUNS, PIECES} else [built]

    def _runs(self, leaf: Any, row: str) -> Runs:
        if leaf[0] == RUNS:
            return decode_runs(leaf[1], row=row)
        if leaf[0] == PIECES:
            pieces = (
                decode_runs(self.blobs[number], row=self.thread.codec.describe(f"blob {number}"))
                for number in leaf[1]
            )
            return tuple(chain(*pieces, decode_runs(leaf[2], row=row)))
        return ((leaf[1], 1),)
