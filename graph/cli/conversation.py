"""A person's side of a thread: say something, be asked, compact, see how things stand."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from langgraph_compaction.checkpoint import LedgerRow

from ..builder import Graph
from ..threads import compact_now, records_of, transcript
from ..window_usage import WindowUsage, standing
from .interruption import Stop

Happening = tuple[Literal["token"], str] | tuple[Literal["call"], str] | tuple[Literal["event"], dict[str, Any]]
"""A piece of the answer, a tool call as text, or a compaction's event."""

LAST_ROWS = 5

SHOWN = frozenset({"PreCompactEvent", "CompactionEvent", "ContextWarningEvent"})
"""Events that a person is told; the others say the same in other systems' words."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """What `/status` tells."""

    thread: str
    messages: int
    """Messages in the state."""
    said: int
    """Messages ever said: archive and state."""
    epoch: int
    """Compactions committed."""
    last: str
    """The last verdict."""
    rows: list[LedgerRow]
    """The newest of the ledger."""
    standing: WindowUsage


@dataclass
class Conversation:
    """One thread of a graph."""

    graph: Graph
    thread: str
    stop: Stop = field(default_factory=Stop)

    @property
    def config(self) -> RunnableConfig:
        """The thread, and what can stop a run on it."""
        return {"configurable": {"thread_id": self.thread}, "callbacks": [self.stop]}

    def say(self, text: str) -> Iterator[Happening]:
        """A turn with a new user message."""
        return self._run({"messages": [("user", text)]})

    def answer(self, resume: Any) -> Iterator[Happening]:
        """Go on with the turn whose question is answered."""
        return self._run(Command(resume=resume))

    def go_on(self) -> Iterator[Happening]:
        """Try the step again at which the last turn failed."""
        return self._run(None)

    def _run(self, given: Any) -> Iterator[Happening]:
        with self.stop.listening():
            for mode, chunk in self.graph.stream(given, self.config, stream_mode=["messages", "custom", "updates"]):
                if mode == "custom":
                    if (event := cast("dict[str, Any]", chunk))["event"] in SHOWN:
                        yield "event", event
                elif mode == "messages":
                    message, metadata = cast("tuple[BaseMessage, dict[str, Any]]", chunk)
                    if metadata.get("langgraph_node") == "model" and message.text:
                        yield "token", message.text
                else:
                    yield from _calls(cast("dict[str, Any]", chunk))

    @property
    def question(self) -> dict[str, Any] | None:
        """What the thread waits to be told before it goes on."""
        asked = self.graph.get_state(self.config).interrupts
        return cast("dict[str, Any]", asked[0].value) if asked else None

    @property
    def handoff(self) -> dict[str, Any] | None:
        """The input that the thread hands over to a new one."""
        values = self.graph.get_state(self.config).values
        return cast("dict[str, Any] | None", (values.get("compaction") or {}).get("handoff"))

    def move(self) -> None:
        """Go on in a new thread, whose name is the old one's with a number."""
        base = self.thread
        for number in count(2):
            self.thread = f"{base}-{number}"
            if not self.graph.get_state(self.config).values:
                return

    def take_over(self, handoff: dict[str, Any]) -> Iterator[Happening]:
        """Open the thread with what another one handed over."""
        return self._run(handoff)

    @property
    def unfinished(self) -> bool:
        """Whether the last turn failed before its end."""
        return bool(self.graph.get_state(self.config).next)

    @property
    def standing(self) -> WindowUsage:
        """How full the window is."""
        return standing(self.graph, self.config)

    def compact(self, focus: str | None) -> Iterator[Happening]:
        """Compact now; yields what came of it: verdict, reason and tokens."""
        compaction = compact_now(self.graph, self.config, focus=focus)["compaction"]
        yield "event", {"event": "compact_now", **(compaction.get("last") or {})}

    def status(self) -> Status:
        """How the thread stands."""
        values = self.graph.get_state(self.config).values
        compaction: dict[str, Any] = values.get("compaction") or {}
        return Status(
            thread=self.thread,
            messages=len(values.get("messages") or []),
            said=len(transcript(self.graph, self.config)),
            epoch=compaction.get("epoch", 0),
            last=(compaction.get("last") or {}).get("verdict", "none"),
            rows=records_of(self.graph).history(self.thread)[-LAST_ROWS:],
            standing=self.standing,
        )


def _calls(update: dict[str, Any]) -> Iterator[Happening]:
    for message in (update.get("model") or {}).get("messages", []):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                given = ", ".join(f"{name}={value!r}" for name, value in call["args"].items())
                yield "call", f"{call['name']}({given})"
