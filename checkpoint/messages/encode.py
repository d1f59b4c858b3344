"""Encodes the values of one put: messages and large values become numbers, small values are written in place.

The encoder finds messages in the usual containers: dicts, lists, `Send`, `Overwrite` and the snapshots of delta
channels. A value without messages is serialized as a whole. `ValueEncoder.plan` needs no database and is called
before the thread's row is locked; `ValueEncoder.write` fills in the numbers under the lock. As with every LangGraph
checkpointer, a tuple is read back as a list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import Any
from weakref import ref

import ormsgpack
import sqlalchemy as sa
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.types import Overwrite, Send

from ..db.thread_row import Thread
from ..errors import MessageError
from . import blobs
from .change_detection import MESSAGE_CLASSES, observe
from .decode import (
    BLOB,
    DELTA,
    DICT,
    INLINE,
    LIST,
    MESSAGE,
    MESSAGE_WITHOUT_ID,
    OVERWRITE,
    RUNS,
    SEND,
    SHARED_RUNS,
)
from .message_codec import check_readable
from .message_store import MessageStore, PreparedMessage, prepare
from .sequence_runs import Runs, count, encode_runs, extended, first
from .write_cache import GenerationKey, SerializedMessage, StoredList, StoredMessage, WriteCache

_INLINE_BYTES = 256
_SHORT_LIST = 16
"""Number of messages up to which the messages of a list are cached one by one, not as a list."""
_RUNS_PER_BLOB = 64
_MAX_DEPTH = 16
_CONTAINERS: frozenset[type] = frozenset({dict, list, tuple, Send, Overwrite, DeltaSnapshot})
_id = attrgetter("id")


@dataclass(slots=True)
class _Single:
    """A message of the values that a put stores; `seq` is set when the message's row is known or written.

    A message that is already `stored` is serialized only if its row was deleted since.
    """

    message: BaseMessage
    observed: Any
    stored: StoredMessage | None = None
    prepared: PreparedMessage | None = None
    seq: int = -1


@dataclass(slots=True)
class _List:
    """A list of messages, all with ids, among the values that a put stores; `runs` is set in the transaction."""

    messages: Sequence[BaseMessage]
    """The caller's own list: if rows of stored messages were deleted, these messages are stored again from here.

    The list is not copied, because copying takes as long as comparing the messages.
    """
    known: tuple[StoredList, int] | None
    """A stored list, and how many messages at its start are also at the start of this list; or None."""
    singles: list[_Single]
    """The messages of this list after the messages that it shares with the stored list."""
    runs: Runs = ()


@dataclass(slots=True)
class _Large:
    data: bytes
    number: int = -1


@dataclass(slots=True)
class ValueEncoder:
    """Encodes the values of one put. `write` is called again if the transaction is retried."""

    serde: SerializerProtocol
    cache: WriteCache
    thread_id: str
    _lists: list[_List] = field(default_factory=list[_List])
    _singles: list[_Single] = field(default_factory=list[_Single])
    _large: list[_Large] = field(default_factory=list[_Large])

    def plan(self, value: Any, depth: int = 0) -> Any:
        """Serialize a value and return a plan, which `write` turns into its encoded value.

        Raise `ValueTypeError` if a type in the value is not allowed.
        """
        if type(value) in MESSAGE_CLASSES:
            return self._plan_message(value)
        if depth < _MAX_DEPTH and type(value) in _CONTAINERS and _contains_message(value, depth):
            return self._plan_container(value, depth + 1)
        return self._plan_whole(value)

    def write(self, conn: sa.Connection, thread: Thread, store: MessageStore, planned: Any) -> Any:
        """Store all planned messages and large values; return `planned` with their numbers filled in."""
        for one in self._lists:
            if one.known and one.known[0].generation_key != thread.generation_key:
                deleted = one.messages[: one.known[1]]
                one.singles = [*map(_Single, deleted, map(observe, deleted)), *one.singles]
                one.known = None
        self._store_messages(conn, thread, store)
        for one in self._lists:
            shared = first(one.known[0].runs, one.known[1]) if one.known else ()
            one.runs = extended(shared, (single.seq for single in one.singles))
        numbers = blobs.add(conn, thread, [large.data for large in self._large])
        for large, number in zip(self._large, numbers, strict=True):
            large.number = number
        return _encoded(conn, thread, planned)

    def remember_committed(self, generation_key: GenerationKey) -> None:
        """Cache the messages of this put for the next put; the caller calls this method after the commit."""
        short: list[_Single] = []
        for one in self._lists:
            if one.known or len(one.singles) > _SHORT_LIST:
                added = [single.message for single in one.singles]
                observed = [single.observed for single in one.singles]
                tracker = self.cache.extend_tracker(one.known, added, observed)
                start = one.known[0].first if one.known else ref(added[0])
                new = StoredList(generation_key, start, count(one.runs), tracker, one.runs)
                self.cache.remember_list(self.thread_id, new, one.known and one.known[0])
            else:
                short += one.singles
        stored = (
            StoredMessage(generation_key, ref(single.message), single.observed, single.seq)
            for single in (*short, *self._singles)
        )
        self.cache.remember_messages(self.thread_id, stored)

    def _store_messages(self, conn: sa.Connection, thread: Thread, store: MessageStore) -> None:
        """Set the sequence number of every planned message, and store the messages that are new."""
        new: list[_Single] = []
        for single in (*chain.from_iterable(one.singles for one in self._lists), *self._singles):
            # since a message was planned, another put may have committed it, for example as a pending write
            stored = single.stored or self.cache.find_message(self.thread_id, single.message)
            if stored is not None and stored.generation_key == thread.generation_key:
                single.seq, single.observed = stored.seq, stored.observed
            else:
                new.append(single)
        if new:
            prepared = [single.prepared or prepare(single.message) for single in new]
            for single, seq in zip(new, store.add(conn, thread, prepared, checked=True), strict=True):
                single.seq = seq

    def _plan_container(self, value: Any, depth: int) -> Any:
        match value:
            case dict():
                return [DICT, {key: self.plan(held, depth) for key, held in value.items()}]
            case Send():
                timeout = None if value.timeout is None else self._plan_whole(value.timeout)
                return [SEND, value.node, self.plan(value.arg, depth), timeout]
            case Overwrite():
                return [OVERWRITE, self.plan(value.value, depth)]
            case DeltaSnapshot():
                return [DELTA, self.plan(value.value, depth)]
            case _:
                return self._plan_sequence(value, depth)

    def _plan_sequence(self, values: Sequence[Any], depth: int) -> Any:
        if (listed := self._plan_list(values)) is not None:
            return listed
        parts: list[Any] = []
        for is_message_with_id, group in groupby(values, lambda one: type(one) in MESSAGE_CLASSES and bool(one.id)):
            held = list(group)
            if is_message_with_id and (listed := self._plan_list(held)) is not None:
                parts.append(listed)
            else:
                planned = map(self.plan, held, repeat(depth))
                # a LIST joins the messages of each `_List` among its parts, so an inner list gets a LIST of its own
                parts.extend([LIST, [part]] if type(part) is _List else part for part in planned)
        return [LIST, parts]

    def _plan_list(self, messages: Sequence[Any]) -> _List | None:
        """Plan a list that holds only messages with ids; return None for any other list."""
        known = self.cache.find_prefix(self.thread_id, messages)
        rest = messages[known[1] :] if known else messages
        if not (set(map(type, rest)) <= MESSAGE_CLASSES and all(map(_id, rest))):
            return None
        singles: list[_Single] = []
        for message in rest:
            if (single := self._plan_single(message)) is None:
                return None
            singles.append(single)
        listed = _List(messages, known, singles)
        self._lists.append(listed)
        return listed

    def _plan_message(self, message: BaseMessage) -> Any:
        if (single := self._plan_single(message)) is None:
            return self._plan_whole(message)
        self._singles.append(single)
        return [MESSAGE if message.id else MESSAGE_WITHOUT_ID, single]

    def _plan_single(self, message: BaseMessage) -> _Single | None:
        """Plan a message; return None if it holds values that only the saver's own serializer can load."""
        if (stored := self.cache.find_message(self.thread_id, message)) is not None:
            return _Single(message, stored.observed, stored)
        if (recent := self.cache.find_serialized(message)) is not None:
            return _Single(message, recent.observed, None, recent.prepared)
        # before serializing: if the message changes in between, a later put notices the change and stores it again
        observed = observe(message)
        try:
            prepared = prepare(message)
            check_readable(message, prepared.body)
        except MessageError:
            return None
        self.cache.remember_serialized(SerializedMessage(message, observed, prepared))
        return _Single(message, observed, None, prepared)

    def _plan_whole(self, value: Any) -> Any:
        kind, data = self.serde.dumps_typed(value)
        if len(data) <= _INLINE_BYTES:
            return [INLINE, kind, data]
        large = _Large(ormsgpack.packb([kind, data]))
        self._large.append(large)
        return large


