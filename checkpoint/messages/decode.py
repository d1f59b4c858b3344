"""Decodes the values of a row. A read builds each message once.

An encoded value is a list `[tag, ...]` that msgpack can write. It names messages and large values by their numbers.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.types import Overwrite, Send

from ..db.row_codec import intact
from ..db.thread_row import StoredList, Thread
from ..errors import RowError, ValueTypeError
from .items import PACK, check_runs, shared_runs
from .message_codec import contents_hash, loads, loads_all
from .sequence_runs import Runs, decode_runs, expand

INLINE, RUNS, _MESSAGE, _MESSAGE_WITHOUT_ID, TYPED, _DICT, _LIST, _SEND, _DELTA, _OVERWRITE, SHARED_RUNS = range(11)
PLAIN, PACKED, VALUE = range(11, 14)
"""The tags of encoded values.

PLAIN holds a number, a short text, True, False or None. PACKED holds a value in msgpack with the extensions below,
VALUE the number of such a value. RUNS stands for a list of messages, as runs of consecutive numbers, and SHARED_RUNS
for one with very many runs, of which most are in values that similar lists share. INLINE holds what the serializer
wrote, TYPED the number of a value that it wrote. The tags with an underscore are read only: version 2 of the tables
wrote a single message, with or without an id, a dict, a list, a `Send`, a delta snapshot and an `Overwrite` so.
"""

EXT_MESSAGE, EXT_FOREIGN, EXT_SEND, EXT_OVERWRITE, EXT_DELTA, EXT_NAMELESS, EXT_LIST = range(60, 67)
"""The msgpack extensions within PACKED values.

