"""What the scripted model does next, decided from the request it is sent and from nothing else.

It keeps its notes where every agent can: in the text beside its own calls. A compaction that took away what
the work still needs would show in its answers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.conversation.transcript import is_real_user

PARTS_A_QUESTION = 4
MOST_PARTS = 8
"""Parts beyond which a file is too long to be read for one question."""

_HIT = re.compile(r"^(\d+) matches, (\d+) parts: (\S+)$", re.MULTILINE)
_HEADER = re.compile(r"^(\S+), part (\d+) of (\d+), from line (\d+)\n")
_CLIPPED = re.compile(r"\n\[TRUNCATED original~\d+ tokens\]$")
_TEST = re.compile(r"(?:^|/)(?:tests?|test_\w+|\w+_tests?)(?:/|\.py$)")
_DEFINED = re.compile(r"^ *(?:async )?((?:def|class) \w+)", re.MULTILINE)
_TICKET = re.compile(r"\bticket ([A-Z]+-\d+)")
_PLACE = re.compile(r"(?<![\w/])/*+([\w/]+\.py):\d+\b")


@dataclass
class Notes:
    """What is known about the open question; a line each, so that the next request can be understood by it."""

    pattern: str
    ranking: list[str] = field(default_factory=list[str])
    """`path (matches)` of the modules with most matches."""
    places: list[str] = field(default_factory=list[str])
    """`path:line` of the first match in each module read, with what is defined there."""
    read: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    """`path part` of what is still to be read."""

    @classmethod
    def of(cls, text: str) -> "Notes":
        """Notes as they were written."""
        lines = dict(line.split(": ", 1) for line in text.splitlines())
        lists = [lines[key].split("; ") if key in lines else [] for key in ("Most", "First", "Read", "Left")]
        return cls(lines["Looking for"], *lists)

    def __str__(self) -> str:
        lines = [f"Looking for: {self.pattern}", self.answer]
        return "\n".join([*lines, f"Left: {'; '.join(self.left)}"] if self.left else lines).strip()

    @property
    def answer(self) -> str:
        """What the user is told."""
        named = {"Most": self.ranking, "First": self.places, "Read": self.read}
        return "\n".join(f"{key}: {'; '.join(items)}" for key, items in named.items() if items)


def decide(messages: Sequence[BaseMessage], call_id: str) -> AIMessage:
    """The answer to a request: a tool call, or text."""
    last = messages[-1]
    if not isinstance(last, ToolMessage):
        return _begun(messages, call_id)
    asked = next(m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls)
    call, notes = asked.tool_calls[0], Notes.of(asked.text)
    if _CLIPPED.search(last.text):  # clipped in a compaction before it was seen: it is read again
        return _calling(notes, call["name"], call["args"], call_id)
    if call["name"] == "search":
        _plan(notes, last.text, messages)
    else:
        _look(notes, last.text)
    if notes.left:
        path, part = notes.left.pop(0).split()
        return _calling(notes, "read_file", {"path": path, "part": int(part)}, call_id)
    return AIMessage(notes.answer or "No module does.")


def _begun(messages: Sequence[BaseMessage], call_id: str) -> AIMessage:
    question = next(m for m in reversed(messages) if is_real_user(m)).text
    pattern = re.search("`(.+)`", question)
    if pattern is None:
        return AIMessage(_report(messages))
    return _calling(Notes(pattern[1]), "search", {"pattern": pattern[1]}, call_id)


def _calling(notes: Notes, name: str, args: dict[str, Any], call_id: str) -> AIMessage:
    return AIMessage(str(notes), tool_calls=[{"name": name, "args": args, "id": call_id}])


def _plan(notes: Notes, listing: str, messages: Sequence[BaseMessage]) -> None:
    """Rank the modules, without tests if the user's rule is still in view, and choose what to read of them."""
    spoken = "\n".join(message.text for message in messages if isinstance(message, HumanMessage))
    careful = "never report test modules" in spoken.lower()
    hits = [(path, int(count), int(parts)) for count, parts, path in _HIT.findall(listing)]
    chosen = [hit for hit in hits if not (careful and _TEST.search(hit[0]))]
    notes.ranking = [f"{path} ({count})" for path, count, _ in chosen[:3]]
    known = _known(messages)
    readable = [hit for hit in chosen if hit[2] <= MOST_PARTS and hit[0] not in known]
    plan = [f"{path} {part}" for path, _, parts in readable for part in range(1, parts + 1)]
    notes.left = plan[:PARTS_A_QUESTION]


def _known(messages: Sequence[BaseMessage]) -> set[str]:
    """The modules that an answer in view says were read."""
    lines = [line for message in messages if _is_answer(message) for line in message.text.splitlines()]
    return {path for line in lines if line.startswith("Read: ") for path in line[6:].split("; ")}


def _is_answer(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls


def _look(notes: Notes, text: str) -> None:
    """Note the first match in a part that was read."""
    header = _HEADER.match(text)
    if header is None:
        return  # the tool failed; there is nothing to note
    path, body = header[1], text[header.end() :]
    if path not in notes.read:
        notes.read.append(path)
    match = re.search(notes.pattern, body)
    if match is None or any(place.startswith(f"{path}:") for place in notes.places):
        return
    line = int(header[4]) + body.count("\n", 0, match.start())
    inside = _DEFINED.findall(body[: match.start()])
    notes.places.append(f"{path}:{line} {inside[-1] if inside else 'at its head'}")


def _report(messages: Sequence[BaseMessage]) -> str:
    ticket = next((found[1] for m in messages if (found := _TICKET.search(m.text))), "A ticket that I forgot")
    own = "\n".join(message.text for message in messages if _is_answer(message))
    return f"{ticket} is done. Modules found: {', '.join(sorted(set(_PLACE.findall(own))))}."
