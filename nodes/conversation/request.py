"""From state to what is sent: healed, so that every call is answered and every result called.

State keeps what happened; only the request is healed. Pairing is by position, since call ids may be reused.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage

from ..text.quoting import ELLIPSIS, one_line, quoted
from .message_marks import marks
from .tokens import CALL_BLOCKS, arguments_json
from .transcript import ToolBlock, Transcript, all_calls, calls_of

Call = ToolCall | InvalidToolCall

NO_RESULT = "[no result: the call was interrupted]"
"""Stands in the request where a call was never answered."""

MALFORMED = (
    "[no result: the arguments of this call were malformed and the tool did not run{why}. Call it with valid JSON]"
)
"""Stands in the request where the arguments of a call could not be read; `why` quotes the parser."""

MOST_ERROR = 200
"""Characters of the parser's error."""


def render(messages: Sequence[AnyMessage], *, join_user_messages: bool = False) -> list[AnyMessage]:
    """What a provider is sent for this conversation.

    Interrupted calls are answered, late results move to their call, orphan results and empty assistant
    messages are left out; with `join_user_messages` adjacent user messages become one. What a strict provider
    refuses is mended: call ids that come back, are missing or are none, malformed calls, blank texts. The
    messages given are not changed, those in order are sent as the very same objects, and the same conversation
    always renders to the same request.
    """
    sent = distinct([message for part in parts(Transcript(messages)) for message in part])
    return _joined(sent) if join_user_messages else sent


def parts(view: Transcript) -> list[list[AnyMessage]]:
    """What is sent for each message: a whole block where it begins, nothing for its results, orphans and the empty.

    No part depends on another, so that the request without some blocks and messages is the other parts.
    """
    return [_part(view, index, message) for index, message in enumerate(view.messages)]


def _part(view: Transcript, index: int, message: AnyMessage) -> list[AnyMessage]:
    if (block := view.block_of.get(index)) is not None:
        return _block(view.messages, block) if index == block.start else []
    sent = None if isinstance(message, ToolMessage) else sendable(message)
    return [] if sent is None else [sent]


def _block(messages: Sequence[AnyMessage], block: ToolBlock) -> list[AnyMessage]:
    answers = (_no_result(call) if result is None else messages[result] for call, result in _results(messages, block))
    return [sent for message in (messages[block.start], *answers) if (sent := sendable(message)) is not None]


def stand_ins(messages: Sequence[AnyMessage], block: ToolBlock) -> list[ToolMessage]:
    """What is sent in place of the results that a block does not have."""
    return [_no_result(call) for call, result in _results(messages, block) if result is None]


def _results(messages: Sequence[AnyMessage], block: ToolBlock) -> Iterator[tuple[Call, int | None]]:
    return zip(all_calls(messages[block.start]), block.results, strict=True)


def _no_result(call: Call) -> ToolMessage:
    text = _malformed(call) if call.get("type") == "invalid_tool_call" else NO_RESULT
    return ToolMessage(text, tool_call_id=call.get("id") or "", name=call.get("name") or "", status="error")


def _malformed(call: Call) -> str:
    """Tells the model what was wrong with its call; the parser's error, without the arguments that it repeats."""
    said, arguments = str(call.get("error") or ""), str(call["args"] or "")
    error = one_line(said.replace(arguments, ELLIPSIS) if arguments else said, MOST_ERROR)
    return MALFORMED.format(why=f": {quoted(error)}" if error else "")


