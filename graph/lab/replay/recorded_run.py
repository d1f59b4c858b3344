"""Runs a recorded conversation through the real graph, turn by turn, and reports its figures."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END
from langgraph.prebuilt import ToolNode

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.conversation.message_marks import answers_for_model, is_real_user
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, texts_of, tiktoken_counter, total
from langgraph_compaction.nodes.conversation.transcript import calls_of
from langgraph_compaction.nodes.runtime.refusal import SYSTEM_REFUSED
from langgraph_compaction.nodes.state import messages_in_view

from ...build_dependencies import Extensions
from ...builder import Graph, create_compacting_agent
from ...history import transcript_in
from ...thread import CompactionThread
from ...window_text import part_of, tokens_or_share
from ...window_usage import window_usage
from ..recordings import Recording
from .openai_json import to_openai
from .recorded_model import Playback, RecordedModel, RecordingEndedError
from .replay_report import Report

Observer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options with which recordings are played."""

    window: str = "25%"
    """The limit of a request: a number of tokens such as "32000", or a share of the recording's tokens such as "25%".

    The share is taken of the messages without the system prompt; system prompt and tool schemas are added to it.
    """
    settings: CompactionSettings = field(default_factory=CompactionSettings)
    own: Extensions = field(default_factory=Extensions)
    summarizer: Any = "digest"
    bias: float = 1.0
    """Factor by which the usage that the replayed model reports exceeds our counts, as of a provider's tokenizer."""
    database: Database
    counter: TokenCounter
    every_step: bool | None = None
    """Whether a checkpoint is saved at every step, from which `inspect` reads the requests; `None`: in a lasting
    database. One checkpoint a turn takes a third less time."""


def play(
    recording: Recording,
    settings: CompactionSettings | None = None,
    *,
    window: float = 0.5,
    database: str = "memory",
    summarizer: Any = "digest",
    extensions: Extensions | None = None,
) -> CompactionThread:
    """Play a recording through an agent whose model gives the recorded answers; return the agent's new thread.

    `window` is a number of tokens (an int), or a share of the recording's own tokens (a float), to which its system
    messages and tools are added. The thread is in `database`, given by its URL. Raise `SettingsError` for a window
    without room for a message, and `CompactionError` if a request does not fit.
    """
    opened = Database.open(database)
    opened.setup()
    options = Options(
        window=str(window),
        settings=settings or CompactionSettings(),
        own=extensions or Extensions(),
        summarizer=summarizer,
        database=opened,
        counter=tiktoken_counter(),
        every_step=True,
    )
    player = Player(recording, options)
    player.play()
    if player.graph.get_state(player.config).next:  # the recording ends with a message that nobody answered
        player.graph.update_state(player.config, None, as_node=END)
    return CompactionThread(player.graph, player.config)


def limit_of(window: str, *, fixed: int, rest: int) -> int:
    """Return the limit in tokens that `window` means; raise `SettingsError` if `window` is malformed."""
    is_share = isinstance(tokens_or_share(window), float)
    return part_of(window, rest) + (fixed if is_share else 0)


