"""The demonstration: an agent reads the standard library in a small window, one summary fails, nothing is lost."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, messages_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.prebuilt import ToolNode

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import COMMITTED, LedgerRow
from langgraph_compaction.nodes import CompactionSettings, Reply, Summarizer, SummaryRequest
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, texts_of, total
from langgraph_compaction.nodes.testing import ScriptedModel, usage

from ...builder import create_compacting_agent
from ...thread import CompactionThread
from ...thread_state import records_of
from ...window_usage import window_usage
from ..replay.recorded_run import schema_tokens, schemas_of
from ..replay.replay_report import compaction_figures
from .library_tools import library_tools
from .scripted_reader import LANGUAGE, QUESTIONS, RULE, TICKET, decide

WINDOW = 32_000
PROMPT = "You look things up in Python's standard library, with tools that list, search and read its source."
FAIL_AFTER = 2
"""Number of committed compactions before the attempt that is made to fail."""

LEAST_CALLS = 60
LEAST_TOKENS = 300_000


@dataclass
class FaultySummarizer:
    """A summarizer that returns empty replies, as if cut off before the first word, while `failing` is set."""

    inner: Summarizer
    failing: bool = False

    @property
    def name(self) -> str:
        """The summarizer's name in the ledger and in the events."""
        return f"faulty-{self.inner.name}"

    @property
    def deterministic(self) -> bool:
        """Whether the inner summarizer works without a model."""
        return bool(getattr(self.inner, "deterministic", False))

    def summarize(self, request: SummaryRequest) -> Reply:
        """Return the inner summarizer's reply, or the empty reply while `failing` is set."""
        return Reply(content="", finish_reason="length") if self.failing else self.inner.summarize(request)

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Do the same as `summarize`, asynchronously."""
        return self.summarize(request) if self.failing else await self.inner.asummarize(request)


@dataclass
class Investigation:
    """Runs the demonstration's turns on a conversation thread of its own, and holds the figures so far."""

    saver: SQLAlchemySaver
    counter: TokenCounter
    summarizer: Summarizer
    thread: str
    turn: int = 0
    tool_tokens: int = 0
    """Tokens that the tools have returned."""
    requests: list[int] = field(default_factory=list[int])
    """Tokens of each request, including the system prompt and the tool schemas."""
    said: list[BaseMessage] = field(default_factory=list[BaseMessage])
    """Every message of the user, the model and the tools, in its original form."""

    def __post_init__(self) -> None:
        tools = ToolNode(library_tools())
        self.overhead = schema_tokens(schemas_of(tools), self.counter)
        self.model = ScriptedModel(replies=[self._reply])
        self.faulty = FaultySummarizer(self.summarizer)
        self.config: RunnableConfig = {"configurable": {"thread_id": self.thread}}
        self.graph = create_compacting_agent(
            self.model,
            tools,
            system_prompt=PROMPT,
            settings=CompactionSettings(context_window=WINDOW, summary_ahead=False),  # the same at every run
            summarizer=self.faulty,
            checkpointer=self.saver,
            token_counter=self.counter,
        )
        self.sizes = window_usage(self.graph, self.config)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(self.overhead + total(self.counter, messages))
        answer = decide(messages, f"call-{len(self.requests)}")
        return usage(answer, self.requests[-1], self.counter.message(answer))

    def work(self) -> Iterator[dict[str, Any] | None]:
        """Ask all questions; yield each `CompactionEvent`, and `None` whenever the figures may have changed."""
        for self.turn, question in enumerate(QUESTIONS, start=1):
            self.said.append(HumanMessage(question))
            inputs = {"messages": self.said[-1:]}
            for mode, chunk in self.graph.stream(inputs, self.config, stream_mode=["custom", "updates"]):
                happened = cast("dict[str, Any]", chunk)
                if mode == "updates":
                    self._hear(happened)
                    yield None
                elif happened["event"] == "PreCompactEvent":
                    self.faulty.failing = self._is_to_fail(happened["current_tokens"])
                elif happened["event"] == "CompactionEvent":
                    self.faulty.failing = False
                    yield happened

    def _hear(self, update: dict[str, Any]) -> None:
        heard = [m for node in ("model", "tools") for m in (update.get(node) or {}).get("messages", [])]
        self.said += heard
        self.tool_tokens += sum(self.counter.text(m.text) for m in heard if isinstance(m, ToolMessage))

    def _is_to_fail(self, tokens: int) -> bool:
        """Whether the compaction that begins now, at a size of `tokens`, is to fail.

        Only one fails: the first that begins within the limit after `FAIL_AFTER` compactions were committed. Within
        the limit, the model can go on without a compaction.
        """
        committed = [row.is_committed for row in self.ledger() if row.ended_at]
        return all(committed) and len(committed) >= FAIL_AFTER and tokens <= self.sizes.limit

    def ledger(self) -> list[LedgerRow]:
        """Return the ledger rows of the thread's compactions."""
        return records_of(self.graph).history(self.thread)

    def messages(self) -> list[BaseMessage]:
        """Return the conversation as the model sees it."""
        return list(self.graph.get_state(self.config).values["messages"])

    def transcript(self) -> list[BaseMessage]:
        """Return the whole conversation, joined from the archive and the state."""
        return list(CompactionThread(self.graph, self.config).transcript())

    def figures(self) -> dict[str, Any]:
        """Return the figures of the finished work, and undo the last compaction. Tokens are o200k tokens.

        `lost_messages` counts the messages that the transcript lacks. `in_order` says whether the transcript is
        exactly the messages said, in their order. `unshared_bytes` is the size that the messages would have if every
        checkpoint and snapshot held its own copies.
        """
        state, whole = self.messages(), self.transcript()
        said, found = [*map(_content, self.said)], [*map(_content, whole)]
        in_view = {(message.id, message.text) for message in state}
        checkpoints = [snapshot.values for snapshot in self.graph.get_state_history(self.config)]
        [stats] = self.saver.stats(self.thread)
        return {
            "summarizer": self.summarizer.name,
            "thread": self.thread,
            "window": WINDOW,
            "limit": self.sizes.limit,
            "trigger": self.sizes.trigger,
            "turns": len(QUESTIONS),
            "requests": len(self.requests),
            "max_request_tokens": max(self.requests),
            "over_limit_requests": sum(tokens > self.sizes.limit for tokens in self.requests),
            "tool_calls": sum(isinstance(message, ToolMessage) for message in self.said),
            "tool_tokens": self.tool_tokens,
            "messages_said": len(said),
            "messages_in_state": len(state),
            "messages_in_archive": sum((message.id, message.text) not in in_view for message in whole),
            "lost_messages": (Counter(said) - Counter(found)).total(),
            "in_order": said == found,
            "checkpoints": len(checkpoints),
            "stored_bytes": stats.total_bytes,
            "unshared_bytes": stats.unshared_message_bytes,
            "compactions": compaction_figures(self.ledger()),
            "rollback": _rollback(checkpoints),
            "undone": self._undo(),
            "facts": [{"said": fact, "where": self._where(fact)} for fact in (RULE, LANGUAGE, TICKET)],
            "answer": self.said[-1].text,
        }

    def _where(self, fact: str) -> str:
        """Say where in the last request a fact stands; return the empty text if the request lacks the fact."""
        found = [message.text for message in self.model.received[-1] if fact in message.text]
        return "" if not found else "in the summary" if "<summary>" in found[0] else "in the user's own words"

    def _undo(self) -> dict[str, int]:
        """Undo the last compaction; `missing` counts the messages removed by it that do not come back unchanged."""
        before, last = self.messages(), self.graph.get_state(self.config).values["compaction"]["head"]
        originals = records_of(self.graph).taken_by(self.thread, last)
        done = CompactionThread(self.graph, self.config).undo(last, force=True)
        after = {message.id: message for message in self.messages()}
        missing = sum(after.get(message.id) != message for message in originals)
        sizes = {"messages_before": len(before), "messages_after": len(after), "tokens_after": done.tokens}
        return {**sizes, "originals": len(originals), "missing": missing}


