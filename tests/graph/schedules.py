"""Random schedules of turns, edits, forks, workers and deaths around summaries that are prepared ahead.

    python -m tests.graph.schedules 100000 [FIRST SEED]

The nodes run without a graph and without a database, and time is simulated: a preparation advances only when the
schedule says so. After every turn the invariants of `World.check` hold. The seed of a schedule that breaks one is
printed.
"""

import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction import prepared
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome, SummaryRecord
from langgraph_compaction.checkpoint.compaction.prepared import PREPARED, SWAPPED, UNDER_WAY, Preparation
from langgraph_compaction.nodes import (
    CompactionSettings,
    ContextExhaustedError,
    Reply,
    SummaryRequest,
)
from langgraph_compaction.nodes.ahead import prepare, use_prepared
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import TextCounter
from langgraph_compaction.nodes.inline.runner import NODES, run_nodes
from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from langgraph_compaction.nodes.runtime.effects import Effect, run
from langgraph_compaction.nodes.runtime.node_context import NodeContext
from langgraph_compaction.nodes.state import CompactionState
from tests.fakes import ScriptedModel

WORDS = TextCounter("words", lambda text: text.count(" ") + 1)
SETTINGS = CompactionSettings(
    context_window=600,
    output_reserve=0,
    dialogue_rounds_keep_min=1,
    dialogue_beyond_keep=0,
    summary_input_tokens=2_000,
    summary_retries=0,
    facts_beside_summary=False,
    summary_ahead_unused=1_000,
    breaker_cooldown_s=0,
    breaker_frequency_calls=0,
)
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
            self.effect = next(self.steps) if self.effect is None else self.steps.send(self.effect.call())
        except StopIteration as ended:
            self.begun = ended.value
            return True
        return False


@dataclass
class World:
    """One thread, its branches, and the processes that serve it."""

    seed: int
    records: Records = field(default_factory=Records)
    asked: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    """The messages that each call of the summarizer was shown."""
    works: list[Work] = field(default_factory=list[Work])
    said: list[AnyMessage] = field(default_factory=list[AnyMessage])
    broken: bool = False
    name: str = "scripted"

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - a schedule is no secret
        self.alive = {"one", "two"}
        self.lost: set[frozenset[str]] = set()
        """Summaries whose process died before they were stored."""
        self.begun: dict[str, int] = {}
        """The number of commits at which each process last began a preparation."""
        self.clock = 1_000.0
        self.dependencies = Dependencies(
            settings=SETTINGS,
            records=cast("CompactionRecords", self.records),
            summarizer=self,
            model=ScriptedModel(replies=["ok " * 9]),
            counter=WORDS,
            now=lambda: self.clock,
            owner=lambda: OWNER[0],
        )
        self.state: CompactionState = {"messages": [], "compaction": {}, "memory": {}, "compaction_request": None}
        self.past: list[CompactionState] = []

    def summarize(self, request: SummaryRequest) -> Reply:
        """Name the messages that the summary covers, so that a wrong one is found."""
        shown = frozenset(str(message.id) for message in request.messages)
        self.asked.append(shown)
        if self.broken:
            raise ValueError("the summarizer is out of order")
        return Reply(content=f"<summary>{request.earlier or ''} {' '.join(sorted(shown))}</summary>")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Never called here."""
        raise NotImplementedError

    def start(self, context: Any, size: int, summarize: Any) -> Any:
        """Begin a preparation as the nodes do, but leave its steps to the schedule."""
        free = OWNER[0] not in {work.owner for work in self.works} and self.begun.get(OWNER[0]) != context.epoch
        near = free and prepare._is_near(context, size) and prepare._may(context)
        if near and size + prepare._lead(context, 20.0, None) >= context.sizes.trigger:
            ahead = prepare._prepared(prepare._Ahead(context, None), summarize)
            self.works.append(Work(OWNER[0], context.epoch, ahead))
        yield from ()

    def context(self) -> NodeContext:
        """The context of a turn on the present state."""
        return NodeContext(self.state, CONFIG, Runtime(), self.dependencies)

    def turn(self) -> None:
        """Send an input and run the turn to its end, by one of the processes."""
        OWNER[0] = self.dice.choice(sorted(self.alive))
        number, long = len(self.said), self.dice.random() < 0.05
        words = self.dice.randint(5, 60) + 250 * long
        self.said.append(HumanMessage(f"say {number} " + "word " * words, id=f"in-{number}"))
        self.state["messages"] = [*self.state["messages"], self.said[-1]]
        try:
            context = run(run_nodes(self.context(), "token_check", among=NODES))
            step = context.compaction.get("step", "end")
            if step != "end":
                context = run(run_nodes(context, step))
        except ContextExhaustedError:
            self.state["messages"] = self.state["messages"][:-1]
            self.said.pop()
            return
        self.past.append(self.state)
        self.state = context.state
        self.check()

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
                if "said nothing by name" not in message.text:
                    assert covered <= set(message.text.split()), ("wrong swap", head, covered)
        archived = {one.id for line in self.records.archived.values() for one in line}
        held = {one.id for one in messages}
        assert all(one.id in archived or one.id in held for one in self.said), "lost message"
        if not self.broken:
            paid = [one for one in self.asked if one not in self.lost]
            assert len(paid) == len(set(paid)), "paid twice"


def play(seed: int, steps: int = 60) -> World:
    """Play one schedule."""
    world = World(seed)
    play_in(world, steps)
    return world


def play_in(world: World, steps: int, *, forks: int = 1) -> None:
    """Play a schedule in a world; `forks` is how often its `fork` is drawn, where a turn is drawn 30 times."""

    def joined(_: float) -> Any:
        world.clock += 1
        world.work()
        yield from ()

    with pytest.MonkeyPatch.context() as patch:
        for name in ("model", "token_check"):
            patch.setattr(sys.modules[f"langgraph_compaction.nodes.{name}"], "prepare_if_due", world.start)
        patch.setattr(use_prepared, "_slept", joined)
        patch.setattr(prepared, "may_run", lambda owner: owner in world.alive)
        for _ in range(steps):
            world.clock += 5
            acts = [world.turn, world.work, world.edit, world.fork, world.die]
            world.dice.choices(acts, [30, 40, 1, forks, 2])[0]()


Ends = Iterable[tuple[str | None, str]]
"""Verdict and reason of each preparation of a schedule."""


def main(ends_of: Callable[[int], Ends], count: int, first: int = 0) -> None:
    """Play many schedules, and print what they came to; `ends_of` plays the schedule of a seed."""
    logging.disable()
    ends = Counter[tuple[str | None, str]]()
    for seed in range(first, first + count):
        try:
            ends.update(ends_of(seed))
        except BaseException:
            sys.stdout.write(f"after {seed - first} schedules: seed {seed}\n")
            raise
    told = ", ".join(f"{number} {verdict} {reason}" for (verdict, reason), number in ends.most_common())
    sys.stdout.write(f"{count} schedules from seed {first}: {told}\n")


if __name__ == "__main__":
    main(lambda seed: play(seed).records.ends, *map(int, sys.argv[1:]))
