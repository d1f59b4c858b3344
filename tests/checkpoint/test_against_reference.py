"""Random operations, after which every read answers like the reference; a full run draws more of them."""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.runtime import RunControl, Runtime

from langgraph_compaction.checkpoint import Database, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.db import thread_row
from tests.checkpoint import happenings as happen
from tests.checkpoint.reference import COUNTERS, Reference
from tests.full import FULL
from tests.full import examples as drawn

Saver = BaseCheckpointSaver[Any]
Place = tuple[str, str]
"""A thread and a namespace."""

MAIN, CALLED, OTHER = ("one", ""), ("one", "child:1"), ("two", "")
places = st.sampled_from((MAIN, MAIN, CALLED, OTHER))
names = st.sampled_from((MAIN[0], MAIN[0], OTHER[0]))
who = st.integers(0, 1)
few = st.integers(0, 7)
WRITES: dict[str, Any] = {
    "place": places,
    "who": who,
    "task": st.integers(0, 3),
    "new": happen.messages,
    "early": st.booleans(),
    "back": st.integers(0, 1),
}
LOOKS: dict[str, Any] = {
    "place": places,
    "back": few,
    "number": st.integers(0, 2),
    "limit": st.none() | st.integers(0, 5),
    "before": st.none() | few,
    "wanted": st.sets(st.sampled_from(("source", "step", "run_id", "user", "tags")), max_size=2),
}
examples = count()


