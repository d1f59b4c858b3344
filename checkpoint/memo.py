"""What was stored last, so that a put of a long list serialises only what is new in it.

A list of messages is known again by its objects. An application may change a message in place, so what each
message looked like is kept too, and compared deeply: a changed one is stored again like a new one.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

from langchain_core.messages import BaseMessage

from .codec import loads

_LISTS_A_THREAD = 4  # channels, and the states that are sent to nodes
_look = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")

Age = tuple[int, int]
"""(key, generation) of a thread: with another one, rows that were known may be gone."""


@dataclass(slots=True)
class Known:
    """A list of messages as it stands in the database. The lists are never changed."""

    age: Age
    messages: list[BaseMessage]
    seen: list[Any] | None
    """What the messages looked like; None where they were just read, and `bodies` tell it."""
    seqs: list[int]
    bodies: Sequence[bytes] = ()

    @property
    def looks(self) -> list[Any]:
        """What the messages looked like, found out when it is first asked for: who only reads never does."""
        bodies = self.bodies  # before `seen` is looked at: they go once that is there
        if self.seen is None:
            self.seen = [_copied(loads(body).__dict__) for body in bodies]
        self.bodies = ()
        return self.seen


class Memo:
    """The newest lists of the newest `size` threads. Safe for use by several threads at once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, tuple[Known, ...]] = OrderedDict()

    def prefix(self, thread_id: str, messages: Sequence[BaseMessage]) -> tuple[Known, int] | None:
        """Return a known list and how many messages at its start the given one shares, unchanged; or None."""
        if not messages:
            return None
        with self._lock:
            lists = self._lists.get(thread_id, ())
        best: tuple[Known, int] | None = None
        for known in lists:
            if known.messages[0] is messages[0]:
                length = _shared(known, messages)
                if length and (best is None or length > best[1]):
                    best = known, length
        return best

    def remember(self, thread_id: str, new: Known, before: Known | None = None) -> None:
        """Keep a list that is now stored, in the place of the one it grew from."""
        if not (self._size and new.messages):
            return
        with self._lock:
            held = self._lists.pop(thread_id, ())
            others = (one for one in held if one is not before and one.messages[0] is not new.messages[0])
            self._lists[thread_id] = (new, *others)[:_LISTS_A_THREAD]
            while len(self._lists) > self._size:
                self._lists.popitem(last=False)

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Drop what is known of threads."""
        with self._lock:
            for thread_id in thread_ids:
                self._lists.pop(thread_id, None)


def _shared(known: Known, messages: Sequence[BaseMessage]) -> int:
    """Return how many messages at the start are the same objects and look as they did."""
    length = min(len(known.messages), len(messages))
    if _same(known, messages, 0, length):
        return length
    low, high = 0, length  # the first `low` are the same, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if _same(known, messages, low, middle):
            low = middle
        else:
            high = middle
    return low


def _same(known: Known, messages: Sequence[BaseMessage], start: int, end: int) -> bool:
    part = messages[start:end]
    # what a class does not know of is not compared: it is serialised
    if not all(map(is_, part, known.messages[start:end])) or any(map(_extra, part)):
        return False
    try:
        return list(map(_look, part)) == known.looks[start:end]
    except ValueError:  # an array has no truth value; it was not there before
        return False


def looks(messages: Iterable[BaseMessage]) -> list[Any]:
    """Return what messages look like now, to be compared later."""
    return list(map(_copied, map(_look, messages)))


class _Exactly:
    """Equals what is of the same type too: to Python 1, 1.0 and True are equal, in a message they are not."""

    __slots__ = ("_kind", "_value")

    def __init__(self, value: object) -> None:
        self._value = value
        self._kind = type(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is self._kind and other == self._value

    __hash__ = None  # type: ignore[assignment] # it is compared, and never a key


def _copied(value: Any) -> Any:
    """Copy plain containers; a value that could change unseen becomes one that equals nothing."""
    kind = type(value)
    if kind is dict:
        return {key: _copied(held) for key, held in value.items()} if value else {}
    if kind is list or kind is tuple:
        return kind(map(_copied, value)) if value else kind()
    if value is None or kind is str or kind is bytes:
        return value
    return _Exactly(value if kind in _NUMBERS else object())


_NUMBERS = frozenset({int, float, bool, complex})
