"""The chat on a terminal, for people."""

from contextlib import suppress
from importlib import import_module
from typing import Any

from rich.table import Table

from langgraph_compaction.checkpoint.compaction.attempt import COMMITTED

from ...control_characters import visible
from ...window_usage import WindowUsage
from ..confirmation_answers import prompt_of, wording_of
from ..conversation import Status
from .printing import Output, cells, words
from .size_chart import gauge


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
        self.note(f"⟳ {described(event)}")

    def ask(self, question: dict[str, Any]) -> str:
        """Print a question of the graph, and read the person's answer."""
        wording = wording_of(question)
        self.note(f"{question['question']} {wording.sizes.format_map(question)}")
        if question.get("tokens_after_about"):
            self.note(wording.left.format_map(question))
        return self.read(prompt_of(question))

    def gauge(self, usage: WindowUsage) -> None:
        """Print how full the model's context window is."""
        self.end_answer()
        self._console.print(gauge(usage, max(10, min(40, self._console.width - 60))))

    def status(self, status: Status) -> None:
        """Print the status of the thread."""
        self.gauge(status.standing)
        self.note(
            f"thread {status.thread}: {status.messages} messages in the state, {status.said} ever said; "
            f"{status.epoch} compactions committed, last verdict: {status.last}"
        )
        if status.rows:
            table = Table("trigger", "strategy", "verdict", "reason", "before", "after", box=None, header_style="dim")
            for row in status.rows:
                sizes = (row.tokens_before, row.tokens_after)
                table.add_row(*cells(row.trigger, row.strategy, row.verdict, row.reason, *sizes))
            self._console.print(table)

    def error(self, text: str) -> None:
        """Print an error."""
        self.end_answer()
        self._console.print(words(text, "red"), soft_wrap=not self._console.is_terminal)


def described(event: dict[str, Any]) -> str:
    """Describe an event, or the figures of an attempt, in a sentence."""
    if event.get("event") == "PreCompactEvent":
        return f"{event['trigger']}: {event['current_tokens']:,} tokens, and the trigger is {event['threshold']:,}"
    if event.get("event") in ("ContextWarningEvent", "PreparationEvent"):
        return str(event["message"]) if "message" in event else prepared(event)
    before, after, verdict = event.get("tokens_before", 0), event.get("tokens_after", 0), event.get("verdict", "")
    if verdict in COMMITTED:
        instead = " by the fallback, without a model" if verdict == "degraded_deterministic" else ""
        return f"compacted: {before:,} → {after:,} tokens{instead}"
    if verdict == "noop":
        return "nothing to compact: every message is in the newest rounds, which are kept"
    if verdict == "refused":
        return f"your message was not sent: it needs {before:,} tokens, and the limit is {after:,}"
    why = event.get("reason") or verdict
    what = f"summary rejected: {REJECTED[verdict]}" if verdict in REJECTED else f"not compacted: {why}"
    return f"{what}; the messages are as they were"


REJECTED = {
    "rejected_empty": "the reply is empty",
    "rejected_truncated": "the reply was cut off",
    "rejected_not_a_summary": "the reply is no summary",
    "rejected_tool_call": "the reply is a tool call",
    "rejected_inflated": "it is too long",
    "rejected_pairing": "a provider would refuse the conversation",
    "rejected_pin_lost": "a pinned text is missing",
    "rejected_facts_lost": "a fact that must stay is missing",
    "rejected_insufficient": "the request is still too large",
}
"""What each verdict means; `history` and the JSON lines also have the exact reason."""


PREPARED = {
    "preparing": "a summary is prepared in the background",
    "waiting": "the prepared summary is not ready yet; the turn goes on without it",
    "joined": "waited {seconds:.1f} s for the summary that was being prepared",
    "swapped": "the prepared summary is used, which saved a wait of {seconds:.1f} s",
    "stale": "the prepared summary is not used ({reason})",
    "failed": "the summary could not be prepared ({reason})",
}
"""A sentence for each state of a `PreparationEvent`."""


def prepared(event: dict[str, Any]) -> str:
    """Describe what happens to a summary that is prepared ahead."""
    return PREPARED[event["state"]].format(seconds=event.get("seconds") or 0.0, reason=event.get("reason"))
