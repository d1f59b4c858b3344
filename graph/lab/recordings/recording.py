"""The common form of recorded conversations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_compaction.nodes.errors import CompactionError


class RecordingError(CompactionError, ValueError):
    """Raised if a file is not a recording; the message names the place, the error and the expected form."""


class Said(NamedTuple):
    """One recorded message, with the input and output tokens of its request (0 if not recorded)."""

    message: BaseMessage
    tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A conversation as it was recorded: order and defects are kept; no message is added, joined or dropped."""

    name: str
    """The file's name, plus `#` and a label if the file holds several conversations; unique within the file."""
    messages: tuple[BaseMessage, ...]
    """System, human, AI and tool messages; an `id` is None if the file has no id or repeats an earlier id."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tool schemas in OpenAI form, if the file has them."""
    usage: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Sum of input and output tokens that the provider reported, by the index of the AI message in `messages`."""


def recording(name: str, said: Iterable[Said], tools: Iterable[dict[str, Any]] = ()) -> Recording:
    """Make a `Recording`; a repeated message id becomes None, because a later message would replace the earlier."""
    messages: list[BaseMessage] = []
    usage: dict[int, int] = {}
    known: set[str] = set()
    for index, (message, tokens) in enumerate(said):
        if message.id in known:
            message.id = None
        elif message.id:
            known.add(message.id)
        messages.append(message)
        if tokens > 0:
            usage[index] = tokens
    return Recording(name=name, messages=tuple(messages), tools=tuple(tools), usage=MappingProxyType(usage))