def _contains_message(value: Any, depth: int) -> bool:
    match value:
        case dict() if type(value) is dict and set(map(type, value)) <= {str}:
            held: Iterable[Any] = value.values()
        case list() | tuple() if type(value) in {list, tuple}:
            held = value
        case Send():
            held = (value.arg,)
        case Overwrite() | DeltaSnapshot():
            held = (value.value,)
        case _:
            return False
    if any(map(MESSAGE_CLASSES.__contains__, map(type, held))):
        return True
    kinds = set(map(type, held))
    return (
        depth < _MAX_DEPTH
        and not kinds.isdisjoint(_CONTAINERS)
        and any(_contains_message(part, depth + 1) for part in held if type(part) in _CONTAINERS)
    )


def _encoded(conn: sa.Connection, thread: Thread, planned: Any) -> Any:
    match planned:
        case _List():
            return _encoded_runs(conn, thread, planned.runs)
        case _Single():
            return planned.seq
        case _Large():
            return [BLOB, planned.number]
        case list():
            return [_encoded(conn, thread, part) for part in planned]
        case dict():
            return {key: _encoded(conn, thread, part) for key, part in planned.items()}
        case _:
            return planned


def _encoded_runs(conn: sa.Connection, thread: Thread, runs: Runs) -> Any:
    """Return an encoded list of messages.

    A list with very many runs keeps most of them in blobs of 64 runs, which it shares with earlier lists.
    """
    blob_count = len(runs) // _RUNS_PER_BLOB - 1
    if blob_count < 1:
        return [RUNS, encode_runs(runs)]
    shared = [encode_runs(runs[at * _RUNS_PER_BLOB : (at + 1) * _RUNS_PER_BLOB]) for at in range(blob_count)]
    return [SHARED_RUNS, blobs.add(conn, thread, shared), encode_runs(runs[blob_count * _RUNS_PER_BLOB :])]
