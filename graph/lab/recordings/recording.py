"""What every recorded conversation becomes, whoever recorded it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_compaction.nodes.errors import CompactionError


class RecordingError(CompactionError, ValueError):
    """A file that is no recording: says where (line or entry), what is wrong and what is expected."""


class Said(NamedTuple):
    """One recorded message, with the provider's input + output tokens of its call (0: not recorded)."""

    message: BaseMessage
    tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One conversation as it was recorded: order and defects kept, nothing answered, joined or dropped."""

    name: str
    """The file's name, with `#` and a label where it holds several conversations; unique within a file."""
    messages: tuple[BaseMessage, ...]
    """System, human, AI and tool messages; `id` is None where the file has none (or repeats one)."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tool schemas in OpenAI form, where the file has them."""
    usage: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Index in `messages` of an AI message -> input + output tokens its provider reported."""


def recording(name: str, said: Iterable[Said], tools: Iterable[dict[str, Any]] = ()) -> Recording:
    """Make a `Recording` of what was said; a repeated message id becomes None, as ids replace each other."""
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
