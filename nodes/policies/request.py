"""From state to what is sent: healed, so that every call is answered and every result called (DESIGN §10).

State keeps what happened; only the request is healed. Pairing is by position, since call ids may be reused.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from .call_ids import distinct
from .sendable import sendable
from .transcript import ToolBlock, Transcript, calls_of

NO_RESULT = "[no result: the call was interrupted]"
"""Stands in the request where a call was never answered."""


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
    calls = calls_of(messages[block.start])
    answers = [
        ToolMessage(NO_RESULT, tool_call_id=call_id or "", name=name, status="error")
        if result is None
        else messages[result]
        for (call_id, name), result in zip(calls, block.results, strict=True)
    ]
    return [sent for message in (messages[block.start], *answers) if (sent := sendable(message)) is not None]


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
