"""Turn the messages of the state into a request that every provider accepts, and measure it in tokens.

In a request every call has one result and every result a call, each call id is unique and short, and no message is
empty. Only the request is repaired, never the state. Calls and results are paired by position, because agents may
reuse call ids; another result of a call becomes a user message. The characters of ids are not changed: some models
read the tool's name from them.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from ..text.quoting import ELLIPSIS, one_line, quoted
from .bound_history import HISTORY_CHANGED, REASONING_BLOCKS, without_bound_parts
from .message_marks import MARK, marks
from .tokens import CALL_BLOCKS, TokenCounter, arguments_json, total
from .transcript import ASSISTANT, RESULT, ToolBlock, Transcript, all_calls, calls_of

Call = ToolCall | InvalidToolCall

NO_RESULT = "[no result: the call was interrupted]"
"""Content of the result that a request gets for a call without a result."""

MALFORMED = (
    "[no result: the arguments of this call were malformed and the tool did not run{why}. Call it with valid JSON]"
)
"""Content of the result that a request gets for a call whose arguments are not JSON; `why` quotes the parser's
error."""

ANOTHER_RESULT = "[another result of the tool call {call}]"
"""First line of the user message that a request holds for a result whose call has a result already, or is no longer
in view."""

MAX_ERROR_CHARS = 200
"""Maximum number of characters of the JSON parser's error that `MALFORMED` quotes."""

MAX_NAME_CHARS = 100
"""Maximum number of characters of a call's id and tool that `ANOTHER_RESULT` names."""

BLANK = "[an empty message]"
"""Content that a request gets for a user message without text."""

NAMELESS = "unknown"
"""Tool name that a request gets for a malformed call without a tool name."""

RAW_ARGUMENTS = "__raw__"
"""Name of the only argument of a malformed call in a request; its value is the text that is not JSON."""

MAX_ID_CHARS = 40
"""Maximum length, in characters, of a call id that every provider accepts."""

_STEM = 32
"""Number of leading characters that a call id keeps when a number is appended to make it unique. Ids with the same
leading characters share one sequence of numbers."""

_RAW_CALLS = "tool_calls"

MAX_CALIBRATION = 3.0
"""Largest factor by which the counter's tokens are corrected with the usage that a provider reports."""


def render(messages: Sequence[AnyMessage], *, join_user_messages: bool = False) -> list[AnyMessage]:
    """Return the messages that a provider is sent for this conversation.

    A call without a result gets a placeholder result, a result that follows later moves next to its call, and
    further results of a call become user messages (`ANOTHER_RESULT`). Empty assistant messages are left out.
    Repeated, missing or overlong call ids, malformed calls and blank texts are repaired. With `join_user_messages`
    adjacent user messages become one. The given messages are not changed, messages that need no repair are returned
    as the same objects, and the same conversation always gives the same request.
    """
    view, sent = Transcript(messages), list[AnyMessage]()
    in_blocks = view.block_of
    for index, message in enumerate(messages):
        if index not in in_blocks and not RESULT[type(message)] and _needs_no_repair(message):
            sent.append(message)
        else:
            sent += _part(view, index)
    sent = with_unique_call_ids(sent) if in_blocks else sent
    return _joined(sent) if join_user_messages else sent


def parts(view: Transcript) -> list[list[AnyMessage]]:
    """Return, for each message, the list of messages that a request holds in place of the message.

    A tool block is sent whole at the position of its assistant message. At the position of a result, and of a message
    that is left out, the list is empty. The list of a message or block does not depend on other messages: to remove
    the message from the conversation removes exactly this list from the request.
    """
    return [list(_part(view, index)) for index in range(len(view.messages))]


def _part(view: Transcript, index: int) -> Sequence[AnyMessage]:
    if (block := view.block_of.get(index)) is not None:
        return _block(view.messages, block) if index == block.start else ()
    sent = sendable(view.messages[index])
    return () if sent is None else (_as_user(sent) if isinstance(sent, ToolMessage) else sent,)


def _as_user(result: ToolMessage) -> HumanMessage:
    """Return a result that answers no call as a message that every provider accepts."""
    named = " of ".join(filter(None, (result.tool_call_id, result.name)))
    line = ANOTHER_RESULT.format(call=one_line(named, MAX_NAME_CHARS))
    content = result.content
    if isinstance(content, str):
        return HumanMessage(f"{line}\n{content}", id=result.id)
    return HumanMessage([{"type": "text", "text": line}, *content], id=result.id)


