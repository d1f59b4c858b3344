"""Encodes the values of one row: messages and large values become numbers, small values are written in place.

msgpack walks a value, and asks about the objects in it that it does not know: a message becomes its number wherever
it stands, `Send`, `Overwrite` and the snapshots of delta channels are written by their parts, and any other object by
the saver's serializer. A list of messages is written as runs of their numbers; lists within a value are looked for
only if many messages were met in it. As with every LangGraph checkpointer, a tuple is read back as a list.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.types import Overwrite, Send

from ..db.thread_row import StoredList
from ..errors import MessageError, ValueTypeError
from .decode import (
    EXT_DELTA,
    EXT_FOREIGN,
    EXT_LIST,
    EXT_MESSAGE,
    EXT_NAMELESS,
    EXT_OVERWRITE,
    EXT_SEND,
    INLINE,
    PACKED,
    PLAIN,
    RUNS,
    SHARED_RUNS,
    TYPED,
    VALUE,
)
from .items import PACK, Batch
from .message_codec import NAMES, PLAIN_OPTION, contents_hash, stored_bytes
from .references import References
from .sequence_runs import Runs, covering, encode_runs, extended, first
from .strict_serde import StrictSerializer

_INLINE_BYTES = 256
_RUNS_PER_VALUE = 64
_FEW = 16
"""Number of messages up to which they are written one by one."""
_MAX_DEPTH = 16
_OPTION = PLAIN_OPTION | ormsgpack.OPT_REPLACE_SURROGATES
_SCALARS: frozenset[type] = frozenset({type(None), bool, float})
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_CLASSES = frozenset(NAMES)
_id = attrgetter("id")


@lru_cache(16)
def is_usual(kind: type[SerializerProtocol]) -> bool:
    """Return whether a serializer writes what msgpack knows as msgpack does: it gets only the other values.

    Another one may change also these, to encrypt them for example: it gets every value without messages.
    """
    return any(
        kind.dumps_typed is one.dumps_typed and kind.loads_typed is one.loads_typed
        for one in (JsonPlusSerializer, StrictSerializer)
    )


class _Listed:
    """An encoded list of messages, in place of the list. No tuple, which msgpack would write by itself."""

    def __init__(self, encoded: list[Any]) -> None:
        self.encoded = encoded


class ValueEncoder:
    """Encodes the values of one row of a namespace; `references` then tells the items that they refer to."""

    def __init__(self, batch: Batch, serde: SerializerProtocol, namespace: str) -> None:
        self._batch = batch
        self._serde = serde
        self._namespace = namespace
        self._is_usual = is_usual(type(serde))
        self._runs: list[Runs] = []
        self._values: set[int] = set()
        self._shared: set[int] = set()
        self._met = 0
        self._error: ValueTypeError | None = None

    def references(self) -> References:
        """Return the items to which the encoded values refer."""
        runs = self._runs[0] if len(self._runs) == 1 else ()
        if len(self._runs) > 1 or len(runs) > 1:
            runs = covering(self._runs)
        if not (self._values or self._shared):
            return References(runs)
        return References(runs, tuple(sorted(self._values)), tuple(sorted(self._shared)))

    def encode(self, value: Any, channel: str | None = None) -> list[Any]:
        """Return a value as msgpack writes it; raise `ValueTypeError` if a type in the value is not allowed.

        A list of messages in a `channel` is compared with the list that the channel held last.
        """
        kind = type(value)
        if self._is_usual:
            if kind in _SCALARS:
                return [PLAIN, value]
            if kind is str and len(value) <= _INLINE_BYTES:
                return [PLAIN, value]
            if kind is int and _SMALLEST <= value <= _LARGEST:
                return [PLAIN, value]
        if kind is list and value and _are_messages(value):
            with suppress(MessageError):  # a message holds an object that only the serializer knows
                return self._encode_list(value, channel)
        return self._encode_whole(value)

    def _encode_whole(self, value: Any) -> list[Any]:
        data = None if type(value) is bytearray else self._packed(value)  # msgpack would write bytes
        if data is not None:
            return [PACKED, data] if len(data) <= _INLINE_BYTES else [VALUE, self._add_value(data)]
        name, content = self._serde.dumps_typed(value)
        if len(content) <= _INLINE_BYTES:
            return [INLINE, name, content]
        return [TYPED, self._add_value(ormsgpack.packb([name, content]))]

    def _packed(self, value: Any) -> bytes | None:
        """Return a value in msgpack; None if the serializer has to write it."""
        runs, self._met = len(self._runs), 0
        try:
            data = ormsgpack.packb(value, self._form, _OPTION)
            if self._met > _FEW:
                del self._runs[runs:]
                data = ormsgpack.packb(self._with_lists(value, _MAX_DEPTH), self._form, _OPTION)
        except (ormsgpack.MsgpackEncodeError, TypeError, ValueError):
            del self._runs[runs:]
            if self._error is not None:  # ormsgpack replaces an error of `_form` by its own error
                raise self._error from None
            return None
        return data if self._is_usual or self._met else None

    def _with_lists(self, value: Any, depth: int) -> Any:
        """Return a value with `_Listed` in place of each list of messages."""
        if not depth:
            return value
        within = partial(self._with_lists, depth=depth - 1)
        if type(value) is dict:
            return {key: within(held) for key, held in value.items()}
        if type(value) in {list, tuple}:
            if len(value) > _FEW and _are_messages(value):
                with suppress(MessageError):
                    return _Listed(self._encode_list(list(value), None))
            return list(map(within, value))
        return _rebuilt(value, within)

    def _encode_list(self, messages: list[BaseMessage], channel: str | None) -> list[Any]:
        place = None if channel is None else (self._namespace, channel)
        lists = self._batch.thread.lists | self._batch.lists
        known = lists.get(place) if place is not None else None
        # Another OS thread may change a message meanwhile. What is compared next time is taken first: so a message
        # that changes after it is found changed then, also if the change was stored already.
        tail = known.length // PACK * PACK if known else 0
        hashes = _hashes(messages, tail) if place else ()
        count = _count_unchanged(messages, known) if known else 0
        if known and count < known.length:
            tail, hashes = count, _hashes(messages, count)
        if not count and len(messages) > _FEW:  # the list of another channel, or of a `Send`
            known, count = self._longest_start(messages, lists.values())
        if known is None or not count == known.length == len(messages):
            seqs = [self._batch.add_message(stored_bytes(one)) for one in messages[count:]]
            start = first(known.runs, count) if known else ()
            kept = known.hashes[: tail // PACK] if known else ()
            known = StoredList(extended(start, seqs), len(messages), (*kept, *hashes))
        if place is not None:
            self._batch.lists[place] = known
        return self._encode_runs(known.runs)

    @staticmethod
    def _longest_start(messages: Sequence[BaseMessage], lists: Iterable[StoredList]) -> tuple[StoredList | None, int]:
        """Return the stored list with which the messages begin the longest, and for how many messages they do."""
        best: tuple[StoredList | None, int] = None, 0
        for one in lists:
            count = _count_unchanged(messages, one)
            best = (one, count) if count > best[1] else best
        return best

    def _encode_runs(self, runs: Runs) -> list[Any]:
        """Encode runs; a list with very many keeps most of them in values of 64 runs, which later lists share."""
        shared = len(runs) // _RUNS_PER_VALUE - 1
        if shared < 1:
            self._runs.append(runs)
            return [RUNS, encode_runs(runs)]
        parts = (runs[at * _RUNS_PER_VALUE : (at + 1) * _RUNS_PER_VALUE] for at in range(shared))
        numbers = [self._batch.add_value(encode_runs(part)) for part in parts]
        rest = runs[shared * _RUNS_PER_VALUE :]
        self._shared.update(numbers)
        self._runs.append(rest)
        return [SHARED_RUNS, numbers, encode_runs(rest)]

    def _add_value(self, data: bytes) -> int:
        number = self._batch.add_value(data)
        self._values.add(number)
        return number

    def _form(self, value: Any) -> Any:
        """Return the extension that stands for an object that msgpack does not know."""
        pack = partial(ormsgpack.packb, default=self._form, option=_OPTION)
        match value:
            case _ if type(value) in _CLASSES:
                return self._message(value)
            case _Listed():
                return ormsgpack.Ext(EXT_LIST, ormsgpack.packb(value.encoded))
            case Send() if type(value) is Send:
                return ormsgpack.Ext(EXT_SEND, pack([value.node, value.arg, value.timeout]))
            case Overwrite() if type(value) is Overwrite:
                return ormsgpack.Ext(EXT_OVERWRITE, pack(value.value))
            case DeltaSnapshot():
                return ormsgpack.Ext(EXT_DELTA, pack(value.value))
            case _:
                return self._foreign(value)

    def _message(self, message: BaseMessage) -> ormsgpack.Ext:
        self._met += 1
        try:
            body = stored_bytes(message)
        except MessageError:
            return self._foreign(message)
        if not message.id:
            return ormsgpack.Ext(EXT_NAMELESS, body)
        seq = self._batch.add_message(body)
        self._runs.append(((seq, 1),))
        return ormsgpack.Ext(EXT_MESSAGE, ormsgpack.packb(seq))

    def _foreign(self, value: Any) -> ormsgpack.Ext:
        try:
            return ormsgpack.Ext(EXT_FOREIGN, ormsgpack.packb(self._serde.dumps_typed(value)))
        except ValueTypeError as error:
            self._error = error
            raise


def _are_messages(values: Iterable[Any]) -> bool:
    """Whether all values are messages with ids, which are stored as items."""
    return _CLASSES.issuperset(map(type, values)) and all(map(_id, values))


def _rebuilt(value: Any, within: Callable[[Any], Any]) -> Any:
    """Return a `Send`, an `Overwrite` or a delta snapshot with what `within` makes of its content."""
    match value:
        case Send() if type(value) is Send:
            return Send(value.node, within(value.arg), timeout=value.timeout)
        case Overwrite() if type(value) is Overwrite:
            return Overwrite(within(value.value))
        case DeltaSnapshot():
            return DeltaSnapshot(within(value.value))
        case _:
            return value


def _count_unchanged(messages: Sequence[BaseMessage], known: StoredList) -> int:
    """Return how many messages at the start of a list are as they were stored, in whole blocks."""
    count = 0
    for at, expected in zip(range(0, known.length, PACK), known.hashes, strict=True):
        end = min(at + PACK, known.length)
        if expected is None or end > len(messages) or contents_hash(messages[at:end]) != expected:
            break
        count = end
    return count


def _hashes(messages: Sequence[BaseMessage], start: int) -> tuple[int | None, ...]:
    """Return the hash of each block of messages from `start` on, which is where a block begins."""
    return tuple(contents_hash(messages[at : at + PACK]) for at in range(start, len(messages), PACK))
