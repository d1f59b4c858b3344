"""The schedules of `schedules.py` through a compiled graph, with a checkpointer and stored records.

    python -m tests.graph.graph_schedules 5000 [FIRST SEED] [MINUTES]

Two graphs stand for two processes on one database. Besides turns, edits, forks and deaths there is the undo of a
compaction. After every commit and at the end the invariants of `GraphWorld.check` hold. `SHARED` schedules in a row
have one database, each with a thread of its own.
"""

import sys
from collections import Counter
from contextlib import ExitStack
from functools import lru_cache
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.graph import CompactionError, CompactionSettings, CompactionThread, create_compacting_agent
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import ContextExhaustedError, Reply, SummaryRequest
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import clock_of
from tests.graph.schedules import NO_SUMMARY, OWNER, SETTINGS, UNCHANGED, WORDS, QuickModel, World, main, play_in

OPENED = ExitStack()
"""The open database."""
SHARED = 50
"""Number of schedules that use one database and the same graphs: to make them takes as long as a few turns."""


class Process:
    """A process of the world that is played now: its compiled graph, and the summarizer that asks this world."""

    name = "scripted"

    def __init__(self, saver: SQLAlchemySaver, settings: CompactionSettings) -> None:
        self.world: Any = None
        with clock_of(lambda: self.world.clock):
            self.graph: Any = create_compacting_agent(
                QuickModel(replies=["ok"]),
                settings=settings,
                summarizer=self,
                token_counter=WORDS,
                checkpointer=saver,
            )

    def summarize(self, request: SummaryRequest) -> Reply:
        """Ask the world."""
        reply: Reply = self.world.summarize(request)
        return reply

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Never called here."""
        raise NotImplementedError


class GraphWorld(World):
    """One thread of two graphs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        processes = processes_of(seed // SHARED)[self.settings is UNCHANGED]
        for process in processes:
            process.world = self
        self.graphs = [process.graph for process in processes]
        self.stored = records_of(self.graphs[0])
        self.thread = str(uuid4())
        self.config: Any = {"configurable": {"thread_id": self.thread}}
        self.checked = 0
        """The number of commits when the invariants were last checked."""
        self.before: list[tuple[Any, list[Any]]] = []
        """Earlier checkpoints, each with what had been said."""

    @property
    def graph(self) -> Any:
        """The graph of the process that acts now."""
        return self.graphs[OWNER[0].startswith("two")]

    @property
    def values(self) -> dict[str, Any]:
        """The state of the thread."""
        found: dict[str, Any] = self.graph.get_state(self.config).values
        return found

    def turn(self) -> None:
        """Send an input, and run the turn to its end, by one of the processes."""
        OWNER[0] = self.dice.choices(sorted(self.alive), [4, 1])[0]
        self.count += 1
        said = HumanMessage(f"say {self.count} " + "word " * self.words(), id=f"in-{self.count}")
        try:
            after = self.graph.invoke({"messages": [said]}, self.config)
        except ContextExhaustedError:
            self.graph.update_state(self.config, {"messages": [RemoveMessage(str(said.id))]}, as_node="model")
            return
        self.said.append(said)
        self.before.append((self.graph.get_state(self.config).config, list(self.said)))
        assert not after["compaction"].get("draft"), "open draft"
        if (epoch := after["compaction"].get("epoch", 0)) != self.checked:
            self.check()
            self.checked = epoch

    def edit(self) -> None:
        """Change or remove an answer."""
        held = [one for one in self.values.get("messages", []) if isinstance(one, AIMessage)]
        if held:
            one = self.dice.choice(held)
            new = RemoveMessage(str(one.id)) if self.dice.random() < 0.5 else AIMessage("changed", id=one.id)
            self.graph.update_state(self.config, {"messages": [new]}, as_node="model")

    def fork(self) -> None:
        """Go on from an earlier checkpoint, or undo the last compaction."""
        if self.dice.random() < 0.5 and self.before:
            config, said = self.dice.choice(self.before[-6:])
            self.graph.update_state(config, {"messages": []}, as_node="model")
            self.said = list(said)
        elif self.values:
            thread = CompactionThread(self.graph, self.config)
            try:
                thread.undo()
            except (CompactionError, UnknownAttemptError):
                return
            thread.release()

    def check(self) -> None:
        """Raise `AssertionError` for a wrong swap, a lost message, a double payment or an open draft."""
        values, thread = self.values, CompactionThread(self.graph, self.config)
        assert not values["compaction"].get("draft"), "open draft"
        rows = self.stored.history(self.thread)
        assert all(row.verdict for row in rows), "open attempt"
        whole = [one.id for one in thread.transcript() if isinstance(one, HumanMessage)]
        assert whole == [one.id for one in self.said], "transcript is not whole"
        view = {one.id for one in values["messages"]}
        head = next((one for one in values["messages"] if is_summary(one)), None)
        assert not any(NO_SUMMARY in one.text for one in values["messages"]), "no summary"
        digested = any(row.verdict == "degraded_deterministic" for row in rows)  # without the names of the messages
        if head is not None and "in-" in head.text and not digested:
            assert {one.id for one in self.said} - view <= set(head.text.split()), "wrong swap"
        self.check_payments()


def play(seed: int) -> Counter[tuple[str | None, str]]:
    """Play one schedule; return how its preparations ended."""
    world = GraphWorld(seed)
    OWNER[0] = "one"
    play_in(world)
    if world.values:
        world.check()
    rows = world.stored.history(world.thread)
    return Counter((row.verdict, row.reason) for row in rows if row.trigger == "ahead")


@lru_cache(maxsize=1)
def processes_of(_: int) -> list[list[Process]]:
    """Return two processes with each of the settings on a new database in memory."""
    OPENED.close()
    saver = OPENED.enter_context(SQLAlchemySaver.from_url("memory"))
    return [[Process(saver, settings) for _ in range(2)] for settings in (SETTINGS, UNCHANGED)]


if __name__ == "__main__":
    main("graph", lambda seed: play(seed).elements(), sys.argv[1:])