A message by its number; what the serializer wrote; the parts of a `Send`, an `Overwrite` and a delta snapshot; a
message without an id; an encoded list of messages.
"""

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_PAIR = b"\x92"
_LAST = "end of the value"
_END = ormsgpack.packb(_LAST)


class ValueDecoder:
    """Builds values from the data of items by sequence number; equal numbers give the same message object."""

    def __init__(
        self,
        thread: Thread,
        serde: SerializerProtocol,
        data: Mapping[int, bytes],
        messages: dict[int, BaseMessage] | None = None,
    ) -> None:
        self.thread = thread
        self.messages: dict[int, BaseMessage] = {} if messages is None else messages
        self._data = data
        self._serde = serde

    def build(self, encoded: Any, row: str) -> Any:
        """Decode a value; raise `RowError`, naming `row`, for a damaged one and for a type that is not allowed."""
        with intact(row):
            return self._build(encoded, row)

    def build_typed(self, encoded: Any, row: str) -> Any:
        """Decode metadata; version 2 of the tables has (type, bytes) there, as the serializer wrote it."""
        with intact(row):
            if type(encoded[0]) is str:
                kind, data = encoded
                return self._load((kind, data), row)
            return self._build(encoded, row)

    def runs(self, encoded: Any, row: str) -> Runs | None:
        """Return the numbers of the messages in an encoded list of messages; None for any other value."""
        return self._runs(encoded, row) if encoded[0] in {RUNS, SHARED_RUNS} else None

    def stored_list(self, encoded: Any, row: str) -> StoredList | None:
        """Return an encoded list of messages in the form in which the next put compares it; None for other values."""
        runs = self.runs(encoded, row)
        if runs is None:
            return None
        with intact(row):
            messages = self.get(runs)
        hashes = tuple(contents_hash(messages[at : at + PACK]) for at in range(0, len(messages), PACK))
        return StoredList(runs, len(messages), hashes)

    def get(self, runs: Runs) -> list[BaseMessage]:
        """Return the messages with these numbers."""
        seqs = list(expand(runs))
        new = [seq for seq in dict.fromkeys(seqs) if seq not in self.messages]
        for at in range(0, len(new), PACK):
            part = new[at : at + PACK]
            bodies = [self._data[seq] for seq in part]
            found = loads_all(bodies)
            if found is None:
                found = [loads(body, row=self._name(seq)) for seq, body in zip(part, bodies, strict=True)]
            self.messages.update(zip(part, found, strict=True))
        return list(map(self.messages.__getitem__, seqs))

    def _build(self, encoded: Any, row: str) -> Any:
        match encoded:
            case [int(tag), value] if tag == PLAIN:
                return value
            case [int(tag), *_] if tag in {RUNS, SHARED_RUNS}:
                return self.get(self._runs(encoded, row))
            case [int(tag), bytes(data)] if tag == PACKED:
                return self._unpack(data, row)
            case [int(tag), str(kind), bytes(data)] if tag == INLINE:
                return self._load((kind, data), row)
            case [int(tag), int(number)] if tag in {VALUE, TYPED} and number >= 0:
                return self._value(number, is_typed=tag == TYPED)
            case _:
                return self._build_old(encoded, row)

    def _value(self, number: int, *, is_typed: bool) -> Any:
        data, row = self._data[-1 - number], self._name(-1 - number)
        if not is_typed:
            return self._unpack(data, row)
        with intact(row):
            kind, content = ormsgpack.unpackb(data)
            return self._load((kind, content), row)

    def _unpack(self, data: bytes, row: str) -> Any:
        failures: list[RowError] = []
        try:
            # ormsgpack ignores bytes after a value; the end mark after the data reveals such bytes
            hook = partial(self._extension, row, failures)
            value, end = ormsgpack.unpackb(_PAIR + data + _END, ext_hook=hook, option=_OPTION)
        except ValueError as error:
            if failures:  # ormsgpack replaces the hook's error by its own error
                raise failures[0] from None
            raise RowError(f"{row} is damaged: {error}") from error
        if end != _LAST:
            raise RowError(f"{row} is damaged: there are more bytes after a value")
        return value

    def _extension(self, row: str, failures: list[RowError], code: int, payload: bytes) -> Any:
        try:
            with intact(row):
                return self._extended(row, code, payload)
        except RowError as error:
            failures.append(error)
            raise

    def _extended(self, row: str, code: int, payload: bytes) -> Any:
        match code:
            case _ if code == EXT_MESSAGE:
                [message] = self.get(((ormsgpack.unpackb(payload), 1),))
                return message
            case _ if code == EXT_NAMELESS:
                return loads(payload, row=row)
            case _ if code == EXT_FOREIGN:
                kind, data = ormsgpack.unpackb(payload)
                return self._load((kind, data), row)
            case _ if code == EXT_LIST:
                return self.get(self._runs(ormsgpack.unpackb(payload), row))
            case _ if code in {EXT_SEND, EXT_OVERWRITE, EXT_DELTA}:
                held = self._unpack(payload, row)
                if code == EXT_SEND:
                    node, argument, timeout = held
                    return Send(node, argument, timeout=timeout)
                return Overwrite(held) if code == EXT_OVERWRITE else DeltaSnapshot(held)
            case _:
                raise RowError(f"{row} is damaged: a value in it has an unknown form")

    def _build_old(self, encoded: Any, row: str) -> Any:
        """Decode a value as version 2 of the tables wrote it."""
        match encoded:
            case [int(tag), int(seq)] if tag in {_MESSAGE, _MESSAGE_WITHOUT_ID}:
                [message] = self.get(((seq, 1),))
                return message if tag == _MESSAGE else message.model_copy(update={"id": None})
            case [int(tag), dict() as held] if tag == _DICT:
                return {key: self._build(part, row) for key, part in held.items()}
            case [int(tag), list() as parts] if tag == _LIST:
                return list(chain.from_iterable(self._part(part, row) for part in parts))
            case [int(tag), str(name), argument, timeout] if tag == _SEND:
                limit = None if timeout is None else self._build(timeout, row)
                return Send(name, self._build(argument, row), timeout=limit)
            case [int(tag), held] if tag in {_DELTA, _OVERWRITE}:
                return (DeltaSnapshot if tag == _DELTA else Overwrite)(self._build(held, row))
            case _:
                raise RowError(f"{row} is damaged: a value in it has an unknown form")

    def _part(self, part: Any, row: str) -> list[Any]:
        built = self._build(part, row)
        return built if part[0] in {RUNS, SHARED_RUNS} else [built]

    def _load(self, typed: tuple[str, bytes], row: str) -> Any:
        try:
            return self._serde.loads_typed(typed)
        except ValueTypeError as error:
            raise RowError(f"{row} cannot be loaded: {error}") from error

    def _runs(self, encoded: Sequence[Any], row: str) -> Runs:
        parts = encoded[1] if encoded[0] == SHARED_RUNS else ()
        shared = chain.from_iterable(shared_runs(self._data, number, self.thread) for number in parts)
        runs = (*shared, *decode_runs(encoded[-1], row=row))
        check_runs(self.thread, runs)
        return runs

    def _name(self, seq: int) -> str:
        return self.thread.codec.describe(f"message {seq}" if seq >= 0 else f"value {-1 - seq}")
