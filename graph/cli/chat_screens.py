"""The two screens of the chat: a terminal for people, and JSON lines for programs."""

import sys
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from typing import Any

from langgraph_compaction.nodes.runtime.finish_attempt import in_words
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage

from ..control_characters import json_line, visible
from .confirmation_answers import prompt_of
from .conversation import Status
from .output import Output, cells, make_table, print_text, words
from .size_chart import gauge, print_window


class Terminal:
    """Reads and writes a line at a time; `read` raises `EOFError` at the end of the input."""

    def __init__(self) -> None:
        self._console = Output()
        with suppress(ImportError):  # Windows has no `readline`
            import_module("readline")  # lets `input` edit lines, and read long ones
        self._open = False
        """Whether an answer was printed without a line break after it, so that the next output needs one first."""

    def read(self, prompt: str) -> str:
        """Read a line."""
        try:
            return input(visible(prompt))
        except (EOFError, KeyboardInterrupt):
            self._console.print()
            raise

    def note(self, text: str) -> None:
        """Print a note about the chat itself."""
        self.end_answer()
        self._console.print(words(text, "dim"))

    def token(self, text: str) -> None:
        """Print a piece of the answer."""
        self._open = True
        self._console.print(words(text), end="", soft_wrap=True)

    def end_answer(self) -> None:
        """Print a line break if the last output was a piece of an answer."""
        if self._open:
            self._console.print()
        self._open = False

    def event(self, event: dict[str, Any]) -> None:
        """Print an event in one line."""
        self.note(f"⟳ {describe(event)}")

    def ask(self, question: dict[str, Any]) -> str:
        """Print a question of the graph, and read the person's answer."""
        sizes = "It holds {current_tokens:,} of {max_tokens:,} tokens; at most {limit:,} can be sent."
        self.note(f"{question['question']} {sizes.format_map(question)}")
        if about := question.get("tokens_after_about"):
            self.note(f"About {about:,} would be left.")
        return self.read(prompt_of(question))

    def gauge(self, usage: WindowUsage) -> None:
        """Print how full the model's context window is."""
        self.end_answer()
        self._console.print(gauge(usage, max(10, min(40, self._console.width - 60))))

    def context(self, usage: WindowUsage) -> None:
        """Print what fills the model's context window."""
        self.gauge(usage)
        print_window(self._console, [usage])

    def status(self, status: Status) -> None:
        """Print the status of the thread."""
        self.gauge(status.standing)
        self.note(
            f"thread {status.thread}: {status.messages} messages in the state, {status.said} ever said; "
            f"{status.epoch} compactions committed, last verdict: {status.last}"
        )
        if status.rows:
            table = make_table(left=["trigger", "strategy", "verdict", "reason"], right=["before", "after"])
            for row in status.rows:
                sizes = (row.tokens_before, row.tokens_after)
                table.add_row(*cells(row.trigger, row.strategy, row.verdict, row.reason, *sizes))
            self._console.print(table)

    def error(self, text: str) -> None:
        """Print an error."""
        self.end_answer()
        self._console.print(words(text, "red"), soft_wrap=not self._console.is_terminal)


class JsonLines:
    """Writes one JSON object per line, with its kind under `type`; has the same methods as `Terminal`."""

    def __init__(self) -> None:
        self._answer = ""

    def read(self, prompt: str) -> str:  # noqa: ARG002 - a machine needs no prompt
        """Read the next line of the input."""
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def note(self, text: str) -> None:
        """Write a note about the chat itself."""
        self._write("note", text=text)

    def token(self, text: str) -> None:
        """Collect a piece of the answer."""
        self._answer += text

    def end_answer(self) -> None:
        """Write the collected answer, if there is one."""
        if answer := self._answer:
            self._answer = ""
            self._write("answer", text=answer)

    def event(self, event: dict[str, Any]) -> None:
        """Write an event unchanged."""
        self._write("event", **event)

    def ask(self, question: dict[str, Any]) -> str:
        """Write a question of the graph, and read the answer from the next line of the input."""
        self._write("question", **question)
        return self.read("")

    def gauge(self, usage: WindowUsage) -> None:
        """Write how full the model's context window is."""
        self._write("gauge", **asdict(usage))

    context = gauge

    def status(self, status: Status) -> None:
        """Write the status of the thread."""
        self._write("status", **asdict(status))

    def error(self, text: str) -> None:
        """Write an error."""
        self._write("error", text=text)

    def _write(self, kind: str, **content: Any) -> None:
        self.end_answer()
        print_text(json_line({"type": kind, **content}))


Screen = Terminal | JsonLines


def describe(event: dict[str, Any]) -> str:
    """Describe an event, or the figures of an attempt, in a sentence."""
    reason = f" ({event['reason']})" if event.get("reason") else ""
    match event.get("event"):
        case "PreCompactEvent":
            return (
                f"{event['trigger']}: {event['current_tokens']:,} tokens, and the trigger is {event['threshold']:,}"
            )
        case "ContextWarningEvent":
            return str(event["message"])
        case "PreparationEvent":
            return f"summary prepared in the background: {event['state']}{reason}"
        case _:
            return in_words(
                event.get("verdict", ""),
                before=event.get("tokens_before", 0),
                after=event.get("tokens_after", 0),
                reason=event.get("reason", ""),
            )
