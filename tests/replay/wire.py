"""Checks the requests of one conversation, and counts their tokens independently."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_compaction.graph.lab.recordings import Recording
from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from langgraph_compaction.graph.lab.replay.recorded_model import Playback
from tests.recount import request_tokens, second_opinion, unpaired


def tokens(messages: Sequence[BaseMessage], schemas: Sequence[Any] = ()) -> int:
    """Return the independently counted tokens of messages and tool schemas."""
    return request_tokens(to_openai(messages), [schemas] if schemas else [])


def newest_user(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """Return the last user message, unless an answer in text and without calls follows it."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and message.text and not message.tool_calls:
            return None
        if isinstance(message, HumanMessage) and not message.additional_kwargs.get("compaction", {}).get("is_meta"):
            return message
    return None


class Wire:
    """Receives every request of a `Player`; `defects` lists what is wrong with them."""

    def __init__(self, recording: Recording, limit: int) -> None:
        self.recording = recording
        self.limit = limit
        self.playback: Playback | None = None
        self.requests = 0
        self.defects: list[str] = []

    def __call__(self, sent: dict[str, Any]) -> None:
        """Check a request."""
        self.requests += 1
        messages, schemas = sent["messages"], sent["tools"]
        size = request_tokens(messages, [schemas] if schemas else [])
        found = [*unpaired(messages), *second_opinion(messages)]
        if size > self.limit or sent["limit"] != self.limit:
            found.append(f"{size} tokens, limit {self.limit}, said to be {sent['limit']}")
        if schemas != list(self.recording.tools):
            found.append("the tools are not those of the recording")
        self.defects += [f"request {self.requests}: {defect}" for defect in [*found, *self._unsaid(messages)]]

    def _unsaid(self, messages: Sequence[Any]) -> list[str]:
        """Check that system messages and the unanswered user message are in the request."""
        assert self.playback is not None
        heard = self.recording.messages[: self.playback.cursor]
        found: list[str] = []
        system = to_openai([message for message in heard if isinstance(message, SystemMessage)])
        if [message for message in messages if message["role"] in ("system", "developer")] != system:
            found.append("the system messages are not those that were said")
        if not any(message["role"] == "user" for message in messages):
            found.append("no user message")
        newest = newest_user(heard)
        if newest is not None and self.fits(heard) and to_openai([newest])[0] not in messages:
            found.append("the newest user message is not there verbatim")
        return found

    def fits(self, heard: Sequence[BaseMessage]) -> bool:
        """Whether the smallest request fits: system messages, tool schemas and the newest user message."""
        newest = newest_user(heard)
        least = [m for m in heard if isinstance(m, SystemMessage)] + ([newest] if newest else [])
        return tokens(least, self.recording.tools) <= self.limit

    def unavoidable(self) -> int:
        """Return the number of inputs of the recording that cannot be sent under this limit."""
        messages = self.recording.messages
        ends = [end for end in range(1, len(messages) + 1) if _input_ends(messages, end)]
        return sum(not self.fits(messages[:end]) for end in ends)


def _input_ends(messages: Sequence[BaseMessage], end: int) -> bool:
    """Whether an input with a user message ends here."""
    if end < len(messages) and not isinstance(messages[end], AIMessage):
        return False
    start = end
    while start and not isinstance(messages[start - 1], AIMessage):
        start -= 1
    return newest_user(messages[start:end]) is not None
