"""The chat as JSON lines, for programs."""

import sys
from dataclasses import asdict
from typing import Any

from ...control_characters import json_line
from ...window_usage import WindowUsage
from ..conversation import Status
from .printing import print_text


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
        if self._answer:
            self._write("answer", text=self._answer)
        self._answer = ""

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

    def status(self, status: Status) -> None:
        """Write the status of the thread."""
        self._write("status", **asdict(status))

    def error(self, text: str) -> None:
        """Write an error."""
        self._write("error", text=text)

    def _write(self, kind: str, **content: Any) -> None:
        if kind != "answer":
            self.end_answer()
        print_text(json_line({"type": kind, **content}))
