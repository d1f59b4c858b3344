"""A read-only view of a message list as rounds and tool blocks."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeGuard, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from .bound_history import opens_with_thinking
from .message_marks import is_real_user, marks

CallState = Literal["answered", "open", "interrupted", "answered_late"]


class _SubclassOf(dict[type, bool]):
    """By class, whether it is a subclass of `base`: a lookup is faster than `isinstance` with an abstract class."""

    def __init__(self, base: type) -> None:
        self._base = base

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, self._base)
        return found


ASSISTANT, RESULT = _SubclassOf(AIMessage), _SubclassOf(ToolMessage)
"""By class, whether messages of it are assistant messages, or results: for loops over long conversations."""


def is_assistant(message: BaseMessage) -> TypeGuard[AIMessage]:
    """Whether this is an assistant message."""
    return ASSISTANT[type(message)]


def system_messages(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the system messages of a list, in order."""
    # most lists have none, and the set of their types tells so faster than a look at each message
    kinds = {kind for kind in {*map(type, messages)} if issubclass(kind, SystemMessage)}
    return [message for message in messages if type(message) in kinds] if kinds else []


def all_calls(message: BaseMessage) -> tuple[ToolCall | InvalidToolCall, ...]:
    """Return every tool call of an assistant message, malformed calls last: providers want a result for each."""
    if not is_assistant(message):
        return ()
    return (*message.tool_calls, *message.invalid_tool_calls)


def calls_of(message: BaseMessage) -> tuple[tuple[str | None, str], ...]:
    """Return `(id, name)` of every tool call of an assistant message, malformed calls last."""
    if not is_assistant(message) or not (message.tool_calls or message.invalid_tool_calls):
        return ()
    return tuple([(call.get("id"), call.get("name") or "") for call in all_calls(message)])


def message_id(message: BaseMessage) -> str:
    """Return the message's id. Raises `ValueError` if the id is missing: ids are assigned before selection."""
    if message.id is None:
        msg = "a message without an id reached a policy"
        raise ValueError(msg)
    return message.id


@dataclass(frozen=True)
class ToolBlock:
    """An assistant message with tool calls, and their results; calls and results are paired by position and id."""

    start: int
    """Index of the assistant message."""
    results: tuple[int | None, ...]
    """Index of each call's result, in call order; `None` for a call without a result."""

    @cached_property
    def indexes(self) -> tuple[int, ...]:
        """Indexes of the block's messages, ascending. Other messages may lie between them."""
        return (self.start, *sorted(i for i in self.results if i is not None))

    @property
    def end(self) -> int:
        """Index of the block's last message."""
        return self.indexes[-1]

    @cached_property
    def position_of(self) -> Mapping[int, int]:
        """Maps the index of each result to the position of its call within the block."""
        return {index: position for position, index in enumerate(self.results) if index is not None}


