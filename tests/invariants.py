"""What holds of every request and of every step of a conversation, checked without our own policies.

`check_request` looks at what a provider is sent; `check_transition` at a list of messages before and after
whatever may have happened to it: a compaction, a rollback, any node.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

Block = tuple[int, tuple[int | None, ...]]
"""Index of an assistant message with calls, and the index of each call's result."""


def check_request(messages: Sequence[AnyMessage]) -> None:
    """Assert that each call is answered right behind its message, in order, and that each result is called."""
    expected: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            assert expected, f"message {index}: the result of {message.tool_call_id!r} answers no call"
            assert message.tool_call_id == expected.pop(0), f"message {index}: results out of order"
            continue
        assert not expected, f"message {index}: the calls {expected} before it have no result"
        expected = [call_id or "" for call_id in _calls(message)]
        assert expected or not isinstance(message, AIMessage) or message.content, f"message {index} is empty"
    assert not expected, f"end: the calls {expected} have no result"


def check_transition(
    before: Sequence[AnyMessage],
    after: Sequence[AnyMessage],
    *,
    pins: Collection[str] = (),
    count: Callable[[Sequence[AnyMessage]], int] | None = None,
    ceiling: int | None = None,
    input_may_leave: bool = False,
) -> None:
    """Assert that `after` may follow `before`: nothing lost that is protected, nothing broken, nothing foreign.

    `count` gives the tokens of a list; where anything changed there must be fewer, and at most `ceiling`. Where
    `input_may_leave` says so, an unanswered input may leave if the model has read it, and else may be shortened.
    """
    ids = [message.id for message in after]
    assert None not in ids, "a message has no id"
    assert len(set(ids)) == len(ids), "two messages have one id"
    if list(before) == list(after):
        return
    origin = {message.id: index for index, message in enumerate(before)}
    kept = {origin[m.id]: m for m in after if m.id in origin}
    assert list(kept) == sorted(kept), "the order has changed"
    _check_new(before, after, origin)
    _check_protected(before, kept, pins, input_may_leave=input_may_leave)
    _check_blocks(before, after)
    _check_changed(before, kept, shortened=unanswered(before) if input_may_leave else None)
    if count is not None:
        assert count(after) < count(before), "there are not fewer tokens"
        assert ceiling is None or count(after) <= ceiling, f"{count(after)} tokens, at most {ceiling}"


def _check_new(before: Sequence[AnyMessage], after: Sequence[AnyMessage], origin: dict[str | None, int]) -> None:
    new = [message for message in after if message.id not in origin]
    assert all(map(is_summary, new)), "a message is new and no summary"
    assert not new or sum(map(is_summary, after)) == 1, "there is more than one summary"
    assert any(map(is_summary, after)) or not any(map(is_summary, before)), "the earlier summary is lost"
    if any(isinstance(message, HumanMessage) for message in before):
        assert any(isinstance(message, HumanMessage) for message in after), "no user message is left"


def _check_protected(
    before: Sequence[AnyMessage], kept: dict[int, AnyMessage], pins: Collection[str], *, input_may_leave: bool
) -> None:
    protected = [i for i, m in enumerate(before) if isinstance(m, SystemMessage) or is_pinned(m, pins)]
    newest = unanswered(before)
    if newest is not None and not input_may_leave:
        protected.append(newest)
    for index in protected:
        same = index in kept and as_said(kept[index]) == as_said(before[index])
        assert same, f"{before[index].id} was protected and is gone or changed"
    if newest is not None and not any(isinstance(m, AIMessage) for m in before[newest:]):
        assert newest in kept, "an input that the model has not read is gone"


def _check_blocks(before: Sequence[AnyMessage], after: Sequence[AnyMessage]) -> None:
    """A block stays whole and paired as it was, or goes whole; a result of no call is none of ours."""
    (blocks, orphans), (blocks_left, orphans_left) = pairs(before), pairs(after)
    assert _named(after, blocks_left) <= _named(before, blocks), "a tool block was torn or paired anew"
    assert {after[i].id for i in orphans_left} <= {before[i].id for i in orphans}, "a result lost its call"