@dataclass
class Player:
    """Plays one recording on a new conversation thread, because the database may hold earlier replays."""

    recording: Recording
    options: Options
    on_request: Callable[[dict[str, Any]], None] | None = None
    """Receives every request as a dict: file, number, limit, and the messages and tools as OpenAI JSON."""
    on_sent: Callable[[Sequence[BaseMessage], int], None] | None = None
    """Receives the messages of every request, and the index of the recorded message that answers the request."""
    observe: Observer | None = None
    """Receives the state after every step."""

    def __post_init__(self) -> None:
        counter, messages = self.options.counter, self.recording.messages
        self.playback = Playback(self.recording)
        self.tools = self.playback.tools()
        self.schemas = schemas_of(self.tools)
        self.overhead = schema_tokens(self.schemas, counter)
        system = total(counter, [message for message in messages if isinstance(message, SystemMessage)])
        rest = total(counter, messages) - system
        name = self.recording.name
        self.report = Report(file=name, thread=f"{name}-{uuid4().hex[:8]}", recorded=len(messages))
        self.report.preset = self.options.settings.preset
        self.report.asks = self.options.settings.require_confirmation
        self.report.limit = limit_of(self.options.window, fixed=system + self.overhead, rest=rest)
        self.graph = self._graph()
        self.config: RunnableConfig = {"configurable": {"thread_id": self.report.thread}}

    def _graph(self) -> Graph:
        model = RecordedModel(
            playback=self.playback,
            counter=self.options.counter,
            bias=self.options.bias,
            receive=self._received,
        )
        window = math.floor(self.report.limit * self.options.bias)
        sizes = {"context_window": window, "output_reserve": 0, "require_confirmation": False}
        sizes["summary_ahead"] = False  # nobody pauses to type, so a replay would differ from run to run
        return create_compacting_agent(
            model,
            self.tools,
            settings=CompactionSettings.model_validate({**self.options.settings.model_dump(), **sizes}),
            summarizer=self.options.summarizer,
            checkpointer=SQLAlchemySaver(self.options.database),
            token_counter=self.options.counter,
            extensions=self.options.own,
        )

    def play(self) -> Report:
        """Play the whole recording and return the report."""
        for _ in self.steps():
            pass
        return self.report

    def steps(self) -> Iterator[int]:
        """Play turn by turn; yield after each turn the number of recorded messages played so far."""
        # the first turn gets the ratio of the model's token counts to ours; a graph learns it from reported usage
        known: dict[str, Any] = {"compaction": {"calibration": {"recorded": self.options.bias}}}
        while not self.playback.over:
            inputs, place = self.playback.inputs(), self.playback.cursor
            self.report.turns += sum(is_real_user(message) for message in inputs)
            self._leave_out_answer(self._turn({"messages": inputs, **known}))
            known = {}
            if not inputs and self.playback.cursor == place:
                # the graph refused an input, and even its notice of this exceeded the limit, so it did not call the
                # model: put the recorded answer into the state
                self.graph.update_state(self.config, {"messages": self.playback.unasked()}, as_node="model")
            yield self.playback.cursor
        self.take_stock()

    def _turn(self, given: dict[str, Any]) -> dict[str, Any]:
        """Play one turn and return the last state that the graph streamed.

        Raises `SettingsError` if the window has no room beside the recorded system message.
        """
        state: dict[str, Any] = {}
        try:
            for state in self.graph.stream(given, self.config, stream_mode="values", durability=self._durability):
                if self.observe:
                    self.observe(state)
        except RecordingEndedError:
            pass  # the recording goes on with the next user message, so the turn ends here
        last = (state.get("compaction") or {}).get("last") or {}
        if last.get("reason") == SYSTEM_REFUSED:
            raise SettingsError(
                f"no room for a conversation: window {self.report.limit}, system messages and tools "
                f"{last['tokens_before']} tokens. Give a larger window"
            )
        return state

    def _leave_out_answer(self, state: dict[str, Any]) -> None:
        """Remove the graph's own answer to an input that it refused: the recording has another answer."""
        messages: list[BaseMessage] = state.get("messages", [])
        if messages and answers_for_model(messages[-1]):
            gone = RemoveMessage(id=str(messages[-1].id))
            self.graph.update_state(self.config, {"messages": [gone]}, as_node="model")

    @property
    def _durability(self) -> Literal["sync", "exit"]:
        every = self.options.every_step
        return "sync" if (self.options.database.durable if every is None else every) else "exit"

    def _received(self, messages: list[BaseMessage]) -> int:
        report = self.report
        size = total(self.options.counter, messages) + self.overhead
        report.sizes.append(size)
        report.over_window_requests += size > report.limit
        report.invalid_requests += not is_paired(messages)
        if self.on_sent:
            self.on_sent(messages, self.playback.cursor)
        if self.on_request:
            sent = {"messages": to_openai(messages), "tools": self.schemas}
            self.on_request({"file": report.file, "request": report.requests, "limit": report.limit, **sent})
        return size

    def take_stock(self) -> None:
        """Complete the report with the state of the thread, after the end of the replay or after an error."""
        state = self.graph.get_state(self.config).values
        records = CompactionRecords(self.options.database)
        whole = transcript_in(records, self.report.thread, state)
        shown = messages_in_view(state)
        self.report.messages, self.report.rounds = len(shown), sum(map(is_real_user, shown))
        self.report.trigger = math.floor(window_usage(self.graph, self.config).trigger / self.options.bias)
        self.report.archived = len({m.id for m in whole} - {m.id for m in shown})
        lost = Counter(map(content_of, self.recording.messages)) - Counter(map(content_of, whole))
        self.report.lost_messages = lost.total()
        self.report.attempts = records.history(self.report.thread)


def schemas_of(tools: ToolNode) -> list[dict[str, Any]]:
    """Return the tools' schemas as a provider receives them."""
    return [convert_to_openai_tool(tool) for tool in tools.tools_by_name.values()]


def schema_tokens(schemas: Sequence[Mapping[str, Any]], counter: TokenCounter) -> int:
    """Return the tokens that the tools' schemas take in every request."""
    return counter.text(json.dumps(schemas, ensure_ascii=False)) if schemas else 0


def is_paired(messages: Sequence[BaseMessage]) -> bool:
    """Whether the results of each message's calls directly follow the message, and every result belongs to a call."""
    waiting: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        else:
            waiting = [call_id for call_id, _ in calls_of(message)]
    return not waiting


def content_of(message: BaseMessage) -> tuple[str, ...]:
    """Return the type, texts and calls of a message, by which messages are compared."""
    return (message.type, *texts_of(message))
