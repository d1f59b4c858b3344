"""What a provider does with everything before an answer: it binds to it, or compacts it on its own side.

Bound are Claude's signed thinking, and the id of a response at OpenAI.

Newer Claude models refuse a request with thinking whose history has changed since it was signed, and with
`use_previous_response_id=True` OpenAI goes on with the history that it has stored. A change of the history, such as a
compaction, therefore marks the answers that were given before it: they stay in the state as they are, and a request
leaves out what binds them.

Models up to Claude 4 check no history. With `thinking={"type": "enabled"}` they want the thinking at the beginning of
the unfinished turn instead (`opens_with_thinking`).

Where an answer holds the provider's own compaction, a block of the type `compaction` at Anthropic and OpenAI, the
provider reads nothing before this answer but system messages (`read_from`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.checkpoint.patterns import Pattern

from .message_marks import marks, with_mark

HISTORY_CHANGED = "history_changed"
"""The key in an answer's mark that says that the history before the answer has changed since."""

REASONING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Types of the content blocks that hold a model's reasoning."""

_UP_TO_CLAUDE_4 = Pattern(r"claude-(?:3|[a-z]{1,20}-4)(?!\d)")
_STORED_RESPONSE = "resp_"
"""Beginning of the `response_metadata["id"]` of an answer that the provider has stored."""


def holds_compaction(message: AnyMessage) -> bool:
    """Whether an answer holds the provider's own compaction of everything before it."""
    content = message.content
    return isinstance(content, list) and isinstance(message, AIMessage) and any(map(_is_compaction, content))


def read_from(messages: Sequence[AnyMessage]) -> int:
    """Return the index of the first message that the provider reads: of the newest answer with its own compaction."""
    backwards = range(len(messages) - 1, -1, -1)
    return next((at for at in backwards if type(messages[at].content) is list and holds_compaction(messages[at])), 0)


def _is_compaction(block: str | dict[str, Any]) -> bool:
    """Whether this is a compaction; at Anthropic, one without content has failed and is ignored."""
    if not isinstance(block, dict):
        return False
    told = block["value"] if block.get("type") == "non_standard" and isinstance(block.get("value"), dict) else block
    return told.get("type") == "compaction" and bool(told.get("content", told.get("encrypted_content")))


def with_history_changed(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Return the messages after a change of the history, with a mark in each answer that was bound to it."""
    return [_marked(message) if isinstance(message, AIMessage) else message for message in messages]


def _marked(message: AIMessage) -> AIMessage:
    if marks(message).get(HISTORY_CHANGED) or without_bound_parts(message) is message:
        return message
    return with_mark(message, {**marks(message), HISTORY_CHANGED: True})


def without_bound_parts(message: AIMessage) -> AIMessage:
    """Return an answer without what is bound to the history before it; itself if nothing is."""
    update: dict[str, Any] = {}
    content, told = message.content, message.response_metadata
    if isinstance(content, list) and _checks_history(message):
        left = [block for block in content if not _is_reasoning(block)]
        update |= {"content": left} if len(left) < len(content) else {}
    if str(told.get("id")).startswith(_STORED_RESPONSE):
        update["response_metadata"] = {key: value for key, value in told.items() if key != "id"}
    return message.model_copy(update=update) if update else message


def opens_with_thinking(message: AnyMessage) -> bool:
    """Whether the answer begins with thinking that its model, up to Claude 4, may want to see again in this turn."""
    content = message.content
    is_theirs = bool(content) and isinstance(content, list) and _is_reasoning(content[0])
    return is_theirs and bool(_UP_TO_CLAUDE_4.search(_model(message)))


def _checks_history(message: AIMessage) -> bool:
    """Whether the model of an answer may be one that checks the history before its thinking.

    An answer that names no model counts if it names no other provider.
    """
    name, provider = _model(message), message.response_metadata.get("model_provider")
    is_claude = "claude" in name or provider == "anthropic" or not (name or provider)
    return is_claude and not _UP_TO_CLAUDE_4.search(name)


def _model(message: AnyMessage) -> str:
    told = message.response_metadata
    return str(told.get("model_name") or told.get("model") or "").lower()


def _is_reasoning(block: str | dict[str, Any]) -> bool:
    return isinstance(block, dict) and block.get("type") in REASONING_BLOCKS
