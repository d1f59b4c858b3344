"""What a cache is told, and what it is asked."""

from collections.abc import Callable
from weakref import ref

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint.messages.change_detection import ContentTracker, Tracker, observe
from langgraph_compaction.checkpoint.messages.message_codec import dumps
from langgraph_compaction.checkpoint.messages.write_cache import StoredList, StoredMessage, WriteCache

Remember = Callable[[WriteCache, list[BaseMessage]], None]


def known(messages: list[BaseMessage], first: int = 0, how: type[Tracker] = ContentTracker) -> StoredList:
    """Return a list as it was stored, under numbers from `first` on."""
    looks = how()
    looks.add(messages, list(map(observe, messages)))
    return StoredList((1, 0), ref(messages[0]), len(messages), looks, ((first, len(messages)),))


def just_stored(cache: WriteCache, messages: list[BaseMessage]) -> None:
    """Let a cache know a list as it was stored."""
    cache.remember_list("t", known(messages, how=cache.tracker))


def just_read(cache: WriteCache, messages: list[BaseMessage], thread_id: str = "t") -> None:
    """Let a cache know a list as it was read from the database."""
    cache.remember_read(
        thread_id, (1, 0), messages, ((0, len(messages)),), [cache.hash_bytes(dumps(one)) for one in messages]
    )


def remembered(messages: list[BaseMessage], size: int = 4, how: type[Tracker] = ContentTracker) -> WriteCache:
    """Return a cache that knows a list."""
    cache = WriteCache(size, how)
    just_stored(cache, messages)
    return cache


def held(message: BaseMessage, seq: int) -> StoredMessage:
    """Return a single message as it was stored."""
    return StoredMessage((1, 0), ref(message), observe(message), seq)


def shared(cache: WriteCache, messages: list[BaseMessage], thread_id: str = "t") -> int:
    """Return how many messages at the start of a list the cache knows."""
    found = cache.find_prefix(thread_id, messages)
    return found[1] if found else 0