def _check_changed(before: Sequence[AnyMessage], kept: dict[int, AnyMessage], *, shortened: int | None) -> None:
    """Only tool blocks, results, and the input `shortened`, may be shortened; calls keep ids and names."""
    in_blocks = {i for start, results in pairs(before)[0] for i in (start, *results)}
    for index, message in kept.items():
        if as_said(message) != as_said(before[index]):
            clipped = index == shortened and _mark(message, "clipped")
            result = isinstance(message, ToolMessage)  # also one whose call has left the view
            assert index in in_blocks or result or clipped, f"{message.id} was changed and belongs to no tool block"
            assert _call_names(message) == _call_names(before[index]), f"{message.id} makes other calls"
            assert _tool_call_id(message) == _tool_call_id(before[index]), f"{message.id} answers another call"


def as_said(message: AnyMessage) -> AnyMessage:
    """Return the message without the mark that the history before it has changed, which changes nothing else."""
    kwargs = dict(message.additional_kwargs)
    mark = {key: value for key, value in (kwargs.pop("compaction", None) or {}).items() if key != "history_changed"}
    return message.model_copy(update={"additional_kwargs": {**kwargs, **({"compaction": mark} if mark else {})}})


def pairs(messages: Sequence[AnyMessage]) -> tuple[list[Block], list[int]]:
    """Tool blocks and results of no call; a result answers the nearest call before it that waits for its id."""
    answers: dict[tuple[int, int], int] = {}
    orphans: list[int] = []
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            continue
        waiting = [
            (start, position)
            for start in range(index - 1, -1, -1)
            for position, call_id in enumerate(_calls(messages[start]))
            if call_id == message.tool_call_id and (start, position) not in answers
        ]
        if waiting:
            answers[waiting[0]] = index
        else:
            orphans.append(index)
    blocks = [
        (start, tuple(answers.get((start, position)) for position in range(len(calls))))
        for start, message in enumerate(messages)
        if (calls := _calls(message))
    ]
    return blocks, orphans


def unanswered(messages: Sequence[AnyMessage]) -> int | None:
    """Index of the newest message of a person, unless an answer in text without calls follows it."""
    newest = max(
        (i for i, m in enumerate(messages) if isinstance(m, HumanMessage) and not _mark(m, "is_meta")), default=-1
    )
    answered = any(isinstance(m, AIMessage) and m.text.strip() and not _calls(m) for m in messages[newest + 1 :])
    return None if newest < 0 or answered else newest


def is_summary(message: AnyMessage) -> bool:
    """Whether the message says that it is a summary of ours."""
    return _mark(message, "kind") == "compaction_summary"


def is_pinned(message: AnyMessage, pins: Collection[str] = ()) -> bool:
    """Whether the message is pinned, by itself or by its id."""
    return bool(_mark(message, "pinned")) or message.id in pins


def _mark(message: AnyMessage, name: str) -> Any:
    return (message.additional_kwargs.get("compaction") or {}).get(name)


def _calls(message: AnyMessage) -> list[str | None]:
    if not isinstance(message, AIMessage):
        return []
    return [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]]


def _call_names(message: AnyMessage) -> list[tuple[Any, Any]]:
    if not isinstance(message, AIMessage):
        return []
    return [(call["id"], call["name"]) for call in [*message.tool_calls, *message.invalid_tool_calls]]


def _tool_call_id(message: AnyMessage) -> str | None:
    return message.tool_call_id if isinstance(message, ToolMessage) else None


def _named(messages: Sequence[AnyMessage], blocks: Sequence[Block]) -> set[tuple[str | None, ...]]:
    return {
        (messages[start].id, *(None if i is None else messages[i].id for i in results)) for start, results in blocks
    }