class Moment:
    """The savers' clock: what happens elsewhere in the process while a saver is writing."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], None]] = []

    def __call__(self) -> float:
        """Let it happen, and return the time."""
        while self.meanwhile:
            self.meanwhile.pop()()
        return time.time()


@dataclass
class Run:
    """A graph that is running on a thread: the objects it holds, and where it stands."""

    config: RunnableConfig
    values: dict[str, Any] = field(default_factory=lambda: {"messages": []})
    versions: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    updates: int = 0  # of the delta channel, since its snapshot
    edited: bool = False  # since its last put
    next_id: str | None = None
    last_put: tuple[Any, ...] | None = None
    control: RunControl = field(default_factory=RunControl)

    def calling(self, config: RunnableConfig) -> RunnableConfig:
        """Return the config as LangGraph passes it: with what tells the run apart."""
        return {"configurable": {**config["configurable"], "__pregel_runtime": Runtime(control=self.control)}}


class Conversations(RuleBasedStateMachine):
    """Threads that grow, change, fork and end; a graph ends with its thread."""

    def __init__(self, savers: Sequence[Saver], moment: Moment) -> None:
        super().__init__()
        self.savers = savers
        self.moment = moment
        self.reference = Reference()
        self.example = next(examples)
        self.clock, self.turns = count(1), count()
        self.runs: dict[Place, Run] = {}
        self.lost: dict[Place, tuple[Any, ...]] = {}
        self.touched: Place = MAIN

    @initialize(
        turns=st.lists(st.sampled_from(("append", "append", "append", "append many")), min_size=1, max_size=3)
    )
    def begin(self, *, turns: list[str]) -> None:
        """Begin with a conversation, which may be longer than a pack of messages."""
        for number, how in enumerate(turns):
            happen.change(self.run_of(MAIN).values["messages"], how, number, [happen.message(number, "hi", number)])
            self.put(MAIN, number, {"messages"}, "loop", number)

    @rule(
        place=places,
        who=who,
        changes=st.lists(happen.changes, max_size=3),
        channels=st.sets(st.sampled_from(happen.CHANNELS), max_size=3),
        number=few,
        back=st.booleans(),
        source=st.sampled_from(("input", "loop", "update", "fork")),
    )
    def step(
        self,
        *,
        place: Place,
        who: int,
        changes: list[tuple[str, int, list[BaseMessage]]],
        channels: set[str],
        number: int,
        back: bool,
        source: str,
    ) -> None:
        """Change the state, with new objects and in place, and put it."""
        run = self.run_of(place)
        held = run.values["messages"] = run.values["messages"] if number % 2 else [*run.values["messages"]]
        for how, at, new in changes:
            happen.change(held, how, at, new)
            run.edited |= how in happen.IN_PLACE
        run.values |= {channel: happen.value_of(channel, held, number) for channel in sorted(channels)}
        self.put(place, who, {"messages", *channels}, source, number, back=back)

    @rule(place=places, who=who, turns=st.lists(happen.messages, min_size=1, max_size=4), edit=st.booleans())
    def say(self, *, place: Place, who: int, turns: list[list[BaseMessage]], edit: bool) -> None:
        """Append what tasks write; what has no id is given one afterwards, as `add_messages` does.

        With `edit` the next node edits the newest message while its put is still under way.
        """
        for number, new in enumerate(turns):
            self.write(place=place, who=who, task=number, made=["messages"], new=new, early=False, back=0)
            run = self.run_of(place)
            for one in new:
                one.id = one.id or f"given-{next(self.clock)}"
            held = run.values["messages"] = run.values["messages"] + new
            if edit and number == len(turns) - 1:
                self.moment.meanwhile = [lambda held=held: happen.change(held, "mark", len(held) - 1, held)]
            self.put(place, who + number, {"messages"}, "loop", number)
        if edit:  # a put may hold what was there before or after the edit; one that is repeated, what is there now
            self.moment.meanwhile = []
            run.edited = True
            self.do(who + len(turns) - 1, "put", *run.last_put)

    def go_on(self, place: Place, who: int) -> None:
        """Let a graph take one more step with the objects it has."""
        run = self.run_of(place)
        run.values["messages"] = [*run.values["messages"], happen.message(0, "go on", next(self.clock) + 10)]
        self.put(place, who, {"messages"}, "loop", 1)

    @rule(place=places, who=who, late=st.booleans())
    def put_again(self, *, place: Place, who: int, late: bool) -> None:
        """Repeat a put whose answer was lost: the newest of the graph, or of one that has ended."""
        put = self.lost.get(place) if late else self.run_of(place).last_put
        if put and put[1]["id"] in self.known(place):
            self.do(who, "put", *put)

    @rule(**WRITES, made=happen.normal_writes | happen.mixed_writes | happen.special_writes)
    def write(
        self, *, place: Place, who: int, task: int, made: list[str], new: list[BaseMessage], early: bool, back: int
    ) -> None:
        """Keep what a task wrote, for a checkpoint that is there or for one that is still to come."""
        run = self.run_of(place)
        config = self.at(place, back)
        if early or "checkpoint_id" not in config["configurable"]:
            run.next_id = run.next_id or self.new_id()
            config = _at(run.config, run.next_id)
        written = [happen.write_of(what, run.values["messages"], new) for what in made]
        # the tasks' ids and their paths are in different orders; the input has no path
        path = f"~__pregel_pull, {(3, 1, 2)[task - 1]}" if task else ""
        self.do(who, "put_writes", run.calling(config), written, f"task-{task}", path)
        if early:
            self.go_on(place, who + 1)

    @rule(place=places, who=who, back=few, scribble=st.booleans())
    def read(self, *, place: Place, who: int, back: int, scribble: bool) -> None:
        """Go on from what a saver returns, the newest checkpoint or an old one, which is a fork.

        With `scribble` another reader has changed what it got, which was its own.
        """
        config = self.at(place, back)
        saver = self.savers[who % len(self.savers)]
        if "checkpoint_id" not in config["configurable"]:
            return
        for one in saver.get_tuple(config).checkpoint["channel_values"]["messages"] if scribble else ():
            one.content = "scribbled"
            one.additional_kwargs["scribbled"] = True
        found = saver.get_tuple(config)
        if (put := self.run_of(place).last_put) is not None:
            self.lost[place] = put
        steps, updates = found.metadata["step"] + 1, found.metadata.get(COUNTERS, {"delta": [0]})["delta"][0]
        values, versions = found.checkpoint["channel_values"], found.checkpoint["channel_versions"]
        self.runs[place] = Run(config, values, dict(versions), steps, updates)
        self.go_on(place, who)

    @rule(**LOOKS)
    def look(
        self, *, place: Place, back: int, limit: int | None, before: int | None, wanted: set[str], number: int
    ) -> None:
        """List a place's checkpoints, those of all namespaces of its thread, and those of a run in all threads."""
        values = {
            "source": ("input", "loop", "none")[number],
            "step": number,
            "run_id": self.run_id(number),
            "user": ("Ada", "Ada", "Bo")[number],
            "tags": ({"odd": True}, {"odd": False}, {})[number],
        }
        asked = {name: values[name] for name in wanted}
        one = self.at(place, back)
        border = None if before is None or "checkpoint_id" not in one["configurable"] else self.at(place, before)
        self.agree(lambda saver: _all(saver.list(_at(one, None), filter=asked, before=border, limit=limit)))
        self.agree(lambda saver: _all(saver.list(one, filter=asked)))
        whole: RunnableConfig = {"configurable": {"thread_id": self.thread(place[0])}}
        self.agree(lambda saver: _all(saver.list(whole, limit=limit)))
        ours = {"run_id": self.run_id(number)}
        self.agree(lambda saver: _all(saver.list(None, filter=ours, limit=limit)))

    @rule(
        name=names,
        who=who,
        how=st.sampled_from(("delete", "prune all", "prune", "keep 2", "keep 3", "run 0", "run 1")),
    )
    def forget(self, *, name: str, who: int, how: str) -> None:
        """Delete or prune a thread, or delete what a run made in all threads."""
        thread, number = self.thread(name), int(how[-1]) if how[-1].isdigit() else 0
        if how == "delete":
            self.do(who, "delete_thread", thread)
        elif how == "prune all":
            self.do(who, "prune", [thread], strategy="delete")
        elif how.startswith("run"):
            self.do(who, "delete_for_runs", [self.run_id(number)])
        else:
            self.do(who, "prune", [thread], **({"keep_last": number} if number else {}))
        if how in {"delete", "prune all"}:
            self.end(name)
        self.go_on((name, ""), who + 1)

    @rule(name=names, who=who)
    def copy(self, *, name: str, who: int) -> None:
        """Copy a thread to another one, which is deleted before."""
        other = MAIN[0] if name == OTHER[0] else OTHER[0]
        self.do(who, "delete_thread", self.thread(other))
        self.end(other)
        self.do(who, "copy_thread", self.thread(name), self.thread(other))
        self.go_on((other, ""), who + 1)

    def end(self, name: str) -> None:
        """End the graphs on a thread: what they still write is refused."""
        self.runs = {place: run for place, run in self.runs.items() if place[0] != name}
        self.lost = {place: put for place, put in self.lost.items() if place[0] != name}

    @invariant()
    def the_newest_is_the_same(self) -> None:
        """Whoever is asked, the newest checkpoint is the same: of the place that was last touched."""
        config = _config(self.thread(self.touched[0]), self.touched[1])
        self.agree(lambda saver: happen.shown(saver.get_tuple(config)))

    def teardown(self) -> None:
        """Compare every checkpoint, each read by itself, and every history; then delete it all."""
        if sys.exc_info()[0]:
            return
        for key in self.reference.kept:
            config = _at(_config(key.thread, key.ns), key.id)
            self.agree(lambda saver, config=config: happen.shown(saver.get_tuple(config)))
            self.agree(lambda saver, config=config: _history(saver, config))
        for name in (MAIN[0], OTHER[0]):
            self.do(0, "delete_thread", self.thread(name))
            thread = {"configurable": {"thread_id": self.thread(name)}}
            self.agree(lambda saver, thread=thread: _all(saver.list(thread)))

    def thread(self, name: str) -> str:
        """Return the id of a thread that no other example uses."""
        return f"{name}-{self.example}"

    def run_id(self, number: int) -> str:
        """Return the id of one of three runs, each with checkpoints in several threads."""
        return f"run-{number % 3}-{self.example}"

    def run_of(self, place: Place) -> Run:
        """Return the graph that runs here, which may not have put anything yet."""
        self.touched = place
        return self.runs.setdefault(place, Run(_config(self.thread(place[0]), place[1])))

    def known(self, place: Place) -> list[str]:
        """Return the checkpoint ids of a place, in the order of arrival."""
        where = (self.thread(place[0]), place[1])
        return [key.id for key in self.reference.kept if key[:2] == where]

    def at(self, place: Place, back: int) -> RunnableConfig:
        """Return the config of a place's newest checkpoint but `back`, or of the place where there is none."""
        config = _config(self.thread(place[0]), place[1])
        ids = self.known(place)
        return _at(config, ids[-1 - back % len(ids)]) if ids else config

    def new_id(self, *, back: bool = False) -> str:
        """Return a checkpoint id: larger than all before, or smaller where the clock steps back."""
        tick = next(self.clock)
        return str(UUID(int=(0x1F0 << 116) + (-tick if back else tick)))

    def put(self, place: Place, who: int, touched: set[str], source: str, number: int, *, back: bool = False) -> None:
        """Put a graph's state as a new checkpoint, in which these channels and the delta channel changed."""
        run = self.run_of(place)
        if "delta" not in touched:
            run.values.pop("delta", None)
        changed = touched | {*run.values} if run.edited else touched
        fresh = {
            channel: run.versions.get(channel, 0) + 1
            for channel in sorted(changed | ({"delta"} if run.steps else set()))
        }
        run.versions = run.versions | fresh
        run.updates = 0 if "delta" in run.values else run.updates + 1
        checkpoint: Checkpoint = {
            "v": 4,
            "id": run.next_id or self.new_id(back=back),
            "ts": f"2026-11-22T00:00:{run.steps % 60:02}+00:00",
            "channel_values": run.values.copy(),
            "channel_versions": run.versions.copy(),
            "versions_seen": {"agent": {"messages": run.versions["messages"]}, "__input__": {}},
            "updated_channels": sorted(fresh),
        }
        described = {"source": source, "step": run.steps, "run_id": self.run_id(number)}
        caller = self.at((place[0], ""), 0)["configurable"].get("checkpoint_id") if place[1] else None
        described |= {"parents": {"": caller} if caller else {}, "tags": {"odd": run.steps % 2 == 1}}
        if run.updates:
            described[COUNTERS] = {"delta": [run.updates, run.updates]}
        config: RunnableConfig = {**run.calling(run.config), "metadata": {"user": "Ada", "langgraph_step": 1}}
        run.last_put = (config, checkpoint, described, fresh)
        run.config, run.next_id, run.edited = _at(run.config, checkpoint["id"]), None, False
        run.steps += 1
        self.do(who, "put", *run.last_put)

    def do(self, who: int, what: str, *args: Any, **options: Any) -> None:
        """Call a method of the reference and of one saver."""
        for saver in (self.reference, self.savers[who % len(self.savers)]):
            getattr(saver, what)(*args, **options)

    def agree(self, read: Callable[[Saver], Any]) -> None:
        """Hold what the reference answers against what one of the savers does, each in its turn."""
        wanted, number = read(self.reference), next(self.turns) % len(self.savers)
        if (found := read(self.savers[number])) != wanted:
            raise AssertionError(f"saver {number} answers{happen.difference(found, wanted)}")


