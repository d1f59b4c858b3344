"""A chat model that needs no key: a script that looks things up in Python's standard library with tools.

The script decides only from the request that it receives, so that its work goes wrong if a compaction takes away
something that it still needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import MULTILINE, Pattern
from langgraph_compaction.nodes.config.prompts import is_tagged
from langgraph_compaction.nodes.conversation.message_marks import is_real_user, is_summary
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.testing import StreamingModel, usage
from langgraph_compaction.nodes.text.quoting import between_tags, one_line

RULE = "Never report test modules."
"""A rule of the user that the script obeys while the request shows it."""

WRITE_NOTHING = "Write nothing."
"""A prompt for summaries that the script obeys with an empty reply, so that the compaction fails."""

HINT = "Ask me, for example: Which modules use `heapq\\.`?"
MOST_REPEATED = 400
"""Largest number of characters of the user's message that are repeated."""

FOUND = "Found for "
"""Beginning of an answer about a pattern."""

PARTS_PER_QUESTION = 4
MOST_TRIES = 2
"""Most repetitions of a call whose result was shortened."""

_LINE_CHARS = 160
"""Most characters of a line of a summary."""

_LEFT = "\nStill to read: "
_QUOTED = Pattern("`([^`\n]++)`")
_HIT = Pattern(r"^(\d++) matches, (\d++) parts: (\S++)$", MULTILINE)
_CLIPPED = Pattern(r"\n\[TRUNCATED original~\d{1,15} tokens\]$")
_TEST = Pattern(r"(?:^|/)(?:tests?|test_\w{1,60}|\w{1,60}_tests?)(?:/|\.py$)")
_TICKET = Pattern(r"\bticket ([A-Z]++-\d+)")
_MODULE = Pattern(r"(?<![\w/])[\w/]++\.py\b")
_ROOM = Pattern(r"at most (\d++) tokens(?: and (\d++) characters)?")
_LISTED = Pattern(r"^- (.++)$", MULTILINE)


class LibraryModel(StreamingModel):
    """Looks up what stands in backticks if it has tools, writes summaries, and repeats any other message.

    It streams, and reports the usage that a provider would report.
    """

    name_: str = "library"

    @property
    def writes_summaries(self) -> bool:
        """Whether the model summarizes its conversations; without tools the digest does."""
        return bool(self.bound_tools)

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        if is_summary_request(messages):
            answer = AIMessage(summary(messages))
        elif is_lookup(messages) and self.bound_tools:
            answer = decide(messages, f"call-{uuid4().hex[:12]}")
        else:
            answer = AIMessage(repeated(messages, HINT if self.bound_tools else ""))
        counter = tiktoken_counter()
        return usage(answer, total(counter, messages), counter.message(answer))


def repeated(messages: Sequence[BaseMessage], hint: str = "") -> str:
    """Return an answer that tells what the request shows, and repeats the newest user message."""
    spoken = [message.text for message in messages if is_real_user(message)]
    newest = spoken[-1] if spoken else ""
    cut = f"{newest[:MOST_REPEATED]} …" if len(newest) > MOST_REPEATED else newest
    seen = " and a summary of what came before" if any(map(is_summary, messages)) else ""
    told = f"(a scripted model; it sees {len(spoken)} of your messages{seen}) {cut}"
    return f"{told}\n\n{hint}" if hint else told


def is_lookup(messages: Sequence[BaseMessage]) -> bool:
    """Whether the newest user message asks for a pattern in backticks, or for the report of a ticket."""
    asked = next((message.text for message in reversed(messages) if is_real_user(message)), "")
    return _QUOTED.search(asked) is not None or "close the ticket" in asked.lower()


