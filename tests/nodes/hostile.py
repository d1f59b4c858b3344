"""Compacts a conversation around each hostile text, in a process of its own: `python hostile.py ROLE`.

Prints the name of each text before it is compacted, so that the parent process can tell which one never ended.
"""

import os
import sys
from collections.abc import Callable, Mapping

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes import compact_messages
from langgraph_compaction.nodes.config.policies import Preset

PRESETS: tuple[Preset, ...] = ("selective", "faithful")
LENGTH = 150_000
"""Characters at which a pattern of quadratic cost takes minutes."""


def run(begin: str, repeated: str, end: str = "", *, length: int = LENGTH) -> str:
    """A text of about so many characters, most of them one repeated unit."""
    return f"{begin}{repeated * (length // len(repeated))}{end}"


TEXTS: Mapping[str, str] = {
    "spaces between words": run("see", " ", "below."),
    "tabs between words": run("see", "\t", "below."),
    "spaces before a semicolon": run("see", " ", ";x"),
    "newlines before text": run("goal", "\n", "x"),
    "spaces and newlines": run("goal", " \n", "x"),
    "dots": run("", ".", "\n1 passed"),
    "brackets": run("", "[", "."),
    "unclosed pins": run("", "<Pin>", length=8 * LENGTH),
    "unclosed summary tags": run("", "<summary>"),
    "unclosed angle brackets": run("", "<a"),
    "backticks": run("", "`"),
    "a long fence and shorter ones": run("`" * (LENGTH // 2), "`" * (LENGTH // 2 - 1), "x", length=LENGTH // 2),
    "unclosed fences": run("", "```x "),
    "an open fence": run("```", " ", "x"),
    "quotation marks": run("", '"a'),
    "apostrophes": run("", " 'a"),
    "quoted lines": run("", ">\n"),
    "list marks": run("", "- \n"),
    "list marks on a line": run("x", " - "),
    "sentence ends": run("", "! "),
    "closing quotation marks": run("!", '"'),
    "capital words on one line": run("", "AB: "),
    "identifiers on one line": run("", "AB-12 "),
    "hyphens after a word": run("a", "-"),
    "slashes": run("", "a/"),
    "one word": run("", "a"),
    "Chinese": run("", "我不"),
    "refusals": run("", "I can't "),
    "headings": run("", "goal:\n"),
    "rules": " ".join(f"You must never do thing {number}." for number in range(LENGTH // 30)),
    "JSON with one long key": '{"' + "k" * LENGTH + '": {' + ",".join(f'"a{n}": {n}' for n in range(9_000)) + "}}",
    "nested JSON": run("", '{"a":'),
    "a forged clip marker": run("\n[TRUNCATED original~", "1", " tokens]"),
    "a long text": run("", "The order AB-1234 costs 12 EUR. ", length=2 * LENGTH),
}


def conversation(role: str, text: str) -> list[AnyMessage]:
    """A conversation in which this role says the text, early enough that it must leave."""
    call = {"name": "run", "args": {"text": text if role == "call" else "x"}, "id": "call-1"}
    said: list[AnyMessage] = [
        HumanMessage(text if role == "user" else "start AB12 please"),
        AIMessage(text if role == "assistant" else "", tool_calls=[call]),
        ToolMessage(text if role == "tool" else "done", tool_call_id="call-1"),
        AIMessage("It is done."),
    ]
    for number in range(30):
        said += [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")]
    return said


def size(messages: list[AnyMessage]) -> int:
    """A cheap counter, so that the time is that of the policies."""
    return sum(4 + len(str(message.content)) // 4 for message in messages) + 4_000 * any(
        len(str(getattr(message, "tool_calls", ""))) > LENGTH // 2 for message in messages
    )


def main(compact: Callable[..., object] = compact_messages) -> None:
    """Compact every conversation under two presets; in a default run under one of them, in turn."""
    for number, (name, text) in enumerate(TEXTS.items()):
        for preset in PRESETS if os.environ.get("COMPACTION_FULL") else [PRESETS[number % 2]]:
            print(f"{preset}: {name}", flush=True)  # noqa: T201 - read by the parent process
            compact(conversation(sys.argv[1], text), max_tokens=3_000, preset=preset, token_counter=size)
    print("all ended")  # noqa: T201 - read by the parent process


if __name__ == "__main__":
    main()