def _config(thread: str, ns: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}


def _at(config: RunnableConfig, checkpoint_id: str | None) -> RunnableConfig:
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint_id}}


def _all(found: Iterable[CheckpointTuple]) -> list[Any]:
    return [happen.shown(one) for one in found]


def _history(saver: Saver, config: RunnableConfig) -> Any:
    channels = ("delta", "messages", "unknown")
    return happen.exact(saver.get_delta_channel_history(config=config, channels=channels))


@pytest.fixture
def moment() -> Moment:
    """Return the clock of a test's savers."""
    return Moment()


def check(url: str, moment: Moment, most: int, *options: dict[str, Any]) -> None:
    """Run that many examples, the same ones each time, on a database with a saver for each of the options."""
    chosen = settings(
        max_examples=most,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if FULL else (Phase.generate,),  # to shrink takes minutes
        suppress_health_check=[*HealthCheck],
    )
    with ExitStack() as stack:
        shared = stack.enter_context(Database.open(url)) if url == "memory" else url
        savers = [stack.enter_context(closing(SQLAlchemySaver(shared, now=moment, **each))) for each in options]
        savers[0].setup()
        run_state_machine_as_test(lambda: Conversations(savers, moment), settings=chosen)


def test_two_savers_on_one_database(own_url: str, moment: Moment) -> None:
    """Whichever of two savers that know the thread writes, and whichever is asked, the answer is the reference's."""
    most = drawn(20, full=60) if own_url.startswith("sqlite") else drawn(3, full=6)
    check(own_url, moment, most, {}, {})


def test_two_savers_of_one_database(moment: Moment) -> None:
    """Savers that share a `Database` share what is known of its threads, and answer the same."""
    check("memory", moment, drawn(15, full=40), {}, {})


def test_threads_that_are_forgotten_at_once(tmp_path: Path, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that remembers one thread at a time answers the same."""
    monkeypatch.setattr(thread_row, "_MOST_THREADS", 1)
    check(f"sqlite:///{tmp_path / 'forgetting.db'}", moment, drawn(8, full=30), {}, {})


def test_encrypted(tmp_path: Path, moment: Moment) -> None:
    """Encrypted, with one saver still using the old key, everything reads the same."""
    keys = {"old": b"o" * 32, "new": b"n" * 32}
    options = [{"keys": Keyring(keys, current=name)} for name in keys]
    check(f"sqlite:///{tmp_path / 'encrypted.db'}", moment, drawn(8, full=20), *options)