@dataclass(frozen=True)
class Transcript:
    """A read-only view of a conversation. Indexes are positions in `messages`."""

    messages: Sequence[AnyMessage]

    @cached_property
    def blocks(self) -> tuple[ToolBlock, ...]:
        """Every tool block in chronological order.

        A result is paired with the latest earlier call that has the same id and no result yet, because agents may
        reuse call ids.
        """
        found: list[tuple[int, list[int | None]]] = []
        waiting: defaultdict[str | None, list[tuple[list[int | None], int]]] = defaultdict(list)
        said: Sequence[Any] = self.messages  # the tables tell the classes
        for index, message in enumerate(said):
            if ASSISTANT[type(message)] and (message.tool_calls or message.invalid_tool_calls):
                calls = calls_of(message)
                results: list[int | None] = [None] * len(calls)
                found.append((index, results))
                # backwards: if two calls of a message have the same id, the first result then goes to the first call
                for position in range(len(calls) - 1, -1, -1):
                    waiting[calls[position][0]].append((results, position))
            elif waiting and RESULT[type(message)] and (open_calls := waiting.get(message.tool_call_id)):
                answered, position = open_calls.pop()
                answered[position] = index
        return tuple(ToolBlock(start, tuple(results)) for start, results in found)

    @cached_property
    def block_of(self) -> Mapping[int, ToolBlock]:
        """Maps the index of each message in a tool block to its block."""
        return {index: block for block in self.blocks for index in block.indexes}

    @cached_property
    def orphans(self) -> frozenset[int]:
        """Indexes of tool results for which no call is found, or whose call has a result already."""
        return frozenset(
            index
            for index, message in enumerate(self.messages)
            if isinstance(message, ToolMessage) and index not in self.block_of
        )

    @cached_property
    def round_starts(self) -> tuple[int, ...]:
        """Index of each message that a person wrote; a round begins with each of them."""
        return tuple(index for index, message in enumerate(self.messages) if is_real_user(message))

    @cached_property
    def header(self) -> frozenset[int]:
        """Indexes of system messages, at any position. No compaction changes them."""
        return frozenset(i for i, message in enumerate(self.messages) if isinstance(message, SystemMessage))

    @cached_property
    def pending_user(self) -> int | None:
        """Index of the newest message by a person if no full answer (`is_answer`) follows it; else `None`."""
        backwards = range(len(self.messages) - 1, -1, -1)
        newest = next((index for index in backwards if is_real_user(self.messages[index])), None)
        return None if newest is None or self.last_answer > newest else newest

    @cached_property
    def last_answer(self) -> int:
        """Index of the last full answer (`is_answer`); -1 if there is none."""
        return next((index for index in range(len(self.messages) - 1, -1, -1) if self.is_answer(index)), -1)

    @cached_property
    def opening(self) -> ToolBlock | None:
        """The first tool block of the unfinished turn if its thinking belongs there (`opens_with_thinking`)."""
        last_user = max(
            (i for i, message in enumerate(self.messages) if isinstance(message, HumanMessage)), default=-1
        )
        first = next((i for i in range(last_user + 1, len(self.messages)) if is_assistant(self.messages[i])), None)
        if first is None or self.last_answer > last_user or not opens_with_thinking(self.messages[first]):
            return None
        return self.block_of.get(first)

    @property
    def awaits_answer(self) -> bool:
        """Whether the newest user message has no answer yet and was not refused."""
        pending = self.pending_user
        return pending is not None and not marks(self.messages[pending]).get("refused")

    @cached_property
    def unseen(self) -> frozenset[int]:
        """Indexes of calls and results that the model has not read yet: no assistant message follows them."""
        last = max((i for i, message in enumerate(self.messages) if isinstance(message, AIMessage)), default=-1)
        in_blocks = {index for block in self.blocks if block.end >= last for index in block.indexes}
        return frozenset({*in_blocks, *(index for index in self.orphans if index > last)})

    def last_step(self, indexes: Collection[int]) -> tuple[int, int] | None:
        """Return (number of calls, number of results) of unread tool blocks in `indexes`; `None` without calls."""
        blocks = [block for block in self.blocks if block.start in indexes and block.start in self.unseen]
        results = [result for block in blocks for result in block.results]
        return (len(results), len(results) - results.count(None)) if results else None

    def is_answer(self, index: int) -> bool:
        """Whether the message is a full answer: an assistant message with text and without tool calls."""
        message = self.messages[index]
        return isinstance(message, AIMessage) and not calls_of(message) and bool(message.text.strip())

    def call_state(self, block: ToolBlock, position: int) -> CallState:
        """Return the state of one call of a block. A malformed call runs no tool and counts as interrupted."""
        result = block.results[position]
        until = len(self.messages) if result is None else result
        # whether another message lies between the call and its result
        interrupted = bisect_left(block.indexes, until) < until - block.start
        if result is None:
            malformed = position >= len(cast("AIMessage", self.messages[block.start]).tool_calls)
            return "interrupted" if interrupted or malformed else "open"
        return "answered_late" if interrupted else "answered"

    @property
    def has_open_call(self) -> bool:
        """Whether the last tool block has an open call, so that compaction must wait for the result."""
        start = len(self.messages) - 1
        while start > 0 and isinstance(self.messages[start], ToolMessage):
            start -= 1
        newest = Transcript(self.messages[max(start, 0) :])  # an open call has nothing but results behind it
        return any(map(newest.is_open, newest.blocks))

    def is_open(self, block: ToolBlock) -> bool:
        """Whether at least one call of this block is open: its tool may still be running."""
        return any(self.call_state(block, position) == "open" for position in range(len(block.results)))

    def is_settled(self, block: ToolBlock) -> bool:
        """Whether a block may be removed, because no result is to come: all are there, or a full answer follows."""
        if None not in block.results:
            return True
        return self.last_answer > block.end
