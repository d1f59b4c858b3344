"""Remember what functions found in long texts: a compaction reads the same messages several times."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from hashlib import blake2b
from threading import Lock
from typing import Any, Generic, TypeVar

MOST_CHARS = 2_000_000
"""Number of characters of the texts whose results are remembered, for each function."""
SHORTEST = 256
"""Number of characters of a text whose result is remembered: shorter ones are read again just as fast."""

T = TypeVar("T")


class TextCache(Generic[T]):
    """Results of a pure function of a text, for the texts that were last asked for.

    It holds a fingerprint of each text in place of the text. Several OS threads may use it at once.
    """

    def __init__(self, most_chars: int) -> None:
        self._most, self._chars = most_chars, 0
        self._results: OrderedDict[bytes, tuple[int, T]] = OrderedDict()
        self._lock = Lock()

    def get(self, text: str, function: Callable[[str], T]) -> T:
        """Return the function's result for a text, which must not be changed."""
        length = len(text)
        if not SHORTEST <= length <= self._most:
            return function(text)
        name = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if known := self._results.get(name):
                self._results.move_to_end(name)
                return known[1]
        result = function(text)
        with self._lock:
            if name not in self._results:
                self._results[name] = (length, result)
                self._chars += length
            while self._chars > self._most:
                self._chars -= self._results.popitem(last=False)[1][0]
        return result

    def forget(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()
            self._chars = 0


_ALL: list[TextCache[Any]] = []


def forget_texts() -> None:
    """Forget the results of every function that `cached_by_text` made, so that a measurement reads texts again."""
    for cache in _ALL:
        cache.forget()


def cached_by_text(function: Callable[[str], T]) -> Callable[[str], T]:
    """Make a pure function of a text remember its results for `MOST_CHARS` characters of text."""
    cache = TextCache[T](MOST_CHARS)
    _ALL.append(cache)

    @wraps(function)
    def cached(text: str) -> T:
        return cache.get(text, function)

    return cached
