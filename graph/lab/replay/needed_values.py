"""What recorded calls needed of what was said before them, and whether the request still had it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langgraph_compaction.nodes.conversation.tokens import texts_of
from langgraph_compaction.nodes.text.identifiers import identifiers


@dataclass
class Needed:
    """Counts identifiers in the arguments of recorded calls. What the system prompt says counts for nothing."""

    messages: Sequence[BaseMessage]
    """The recording."""
    needed: int = 0
    """Identifiers that a call has and that somebody had said before it."""
    kept: int = 0
    """Those of them that stood in the request that the call answered."""
    _said: set[str] = field(default_factory=set[str])
    _read: int = 0

    def look(self, request: Iterable[BaseMessage], answer: int) -> None:
        """Look at a request that the recording answers with the message of this index."""
        for message in self.messages[self._read : answer]:
            self._said.update(token for text in texts_of(message) for token in identifiers(text))
        self._read = max(self._read, answer)
        wanted = set(_wanted(self.messages[answer : answer + 1])) & self._said
        if not wanted:
            return
        text = "\n".join(part for message in request for part in texts_of(message))
        prompt = {token for token in wanted if _holds(self._prompt, token)}
        self.needed += len(wanted - prompt)
        self.kept += sum(_holds(text, token) for token in wanted - prompt)

    @property
    def _prompt(self) -> str:
        return "\n".join(text for one in self.messages if isinstance(one, SystemMessage) for text in texts_of(one))


def _wanted(answer: Iterable[BaseMessage]) -> Iterator[str]:
    for message in answer:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                yield from identifiers(str(call["args"]))


@lru_cache(maxsize=8_192)
def _bounded(token: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(token)}(?!\w)")


def _holds(text: str, token: str) -> bool:
    return token in text and _bounded(token).search(text) is not None
