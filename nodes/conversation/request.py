"""From state to what is sent: healed, so that every call is answered and every result called.

State keeps what happened; only the request is healed. Pairing is by position, since call ids may be reused.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage

from ..text.quoting import ELLIPSIS, one_line, quoted
from .call_ids import distinct
from .sendable_message import sendable
from .transcript import ToolBlock, Transcript, all_calls

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
