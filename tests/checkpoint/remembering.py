"""What a memo is told, and what it is asked."""

from collections.abc import Callable
from weakref import ref

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint.messages.change_detection import Contents, Looks, look
from langgraph_compaction.checkpoint.messages.message_codec import dumps
from langgraph_compaction.checkpoint.messages.write_cache import Held, Known, Memo

Remember = Callable[[Memo, list[BaseMessage]], None]


def known(messages: list[BaseMessage], first: int = 0, how: type[Looks] = Contents) -> Known:
    """Return a list as it was stored, under numbers from `first` on."""
    looks = how()
    looks.add(messages, list(map(look, messages)))
    return Known((1, 0), ref(messages[0]), len(messages), looks, ((first, len(messages)),))


def just_stored(memo: Memo, messages: list[BaseMessage]) -> None:
    """Let a memo know a list as it was stored."""
    memo.remember("t", known(messages, how=memo.looks))


def just_read(memo: Memo, messages: list[BaseMessage], thread_id: str = "t") -> None:
    """Let a memo know a list as it was read from the database."""
    memo.read(thread_id, (1, 0), messages, ((0, len(messages)),), [memo.hash_bytes(dumps(one)) for one in messages])


def remembered(messages: list[BaseMessage], size: int = 4, how: type[Looks] = Contents) -> Memo:
    """Return a memo that knows a list."""
    memo = Memo(size, how)
    just_stored(memo, messages)
    return memo


def held(message: BaseMessage, seq: int) -> Held:
    """Return a single message as it was stored."""
    return Held((1, 0), ref(message), look(message), seq)


def shared(memo: Memo, messages: list[BaseMessage], thread_id: str = "t") -> int:
    """Return how many messages at the start of a list the memo knows."""
    found = memo.prefix(thread_id, messages)
    return found[1] if found else 0
