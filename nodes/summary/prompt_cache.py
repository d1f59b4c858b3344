"""Ask Claude's API to cache what it reads, which other providers do unasked."""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, SystemMessage

from .bindings import with_bindings

MARKER = {"type": "ephemeral"}
_KEY = "cache_control"


def with_cache_markers(model: Any, request: Sequence[AnyMessage]) -> tuple[list[AnyMessage], dict[str, Any]]:
    """Return a request, and arguments of the model's call, with which Claude's API caches the request.

    It is cached whole and, because a compaction changes what follows, up to the end of the system prompt. Nothing is
    added for other models, and where the application has set a marker of its own.
    """
    called = list(with_bindings(model))
    if not all(is_claude(inner) for *_, inner in called) or any(_KEY in told for told in _told(called, request)):
        return [*request], {}
    first = [_marked(message) for message in request[:1]]
    return [*first, *request[1:]], {_KEY: MARKER}


def is_claude(model: Any) -> bool:
    """Whether this is LangChain's chat model of Anthropic, or a class made from it."""
    return any(kind.__name__ == "ChatAnthropic" for kind in type(model).__mro__)


def _told(called: Sequence[Sequence[Any]], request: Sequence[AnyMessage]) -> Iterator[Any]:
    """Yield all that may hold a marker: arguments, bound tools, and content blocks."""
    for *outer, inner in called:
        for given in (getattr(inner, "model_kwargs", {}), *(getattr(binding, "kwargs", {}) for binding in outer)):
            yield given
            yield from given.get("tools") or ()
    for message in request:
        if isinstance(message.content, list):
            yield from message.content


def _marked(message: AnyMessage) -> AnyMessage:
    if not isinstance(message, SystemMessage) or not message.content:
        return message
    *others, last = [message.content] if isinstance(message.content, str) else message.content
    block = {"type": "text", "text": last} if isinstance(last, str) else last
    return message.model_copy(update={"content": [*others, {**block, _KEY: MARKER}]})
