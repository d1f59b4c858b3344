"""One thread of a graph as the chat uses it: send a message, answer a question, compact, read the status."""

import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import FrameType
from typing import Any, Literal, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage
from langgraph_compaction.nodes.state import messages_in_view

from ..builder import Graph
from ..open_work import open_nodes
from ..thread import CompactionThread
from ..thread_state import records_of
from ..window_usage import window_usage

Happening = tuple[Literal["token"], str] | tuple[Literal["event"], dict[str, Any]]
"""What happens in a turn, with its kind: a piece of the answer, or an event."""

LAST_ROWS = 5
"""Number of rows of the ledger in a status."""

SHOWN = frozenset({"PreCompactEvent", "CompactionEvent", "ContextWarningEvent", "PreparationEvent"})
"""Names of the events that the chat shows.

The graph sends each of them a second time under the names that other systems use; the chat ignores these repetitions.
"""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The answer to `/status`."""

    thread: str
    messages: int
    """Number of messages in the state."""
    said: int
    """Number of messages in the whole conversation, in archive and state together."""
    epoch: int
    """Number of compactions committed."""
    last: str
    """Verdict of the last attempt at a compaction."""
    rows: list[LedgerRow]
    """The newest rows of the ledger."""
    standing: WindowUsage


class Stop(BaseCallbackHandler):
    """Callback that stops a streamed answer at the first token after Ctrl-C.

    Without it, LangGraph would wait until the model has written the whole answer.
    """

    raise_error = True

    def __init__(self) -> None:
        self.pressed = False

    def on_llm_new_token(self, *_: Any, **__: Any) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed.

        Python itself raises it only in the main OS thread, but LangGraph calls the model in another one.
        """
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Generator[None]:
        """Within the `with` block, make Ctrl-C set `pressed`, in addition to raising `KeyboardInterrupt`."""
        before = signal.signal(signal.SIGINT, self._press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _press(self, _number: int, _frame: FrameType | None) -> None:
        self.pressed = True
        raise KeyboardInterrupt


@dataclass
class Conversation:
    """One conversation thread of a graph."""

    graph: Graph
    thread: str
    stop: Stop = field(default_factory=Stop)

    @property
    def config(self) -> RunnableConfig:
        """The thread's config, with the callback by which Ctrl-C stops a run."""
        return {"configurable": {"thread_id": self.thread}, "callbacks": [self.stop]}

    @property
    def compactions(self) -> CompactionThread:
        """What can be done with the thread's compactions."""
        return CompactionThread(self.graph, self.config)

    def say(self, text: str) -> Iterator[Happening]:
        """Run a turn with a new user message."""
        return self._run({"messages": [("user", text)]})

    def answer(self, resume: Any) -> Iterator[Happening]:
        """Resume the turn that asked a question."""
        return self._run(Command(resume=resume))

    def go_on(self) -> Iterator[Happening]:
        """Run the last turn again from the step that failed."""
        return self._run(None)

    def _run(self, given: Any) -> Iterator[Happening]:
        with self.stop.listening():
            for mode, chunk in self.graph.stream(given, self.config, stream_mode=["messages", "custom"]):
                if mode == "custom":
                    if (event := cast("dict[str, Any]", chunk))["event"] in SHOWN:
                        yield "event", event
                else:
                    message, metadata = cast("tuple[BaseMessage, dict[str, Any]]", chunk)
                    if metadata.get("langgraph_node") == "model" and message.text:
                        yield "token", message.text

    @property
    def question(self) -> dict[str, Any] | None:
        """The question whose answer the thread is waiting for, or `None`."""
        asked = self.graph.get_state(self.config).interrupts
        return cast("dict[str, Any]", asked[0].value) if asked else None

    @property
    def handoff(self) -> dict[str, Any] | None:
        """The input with which a new thread continues this conversation, or `None`."""
        values = self.graph.get_state(self.config).values
        return cast("dict[str, Any] | None", (values.get("compaction") or {}).get("handoff"))

    def move(self) -> None:
        """Switch to a new thread, named after this one with a number."""
        base = self.thread
        for number in count(2):
            self.thread = f"{base}-{number}"
            if not self.graph.get_state(self.config).values:
                return

    def take_over(self, handoff: dict[str, Any]) -> Iterator[Happening]:
        """Run the first turn of a new thread, whose input is the `handoff` of the thread that it continues."""
        return self._run(handoff)

    @property
    def unfinished(self) -> bool:
        """Whether the last turn failed before its end."""
        return bool(open_nodes(self.graph.get_state(self.config)))

    @property
    def usage(self) -> WindowUsage:
        """How full the model's context window is."""
        return window_usage(self.graph, self.config)

    def compact(self, focus: str | None) -> Iterator[Happening]:
        """Compact the thread now, and yield the outcome: verdict, reason and tokens."""
        compaction = self.compactions.compact(focus=focus)["compaction"]
        yield "event", {"event": "compact_now", **(compaction.get("last") or {})}

    def status(self) -> Status:
        """Return the status of the thread."""
        values = self.graph.get_state(self.config).values
        compaction: dict[str, Any] = values.get("compaction") or {}
        return Status(
            thread=self.thread,
            messages=len(messages_in_view(values)),
            said=len(self.compactions.transcript()),
            epoch=compaction.get("epoch", 0),
            last=(compaction.get("last") or {}).get("verdict", "none"),
            rows=records_of(self.graph).history(self.thread)[-LAST_ROWS:],
            standing=self.usage,
        )
