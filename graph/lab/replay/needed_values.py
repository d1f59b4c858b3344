"""Counts the identifiers that recorded calls need from earlier messages, and how many their requests still hold."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langgraph_compaction.nodes.conversation.tokens import texts_of
from langgraph_compaction.nodes.text.identifiers import identifiers

from ..evaluation.survival import holds


@dataclass
class Needed:
    """Counts the identifiers that recorded tool calls need from earlier messages.

    A call needs an identifier if its arguments and an earlier message hold it, but no system message does.
    """

    messages: Sequence[BaseMessage]
    """The messages of the recording."""
    needed: int = 0
    """Number of identifiers that calls need, summed over all calls of the model."""
    kept: int = 0
    """Number of these identifiers that were in the request to which the call was the answer."""
    _said: set[str] = field(default_factory=set[str])
    _read: int = 0

    def look(self, request: Iterable[BaseMessage], answer: int) -> None:
        """Count the identifiers that an answer's calls need, and how many of them the request holds.

        `answer` is the index of the recorded message that answers the request.
        """
        for message in self.messages[self._read : answer]:
            self._said.update(token for text in texts_of(message) for token in identifiers(text))
        self._read = max(self._read, answer)
        wanted = set(_wanted(self.messages[answer : answer + 1])) & self._said
        if not wanted:
            return
        text = "\n".join(part for message in request for part in texts_of(message))
        prompt = {token for token in wanted if holds(self._prompt, token)}
        self.needed += len(wanted - prompt)
        self.kept += sum(holds(text, token) for token in wanted - prompt)

    @property
    def _prompt(self) -> str:
        return "\n".join(text for one in self.messages if isinstance(one, SystemMessage) for text in texts_of(one))


def _wanted(answer: Iterable[BaseMessage]) -> Iterator[str]:
    for message in answer:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                yield from identifiers(str(call["args"]))
