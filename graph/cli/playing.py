"""Drive a recorded conversation through the real graph, turn by turn, and take stock at the end."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.graph.builder import Graph, create_compacting_agent
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.policies.tokens import TokenCounter, texts_of, total
from langgraph_compaction.nodes.policies.transcript import Transcript, is_real_user

from .openai_json import to_openai
from .recordings import Recording
from .stand_ins import Playback, RecordedModel, RecordingEndedError, bias_of

Observer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How recordings are played."""

    window: str = "25%"
    """Tokens, or a share: system prompt and tool schemas + that share of the rest, rounded up."""
    settings: CompactionSettings = field(default_factory=CompactionSettings)
    summarizer: Any = "digest"
    usage_bias: bool = False
    """Let the model report usage, and its window hold tokens, by another counter than ours."""
    database: Database
    counter: TokenCounter


@dataclass(kw_only=True)
class Report:
    """One conversation's figures, as `--json` prints them."""

    file: str
    turns: int = 0
    requests: int = 0
    limit: int = 0
    max_request_tokens: int = 0
    invalid_requests: int = 0
    over_window_requests: int = 0
    refused_turns: int = 0
    lost_messages: int = 0
    messages: int = 0
    """Messages in the state at the end."""
    archived: int = 0
    """Messages that only the archive holds."""
    compactions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def as_json(self) -> str:
        """The figures as one line."""
        return json.dumps(asdict(self), ensure_ascii=False)


def limit_of(recording: Recording, window: str, counter: TokenCounter) -> int:
    """The limit that `--window` means for a recording; raises `SettingsError` for what is no window."""
    fixed = _fixed(recording, counter)
    rest = total(counter, [m for m in recording.messages if not isinstance(m, SystemMessage)])
    number = window.removesuffix("%")
    try:
        value = float(number) if window.endswith("%") else int(number)
    except ValueError:
        value = 0
    if not value > 0 or not math.isfinite(value):
        raise SettingsError(f"--window {window!r} is neither a number of tokens nor a share: 32000 or 25%")
    return fixed + math.ceil(rest * value / 100) if window.endswith("%") else int(value)


def _fixed(recording: Recording, counter: TokenCounter) -> int:
    system = [message for message in recording.messages if isinstance(message, SystemMessage)]
    return total(counter, system) + _overhead(recording, counter)


def _overhead(recording: Recording, counter: TokenCounter) -> int:
    schemas = [convert_to_openai_tool(tool) for tool in Playback(recording).tools().tools_by_name.values()]
    return counter.text(json.dumps(schemas, ensure_ascii=False)) if schemas else 0


@dataclass
class Player:
    """Plays one recording on a thread of its own."""

    recording: Recording
    options: Options
    on_request: Callable[[dict[str, Any]], None] | None = None
    observe: Observer | None = None

    def __post_init__(self) -> None:
        counter = self.options.counter
        self.playback = Playback(self.recording)
        self.report = Report(file=self.recording.name)
        self.report.limit = limit_of(self.recording, self.options.window, counter)
        self.bias = bias_of(self.recording, counter) if self.options.usage_bias else 1.0
        self.graph = self._graph()
        self.config: RunnableConfig = {"configurable": {"thread_id": self.recording.name}}

    def _graph(self) -> Graph:
        counter, tools = self.options.counter, self.playback.tools()
        model = RecordedModel(
            playback=self.playback,
            counter=counter,
            overhead=_overhead(self.recording, counter),
            bias=self.bias,
            on_request=self._requested,
        )
        window = math.floor(self.report.limit * max(1.0, self.bias))
        sizes = {"context_window": window, "output_reserve": 0}
        return create_compacting_agent(
            model,
            tools,
            settings=CompactionSettings.model_validate({**self.options.settings.model_dump(), **sizes}),
            summarizer=self.options.summarizer,
            checkpointer=InMemorySaver(),
            database=self.options.database,
            token_counter=counter,
        )

    def play(self) -> Report:
        """Play to the end."""
        for _ in self.steps():
            pass
        return self.report

    def steps(self) -> Iterator[int]:
        """Play turn by turn; yields how many recorded messages were played."""
        # the thread knows how the model counts, as one that has talked to it before
        known: dict[str, Any] = {"compaction": {"calibration": {"recorded": max(1.0, self.bias)}}}
        while not self.playback.over:
            inputs = self.playback.inputs()
            self.report.turns += sum(is_real_user(message) for message in inputs)
            self._turn({"messages": inputs, **known})
            known = {}
            yield self.playback.cursor
        self._take_stock()

    def _turn(self, given: dict[str, Any]) -> None:
        try:
            for mode, chunk in self.graph.stream(given, self.config, stream_mode=["custom", "values"]):
                if mode == "custom" and cast("dict[str, Any]", chunk).get("verdict") == "refused":
                    self.report.refused_turns += 1
                elif mode == "values" and self.observe:
                    self.observe(cast("dict[str, Any]", chunk))
        except RecordingEndedError:
            return  # nobody answered here when it was recorded

    def _requested(self, messages: list[BaseMessage]) -> None:
        report, view = self.report, Transcript(cast("Sequence[AnyMessage]", messages))
        size = total(self.options.counter, messages) + _overhead(self.recording, self.options.counter)
        report.requests += 1
        report.max_request_tokens = max(report.max_request_tokens, size)
        report.over_window_requests += size > report.limit
        report.invalid_requests += bool(view.orphans) or any(None in block.results for block in view.blocks)
        if self.on_request:
            sent = {"messages": to_openai(messages), "tools": list(self.recording.tools)}
            self.on_request({"file": report.file, "request": report.requests, "limit": report.limit, **sent})

    def _take_stock(self) -> None:
        state = self.graph.get_state(self.config).values
        messages: list[BaseMessage] = state.get("messages", [])
        records = CompactionRecords(self.options.database)
        head = (state.get("compaction") or {}).get("head")
        whole = records.transcript(self.recording.name, "", messages, head=head)
        self.report.messages = len(messages)
        self.report.archived = len({m.id for m in whole} - {m.id for m in messages})
        lost = Counter(map(_content, self.recording.messages)) - Counter(map(_content, whole))
        self.report.lost_messages = lost.total()
        self.report.compactions = [
            {
                "trigger": row.trigger,
                "strategy": row.strategy,
                "verdict": row.verdict,
                "reason": row.reason,
                "tokens_before": row.tokens_before,
                "tokens_after": row.tokens_after,
                "blocks_dropped": row.blocks_dropped or 0,
                "floor": row.floor,
            }
            for row in records.history(self.recording.name)
        ]


def _content(message: BaseMessage) -> tuple[str, ...]:
    """What makes two messages the same for a reader: who speaks, and every text and call."""
    return (message.type, *texts_of(message))