def decide(messages: Sequence[BaseMessage], call_id: str) -> AIMessage:
    """Return the answer to a request: a tool call whose text lists what is left to read, or an answer."""
    last = messages[-1]
    if not isinstance(last, ToolMessage):
        question = next(message for message in reversed(messages) if is_real_user(message)).text
        pattern = _QUOTED.search(question)
        if pattern is None:
            return AIMessage(_report(messages))
        return _call("Searching.", "search", {"pattern": pattern[1]}, call_id)
    asking = [message for message in messages if isinstance(message, AIMessage) and message.tool_calls]
    asked, call = asking[-1], asking[-1].tool_calls[0]
    tries = sum(one.tool_calls[0]["args"] == call["args"] for one in asking)
    if _CLIPPED.search(last.text) and tries <= MOST_TRIES:  # shortened by a compaction before the model saw it
        return _call(asked.text, call["name"], call["args"], call_id)
    if call["name"] == "search":
        found, left = _plan(call["args"]["pattern"], last.text, messages)
    else:
        found, _, left = asked.text.partition(_LEFT)
    if not left:
        return AIMessage(found)
    file, _, rest = left.partition("; ")
    path, part = file.split()
    text = f"{found}{_LEFT}{rest}" if rest else found
    return _call(text, "read_file", {"path": path, "part": int(part)}, call_id)


def _call(text: str, name: str, args: dict[str, Any], call_id: str) -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": call_id}])


def _plan(pattern: str, listing: str, messages: Sequence[BaseMessage]) -> tuple[str, str]:
    """Return the module with the most matches, and the parts of files to read.

    Modules of tests are left out if a user message in the request still holds the user's rule that says so.
    """
    by_user = "\n".join(message.text for message in messages if isinstance(message, HumanMessage))
    no_tests = RULE.removesuffix(".").lower() in by_user.lower()
    hits = [hit for hit in _HIT.findall(listing) if not (no_tests and _TEST.search(hit[2]))]
    found = ", ".join(f"{path} ({count})" for count, _, path in hits[:1])
    plan = [f"{path} {part}" for _, parts, path in hits for part in range(1, int(parts) + 1)]
    return f"{FOUND}`{pattern}`: {found or 'none'}", "; ".join(plan[:PARTS_PER_QUESTION])


def _report(messages: Sequence[BaseMessage]) -> str:
    ticket = next((found[1] for m in messages if (found := _TICKET.search(m.text))), "A ticket that I forgot")
    answers = [m.text for m in messages if isinstance(m, AIMessage) and not m.tool_calls]
    modules = sorted({module for text in answers for module in _MODULE.findall(text)})
    return f"{ticket} is done. Modules found: {', '.join(modules)}."


def is_summary_request(messages: Sequence[BaseMessage]) -> bool:
    """Whether the last message asks for a summary, of the conversation in it or of the messages before it."""
    return isinstance(messages[-1], HumanMessage) and "\n</conversation>" in messages[-1].text


def summary(messages: Sequence[BaseMessage]) -> str:
    """Return the questions and answers so far, the newest that fit, below those of an earlier summary."""
    asked = "\n".join(message.text for message in messages if message.type == "system" or message is messages[-1])
    if WRITE_NOTHING in asked:
        return ""
    body = "\n".join(["Questions about Python's standard library, and what was found:", *_newest(asked, messages)])
    return f"<summary>\n{body}\n</summary>" if is_tagged(asked) else body


def _newest(asked: str, messages: Sequence[BaseMessage]) -> list[str]:
    room = _ROOM.search(asked)
    chars = min(int(room[2] or 10**6), 3 * int(room[1])) if room else 1_000
    lines, taken = list[str](), 0
    for line in reversed(list(dict.fromkeys(_lines(asked, messages)))):
        taken += len(line) + 1
        if taken > chars * 0.8:
            break
        lines.insert(0, line)
    return lines


def _lines(asked: str, messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield a line for each question and answer, oldest first."""
    earlier = between_tags(asked, "earlier_record") or [m.text for m in messages[:-1] if is_summary(m)]
    yield from (f"- {line}" for text in earlier for line in _LISTED.findall(text))
    for role, text in _said(asked, messages):
        if role == "user" or (role == "assistant" and text.startswith(FOUND)):
            yield f"- {one_line(text.partition(chr(10))[0], _LINE_CHARS)}"


def _said(asked: str, messages: Sequence[BaseMessage]) -> Iterable[tuple[str, str]]:
    """Return role and text of the messages that the request quotes, or that stand before it."""
    quoted = "".join(between_tags(asked, "conversation")[-1:])
    if blocks := [block.partition("\n") for block in quoted.split('<message role="')[1:]]:
        return [(head.partition('"')[0], body) for head, _, body in blocks]
    roles = {"human": "user", "ai": "assistant"}
    return [(roles.get(m.type, m.type), m.text) for m in messages[:-1] if not is_summary(m)]
