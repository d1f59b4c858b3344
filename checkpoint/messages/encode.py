"""A channel's value as it stands in a row: messages and large parts by number, the rest in line.

A value is walked through the containers that messages stand in: dicts, lists, `Send`, `Overwrite` and the
snapshot of a delta channel. What holds no message is serialized whole. Planning needs no database and is done
before the thread is locked; `Plan.write` fills in the numbers under the lock. As with every LangGraph
checkpointer a tuple comes back as a list.
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
from .change_detection import KINDS, look
from .encoded_values import BARE, BLOB, DELTA, DICT, INLINE, LIST, ONE, OVERWRITE, PIECES, RUNS, SEND
from .message_codec import prove
from .message_store import MessageStore, Prepared, prepare
from .sequence_runs import Runs, count, encode_runs, extended, first
from .write_cache import Age, Fresh, Held, Known, Memo

_INLINE_BYTES = 256
_SHORT = 16  # lists up to here are held as single messages
_RUNS_A_PIECE = 64
_DEPTH = 16
_CONTAINERS: frozenset[type] = frozenset({dict, list, tuple, Send, Overwrite, DeltaSnapshot})
_id = attrgetter("id")


@dataclass(slots=True)
class _Single:
    """A message in a row: one that is held needs to be prepared only where it has gone since."""

    message: BaseMessage
    look: Any
    held: Held | None = None
    prepared: Prepared | None = None
    seq: int = -1


@dataclass(slots=True)
class _Listed:
    """Messages with ids, in a row: `known` says how many at the start are stored, the rest are `singles`."""

    messages: Sequence[BaseMessage]
    """The caller's own list, for what turns out to be no longer stored: a copy takes as long as to compare it."""
    known: tuple[Known, int] | None
    singles: list[_Single]
    runs: Runs = ()


@dataclass(slots=True)
class _Large:
    data: bytes
    number: int = -1


