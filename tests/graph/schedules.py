"""Random schedules of turns, edits, forks, workers and deaths around summaries that are prepared ahead.

    python -m tests.graph.schedules 100000 [FIRST SEED] [MINUTES]

The nodes run without a graph and without a database, and time is simulated: a preparation advances only when the
schedule says so. Every second schedule has outages, in which the summarizer fails in one of the ways of `FAULTS`.
After every turn the invariants of `World.check` hold. Messages are long for the window, so that every third or
fourth turn compacts. In every twentieth schedule messages are short and turns are many, and the model and the
summarizer are called as in production: by LangChain, and on an OS thread with a time limit. The seed of a schedule
that breaks an invariant is printed; the counts are written into benchmarks/results/schedules.json.
"""

import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction import prepared
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome, SummaryRecord
from langgraph_compaction.checkpoint.compaction.prepared import PREPARED, SWAPPED, UNDER_WAY, Preparation
from langgraph_compaction.nodes import (
    ContextExhaustedError,
    Reply,
    SummaryRequest,
)
from langgraph_compaction.nodes.ahead import prepare, use_prepared
from langgraph_compaction.nodes.conversation.message_marks import is_summary, marks
from langgraph_compaction.nodes.conversation.tokens import TextCounter
from langgraph_compaction.nodes.inline.runner import NODES, run_nodes
from langgraph_compaction.nodes.runtime import summarize_chunks, summarizer_call
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effect, run
from langgraph_compaction.nodes.runtime.node_context import NodeContext
from langgraph_compaction.nodes.runtime.summarizer_call import SummaryTimeoutError
from langgraph_compaction.nodes.selection import breaker
from langgraph_compaction.nodes.state import CompactionState
from tests.fakes import ScriptedModel
from tests.settings import settings

WORDS = TextCounter("words", lambda text: text.count(" ") + 1)
SETTINGS = settings(
    context_window=600,
    output_reserve=0,
    dialogue_rounds_keep_min=1,
    dialogue_beyond_keep=0,
    facts_beside_summary=False,
)
ANSWER = AIMessage("ok " * 9)
"""What the model always answers."""
UNCHANGED = SETTINGS.model_copy(update={"on_summary_failure": "nothing"})
"""Settings by which a failure leaves the conversation as it is while it fits, in place of a digest."""
ACTS = {"turn": 30.0, "work": 60.0, "edit": 2.5, "fork": 2.5, "die": 5.0}
"""How often each act of a schedule is drawn."""
STEPS, LONG_STEPS = 40, 60
"""Acts of a schedule, and of one with short messages."""
REALISTIC = 20
"""One schedule in so many has short messages, and the real ways to call a model and a summarizer."""
NO_SUMMARY = "I'm sorry, but I can't help with that."
FAULTS: dict[str, Reply | Exception] = {
    "refuses": Reply(content=NO_SUMMARY),
    "says nothing": Reply(content=""),
    "is cut off": Reply(content="<summary>said", finish_reason="length"),
    "breaks": ValueError("the summarizer is out of order"),
    "cannot be reached": ConnectionError("no route to host"),
    "takes too long": SummaryTimeoutError(1.0),
}
"""What the summarizer returns or raises in an outage."""
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Records:
    """The records of a thread in memory, as far as the nodes of a compaction use them."""

    database: Any = type("Nothing", (), {})()

    def __init__(self) -> None:
        self.snapshots: dict[str, list[AnyMessage]] = {}
        self.summaries: dict[str, SummaryRecord] = {}
        self.refused: set[str] = set()
        self.archived: dict[str, list[AnyMessage]] = {}
        self.row: Preparation | None = None
        self.ends: list[tuple[str, str]] = []
        """How each preparation ended that is no longer there."""
        self.open: set[str] = set()
        self.last_begun = 0.0
        """The time at which the last compaction began."""

    def begin(self, key: AttemptKey, messages: Sequence[Any], *, now: float, **_: Any) -> None:
        """Write the snapshot."""
        self.last_begun = now
        self.snapshots[key.compaction_id] = list(messages)
        self.open.add(key.compaction_id)

    def abandon_open(self, _thread: str, _namespace: str, *, keep: AttemptKey | None, **_: Any) -> None:
        """Close what dead runs left open."""
        self.open &= {keep.compaction_id} if keep else set()

    def snapshot(self, key: AttemptKey) -> list[AnyMessage] | None:
        """Return the snapshot."""
        return self.snapshots.get(key.compaction_id)

    def record_summary(self, _key: AttemptKey, record: SummaryRecord) -> None:
        """Store a paid summary."""
        self.summaries[record.input_digest] = record

    def find_summary(self, _key: AttemptKey, *, input_digest: str) -> SummaryRecord | None:
        """Return a paid summary."""
        return None if input_digest in self.refused else self.summaries.get(input_digest)

    def commit(self, key: AttemptKey, _outcome: Outcome, *, archived: Sequence[Any], used: str | None = None) -> None:
        """Archive messages."""
        self.archived[key.compaction_id] = list(archived)
        self.open.discard(key.compaction_id)
        if used and self.row and self.row.compaction_id == used:
            self.row, _ = None, self.ends.append((PREPARED, SWAPPED))

    def close(self, key: AttemptKey, _outcome: Outcome) -> None:
        """Close an attempt."""
        self.open.discard(key.compaction_id)

    def note(self, *_: Any, **__: Any) -> None:
        """Write nothing."""

    def recall(self, *_: Any) -> None:
        """Find nothing."""

    def claim_preparation(
        self, key: AttemptKey, body: Any, *, now: float, until: float, unused: int, since: float, **_: Any
    ) -> str | None:
        """Begin a preparation unless there is one, as `prepared.claim` does."""
        assert unused
        if self.row is not None:
            held = self.row.may_end(now) if self.row.is_under_way else self.row.body["epoch"] == body["epoch"]
            if held:
                return "exists"
            self.ends.append((self.row.verdict, "unused"))
            self.row = None
        if self.last_begun > since:
            return "late"
        self.row = Preparation(
            compaction_id=key.compaction_id,
            verdict=PREPARED,
            reason=UNDER_WAY,
            duration_s=None,
            owner=OWNER[0],
            until=until,
            body=body,
        )
        return None

    def preparation(self, _thread: str, _namespace: str) -> Preparation | None:
        """Return the preparation."""
        return self.row

    def finish_preparation(self, key: AttemptKey, outcome: Outcome, body: Any) -> None:
        """Write its end, unless it was given up."""
        row = self.row
        if row is not None and row.compaction_id == key.compaction_id:
            self.row = Preparation(
                compaction_id=row.compaction_id,
                verdict=outcome.verdict,
                reason=outcome.reason,
                duration_s=1.0,
                owner=row.owner,
                until=row.until,
                body=body,
            )

    def settle_preparation(
        self, _thread: str, _namespace: str, name: str, *, verdict: str, reason: str, **_: Any
    ) -> None:
        """Remove it."""
        if self.row is not None and self.row.compaction_id == name:
            if verdict.startswith("rejected"):
                self.refused.add(self.row.body["name"])
            self.row = None
            self.ends.append((verdict, reason))


