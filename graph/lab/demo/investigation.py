"""The demonstration: an agent reads the standard library in a small window, one summary fails, nothing is lost."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.prebuilt import ToolNode

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import COMMITTED, LedgerRow
from langgraph_compaction.nodes import CompactionSettings, Reply, SummaryRequest
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, total
from langgraph_compaction.nodes.conversation.view import as_said
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage, stored_usages
from langgraph_compaction.nodes.state import messages_in_view
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer
from langgraph_compaction.nodes.testing import ScriptedModel, usage

from ...builder import create_compacting_agent
from ...library_model import decide
from ...library_tools import library_tools
from ...thread import CompactionThread
from ...thread_state import records_of
from ...window_usage import window_usage
from ..replay.recorded_run import content_of, schema_tokens, schemas_of
from ..replay.replay_report import compaction_figures
from .questions import QUESTIONS

WINDOW = 32_000
PROMPT = "You look things up in Python's standard library, with tools that search and read its source."
FAIL_AFTER = 2
"""Number of committed compactions before the attempt that is made to fail."""

LEAST_CALLS = 60
LEAST_TOKENS = 300_000


@dataclass
class FaultySummarizer:
    """Extracts a digest, and returns an empty reply, as if cut off before the first word, while `failing` is set."""

    name: str = "digest"
    failing: bool = False
    deterministic: bool = True

    def summarize(self, request: SummaryRequest) -> Reply:
        """Return a digest of the messages, or the empty reply."""
        return Reply(content="", finish_reason="length") if self.failing else DigestSummarizer().summarize(request)

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Do the same as `summarize`."""
        return self.summarize(request)


