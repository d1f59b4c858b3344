"""Plays a random case through the real graph and returns its defects."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.types import Command, Overwrite

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, MessageRefusedError, SettingsError
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import total
from tests.fakes import ScriptedModel, texts, usage
from tests.faults.cases import MODEL_ERROR, NEEDLE, SUMMARIES, Case, NodeContext, Reply, Writer, database_error
from tests.faults.minimum import least, pinned_words, waits
from tests.faults.onlooker import Onlooker, messages_of
from tests.graph.harness import CONFIG, THREAD, WORDS, Clock, agent, filler
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


def play(case: Case, tally: Counter[str]) -> list[str]:
    """Play a case to its end, count events, and return the defects."""
    try:
        stage = Stage(case)
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
    tally["restored"] += stage.restored
    tally["put off"] += stage.put_off
    return [*stage.onlooker.defects, *stage.defects]


class Stage:
    """A graph with its scripted model and summarizer, and its thread."""

    def __init__(self, case: Case) -> None:
        self.case, self.clock = case, Clock()
        self.defects: list[str] = []
        self.model = ScriptedModel(replies=[self._answer])
        self.summarizer, self.fallback = (
            ScriptedModel(replies=[SUMMARIES[name] for name in names]) for names in (case.summaries, case.fallback)
        )
        self.graph = agent(
            self.model,
            self.summarizer if case.summaries else "digest",
            fallback_summarizers=[self.fallback] if case.fallback else [],
            redact=case.redaction,
            tools=[read],
            now=self.clock,
            **case.settings.model_dump(exclude={"token_counter", "summarizer"}),
        )
        records = records_of(self.graph)
        self.records = CompactionRecords(records.database)
        self.failed = Counter[str]()
        for (name, late), numbers in case.broken.items():
            setattr(records, name, self._broken(name, getattr(records, name), late, numbers))
        dependencies = self.graph.builder.nodes["token_check"].runnable.dependencies
        self.overhead = dependencies.overhead(WORDS)
        self.limit = limit_of(case.settings)
        self.onlooker = Onlooker(self.records, case.pins, self.overhead, case.stored)
        self.scale = min(1.0, case.reports or 1.0)
        """The known ratio of the provider's token counts to ours."""
        self.replies: Iterator[Reply] = iter(())
        self.pins: set[str] = set()
        self.given: list[str] = []
        self.longest = 0
        self.restored = self.put_off = 0
        self.written = False

    def _broken(self, name: str, method: Callable[..., Any], late: bool, numbers: frozenset[int]) -> Any:
        passed = Counter[str]()

        def broken(*args: Any, **options: Any) -> Any:
            passed[name] += 1
            if passed[name] not in numbers:
                return method(*args, **options)
            self.failed[name] += 1
            if late:
                method(*args, **options)
            raise database_error(name)

        return broken

    def _expect(self, holds: object, text: str) -> None:
        if not holds:
            self.defects.append(text)

    def _answer(self, received: list[BaseMessage]) -> Any:
        """Check a request as a provider would, and answer it."""
        counted = total(WORDS, received) + self.overhead
        size = math.floor(counted * self.scale)
        self._expect(size <= self.limit, f"a request of {size} tokens, at most {self.limit}")
        try:
            check_request(received)  # type: ignore[arg-type] # any messages
        except AssertionError as error:
            self.defects.append(f"request: {error}")
        sent, messages = texts(received), messages_of(self.onlooker.state)
        for pin in self.pins:
            self._expect(pin in sent, f"the pinned words {pin} were not sent")
        if (newest := unanswered(messages)) is not None:
            self._expect(messages[newest].text in sent, "the unanswered message was not sent")
        reply = next(self.replies, None)
        self.given.append(reply.move if reply else "ok")
        answer = AIMessage("ok") if reply is None else reply.given(received)
        if self.case.reports is None or not isinstance(answer, AIMessage):
            return answer
        self.scale = self.case.reports
        return usage(answer, *(math.ceil(tokens * self.scale) for tokens in (counted, WORDS.message(answer))))

    def turn(self, number: int, turn: NodeContext) -> str:
        """Play one turn; return how it ended."""
        self.clock.time += turn.seconds
        if turn.before and (messages := messages_of(self.onlooker.state)):
            self._write(turn.before, messages)
        self.replies, self.given = iter(turn.replies), []
        left_open = (self.onlooker.state.get("compaction") or {}).get("draft")
        self.steps, self.paused = 0, False
        try:
            self._run(self._input(number, turn), turn)
        except Exception as error:  # noqa: BLE001 - which errors may end a turn is what is checked
            self._look(self.graph.get_state(CONFIG).values)
            ending = self._excused(error)
        else:
            ending = self._ended(turn, left_open)
        self._check_bounds(turn)
        return ending

    def _input(self, number: int, turn: NodeContext) -> State:
        history = self.case.history if number == 0 else []
        if turn.kind == "compact":
            return {"messages": history, "compaction_request": {"focus": None}, **self._memory(number)}
        pin = f"<Pin>KEEP-{number}</Pin> " if turn.kind == "pin" else ""
        said = HumanMessage(f"{pin}{filler(turn.words, f'turn{number}-')} {NEEDLE}", id=f"turn-{number}")
        return {"messages": [*history, said], **self._memory(number)}

    def _memory(self, number: int) -> State:
        return {"memory": {"pins": sorted(self.case.pins)}} if number == 0 else {}

    def _run(self, given: Any, turn: NodeContext) -> None:
        while True:
            stops = [turn.pause] if turn.during and not self.paused else []
            options = {"stream_mode": "values", "interrupt_before": stops}
            if self.case.asynchronous:
                asyncio.run(self._watch(self.graph.astream(given, CONFIG, **options)))
            else:
                for state in self.graph.stream(given, CONFIG, **options):
                    self._look(state)
            waiting = self.graph.get_state(CONFIG)
            if not waiting.next:
                return
            if waiting.interrupts:
                over = "drop_oldest" in waiting.interrupts[0].value["answers"]
                given = Command(resume=turn.agrees or ("drop_oldest" if over else False))
                continue
            assert turn.during
            self.paused, given = True, None
            self._write(turn.during, messages_of(waiting.values))

    async def _watch(self, states: AsyncIterator[State]) -> None:
        async for state in states:
            self._look(state)

    def _look(self, state: State) -> None:
        self.steps += 1
        messages, last = messages_of(state), (state.get("compaction") or {}).get("last") or {}
        self.longest = max(self.longest, len(messages))
        if "__interrupt__" in state:
            return
        left = (state.get("compaction") or {}).get("draft") or {}
        self.put_off += bool(left.get("unrestored") and str(last.get("reason")).startswith("restore:"))
        if last.get("restored") and (self.onlooker.state.get("compaction") or {}).get("draft"):
            self.restored += 1
        self.onlooker(state)
        found = pinned_words(messages)
        self.pins = found if last.get("verdict") == "refused" else self.pins | found

    def _write(self, writer: Writer, messages: list[AnyMessage]) -> None:
        self.written = True
        self.graph.update_state(CONFIG, {"messages": Overwrite(writer.written(messages))})
        state = self.graph.get_state(CONFIG).values
        self.onlooker.accept(state)
        self.pins = pinned_words(messages_of(state))

    def _excused(self, error: Exception) -> str:
        """Return the name of an error that may end a turn here; any other error is a defect."""
        messages = messages_of(self.onlooker.state)
        system = total(WORDS, [m for m in messages if isinstance(m, SystemMessage)])
        excused = {
            "RuntimeError": error is MODEL_ERROR,
            "SettingsError": isinstance(error, SettingsError)
            and (system + self.overhead) * max(1.0, self.scale) >= self.limit,
            "MessageRefusedError": isinstance(error, MessageRefusedError)
            and (self.case.settings.on_refusal == "raise" or self.failed["archive"] or self.case.redact == "failing"),
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
            or (least(messages, self.case.pins) + self.overhead) * scale > self.limit
        )

    def _ended(self, turn: NodeContext, left_open: Any) -> str:
        state = self.onlooker.state
        channel, messages = state["compaction"], messages_of(state)
        draft = channel.get("draft")
        unread = self.failed["snapshot"] and (draft or {}).get("unrestored")
        self._expect(not draft or left_open or unread, "the turn ended with an open draft")
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
                self.graph, CONFIG
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
        rows = self.records.history(THREAD)
        most = (self.case.settings.summary_retries + 1) * 2 * max(1, self.longest)
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
            self.failed or self.written or told == asked, f"{asked} calls of the summarizer, {told} in the ledger"
        )
        opened = (self.onlooker.state.get("compaction") or {}).get("draft")
        self._expect(self.failed or opened or all(row.verdict for row in rows), "an attempt is still open")
        if not self.written and messages_of(self.onlooker.state):
            whole = {message.id for message in CompactionThread(self.graph, CONFIG).transcript()}
            lost = self.onlooker.seen - whole
            summaries = {name for name in lost if name.startswith("summary-")}
            self._expect(self.failed or lost == summaries, f"not in the transcript: {sorted(lost - summaries)}")
