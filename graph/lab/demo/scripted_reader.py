"""The scripted user and model of the demonstration, which look for modules in Python's standard library.

The scripted model decides only from the request that it receives. The model writes its notes into the text beside
its tool calls, so that its answers become wrong if a compaction takes away something that the work still needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import MULTILINE, Anchored, Pattern
from langgraph_compaction.nodes.conversation.message_marks import is_real_user

TICKET = "STD-4711"
RULE = "Never report test modules."
LANGUAGE = "答案请用英文。"
"""A user's rule in Chinese: please answer in English."""

_OPENING = f"We look through Python's standard library for ticket {TICKET}. {RULE} {LANGUAGE} First: "
_CLOSING = "That was all. Close the ticket with one line that names its number and the modules found."
_PATTERNS = r"""
    subprocess\.|os\.fork|posix_spawn  socket\.socket\(|create_connection  \beval\(|\bexec\(  tempfile\.
    threading\.Thread  os\.environ  weakref\.  re\.compile\(  warnings\.warn  struct\.pack  pickle\.  heapq\.
    datetime\.  select\.  zlib\.|bz2\.  base64\.  traceback\.  os\.walk|os\.scandir  Lock\(\)  expat|ElementTree
""".split()  # noqa: SIM905 - twenty quoted regular expressions read worse
_ASKED = [f"Which modules use `{pattern}`?" for pattern in _PATTERNS]

QUESTIONS = (_OPENING + _ASKED[0], *_ASKED[1:], _CLOSING)
"""The user's messages. Each question carries its search pattern in backticks; the last message carries none."""

PARTS_PER_QUESTION = 4
MAX_PARTS = 8
"""Most parts of a file that the model reads; longer files are not read."""

_QUOTED = Pattern("`([^`\n]++)`")
_HIT = Pattern(r"^(\d++) matches, (\d++) parts: (\S++)$", MULTILINE)
_HEADER = Anchored(r"([^\s,]++), part (\d++) of (\d++), from line (\d++)\n")
_CLIPPED = Pattern(r"\n\[TRUNCATED original~\d{1,15} tokens\]$")
_TEST = Pattern(r"(?:^|/)(?:tests?|test_\w{1,60}|\w{1,60}_tests?)(?:/|\.py$)")
_DEFINED = Pattern(r"^ *+(?:async )?((?:def|class) \w+)", MULTILINE)
_TICKET = Pattern(r"\bticket ([A-Z]++-\d+)")
_PLACE = Pattern(r"(?<![\w/])/*+([\w/]++\.py):\d+")


@dataclass
class Notes:
    """The model's notes on the question that it is answering.

    The model keeps no other memory: it parses the notes from its last tool call, and continues from them.
    """

    pattern: str
    ranking: list[str] = field(default_factory=list[str])
    """The modules with the most matches, each as `path (matches)`."""
    places: list[str] = field(default_factory=list[str])
    """The first match in each module read, as `path:line`, with the function or class around the match."""
    read: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    """The parts of files still to be read, each as `path part`."""

    @classmethod
    def of(cls, text: str) -> "Notes":
        """Parse notes from the text of a message."""
        lines = dict(line.split(": ", 1) for line in text.splitlines())
        lists = [lines[key].split("; ") if key in lines else [] for key in ("Most", "First", "Read", "Left")]
        return cls(lines["Looking for"], *lists)

    def __str__(self) -> str:
        left = f"Left: {'; '.join(self.left)}" if self.left else ""
        return "\n".join(line for line in (f"Looking for: {self.pattern}", self.answer, left) if line)

    @property
    def answer(self) -> str:
        """Return the answer to the question, as far as the notes hold it."""
        named = {"Most": self.ranking, "First": self.places, "Read": self.read}
        return "\n".join(f"{key}: {'; '.join(items)}" for key, items in named.items() if items)

    def call(self, name: str, args: dict[str, Any], call_id: str) -> AIMessage:
        """Return a message that calls a tool and carries these notes."""
        return AIMessage(str(self), tool_calls=[{"name": name, "args": args, "id": call_id}])


def decide(messages: Sequence[BaseMessage], call_id: str) -> AIMessage:
    """Return the answer to a request: a tool call, or text."""
    last = messages[-1]
    if not isinstance(last, ToolMessage):
        question = next(m for m in reversed(messages) if is_real_user(m)).text
        pattern = _QUOTED.search(question)
        if pattern is None:
            return AIMessage(_report(messages))
        return Notes(pattern[1]).call("search", {"pattern": pattern[1]}, call_id)
    asked = next(m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls)
    call, notes = asked.tool_calls[0], Notes.of(asked.text)
    if _CLIPPED.search(last.text):  # a compaction shortened the result before the model saw it: call the tool again
        return notes.call(call["name"], call["args"], call_id)
    if call["name"] == "search":
        _plan(notes, last.text, messages)
    else:
        _note_match(notes, last.text)
    if not notes.left:
        return AIMessage(notes.answer or "No module does.")
    path, part = notes.left.pop(0).split()
    return notes.call("read_file", {"path": path, "part": int(part)}, call_id)


def _plan(notes: Notes, listing: str, messages: Sequence[BaseMessage]) -> None:
    """Note the modules with the most matches of a search, and choose the parts of files to read next.

    Modules of tests are left out if a user message in the request still holds the user's rule that says so.
    """
    by_user = "\n".join(message.text for message in messages if isinstance(message, HumanMessage))
    no_tests = RULE.removesuffix(".").lower() in by_user.lower()
    hits = [(path, count, int(parts)) for count, parts, path in _HIT.findall(listing)]
    hits = [hit for hit in hits if not (no_tests and _TEST.search(hit[0]))]
    notes.ranking = [f"{path} ({count})" for path, count, _ in hits[:3]]
    lines = [line for answer in _answers(messages) for line in answer.splitlines() if line.startswith("Read: ")]
    known = {path for line in lines for path in line.removeprefix("Read: ").split("; ")}
    readable = [(path, parts) for path, _, parts in hits if parts <= MAX_PARTS and path not in known]
    plan = [f"{path} {part}" for path, parts in readable for part in range(1, parts + 1)]
    notes.left = plan[:PARTS_PER_QUESTION]


def _note_match(notes: Notes, text: str) -> None:
    """Note the first match in the part that the tool read; note nothing if the tool failed."""
    header = _HEADER.match(text)
    if header is None:
        return
    path, body = header[1], text[header.end() :]
    if path not in notes.read:
        notes.read.append(path)
    match = Pattern(notes.pattern).search(body)
    if match is None or any(place.startswith(f"{path}:") for place in notes.places):
        return
    line = int(header[4]) + body.count("\n", 0, match.start())
    around = _DEFINED.findall(body[: match.start()])
    notes.places.append(f"{path}:{line} {around[-1] if around else 'at its head'}")


def _report(messages: Sequence[BaseMessage]) -> str:
    ticket = next((found[1] for m in messages if (found := _TICKET.search(m.text))), "A ticket that I forgot")
    modules = sorted(set(_PLACE.findall("\n".join(_answers(messages)))))
    return f"{ticket} is done. Modules found: {', '.join(modules)}."


def _answers(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the texts of the model's earlier answers in the request."""
    return [message.text for message in messages if isinstance(message, AIMessage) and not message.tool_calls]