def _block(messages: Sequence[AnyMessage], block: ToolBlock) -> list[AnyMessage]:
    answers = (_no_result(call) if result is None else messages[result] for call, result in _results(messages, block))
    return [sent for message in (messages[block.start], *answers) if (sent := sendable(message)) is not None]


def placeholder_results(messages: Sequence[AnyMessage], block: ToolBlock) -> list[ToolMessage]:
    """Return the placeholder results that are sent for a block's calls without a result."""
    return [_no_result(call) for call, result in _results(messages, block) if result is None]


def _results(messages: Sequence[AnyMessage], block: ToolBlock) -> Iterator[tuple[Call, int | None]]:
    return zip(all_calls(messages[block.start]), block.results, strict=True)


def _no_result(call: Call) -> ToolMessage:
    text = _malformed(call) if call.get("type") == "invalid_tool_call" else NO_RESULT
    return ToolMessage(text, tool_call_id=call.get("id") or "", name=call.get("name") or "", status="error")


def _malformed(call: Call) -> str:
    """Return a placeholder's text for a malformed call: the JSON parser's error, without the arguments it quotes."""
    said, arguments = str(call.get("error") or ""), str(call["args"] or "")
    error = one_line(said.replace(arguments, ELLIPSIS) if arguments else said, MAX_ERROR_CHARS)
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


def sendable(message: AnyMessage) -> AnyMessage | None:
    """Return the message as a provider accepts it: itself, a repaired copy, or `None` if a request must leave it out.

    The result does not depend on other messages. Left out are assistant messages without text and calls, assistant
    messages with reasoning only, user messages that are commands to this package, and what binds an answer to a
    history that has changed since.
    """
    if _needs_no_repair(message) or not isinstance(message, AIMessage | HumanMessage | ToolMessage):
        return message
    if marks(message).get("command"):
        return None
    if isinstance(message, AIMessage):
        message = without_bound_parts(message) if marks(message).get(HISTORY_CHANGED) else message
        message = replace_calls(message, [*message.tool_calls, *map(_well_formed, message.invalid_tool_calls)])
    said = _without_blank_texts(message.content)
    if isinstance(message, AIMessage) and not calls_of(message) and not any(map(_is_not_reasoning, said)):
        return None
    if isinstance(message, HumanMessage):
        said = said or BLANK
    return message if said == message.content else message.model_copy(update={"content": said})


def _needs_no_repair(message: Any) -> bool:
    """Whether `sendable` certainly returns the message itself: most messages have a plain text and no mark."""
    content, given = message.content, message.additional_kwargs
    if not isinstance(content, str) or content.isspace() or MARK in given:
        return False
    if not ASSISTANT[type(message)]:
        return bool(content)
    return not message.invalid_tool_calls and bool(message.tool_calls or (content and _RAW_CALLS not in given))


def _well_formed(call: InvalidToolCall) -> ToolCall:
    arguments: dict[str, Any] = {RAW_ARGUMENTS: call["args"]} if call["args"] else {}
    return ToolCall(name=call["name"] or NAMELESS, args=arguments, id=call["id"], type="tool_call")


def _without_blank_texts(content: str | list[str | dict[Any, Any]]) -> str | list[str | dict[Any, Any]]:
    """Return the content without blank texts; an empty string if nothing is left."""
    if isinstance(content, str):
        return "" if content.isspace() else content
    return [block for block in content if not _is_blank(block)] or ""


def _is_blank(block: str | dict[str, Any]) -> bool:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else block
    return isinstance(text, str) and not text.strip()


def _is_not_reasoning(block: str | dict[str, Any]) -> bool:
    return isinstance(block, str) or block.get("type") not in REASONING_BLOCKS