def _joined(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    joined: list[AnyMessage] = []
    for is_user, group in groupby(messages, lambda message: isinstance(message, HumanMessage)):
        first, *others = group
        if is_user and others:
            content = [block for message in (first, *others) for block in _blocks(message)]
            joined.append(first.model_copy(update={"content": content}))
        else:
            joined += [first, *others]
    return joined


def _blocks(message: AnyMessage) -> list[str | dict[str, Any]]:
    content = cast("str | list[str | dict[str, Any]]", message.content)
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


BLANK = "[an empty message]"
"""Stands in the request where a user message says nothing."""

NAMELESS = "unknown"
"""Stands in the request where a malformed call names no tool."""

RAW_ARGUMENTS = "__raw__"
"""The one argument under which a malformed call carries the text that is no JSON."""

THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Blocks of content that a model said to itself."""


def sendable(message: AnyMessage) -> AnyMessage | None:
    """The message, a mended copy where a provider would refuse it, or `None` where there is nothing to send.

    It does not depend on the messages around it. Assistant turns that say and call nothing, or that broke off
    while the model was still thinking, are not sent; nor is a person's command to us.
    """
    if not isinstance(message, AIMessage | HumanMessage | ToolMessage):
        return message
    if marks(message).get("command"):
        return None
    if isinstance(message, AIMessage):
        message = with_calls(message, [*message.tool_calls, *map(_well_formed, message.invalid_tool_calls)])
    said = _said(message.content)
    if isinstance(message, AIMessage) and not calls_of(message) and not any(map(_is_no_thought, said)):
        return None
    if isinstance(message, HumanMessage):
        said = said or BLANK
    return message if said == message.content else message.model_copy(update={"content": said})


def _well_formed(call: InvalidToolCall) -> ToolCall:
    arguments: dict[str, Any] = {RAW_ARGUMENTS: call["args"]} if call["args"] else {}
    return ToolCall(name=call["name"] or NAMELESS, args=arguments, id=call["id"], type="tool_call")


def _said(content: str | list[str | dict[Any, Any]]) -> str | list[str | dict[Any, Any]]:
    """The content without its blank texts; nothing is the empty text."""
    if isinstance(content, str):
        return "" if content.isspace() else content
    return [block for block in content if not _is_blank(block)] or ""


def _is_blank(block: str | dict[str, Any]) -> bool:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
    return isinstance(text, str) and not text.strip()


def _is_no_thought(block: str | dict[str, Any]) -> bool:
    return isinstance(block, str) or block.get("type") not in THOUGHTS


LONGEST = 40
"""Characters that a call id may have."""

_STEM = 32
"""Characters of an id that are never replaced by a number; ids that begin alike are numbered together."""


def distinct(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A healed request in which no call id stands twice; messages whose ids are in order are the very same.

    The first call of an id keeps it. What stands before a call decides, so that the request of a conversation
    that goes on begins as it did before.
    """
    ids = _Ids()
    answered: deque[str] = deque()
    sent: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage) and answered:
            sent.append(_answering(message, answered.popleft()))
            continue
        answered = deque(ids.give(call_id) for call_id, _ in calls_of(message))
        sent.append(_renamed(message, answered) if isinstance(message, AIMessage) else message)
    return sent


class _Ids:
    """Gives each call of a request an id of its own."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last: dict[str, int] = {}

    def give(self, wanted: str | None) -> str:
        """The id that is wanted, if it can be had; else the nearest one that is free."""
        base = (wanted or "call")[:LONGEST]
        found, stem = base, base[:_STEM]
        while found in self._given:
            number = self._last[stem] = self._last.get(stem, 1) + 1
            suffix = f"-{number}"
            found = base[: LONGEST - len(suffix)] + suffix
        self._given.add(found)
        return found


def _answering(message: ToolMessage, call_id: str) -> ToolMessage:
    same = message.tool_call_id == call_id
    return message if same else message.model_copy(update={"tool_call_id": call_id})


def _renamed(message: AIMessage, ids: Sequence[str]) -> AIMessage:
    if [call["id"] for call in message.tool_calls] == list(ids):
        return message
    calls = [cast("ToolCall", {**call, "id": name}) for call, name in zip(message.tool_calls, ids, strict=True)]
    return with_calls(message, calls)


def with_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """The message with these calls in place of its own, one for one, in its content too; itself where all is so.

    A block of content that holds a call which the message does not make is left out, and so is a raw copy of
    calls that are others now: nothing answers them.
    """
    own = all_calls(message)
    changes = list(zip(own, calls, strict=True))
    content = message.content
    if not isinstance(content, str):
        content = [kept for block in content if (kept := _content_block(block, changes)) is not None]
    raw = message.additional_kwargs
    if content == message.content and list(calls) == list(own) and (own or _RAW_CALLS not in raw):
        return message
    kwargs = {key: value for key, value in raw.items() if key != _RAW_CALLS}
    update = {"content": content, "tool_calls": list(calls), "invalid_tool_calls": [], "additional_kwargs": kwargs}
    return message.model_copy(update=update)


def _content_block(
    block: str | dict[str, Any], changes: list[tuple[ToolCall | InvalidToolCall, ToolCall]]
) -> str | dict[str, Any] | None:
    """The block as its call now is, found by the id it had; `None` where the message makes no such call."""
    if not isinstance(block, dict):
        return block
    call_id, arguments = CALL_BLOCKS.get(block.get("type") or "", ("", ""))
    if call_id not in block:
        return block
    change = next((change for change in changes if change[0].get("id") == block[call_id]), None)
    if change is None:
        return None
    changes.remove(change)
    was, call = change
    if was["args"] is call["args"]:
        return {**block, call_id: call["id"]}
    if arguments == "args":
        return {**call, "type": "tool_call"}
    said = arguments_json(call["args"]) if arguments == "arguments" else call["args"]
    return {**block, call_id: call["id"], "name": call["name"], arguments: said}


_RAW_CALLS = "tool_calls"
