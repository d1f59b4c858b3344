"""Plays a random case through the real graph and returns its defects."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any
from uuid import uuid4

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite

from langgraph_compaction.checkpoint import CompactionRecords, Database, SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, MessageRefusedError, SettingsError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import CompactionError, CompactionSettings, RequestError
from langgraph_compaction.nodes.conversation.tokens import total
from tests.fakes import ScriptedModel, texts, usage
from tests.faults.cases import (
    MODEL_ERROR,
    NEEDLE,
    SUMMARIES,
    Case,
    DiskFullError,
    NodeContext,
    Reply,
    Writer,
)
from tests.faults.minimum import least, pinned_words, waits
from tests.faults.onlooker import Onlooker
from tests.graph.harness import WORDS, Clock, agent, filler, reading
from tests.invariants import check_request, unanswered
from tests.replay.watcher import COMMITTED, State

RUNGS = 5
"""Levels: the summarizer, the same with smaller chunks, a fallback, the digest, the notice."""


@tool
def read(n: int = 0, path: str = "") -> str:  # noqa: ARG001 - calls of histories give it
    """Return this many words; raise for a hundred."""
    if n == 100:
        raise ValueError("no such file")
    return filler(n)


def limit_of(settings: CompactionSettings) -> int:
    """Return the limit of a request, computed as the guide describes it."""
    window, reserve = settings.context_window or 0, settings.output_reserve
    if reserve is None:
        above = window - min((trigger.compared_with(window) for trigger in settings.token_triggers), default=0)
        reserve = max(min(16_384, window // 8, above // 2), min(4_096, window // 16))
    return window - reserve


def play(case: Case, tally: Counter[str], database: Database | None = None) -> list[str]:
    """Play a case to its end, count events, and return the defects.

    Without a database, checkpoints and records are kept in memory.
    """
    try:
        stage = Stage(case, database)
    except SettingsError as error:
        if "no room" not in str(error):
            raise
        tally["no room"] += 1
        return []
    for number, turn in enumerate(case.turns):
        tally[stage.turn(number, turn)] += 1
    stage.check_records()
    tally["committed"] += stage.onlooker.committed
    tally["rolled back"] += stage.onlooker.rolled_back
    tally.update({f"fault: {name}": count for name, count in (stage.failed + stage.unsaved).items()})
    tally.update(f"fault: summarizer: {name}" for name in stage.summaries_given if name not in ("good", "long"))
    tally.update(f"fault: model: {name}" for name in stage.answers_given if name in ("broken", "overflow"))
    tally["fault: second writer"] += stage.changed
    return [*stage.onlooker.defects, *stage.defects]


class Stage:
    """A graph with its scripted model and summarizer, and its thread."""

    def __init__(self, case: Case, database: Database | None) -> None:
        self.case, self.clock = case, Clock()
        self.thread = f"thread-{uuid4()}"
        self.config: RunnableConfig = {"configurable": {"thread_id": self.thread}}
        self.defects: list[str] = []
        self.answers_given: list[str] = []
        self.summaries_given: list[str] = []
        self.model = ScriptedModel(replies=[self._answer])
        self.summarizer, self.fallback = (
            ScriptedModel(replies=[self._summary(name) for name in names])
            for names in (case.summaries, case.fallback)
        )
        self.unsaved = Counter[str]()
        self.running = False
        self.graph = agent(
            self.model,
            reading(self.summarizer, case.reads) if case.summaries else "digest",
            fallback_summarizers=[self.fallback] if case.fallback else [],
            redact=case.redaction,
            tools=[read],
            now=self.clock,
            checkpointer=self._unreliable(SQLAlchemySaver(database) if database else InMemorySaver()),
            **case.settings.model_dump(exclude={"summarizer"}),
        )
        records = records_of(self.graph)
        self.records = CompactionRecords(records.database)
        self.failed = Counter[str]()
        for (name, late), numbers in case.broken.items():
            setattr(records, name, Failing(name, late, numbers, self.failed).around(getattr(records, name)))
        dependencies = self.graph.builder.nodes["token_check"].runnable.dependencies
        self.overhead = dependencies.overhead(WORDS)
        self.limit = limit_of(case.settings)
        self.onlooker = Onlooker(self.records, self.thread, case.pins, self.overhead, case.stored)
        self.onlooker.input_may_leave = case.settings.long_input == "summarize"
        self.scale = min(1.0, case.reports or 1.0)
        """The known ratio of the provider's token counts to ours."""
        self.replies: Iterator[Reply] = iter(())
        self.pins: set[str] = set()
        self.given: list[str] = []
        self.acknowledged: set[str] = set()
        """Ids of the inputs whose runs have returned."""
        self.longest = 0
        self.changed = 0
        self.written = False

    def _unreliable(self, saver: Any) -> Any:
        """Let the calls of a checkpointer fail, sync and async ones, while a run is under way."""
        for (name, late), numbers in self.case.unsaved.items():
            failing = Failing(name, late, numbers, self.unsaved, lambda: self.running)
            for method in (name, f"a{name}"):
                setattr(saver, method, failing.around(getattr(saver, method)))
        return saver

    def _summary(self, name: str) -> Callable[[list[BaseMessage]], Any]:
        def reply(_: list[BaseMessage]) -> Any:
            self.summaries_given.append(name)
            return SUMMARIES[name]

        return reply

    def _expect(self, holds: object, text: str) -> None:
        if not holds:
            self.defects.append(text)

    def _answer(self, received: list[BaseMessage]) -> Any:
        """Check a request as a provider would, and answer it."""
        counted = total(WORDS, received) + self.overhead
        size = math.floor(counted * self.scale)
        self._expect(size <= self.limit, f"a request of {size} tokens, at most {self.limit}")
        try:
            check_request(received)
        except AssertionError as error:
            self.defects.append(f"request: {error}")
        sent, messages = texts(received), self.shown
        for pin in self.pins:
            self._expect(pin in sent, f"the pinned words {pin} were not sent")
        if (newest := unanswered(messages)) is not None:
            self._expect(messages[newest].text in sent, "the unanswered message was not sent")
        reply = next(self.replies, None)
        self.given.append(reply.move if reply else "ok")
        self.answers_given.append(self.given[-1])
        answer = AIMessage("ok") if reply is None else reply.given(received)
        if self.case.reports is None or not isinstance(answer, AIMessage):
            return answer
        reported, said = (math.ceil(tokens * self.case.reports) for tokens in (counted, WORDS.message(answer)))
        if reported + said <= (self.case.settings.context_window or math.inf):  # nothing is learned from any other
            self.scale = self.case.reports
        return usage(answer, reported, said)

    def turn(self, number: int, turn: NodeContext) -> str:
        """Play one turn; return how it ended."""
        self.clock.time += turn.seconds
        if turn.before and (messages := self._values().get("messages")):
            self._write(turn.before, messages)
        self.replies, self.given = iter(turn.replies), []
        left_open = (self.onlooker.state.get("compaction") or {}).get("draft")
        self.steps, self.paused = 0, False
        given, before = self._input(number, turn), self.unsaved.total()
        try:
            self._run(given, turn)
        except Exception as error:  # noqa: BLE001 - which errors may end a turn is what is checked
            if self.unsaved.total() > before:
                return self._unsaved(error)
            self._look(self._values())
            ending = self._excused(error)
        else:
            self.acknowledged |= {message.id for message in given["messages"]}
            ending = self._ended(turn, left_open)
        finally:
            # the first input brings the pins: if no node has read it, the next input's request takes its place
            self.onlooker.given_pins = ()
        self._check_bounds(turn)
        return ending

    def _unsaved(self, error: Exception) -> str:
        """The checkpointer has failed: the run has ended with its error, or with one that came before it."""
        documented = (DiskFullError, CompactionError, ContextOverflowError)
        self._expect(isinstance(error, documented) or error is MODEL_ERROR, f"ended with {error!r}")
        self._go_back()
        return "checkpointer failed"

    def _go_back(self) -> None:
        """Go on from the newest checkpoint: the next input discards what nodes have written since."""
        found = self.graph.checkpointer.get_tuple(self.config)
        state: State = {"messages": [], **(found.checkpoint["channel_values"] if found else {})}
        self.onlooker.accept(state)
        self.pins = pinned_words(self.shown)
        known = (state.get("compaction") or {}).get("calibration") or {}
        self.scale = min(self.scale, known.get("scripted", min(1.0, self.scale)))

    @property
    def shown(self) -> list[AnyMessage]:
        """The messages that the model sees."""
        messages: list[AnyMessage] = self.onlooker.state["messages"]
        return messages

    def _values(self) -> State:
        state: State = self.graph.get_state(self.config).values
        return state

    def _input(self, number: int, turn: NodeContext) -> State:
        history = self.case.history if number == 0 else []
        if turn.kind == "compact":
            return {"messages": history, "compaction_request": {"focus": None, **self._taken_over(number)}}
        pin = f"<Pin>KEEP-{number}</Pin> " if turn.kind == "pin" else ""
        said = HumanMessage(f"{pin}{filler(turn.words, f'turn{number}-')} {NEEDLE}", id=f"turn-{number}")
        return {"messages": [*history, said], "compaction_request": self._taken_over(number) or None}

    def _taken_over(self, number: int) -> State:
        return {"memory": {"pins": sorted(self.case.pins)}} if number == 0 else {}

    def _run(self, given: Any, turn: NodeContext) -> None:
        while True:
            stops = [turn.pause] if turn.during and not self.paused else []
            options = {"stream_mode": "values", "interrupt_before": stops, "durability": self.case.durability}
            self.running = True
            try:
                if self.case.asynchronous:
                    asyncio.run(self._watch(self.graph.astream(given, self.config, **options)))
                else:
                    for state in self.graph.stream(given, self.config, **options):
                        self._look(state)
            finally:
                self.running = False
            waiting = self.graph.get_state(self.config)
            if not waiting.next:
                return
            if waiting.interrupts:
                over = "drop_oldest" in waiting.interrupts[0].value["answers"]
                given = Command(resume=turn.agrees or ("drop_oldest" if over else False))
                continue
            assert turn.during
            self.paused, given = True, None
            self._write(turn.during, waiting.values["messages"])

    async def _watch(self, states: AsyncIterator[State]) -> None:
        async for state in states:
            self._look(state)

    def _look(self, state: State) -> None:
        self.steps += 1
        self.longest = max(self.longest, len(state.get("messages", ())))
        if "__interrupt__" in state:
            return
        self.onlooker(state)
        found, last = pinned_words(self.shown), (state.get("compaction") or {}).get("last") or {}
        self.pins = found if last.get("verdict") == "refused" else self.pins | found

    def _write(self, writer: Writer, messages: list[AnyMessage]) -> None:
        self.written = True
        self.changed += 1
        self.graph.update_state(self.config, {"messages": Overwrite(writer.written(messages))})
        self.onlooker.accept(self._values())
        self.pins = pinned_words(self.shown)

    def _excused(self, error: Exception) -> str:
        """Return the name of an error that may end a turn here; any other error is a defect."""
        messages = self.shown
        system = total(WORDS, [m for m in messages if isinstance(m, SystemMessage)])
        excused = {
            "RuntimeError": error is MODEL_ERROR,
            "SettingsError": isinstance(error, SettingsError)
            and (system + self.overhead) * max(1.0, self.scale) >= self.limit,
            "MessageRefusedError": isinstance(error, MessageRefusedError)
            and (self.case.settings.on_refusal == "raise" or self.failed["archive"] or self.case.redact == "failing"),
            "RequestError": isinstance(error, RequestError) and waits(messages),
            "ContextExhaustedError": isinstance(error, ContextExhaustedError) and self._exhausted(messages),
        }
        name = type(error).__name__
        self._expect(excused.get(name), f"ended with {name}: {error}")
        return name

    def _exhausted(self, messages: list[AnyMessage]) -> bool:
        """Whether the protected messages do not fit, or provider or broken records make it impossible."""
        scale = (self.onlooker.state["compaction"].get("calibration") or {}).get("scripted", 1.0)
        return bool(
            self.failed
            or self.case.redact == "failing"
            or "overflow" in self.given
            or waits(messages)
            or (least(messages, self.onlooker.pins) + self.overhead) * scale > self.limit
        )

    def _ended(self, turn: NodeContext, left_open: Any) -> str:
        channel, messages = self.onlooker.state["compaction"], self.shown
        self._expect(not channel.get("draft") or left_open, "the turn ended with an open draft")
        if turn.kind == "compact" and not self.given:
            return "compacted"
        newest = next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)
        if (channel.get("last") or {}).get("verdict") == "refused" and (
            not self.given or (newest and newest.additional_kwargs.get("compaction", {}).get("refused"))
        ):
            return "refused"  # after a call too: the provider's first count may tell that it never fitted
        self._expect(self.given, "the turn ended without asking the model")
        if (channel.get("last") or {}).get("verdict") in COMMITTED:
            messages = CompactionThread(
                self.graph, self.config
            ).transcript()  # the check after the answer may have summarized it
        last = messages[-1]
        answered = isinstance(last, AIMessage) and not last.tool_calls
        self._expect(answered or self.paused or self.failed, f"the turn ended with a {last.type} message")
        return "answered"

    def _check_bounds(self, turn: NodeContext) -> None:
        self._expect(len(self.given) <= len(turn.replies) + 1, f"{len(self.given)} calls of the model")
        most = 8 * (RUNGS + 1) * (len(self.given) + 1)
        self._expect(self.steps <= most, f"{self.steps} steps, at most {most}")

    def check_records(self) -> None:
        """Check that the ledger has every call of the summarizer, and the transcript every message."""
        rows = self.records.history(self.thread)
        most = 3 * 2 * max(1, self.longest)
        for row in rows:
            self._expect((row.summary_calls or 0) <= most, f"{row.summary_calls} calls in one attempt")
        models = ("model", "fallback")
        told = sum(row.summary_calls or 0 for row in rows if row.model or any(map(row.strategy.__contains__, models)))
        requests = [*self.summarizer.received, *self.fallback.received]
        asked = len(requests)
        if self.case.redact:
            self._expect(NEEDLE not in "".join(map(texts, requests)), "a summarizer was told what is redacted")
            self._expect(NEEDLE not in repr(rows), "the ledger tells what is redacted")
        self._expect(
            self.failed or self.unsaved or self.written or told == asked,
            f"{asked} calls of the summarizer, {told} in the ledger",
        )
        opened = (self.onlooker.state.get("compaction") or {}).get("draft")
        self._expect(
            self.failed or self.unsaved or opened or all(row.verdict for row in rows), "an attempt is still open"
        )
        if not self.written and self.shown:
            whole = {message.id for message in CompactionThread(self.graph, self.config).transcript()}
            gone = self.acknowledged - whole
            self._expect(not gone, f"acknowledged, and not in the transcript: {sorted(gone)}")
            lost = self.onlooker.seen - whole
            summaries = {name for name in lost if name.startswith("summary-")}
            self._expect(self.failed or lost == summaries, f"not in the transcript: {sorted(lost - summaries)}")


@dataclass
class Failing:
    """Makes some calls of a method fail, before or after its work."""

    name: str
    late: bool
    numbers: frozenset[int]
    failed: Counter[str]
    """Counts the failed calls by method."""
    is_active: Callable[[], bool] = lambda: True
    """Whether a call counts, and may fail."""
    passed: int = 0

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method, sync or async, as one that fails."""

        def broken(*args: Any, **options: Any) -> Any:
            if not self._is_due():
                return method(*args, **options)
            if self.late:
                method(*args, **options)
            raise DiskFullError(f"{self.name}: the disk is full")

        async def abroken(*args: Any, **options: Any) -> Any:
            if not self._is_due():
                return await method(*args, **options)
            if self.late:
                await method(*args, **options)
            raise DiskFullError(f"{self.name}: the disk is full")

        return abroken if iscoroutinefunction(method) else broken

    def _is_due(self) -> bool:
        if not self.is_active():
            return False
        self.passed += 1
        due = self.passed in self.numbers
        self.failed[self.name] += due
        return due
