"""Plays every recorded conversation through the real graph, and checks it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.lab.recordings import Recording, read_recordings
from langgraph_compaction.graph.lab.replay.recorded_run import Options, Player
from langgraph_compaction.graph.lab.replay.replay_report import Report
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from tests.fakes import ReplyingSummarizer
from tests.recount import text_tokens
from tests.replay.watcher import Watcher
from tests.replay.wire import Wire, tokens
from tests.shared_data import shared_data

TAU_BENCH = "tau-bench-airline/gpt-4o-airline-tasks-00-24.json"
PI = "pi-session/large-session.jsonl"
OPENHANDS = "openhands/multi_swe_bench_output.jsonl"
SWE_AGENT = tuple(
    f"swe-agent/{name}.traj"
    for name in (
        "function-calling-from-source",
        "function-calling-replace",
        "function-calling-simple",
        "function-calling",
        "humanevalfix-0",
        "pydicom-1458",
        "test-repo-1c2844",
        "text-cursors",
        "text-window",
        "xml-cursors",
        "xml-window",
    )
)
SIZES = {TAU_BENCH: 100, PI: 1, OPENHANDS: 3, **dict.fromkeys(SWE_AGENT, 1)}
"""Number of conversations in each file."""

NO_ROOM = (TAU_BENCH, 87)
"""A conversation of few words: a quarter of it is less than the shortest summary and a short question need."""

NOT_MENDED = {PI: Counter(["anthropic: roles do not alternate"])}
"""Once in that session the model answered twice, with nothing said in between; the API takes both for one turn."""


@dataclass(frozen=True)
class Case:
    """One conversation and its window."""

    file: str
    number: int
    share: int
    """Percentage of the conversation that fits the window."""
    kind: Literal["", "-biased", "-failing"] = ""
    """Whether the model counts tokens differently from us, or every summary fails."""
    preset: Preset = "selective"

    @property
    def id(self) -> str:
        """A short name for the test's id."""
        file = self.file.split("/")
        name = file[1].removesuffix(".traj") if self.file in SWE_AGENT else f"{file[0]}-{self.number}"
        return f"{name}-{self.share}%{self.kind}" + (f"-{self.preset}" if self.preset != "selective" else "")


@dataclass(frozen=True)
class Play:
    """The result of a conversation that was played to its end."""

    recording: Recording
    report: Report
    wire: Wire
    watcher: Watcher
    lost: list[str]
    """Messages that only the recording or only the transcript has."""
    in_order: bool
    """Whether the transcript equals the recording, message by message."""
    sent: list[list[BaseMessage]]
    """The messages of every request."""
    graph: Any
    config: RunnableConfig

    def defects(self) -> list[str]:
        """All defects, beginning with the first of each kind."""
        report, wire = self.report, self.wire
        found = [*wire.defects, *self.watcher.defects, *self.watcher.check_ledger(report.attempts), *self.lost]
        figures = (report.invalid_requests, report.over_window_requests, report.lost_messages)
        if figures != (0, 0, 0):
            found.append(f"the report counts (invalid, over, lost) = {figures}")
        if (report.requests, report.limit) != (wire.requests, wire.limit):
            found.append(f"the report tells {report.requests} requests under {report.limit} tokens")
        if report.refused_turns != (expected := wire.unavoidable()):
            found.append(f"{report.refused_turns} inputs were refused, {expected} could not be sent")
        return found


def let_pass(found: Sequence[Counter[str]], file: str) -> bool:
    """Whether the providers' rules refuse nothing of this file but what is not mended."""
    return all(one in (Counter(), NOT_MENDED.get(file, Counter())) for one in found)


@cache
def recordings(file: str) -> list[Recording]:
    """Read a file of the shared data."""
    return read_recordings(shared_data(file))


def play(case: Case, database: Database) -> Play:
    """Play a conversation to its end."""
    recording = recordings(case.file)[case.number]
    wire = Wire(recording, limit(recording, case.share))
    options = Options(
        window=f"{case.share}%",
        settings=CompactionSettings(preset=case.preset),
        bias=1.22 if case.kind == "-biased" else 1.0,
        summarizer=ReplyingSummarizer(ConnectionError("down")) if case.kind == "-failing" else "digest",
        database=database,
        counter=tiktoken_counter(),
    )
    sent: list[list[BaseMessage]] = []
    player = Player(recording, options, on_request=wire, on_sent=lambda messages, _: sent.append(list(messages)))
    watcher = Watcher(CompactionRecords(database), player.report.thread, _counted)
    watcher.overhead = tokens((), recording.tools)
    player.observe, wire.playback = watcher, player.playback
    report = player.play()
    whole = [_content(message) for message in CompactionThread(player.graph, player.config).transcript()]
    said = [_content(message) for message in recording.messages]
    lost = (Counter(said) - Counter(whole)).elements(), (Counter(whole) - Counter(said)).elements()
    return Play(
        recording,
        report,
        wire,
        watcher,
        [*(f"lost: {text[:80]}" for text in lost[0]), *(f"never said: {text[:80]}" for text in lost[1])],
        in_order=said == whole,
        sent=sent,
        graph=player.graph,
        config=player.config,
    )


def limit(recording: Recording, share: int) -> int:
    """Return tokens of system prompt and tool schemas plus the share of the rest, rounded up."""
    system = [message for message in recording.messages if isinstance(message, SystemMessage)]
    fixed = tokens(system, recording.tools)
    rest = tokens(recording.messages) - tokens(system) + sum(map(_thought, recording.messages))
    return fixed + math.ceil(rest * share / 100)


def _thought(message: BaseMessage) -> int:
    """Return the tokens of a model's reasoning, which is stored but not sent."""
    parts: list[Any] = [] if isinstance(message.content, str) else message.content
    return sum(text_tokens(part["thinking"]) for part in parts if "thinking" in part)


def _counted(messages: Any) -> int:
    """Return the tokens of the messages of a state that have content."""
    return tokens([message for message in messages if message.type != "ai" or message.content or message.tool_calls])


def _content(message: BaseMessage) -> str:
    """Return role, content and calls of a message, and the call that it answers."""
    data = message.model_dump(include={"type", "content", "tool_calls", "tool_call_id"})
    return str([data[key] for key in ("type", "content")] + [data.get("tool_calls"), data.get("tool_call_id")])
