"""The demonstration's work: a scripted agent asks the standard library, and every figure is taken as it goes."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage, messages_to_dict
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.nodes import CompactionSettings, Summarizer
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, texts_of
from langgraph_compaction.nodes.summary.fallback_chain import COMMITTED

from ...builder import create_compacting_agent
from ...threads import records_of, transcript
from ...undo import undo
from ...window_usage import WindowUsage, standing
from .demo_questions import QUESTIONS
from .library_tools import library_tools
from .scripted_model import FaultySummarizer, LibraryReader

WINDOW = 32_000
PROMPT = "You look things up in Python's standard library, with tools that list, search and read its source."
FAIL_AFTER = 2
"""Commits before the attempt that is made to fail."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One compaction, as its row is shown."""

    turn: int
    trigger: str
    strategy: str
    verdict: str
    reason: str
    tokens_before: int
    tokens_after: int
    blocks_dropped: int


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """SHA-256 of the conversation in the checkpoints before the failed attempt and after its rollback."""

    before: str
    after: str

    @property
    def identical(self) -> bool:
        """Whether the rollback left what it found."""
        return self.before == self.after


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What undoing the last compaction brought back."""

    messages_before: int
    """In view before it was undone."""
    messages_after: int
    tokens_after: int
    originals: int
    """Messages that the compaction had taken out of view, or shortened."""
    missing: int
    """Those of them that are not back as they were said."""


@dataclass
class Investigation:
    """Runs the turns on a thread of its own; `work` yields what happens, the fields hold what happened."""

    saver: SQLAlchemySaver
    counter: TokenCounter
    summarizer: Summarizer
    thread: str
    turn: int = 0
    tool_tokens: int = 0
    """Tokens of what the tools said."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    rollback: Rollback | None = None
    said: list[BaseMessage] = field(default_factory=list[BaseMessage])
    """Every message as it was said: by the user, the model, the tools."""

    def __post_init__(self) -> None:
        self.model = LibraryReader(counter=self.counter)
        self.faulty = FaultySummarizer(self.summarizer)
        self.config: RunnableConfig = {"configurable": {"thread_id": self.thread}}
        self.graph = create_compacting_agent(
            self.model,
            library_tools(),
            system_prompt=PROMPT,
            settings=CompactionSettings(context_window=WINDOW),
            summarizer=self.faulty,
            checkpointer=self.saver,
            token_counter=self.counter,
        )
        self._trigger = ""

    def work(self) -> Iterator[Literal["question", "request", "attempt"]]:
        """Go through all questions; yields after each question asked, request answered and attempt closed."""
        for self.turn, question in enumerate(QUESTIONS, start=1):
            yield "question"
            asked = HumanMessage(question)
            self.said.append(asked)
            for mode, chunk in self.graph.stream(
                {"messages": [asked]}, self.config, stream_mode=["custom", "updates"]
            ):
                happened = cast("dict[str, Any]", chunk)
                if mode == "updates":
                    yield from self._heard(happened)
                elif happened["event"] == "PreCompactEvent":
                    self._check_fired(happened)
                else:
                    yield from self._closed(happened)
            self._look_back()

    @property
    def standing(self) -> WindowUsage:
        """The thread's sizes now."""
        return standing(self.graph, self.config)

    @property
    def tool_results(self) -> list[ToolMessage]:
        """What the tools said."""
        return [message for message in self.said if isinstance(message, ToolMessage)]

    def messages(self) -> list[BaseMessage]:
        """The conversation as the model sees it now."""
        return list(self.graph.get_state(self.config).values["messages"])

    def transcript(self) -> list[BaseMessage]:
        """The whole conversation, archive and state joined."""
        return list(transcript(self.graph, self.config))

    def undo(self) -> Restored:
        """Take the last compaction back; what it took away has to stand again, to the byte."""
        [*_, last] = self._committed()
        taken = records_of(self.graph).taken_by(self.thread, last)
        before = self.messages()
        done = undo(self.graph, self.config, last, force=True)
        after = {message.id: message for message in self.messages()}
        return Restored(
            messages_before=len(before),
            messages_after=len(after),
            tokens_after=done.tokens,
            originals=len(taken),
            missing=sum(after.get(message.id) != message for message in taken),
        )

    def _committed(self) -> list[str]:
        head = self.graph.get_state(self.config).values["compaction"].get("head")
        return records_of(self.graph).line(self.thread, head)

    def checkpoints(self) -> int:
        """How many checkpoints the thread has; each is read back whole, which fails where one is damaged."""
        return sum(1 for _ in self.saver.list(self.config))

    def lost(self) -> int:
        """How many messages were said and are not in the transcript."""
        return (Counter(map(_content, self.said)) - Counter(map(_content, self.transcript()))).total()

    def in_order(self) -> bool:
        """Whether the transcript is what was said, in its order, and nothing else."""
        return [*map(_content, self.said)] == [*map(_content, self.transcript())]

    def _heard(self, update: dict[str, Any]) -> Iterator[Literal["request"]]:
        heard = [m for node in ("model", "tools") for m in (update.get(node) or {}).get("messages", [])]
        self.said += heard
        self.tool_tokens += sum(self.counter.text(m.text) for m in heard if isinstance(m, ToolMessage))
        if "model" in update:
            yield "request"

    def _check_fired(self, event: dict[str, Any]) -> None:
        self._trigger = event["trigger"]
        committed = sum(attempt.verdict in COMMITTED for attempt in self.attempts)
        # under the limit, so that the model goes on with the conversation as it was
        gentle = event["current_tokens"] <= self.standing.limit
        self.faulty.armed = committed >= FAIL_AFTER and gentle and self.rollback is None

    def _closed(self, event: dict[str, Any]) -> Iterator[Literal["attempt"]]:
        if event["event"] == "CompactionEvent":
            figures = {key: event[key] for key in Attempt.__dataclass_fields__ if key in event}
            self.attempts.append(Attempt(turn=self.turn, trigger=self._trigger, **figures))
            yield "attempt"

    def _look_back(self) -> None:
        """Read the conversation around this turn's failed attempt back from the checkpoints."""
        if self.rollback or not any(attempt.verdict not in COMMITTED for attempt in self.attempts):
            return
        after: list[BaseMessage] = []
        for snapshot in self.graph.get_state_history(self.config):
            compaction: dict[str, Any] = snapshot.values.get("compaction") or {}
            if compaction.get("draft"):
                continue
            if (compaction.get("last") or {}).get("verdict", "committed") not in COMMITTED:
                after = snapshot.values["messages"]
            elif after:
                self.rollback = Rollback(before=fingerprint(snapshot.values["messages"]), after=fingerprint(after))
                return


def fingerprint(messages: list[BaseMessage]) -> str:
    """SHA-256 over every field of every message, in order; no code of this package takes part."""
    return hashlib.sha256(json.dumps(messages_to_dict(messages), sort_keys=True).encode()).hexdigest()


def _content(message: BaseMessage) -> tuple[str, ...]:
    return (message.type, *texts_of(message))
