"""The common form of recorded conversations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_compaction.nodes.errors import CompactionError


class RecordingError(CompactionError, ValueError):
    """A file is not a recording. The message names the place, the error and the expected form."""


class Said(NamedTuple):
    """One recorded message, with the input and output tokens of its request (0 if not recorded)."""

    message: BaseMessage
    tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One conversation as it was recorded: order and defects are kept, no message is added, joined or dropped."""

    name: str
    """The file's name, with `#` and a label if it holds several conversations; unique within a file."""
    messages: tuple[BaseMessage, ...]
    """System, human, AI and tool messages; `id` is None if the file has none, or repeats one."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tool schemas in OpenAI form, if the file has them."""
    usage: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Input and output tokens that the provider reported, by the index of the AI message in `messages`."""


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
