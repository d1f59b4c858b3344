"""The scripted user and model of the demonstration, which look for modules in Python's standard library.

The scripted model decides only from the request that it receives, so that its work goes wrong if a compaction takes
away something that it still needs.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import MULTILINE, Pattern
from langgraph_compaction.nodes.conversation.message_marks import is_real_user

TICKET = "STD-4711"
RULE = "Never report test modules."

_OPENING = f"We look through Python's standard library for ticket {TICKET}. {RULE} First: "
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
_CLIPPED = Pattern(r"\n\[TRUNCATED original~\d{1,15} tokens\]$")
_TEST = Pattern(r"(?:^|/)(?:tests?|test_\w{1,60}|\w{1,60}_tests?)(?:/|\.py$)")
_TICKET = Pattern(r"\bticket ([A-Z]++-\d+)")
_MODULE = Pattern(r"(?<![\w/])[\w/]++\.py\b")


def decide(messages: Sequence[BaseMessage], call_id: str) -> AIMessage:
    """Return the answer to a request: a tool call whose text lists what is left to read, or an answer."""
    last = messages[-1]
    if not isinstance(last, ToolMessage):
        question = next(message for message in reversed(messages) if is_real_user(message)).text
        pattern = _QUOTED.search(question)
        if pattern is None:
            return AIMessage(_report(messages))
        return _call("Searching.", "search", {"pattern": pattern[1]}, call_id)
    asked = next(message for message in reversed(messages) if isinstance(message, AIMessage) and message.tool_calls)
    call = asked.tool_calls[0]
    if _CLIPPED.search(last.text):  # a compaction shortened the result before the model saw it: call the tool again
        return _call(asked.text, call["name"], call["args"], call_id)
    found, left = _plan(last.text, messages) if call["name"] == "search" else asked.text.split("\nLeft: ")
    if not left:
        return AIMessage(found)
    path, part = left.split("; ")[0].split()
    rest = left.partition("; ")[2]
    return _call(f"{found}\nLeft: {rest}", "read_file", {"path": path, "part": int(part)}, call_id)


def _call(text: str, name: str, args: dict[str, Any], call_id: str) -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": call_id}])


def _plan(listing: str, messages: Sequence[BaseMessage]) -> tuple[str, str]:
    """Return the module with the most matches, and the parts of files to read.

    Modules of tests are left out if a user message in the request still holds the user's rule that says so.
    """
    by_user = "\n".join(message.text for message in messages if isinstance(message, HumanMessage))
    no_tests = RULE.removesuffix(".").lower() in by_user.lower()
    hits = [hit for hit in _HIT.findall(listing) if not (no_tests and _TEST.search(hit[2]))]
    found = ", ".join(f"{path} ({count})" for count, _, path in hits[:1])
    plan = [
        f"{path} {part}" for _, parts, path in hits if int(parts) <= MAX_PARTS for part in range(1, int(parts) + 1)
    ]
    return f"Found: {found or 'none'}", "; ".join(plan[:PARTS_PER_QUESTION])


def _report(messages: Sequence[BaseMessage]) -> str:
    ticket = next((found[1] for m in messages if (found := _TICKET.search(m.text))), "A ticket that I forgot")
    answers = [m.text for m in messages if isinstance(m, AIMessage) and not m.tool_calls]
    modules = sorted({module for text in answers for module in _MODULE.findall(text)})
    return f"{ticket} is done. Modules found: {', '.join(modules)}."