def with_unique_call_ids(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the request with unique call ids; messages whose ids are already unique are not copied.

    The first call with an id keeps that id. A call's new id depends only on earlier messages, so that a growing
    conversation keeps the beginning of its request, and with it the provider's prompt cache.
    """
    ids = _UniqueIds()
    answered: deque[str] = deque()
    sent: list[AnyMessage] = []
    for message in messages:
        if answered and isinstance(message, ToolMessage):
            sent.append(_with_call_id(message, answered.popleft()))
        elif calls := calls_of(message):
            answered = deque(ids.give(call_id) for call_id, _ in calls)
            sent.append(_with_call_ids(cast("AIMessage", message), answered))
        else:
            answered.clear()
            sent.append(message)
    return sent


class _UniqueIds:
    """Assigns a unique id to each call of a request."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last: dict[str, int] = {}

    def give(self, wanted: str | None) -> str:
        """Return the id `wanted`, cut to `MAX_ID_CHARS`; if another call has that id, append the next free number."""
        base = (wanted or "call")[:MAX_ID_CHARS]
        found, stem = base, base[:_STEM]
        while found in self._given:
            number = self._last[stem] = self._last.get(stem, 1) + 1
            suffix = f"-{number}"
            found = base[: MAX_ID_CHARS - len(suffix)] + suffix
        self._given.add(found)
        return found


def _with_call_id(message: ToolMessage, call_id: str) -> ToolMessage:
    same = message.tool_call_id == call_id
    return message if same else message.model_copy(update={"tool_call_id": call_id})


def _with_call_ids(message: AIMessage, ids: Sequence[str]) -> AIMessage:
    if [call["id"] for call in message.tool_calls] == list(ids):
        return message
    calls = [cast("ToolCall", {**call, "id": name}) for call, name in zip(message.tool_calls, ids, strict=True)]
    return replace_calls(message, calls)


def replace_calls(message: AIMessage, calls: Sequence[ToolCall]) -> AIMessage:
    """Return the message with `calls` in place of its own, also in content blocks; itself if nothing changes.

    A content block whose call is not among the message's calls is removed, and so is the provider's own copy of the
    calls in `additional_kwargs` if it no longer equals them: a provider would wait for a result of such a call and
    refuse the request.
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
    """Return the block with the new id and arguments of its call, or `None` if no call has the block's old id."""
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


@dataclass(frozen=True)
class Meter:
    """Measures requests to one model."""

    counter: TokenCounter
    overhead: int
    """Tokens of the system prompt and the tool schemas, which every request contains beside the messages."""
    scale: float = 1.0
    """The provider's token count divided by the counter's, learned from reported usage; at least 1."""

    def request(self, messages: Sequence[AnyMessage]) -> int:
        """Return the estimated size of a request with these messages, the system prompt and the tools.

        The size is in tokens as the provider counts them.
        """
        return math.ceil(self.scale * (self.overhead + total(self.counter, render(messages))))

    def weights(self, view: Transcript) -> list[int]:
        """Return how many of the counter's tokens each message adds to the request.

        All tokens of a tool block count at its first message, and its other messages weigh 0. As long as blocks are
        removed whole, the size of the remaining request is `scaled(overhead + sum of the remaining weights)`.
        """
        return [total(self.counter, part) for part in parts(view)]

    def scaled(self, tokens: int) -> int:
        """Estimate how many tokens the provider counts where the local counter counts `tokens`, rounded up."""
        return math.ceil(self.scale * tokens)

    def unscaled(self, tokens: int) -> int:
        """Estimate how many tokens the local counter counts where the provider counts `tokens`, rounded down."""
        return math.floor(tokens / self.scale)


def is_plausible(usage: UsageMetadata, counted: int, window: int) -> bool:
    """Whether a reported usage can be that of one request, which has `counted` tokens by our own count.

    Some servers report the input without the tokens that they read from a cache, or the usage of a whole session.
    """
    details = usage.get("input_token_details") or {}
    cached = [details.get("cache_read") or 0, details.get("cache_creation") or 0]
    if min(usage["output_tokens"], *cached) < 0 or not sum(cached) <= usage["input_tokens"] <= window:
        return False
    lacks_cached = (
        usage["input_tokens"] + sum(cached) / 2 < counted
    )  # with the cached tokens it is nearer to our count
    return usage["input_tokens"] > 0 and not (sum(cached) and lacks_cached)


def calibration_factor(reported: int, counted: int) -> float:
    """Return the provider's reported tokens divided by the counted tokens, clamped to [1, 3].

    The factor is never under 1, because then a request could be sent that exceeds the limit according to the counter.
    """
    return min(MAX_CALIBRATION, max(1.0, reported / counted)) if counted > 0 else 1.0


def meter_of_thread(compaction: Mapping[str, Any], counter: TokenCounter, overhead: int) -> Meter:
    """Return a meter for a thread whose model is not known; its scale is the largest of the thread's models."""
    return Meter(counter, overhead, max((compaction.get("calibration") or {}).values(), default=1.0))