class QuickModel(ScriptedModel):
    """A model that answers without LangChain's callbacks, which take longer than the nodes."""

    def invoke(self, *_: Any, **__: Any) -> AIMessage:
        """Answer."""
        return ANSWER.model_copy()


OWNER = [""]
"""The process that acts now."""


@dataclass
class Work:
    """A preparation that is under way in a process."""

    owner: str
    epoch: int
    steps: Generator[Effect, Any, bool]
    effect: Effect | None = None
    begun: bool = False
    """Whether it has begun, or must not, so that its process begins no other before the next commit."""
    unstored: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    """The messages of its summaries that were paid for and are not stored yet."""

    def advance(self) -> bool:
        """Make the next call; return whether the work is over."""
        OWNER[0] = self.owner
        try:
            self.effect = next(self.steps) if self.effect is None else self._answered(self.effect)
        except StopIteration as ended:
            self.begun = ended.value
            return True
        return False

    def _answered(self, effect: Effect) -> Effect:
        try:
            value = effect.call()
        except Exception as error:  # noqa: BLE001 - the preparation handles it
            return self.steps.throw(error)
        return self.steps.send(value)


@dataclass
class World:
    """One thread, its branches, and the processes that serve it."""

    seed: int
    records: Records = field(default_factory=Records)
    asked: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    """The ids of the messages that each answered call of the summarizer was shown."""
    shown: list[str] = field(default_factory=list[str])
    """The text that each of these calls was shown: edits and forks give another text to the same ids."""
    works: list[Work] = field(default_factory=list[Work])
    said: list[AnyMessage] = field(default_factory=list[AnyMessage])
    fault: str = ""
    """How the summarizer fails now, a key of `FAULTS`; empty if it works."""
    count: int = 0
    """Inputs so far, those of other branches included."""
    name: str = "scripted"
    max_input_tokens: int = 3_000

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - a schedule is no secret
        self.alive = {"one", "two"}
        self.lost: set[frozenset[str]] = set()
        """Summaries that were refused, or whose process died before they were stored: these may be paid for again."""
        self.pieces: set[frozenset[str]] = set()
        """Parts of the messages of a summary; their summaries are not stored, and another may have the same part."""
        self.begun: dict[str, int] = {}
        """The number of commits at which each process last began a preparation."""
        self.clock = 1_000.0
        self.calls = 0
        """Calls of the summarizer, failed ones included."""
        self.has_outages, self.is_realistic = self.seed % 2 == 1, self.seed % REALISTIC == 0
        self.settings = UNCHANGED if self.seed % 4 == 1 else SETTINGS
        self.dependencies = Dependencies(
            settings=self.settings,
            records=cast("CompactionRecords", self.records),
            summarizer=self,
            model=(ScriptedModel if self.is_realistic else QuickModel)(replies=[str(ANSWER.content)]),
            counter=WORDS,
            now=lambda: self.clock,
            owner=lambda: OWNER[0],
        )
        self.state: CompactionState = {"messages": [], "compaction": {}, "memory": {}, "compaction_request": None}
        self.past: list[CompactionState] = []

    def summarize(self, request: SummaryRequest) -> Reply:
        """Name the messages that the summary covers, so that a wrong one is found."""
        self.calls += 1
        if self.fault:
            found = FAULTS[self.fault]
            if isinstance(found, Exception):
                raise found
            return found
        named = (word for word in request.conversation.split() if word.startswith(("in-", "lc_run--")))
        shown = frozenset(str(message.id) for message in request.messages) or frozenset(named)  # of pieces' summaries
        if not request.messages:
            self.pieces.update(takewhile(lambda one: one < shown, reversed(self.asked)))
        self.asked.append(shown)
        self.shown.append("\n".join(message.text for message in request.messages) or request.conversation)
        return Reply(content=f"<summary>{request.earlier or ''} {' '.join(sorted(shown))}</summary>")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Never called here."""
        raise NotImplementedError

    def start(self, context: Any, size: int, summarize: Any) -> Any:
        """Begin a preparation as the nodes do, but leave its steps to the schedule."""
        free = OWNER[0] not in {work.owner for work in self.works} and self.begun.get(OWNER[0]) != context.epoch
        near = free and prepare._is_near(context, size) and prepare._may(context)
        if near and prepare._is_due(context, size, 20.0, None):
            ahead = prepare._prepared(prepare._Ahead(context, None), summarize)
            self.works.append(Work(OWNER[0], context.epoch, ahead))
        yield from ()

    def context(self) -> NodeContext:
        """The context of a turn on the present state."""
        return NodeContext(self.state, CONFIG, Runtime(), self.dependencies)

    def turn(self) -> None:
        """Send an input and run the turn to its end, by one of the processes."""
        OWNER[0] = self.dice.choice(sorted(self.alive))
        number, self.count = self.count, self.count + 1
        self.said.append(HumanMessage(f"say {number} " + "word " * self.words(), id=f"in-{number}"))
        self.state = {**self.state, "messages": [*self.state["messages"], self.said[-1]]}
        before, calls, works, context = self.state, self.calls, len(self.works), self.context()
        asked, stored = len(self.asked), len(self.records.summaries)
        fits = context.size + WORDS.message(ANSWER) <= context.sizes.limit
        rests = fits and context.compaction.get("cooldown_until", 0.0) > self.clock
        try:
            context = run(run_nodes(context, "token_check", among=NODES))
            step = context.compaction.get("step", "end")
            if step != "end":
                context = run(run_nodes(context, step))
        except ContextExhaustedError:
            self.state = {**self.state, "messages": self.state["messages"][:-1]}
            self.said.pop()
            return
        self.past.append(self.state)
        self.state = context.state
        last = self.state["compaction"].get("last") or {}
        if str(last.get("verdict")).startswith("rejected") and len(self.records.summaries) == stored:
            self.lost.update(self.asked[asked:])
        self.check()
        if rests:
            assert (self.calls, len(self.works)) == (calls, works), "a call during the cool-down"
        if self.state["compaction"].get("epoch") == before["compaction"].get("epoch"):
            assert self.state["messages"][:-1] == before["messages"], "changed without a commit"
        elif last.get("verdict") == "committed":  # and no failure after it
            assert not self.state["compaction"].get("streak"), "a success does not end a streak"

    def words(self) -> int:
        """Draw the length of an input in words: up to a quarter of the window, and rarely more than half of it."""
        least, most = (5, 60) if self.is_realistic else (15, 90)
        return self.dice.randint(least, most) + 250 * (self.dice.random() < 0.05)

    def edit(self) -> None:
        """Change or remove a message that is no summary."""
        places = [n for n, one in enumerate(self.state["messages"]) if isinstance(one, AIMessage)]
        if not places:
            return
        place, messages = self.dice.choice(places), list(self.state["messages"])
        if self.dice.random() < 0.5:
            del messages[place]
        else:
            messages[place] = AIMessage("changed", id=messages[place].id)
        self.state = {**self.state, "messages": messages}

    def fork(self) -> None:
        """Go on from an earlier state: an undo, or another branch."""
        if self.past:
            self.state = self.dice.choice(self.past[-6:])
            held = {message.id for message in self.state["messages"]}
            kept = {one.id for line in self.records.archived.values() for one in line} | held
            self.said = [message for message in self.said if message.id in kept]

    def turn_fault(self) -> None:
        """Begin an outage of the summarizer, or end it."""
        self.fault = "" if self.fault else self.dice.choice(sorted(FAULTS))

    def die(self) -> None:
        """Kill one process with all it works on, and start it again under another name."""
        gone = self.dice.choice(sorted(self.alive))
        self.alive = (self.alive - {gone}) | {f"{gone}'"}
        for work in [one for one in self.works if one.owner == gone]:
            work.steps.close()
            self.works.remove(work)
            self.lost |= set(work.unstored)

    def work(self) -> None:
        """Advance a preparation."""
        if not self.works:
            return
        work, asked, stored = self.works[-1], len(self.asked), len(self.records.summaries)
        if work.advance():
            self.works.pop()
            if work.begun:
                self.begun[work.owner] = work.epoch
        work.unstored += self.asked[asked:]
        if len(self.records.summaries) > stored:
            work.unstored.clear()

    def check(self) -> None:
        """Raise `AssertionError` for a wrong swap, a lost message, a double payment or an open draft."""
        compaction, messages = self.state["compaction"], self.state["messages"]
        assert not compaction.get("draft")
        assert not self.records.open
        head = compaction.get("head")
        for message in messages:
            if is_summary(message) and message.id == f"summary-{head}" and "no longer in view" not in message.text:
                covered = {one.id for one in self.records.archived[str(head)] if not is_summary(one)}
                if not marks(message).get("record"):  # no digest
                    assert covered <= set(message.text.split()), ("wrong swap", head, covered)
        archived = {one.id for line in self.records.archived.values() for one in line}
        held = {one.id for one in messages}
        assert all(one.id in archived or one.id in held for one in self.said), "lost message"
        if compaction.get("streak", 0) >= breaker.COOLDOWN_AFTER:
            assert compaction.get("cooldown_until"), "no cool-down after failures"
        assert ("stale", "no_summary") not in self.records.ends, "a summary that was paid for is not found"
        assert not any(NO_SUMMARY in one.text for one in messages), "no summary"
        self.check_payments()

    def check_payments(self) -> None:
        """Raise `AssertionError` where two answered calls were shown the same, and the first answer was stored."""
        calls = zip(self.asked, self.shown, strict=True)
        paid = [one for one in calls if one[0] not in self.lost and one[0] not in self.pieces]
        assert len(paid) == len(set(paid)), "paid twice"


def play(seed: int) -> World:
    """Play one schedule."""
    world = World(seed)
    play_in(world)
    return world


def play_in(world: World) -> None:
    """Play a schedule in a world."""
    acts = {**ACTS, "turn_fault": 5.0 * world.has_outages}

    def joined(_: float) -> Any:
        world.clock += 1
        world.work()
        yield from ()

    with pytest.MonkeyPatch.context() as patch:
        for name in ("model", "token_check"):
            patch.setattr(sys.modules[f"langgraph_compaction.nodes.{name}"], "prepare_if_due", world.start)
        patch.setattr(use_prepared, "_slept", joined)
        patch.setattr(summarize_chunks, "CALLS", 1)
        patch.setattr(prepared, "may_run", lambda owner: owner in world.alive)
        if not world.is_realistic:
            patch.setattr(summarizer_call, "bounded", lambda call, _: call())
        for act in world.dice.choices([*acts], [*acts.values()], k=LONG_STEPS if world.is_realistic else STEPS):
            world.clock += 5
            getattr(world, act)()


Ends = Iterable[tuple[str | None, str]]
"""Verdict and reason of each preparation of a schedule."""


def main(name: str, ends_of: Callable[[int], Ends], given: Sequence[str]) -> None:
    """Play schedules while there is time, and print what they came to; `ends_of` plays the schedule of a seed."""
    logging.disable()
    count, first, minutes = map(float, [*given, *("0", "inf")[len(given) - 1 :]])
    ends, red, played = Counter[str](), list[int](), 0
    began = time.monotonic()
    for seed in range(int(first), int(first + count)):
        if time.monotonic() - began > minutes * 60:
            break
        played += 1
        try:
            ends.update(f"{verdict} {reason}".strip() for verdict, reason in ends_of(seed))
        except Exception:  # noqa: BLE001 - whatever is raised is the finding
            red.append(seed)
            sys.stdout.write(f"seed {seed}\n{traceback.format_exc()}")
    row = {"name": name, "first": int(first), "played": played, "red": red, "ends": dict(ends.most_common())}
    sys.stdout.write(f"{row}\n")
    sys.exit(bool(red))


if __name__ == "__main__":
    main("engine", lambda seed: play(seed).records.ends, sys.argv[1:])