def problems(figures: Mapping[str, Any]) -> list[str]:
    """Compare the figures with what the demonstration promises; return a sentence for each promise that is broken."""
    calls, tokens, rollback = figures["tool_calls"], figures["tool_tokens"], figures["rollback"]
    over, lost, missing = figures["over_limit_requests"], figures["lost_messages"], figures["undone"]["missing"]
    checkpoints, requests = figures["checkpoints"], figures["requests"]
    claims = {
        f"only {calls} tool calls were made": calls >= LEAST_CALLS,
        f"the tools returned only {tokens:,} tokens": tokens >= LEAST_TOKENS,
        f"{over} requests were over the limit": not over,
        f"{lost} messages are lost": not lost,
        "the transcript is not in the order in which it was said": figures["in_order"],
        f"only {checkpoints} checkpoints were kept of {requests} requests": checkpoints >= requests,
        "no compaction failed, so that no rollback could be shown": rollback is not None,
        "the rollback changed the conversation": rollback is None or rollback["identical"],
        f"{missing} messages did not come back when a compaction was undone": not missing,
    }
    return [claim for claim, holds in claims.items() if not holds]


def _rollback(checkpoints: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Compare the conversation before a failed compaction with the conversation after its rollback.

    `checkpoints` are the states of all checkpoints, newest first. Return None if no compaction failed.
    """
    after: str | None = None
    for values in checkpoints:
        compaction: dict[str, Any] = values.get("compaction") or {}
        if compaction.get("draft"):
            continue
        if (compaction.get("last") or {}).get("verdict", "committed") not in COMMITTED:
            after = fingerprint(values["messages"])
        elif after is not None:
            before = fingerprint(values["messages"])
            return {"before": before, "after": after, "identical": before == after}
    return None


def fingerprint(messages: list[BaseMessage]) -> str:
    """Return the SHA-256 of every field of every message, in order, computed without any code of this package."""
    return hashlib.sha256(json.dumps(messages_to_dict(messages), sort_keys=True).encode()).hexdigest()


def _content(message: BaseMessage) -> tuple[str, ...]:
    return (message.type, *texts_of(message))