@dataclass
class Investigation:
    """Runs the demonstration's turns on a conversation thread of its own, and holds the figures so far."""

    saver: SQLAlchemySaver
    counter: TokenCounter
    thread: str
    turn: int = 0
    requests: list[int] = field(default_factory=list[int])
    """Tokens of each request, including the system prompt and the tool schemas."""
    said: list[BaseMessage] = field(default_factory=list[BaseMessage])
    """Every message of the user, the model and the tools, in its original form."""

    def __post_init__(self) -> None:
        tools = ToolNode(library_tools())
        self.overhead = schema_tokens(schemas_of(tools), self.counter)
        self.summarizer = FaultySummarizer()
        self.config: RunnableConfig = {"configurable": {"thread_id": self.thread}}
        self.graph = create_compacting_agent(
            ScriptedModel(replies=[self._reply]),
            tools,
            system_prompt=PROMPT,
            settings=CompactionSettings(context_window=WINDOW, summary_ahead=False),  # the same at every run
            summarizer=self.summarizer,
            checkpointer=self.saver,
            token_counter=self.counter,
        )
        self.sizes = window_usage(self.graph, self.config)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(self.overhead + total(self.counter, messages))
        answer = decide(messages, f"call-{len(self.requests)}")
        return usage(answer, self.requests[-1], self.counter.message(answer))

    def work(self) -> Iterator[dict[str, Any]]:
        """Ask all questions; yield each `CompactionEvent`."""
        for self.turn, question in enumerate(QUESTIONS, start=1):
            self.said.append(HumanMessage(question))
            inputs = {"messages": self.said[-1:]}
            for mode, chunk in self.graph.stream(inputs, self.config, stream_mode=["custom", "updates"]):
                happened = cast("dict[str, Any]", chunk)
                if mode == "updates":
                    self.said += [
                        m for node in ("model", "tools") for m in (happened.get(node) or {}).get("messages", [])
                    ]
                elif happened["event"] == "PreCompactEvent":
                    self.summarizer.failing = self._is_to_fail(happened["current_tokens"])
                elif happened["event"] == "CompactionEvent":
                    self.summarizer.failing = False
                    yield happened

    def _is_to_fail(self, tokens: int) -> bool:
        """Whether the compaction that begins now, at a size of `tokens`, is to fail.

        Only one fails: the first that begins within the limit after `FAIL_AFTER` compactions were committed. Within
        the limit, the model can go on without a compaction.
        """
        committed = [row.is_committed for row in self._ledger() if row.ended_at]
        return all(committed) and len(committed) >= FAIL_AFTER and tokens <= self.sizes.limit

    def _ledger(self) -> list[LedgerRow]:
        return records_of(self.graph).history(self.thread)

    @property
    def usages(self) -> list[WindowUsage]:
        """What filled the window before and after the last compaction that took effect."""
        return next((stored_usages(row.window) for row in reversed(self._ledger()) if row.is_committed), [])

    def _in_view(self) -> list[AnyMessage]:
        return messages_in_view(self.graph.get_state(self.config).values)

    def transcript(self) -> list[BaseMessage]:
        """Return the whole conversation as it was said."""
        return list(CompactionThread(self.graph, self.config).transcript())

    def figures(self) -> dict[str, Any]:
        """Return the figures of the finished work, and undo the last compaction. Tokens are o200k tokens.

        `lost_messages` counts the messages that the transcript lacks. `rollback` says whether the model saw the same
        before and after the failed compaction; `None` if none failed.
        """
        said, found = [*map(content_of, self.said)], [*map(content_of, self.transcript())]
        checkpoints = [snapshot.values for snapshot in self.graph.get_state_history(self.config)]
        results = [message for message in self.said if isinstance(message, ToolMessage)]
        return {
            "thread": self.thread,
            "window": WINDOW,
            "limit": self.sizes.limit,
            "trigger": self.sizes.trigger,
            "turns": len(QUESTIONS),
            "requests": len(self.requests),
            "max_request_tokens": max(self.requests),
            "over_limit_requests": sum(tokens > self.sizes.limit for tokens in self.requests),
            "tool_calls": len(results),
            "tool_tokens": sum(self.counter.text(message.text) for message in results),
            "messages_said": len(said),
            "messages_in_view": len(self._in_view()),
            "lost_messages": (Counter(said) - Counter(found)).total(),
            "in_order": said == found,
            "checkpoints": len(checkpoints),
            "stored_bytes": self.saver.stats(self.thread)[0].total_bytes,
            "compactions": compaction_figures(self._ledger()),
            "rollback": _is_rolled_back(checkpoints),
            "undone": self._undo(),
            "answer": self.said[-1].text,
        }

    def _undo(self) -> dict[str, int]:
        """Undo the last compaction; `missing` counts the messages that the model does not see again unchanged."""
        before, last = self._in_view(), self.graph.get_state(self.config).values["compaction"]["head"]
        originals = [as_said(cast("AnyMessage", one)) for one in records_of(self.graph).taken_by(self.thread, last)]
        CompactionThread(self.graph, self.config).undo(last, force=True)
        after = {message.id: as_said(message) for message in self._in_view()}
        missing = sum(after.get(message.id) != message for message in originals)
        sizes = {"messages_before": len(before), "messages_after": len(after)}
        return {**sizes, "originals": len(originals), "missing": missing}


def problems(figures: Mapping[str, Any]) -> list[str]:
    """Compare the figures with what the demonstration promises; return a sentence for each promise that is broken."""
    calls, tokens, missing = figures["tool_calls"], figures["tool_tokens"], figures["undone"]["missing"]
    over, lost = figures["over_limit_requests"], figures["lost_messages"]
    claims = {
        f"only {calls} tool calls were made": calls >= LEAST_CALLS,
        f"the tools returned only {tokens:,} tokens": tokens >= LEAST_TOKENS,
        f"{over} requests were over the limit": not over,
        f"{lost} messages are lost": not lost,
        "the transcript is not in the order in which it was said": figures["in_order"],
        "no compaction failed, so that no rollback could be shown": figures["rollback"] is not None,
        "the rollback changed the conversation": figures["rollback"] is not False,
        f"{missing} messages did not come back when a compaction was undone": not missing,
    }
    return [claim for claim, holds in claims.items() if not holds]


def _is_rolled_back(checkpoints: list[dict[str, Any]]) -> bool | None:
    """Return whether the model sees the same before and after a failed compaction; `None` if none failed.

    `checkpoints` are the states of all checkpoints, newest first.
    """
    after: list[AnyMessage] | None = None
    for values in checkpoints:
        compaction: dict[str, Any] = values.get("compaction") or {}
        if compaction.get("draft"):
            continue
        if (compaction.get("last") or {}).get("verdict", "committed") not in COMMITTED:
            after = messages_in_view(values)
        elif after is not None:
            return messages_in_view(values) == after
    return None
