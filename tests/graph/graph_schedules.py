"""The schedules of `schedules.py` through a compiled graph, with a checkpointer and stored records.

    python -m tests.graph.graph_schedules 5000 [FIRST SEED]

Two graphs stand for two processes on one database. Besides turns, edits, forks and deaths there is the undo of a
compaction. After every turn the invariants of `GraphWorld.check` hold. The seed of a schedule that breaks one is
printed.
"""

import sys
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.checkpoint.compaction import prepared
from langgraph_compaction.graph import CompactionError, CompactionThread, create_compacting_agent
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import ContextExhaustedError
from langgraph_compaction.nodes.ahead import use_prepared
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.fakes import ScriptedModel
from tests.graph.schedules import OWNER, SETTINGS, WORDS, World, main, play_in

THREAD = "t"


class GraphWorld(World):
    """One thread of two graphs."""

    def __init__(self, seed: int, saver: SQLAlchemySaver) -> None:
        super().__init__(seed)
        self.graphs = [
            create_compacting_agent(
                ScriptedModel(replies=["ok " * 9]),
                settings=SETTINGS,
                summarizer=self,
                token_counter=WORDS,
                checkpointer=saver,
                now=lambda: self.clock,
            )
            for _ in range(2)
        ]
        self.stored = records_of(self.graphs[0])
        self.config: Any = {"configurable": {"thread_id": THREAD}}
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
        OWNER[0] = self.dice.choice(sorted(self.alive))
        self.count = getattr(self, "count", 0) + 1
        words = self.dice.randint(5, 60) + 250 * (self.dice.random() < 0.05)
        said = HumanMessage(f"say {self.count} " + "word " * words, id=f"in-{self.count}")
        try:
            self.graph.invoke({"messages": [said]}, self.config)
        except ContextExhaustedError:
            self.graph.update_state(self.config, {"messages": [RemoveMessage(str(said.id))]}, as_node="model")
            return
        self.said.append(said)
        self.before.append((self.graph.get_state(self.config).config, list(self.said)))
        self.check()

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
        rows = self.stored.history(THREAD)
        assert all(row.verdict for row in rows), "open attempt"
        whole = [one.id for one in thread.transcript() if isinstance(one, HumanMessage)]
        assert whole == [one.id for one in self.said], "transcript is not whole"
        view = {one.id for one in values["messages"]}
        head = next((one for one in values["messages"] if is_summary(one)), None)
        if head is not None and "in-" in head.text:
            assert {one.id for one in self.said} - view <= set(head.text.split()), "wrong swap"
        paid = [one for one in self.asked if one not in self.lost]
        assert len(paid) == len(set(paid)), "paid twice"


def play(seed: int, steps: int = 60) -> Counter[tuple[str | None, str]]:
    """Play one schedule; return how its preparations ended."""
    with ExitStack() as stack:
        world = GraphWorld(seed, stack.enter_context(SQLAlchemySaver.from_url("memory")))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(use_prepared, "owner", lambda: OWNER[0])
        patch.setattr(prepared, "owner", lambda: OWNER[0])
        OWNER[0] = "one"
        play_in(world, steps, forks=2)
        rows = world.stored.history(THREAD)
        return Counter((row.verdict, row.reason) for row in rows if row.trigger == "ahead")


if __name__ == "__main__":
    main(lambda seed: play(seed).elements(), *map(int, sys.argv[1:]))