@dataclass(slots=True)
class Plan:
    """The values of one put, walked and serialized. It may be written again where a transaction is retried."""

    serde: SerializerProtocol
    memo: Memo
    thread_id: str
    _lists: list[_Listed] = field(default_factory=list[_Listed])
    _singles: list[_Single] = field(default_factory=list[_Single])
    _large: list[_Large] = field(default_factory=list[_Large])

    def add(self, value: Any, depth: int = 0) -> Any:
        """Plan a value and return what `write` turns into its node.

        ValueTypeError for a type that may not be stored.
        """
        if type(value) in KINDS:
            return self._message(value)
        if depth < _DEPTH and type(value) in _CONTAINERS and _holds_message(value, depth):
            return self._walked(value, depth + 1)
        return self._inline(value)

    def write(self, conn: sa.Connection, thread: Thread, store: MessageStore, planned: Any) -> Any:
        """Store all that was planned and return the nodes of `planned`, which msgpack can write."""
        for one in self._lists:
            if one.known and one.known[0].age != thread.age:
                gone = one.messages[: one.known[1]]
                one.singles = [*map(_Single, gone, map(look, gone)), *one.singles]
                one.known = None
        self._number(conn, thread, store)
        for one in self._lists:
            stored = first(one.known[0].runs, one.known[1]) if one.known else ()
            one.runs = extended(stored, (single.seq for single in one.singles))
        for large, number in zip(
            self._large, blobs.add(conn, thread, [large.data for large in self._large]), strict=True
        ):
            large.number = number
        return _filled(conn, thread, planned)

    def committed(self, age: Age) -> None:
        """Let the next put know the messages of this one."""
        short: list[_Single] = []
        for one in self._lists:
            if one.known or len(one.singles) > _SHORT:
                added = [single.message for single in one.singles]
                looks = self.memo.grown(one.known, added, [single.look for single in one.singles])
                start = one.known[0].first if one.known else ref(added[0])
                new = Known(age, start, count(one.runs), looks, one.runs)
                self.memo.remember(self.thread_id, new, one.known and one.known[0])
            else:
                short += one.singles
        held = (Held(age, ref(single.message), single.look, single.seq) for single in (*short, *self._singles))
        self.memo.hold(self.thread_id, held)

    def _number(self, conn: sa.Connection, thread: Thread, store: MessageStore) -> None:
        """Give every single message its number, and store those that are not there."""
        fresh: list[_Single] = []
        for single in (*chain.from_iterable(one.singles for one in self._lists), *self._singles):
            # the task's write may have been committed since this was planned
            held = single.held or self.memo.held(self.thread_id, single.message)
            if held is not None and held.age == thread.age:
                single.seq, single.look = held.seq, held.look
            else:
                fresh.append(single)
        if fresh:
            prepared = [single.prepared or prepare(single.message) for single in fresh]
            for single, seq in zip(fresh, store.add(conn, thread, prepared, proven=True), strict=True):
                single.seq = seq

    def _walked(self, value: Any, depth: int) -> Any:
        match value:
            case dict():
                return [DICT, {key: self.add(held, depth) for key, held in value.items()}]
            case Send():
                timeout = None if value.timeout is None else self._inline(value.timeout)
                return [SEND, value.node, self.add(value.arg, depth), timeout]
            case Overwrite():
                return [OVERWRITE, self.add(value.value, depth)]
            case DeltaSnapshot():
                return [DELTA, self.add(value.value, depth)]
            case _:
                return self._list(value, depth)

    def _list(self, values: Sequence[Any], depth: int) -> Any:
        if (listed := self._listed(values)) is not None:
            return listed
        parts: list[Any] = []
        for is_listed, group in groupby(values, lambda held: type(held) in KINDS and bool(held.id)):
            held = list(group)
            if is_listed and (listed := self._listed(held)) is not None:
                parts.append(listed)
            else:
                planned = map(self.add, held, repeat(depth))
                # a list within the list must not be taken for a stretch of it
                parts.extend([LIST, [part]] if type(part) is _Listed else part for part in planned)
        return [LIST, parts]

    def _listed(self, messages: Sequence[Any]) -> _Listed | None:
        """Plan a list of nothing but messages with ids; None for any other."""
        known = self.memo.prefix(self.thread_id, messages)
        rest = messages[known[1] :] if known else messages
        if not (set(map(type, rest)) <= KINDS and all(map(_id, rest))):
            return None
        singles: list[_Single] = []
        for message in rest:
            if (single := self._single(message)) is None:
                return None
            singles.append(single)
        listed = _Listed(messages, known, singles)
        self._lists.append(listed)
        return listed

    def _message(self, message: BaseMessage) -> Any:
        if (single := self._single(message)) is None:
            return self._inline(message)
        self._singles.append(single)
        return [ONE if message.id else BARE, single]

    def _single(self, message: BaseMessage) -> _Single | None:
        """Plan a message; None where it holds what only the saver's own serializer may load."""
        if (held := self.memo.held(self.thread_id, message)) is not None:
            return _Single(message, held.look, held)
        if (fresh := self.memo.prepared(message)) is not None:
            return _Single(message, fresh.look, None, fresh.prepared)
        seen = look(message)  # before it is serialized: what is changed in between then looks changed
        try:
            prepared = prepare(message)
            prove(message, prepared.body)
        except MessageError:
            return None
        self.memo.prepare(Fresh(message, seen, prepared))
        return _Single(message, seen, None, prepared)

    def _inline(self, value: Any) -> Any:
        kind, data = self.serde.dumps_typed(value)
        if len(data) <= _INLINE_BYTES:
            return [INLINE, kind, data]
        large = _Large(ormsgpack.packb([kind, data]))
        self._large.append(large)
        return large


def _holds_message(value: Any, depth: int) -> bool:
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
    if any(map(KINDS.__contains__, map(type, held))):
        return True
    kinds = set(map(type, held))
    return (
        depth < _DEPTH
        and not kinds.isdisjoint(_CONTAINERS)
        and any(_holds_message(part, depth + 1) for part in held if type(part) in _CONTAINERS)
    )


def _filled(conn: sa.Connection, thread: Thread, planned: Any) -> Any:
    match planned:
        case _Listed():
            return _runs_node(conn, thread, planned.runs)
        case _Single():
            return planned.seq
        case _Large():
            return [BLOB, planned.number]
        case list():
            return [_filled(conn, thread, part) for part in planned]
        case dict():
            return {key: _filled(conn, thread, part) for key, part in planned.items()}
        case _:
            return planned


def _runs_node(conn: sa.Connection, thread: Thread, runs: Runs) -> Any:
    """Return the node of a list; one in very many pieces shares all but its end with the lists before it."""
    whole = len(runs) // _RUNS_A_PIECE - 1
    if whole < 1:
        return [RUNS, encode_runs(runs)]
    pieces = [encode_runs(runs[at * _RUNS_A_PIECE : (at + 1) * _RUNS_A_PIECE]) for at in range(whole)]
    return [PIECES, blobs.add(conn, thread, pieces), encode_runs(runs[whole * _RUNS_A_PIECE :])]
