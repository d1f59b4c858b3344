"""Random schedules of turns, edits, forks, undos and outages around summaries that are prepared ahead.

    python -m tests.graph.schedules 5000 [FIRST SEED] [MINUTES]

Every second schedule has outages, in which the summarizer fails in one of the ways of `FAULTS`. Messages are long for
the window, so that every third or fourth turn compacts. The seed of a schedule that breaks an invariant is printed.
"""

import logging
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.graph import CompactionError, CompactionThread, view
from langgraph_compaction.nodes import Reply, SummaryRequest
from langgraph_compaction.nodes.conversation.tokens import total
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, WORDS, Clock, agent, at_work
from tests.invariants import check_request, is_summary

WINDOW = 600
ACTS = {"turn": 30.0, "wait": 20.0, "edit": 2.5, "fork": 2.5}
"""How often each act of a schedule is drawn."""
STEPS = 40
NO_SUMMARY = "I'm sorry, but I can't help with that."
FAULTS: dict[str, Reply | Exception] = {
    "refuses": Reply(content=NO_SUMMARY, finish_reason="content_filter"),
    "says nothing": Reply(content=""),
    "is cut off": Reply(content="<summary>said", finish_reason="length"),
    "breaks": ValueError("the summarizer is out of order"),
    "cannot be reached": ConnectionError("no route to host"),
}
"""What the summarizer returns or raises in an outage."""


class World:
    """One thread, its branches, and the summarizer that serves it."""

    name = "scripted"

    def __init__(self, seed: int, saver: SQLAlchemySaver) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a schedule is no secret
        self.has_outages = seed % 2 == 1
        self.fault, self.clock = "", Clock()
        """How the summarizer fails now, a key of `FAULTS`; empty if it works."""
        self.lock, self.shown = threading.Lock(), dict[tuple[str, ...], list[str]]()
        """The texts that the summarizer was shown in its answered calls, by the ids of the messages that would stay.

        The calls of one attempt are the only ones with the same messages that stay. Its summary is recorded under all
        that it covers; those of its chunks are not, and the same chunk may begin another attempt after a fork.
        """
        self.said: list[str] = []
        self.past: list[tuple[Any, list[str]]] = []
        """Earlier checkpoints, each with what had been said."""
        self.count = self.checked = 0
        self.model = ScriptedModel(replies=["ok " * 9])
        settings: dict[str, Any] = {"context_window": WINDOW, "dialogue_rounds_keep_min": 1}
        settings |= {"summary_ahead": True, "facts_beside_summary": False}
        self.graph = agent(self.model, self, checkpointer=saver, now=self.clock, **settings)
        self.config: Any = {"configurable": {"thread_id": f"{CONFIG['configurable']['thread_id']}-{seed}"}}
        self.thread = CompactionThread(self.graph, self.config)

    def summarize(self, request: SummaryRequest) -> Reply:
        """Name the messages that the summary covers, so that a wrong one is found."""
        if found := FAULTS.get(self.fault):
            if isinstance(found, Exception):
                raise found
            return found
        attempt = tuple(str(message.id) for message in request.stays)
        text = "\n".join(message.text for message in request.messages) or request.conversation
        with self.lock:
            self.shown.setdefault(attempt, []).append(text)
        named = (word for word in request.conversation.split() if word.startswith("in-"))
        ids = sorted({str(message.id) for message in request.messages} or set(named))
        return Reply(content=f"<summary>{request.earlier or ''} {' '.join(ids)}</summary>")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Never called here."""
        raise NotImplementedError

    @property
    def values(self) -> dict[str, Any]:
        """The state of the thread."""
        found: dict[str, Any] = self.graph.get_state(self.config).values
        return found

    def play(self) -> None:
        """Play the schedule."""
        acts = {**ACTS, "turn_fault": 5.0 * self.has_outages}
        for act in self.dice.choices([*acts], [*acts.values()], k=STEPS):
            self.clock.time += 5
            getattr(self, act)()
        self.wait()
        self.check()

    def turn(self) -> None:
        """Send an input of up to a quarter of the window, and rarely of more than half of it."""
        words = self.dice.randint(15, 90) + 250 * (self.dice.random() < 0.05)
        self.count += 1
        name = f"in-{self.count}"
        self.graph.invoke({"messages": [HumanMessage(f"say {self.count} " + "word " * words, id=name)]}, self.config)
        self.said.append(name)
        self.past.append((self.graph.get_state(self.config).config, list(self.said)))
        self.check()

    def wait(self) -> None:
        """Let what is prepared be finished."""
        for worker in at_work():
            worker.join(60)

    def edit(self) -> None:
        """Change or remove an answer."""
        held = [one for one in self.values.get("messages", []) if isinstance(one, AIMessage)]
        if held:
            one = self.dice.choice(held)
            new = RemoveMessage(str(one.id)) if self.dice.random() < 0.5 else AIMessage("changed", id=one.id)
            self.graph.update_state(self.config, {"messages": [new]}, as_node="model")

    def fork(self) -> None:
        """Go on from an earlier checkpoint, or undo the last compaction."""
        if self.dice.random() < 0.5 and self.past:
            config, said = self.dice.choice(self.past[-6:])
            self.graph.update_state(config, {"messages": []}, as_node="model")
            self.said = list(said)
        elif self.values:
            try:
                self.thread.undo()
            except (CompactionError, UnknownAttemptError):
                return
            self.thread.release()

    def turn_fault(self) -> None:
        """Begin an outage of the summarizer, or end it."""
        self.fault = "" if self.fault else self.dice.choice(sorted(FAULTS))

    def check(self) -> None:
        """Raise `AssertionError` for a wrong summary, a lost message, a double payment or a wrong request."""
        if not self.values:
            return
        for request in self.model.received[self.checked :]:
            check_request(request)
            assert total(WORDS, request) <= WINDOW, "over the limit"
        self.checked = len(self.model.received)
        seen, rows = view(self.values), self.thread.history()
        assert all(row.verdict for row in rows), "open attempt"
        assert [m.id for m in self.thread.transcript() if m.type == "human"] == self.said, "lost message"
        assert not any(NO_SUMMARY in message.text for message in seen), "no summary"
        head = next((message for message in seen if is_summary(message)), None)
        digested = any(row.verdict == "degraded_deterministic" for row in rows)  # without the names of the messages
        if head is not None and not digested:
            gone = {*self.said} - {message.id for message in seen}
            assert gone <= {*head.text.split()}, "wrong summary"
        if not self.has_outages:
            with self.lock:
                attempts = [tuple(texts) for texts in self.shown.values()]
            assert len(attempts) == len({*attempts}), "paid twice"
            assert all(len(texts) == len({*texts}) for texts in attempts), "paid twice"


def play(seed: int) -> Counter[str]:
    """Play one schedule; return how its preparations ended."""
    with SQLAlchemySaver.from_url("memory") as saver:
        world = World(seed, saver)
        world.play()
        return Counter(f"{row.verdict} {row.reason}" for row in world.thread.history() if row.trigger == "ahead")


def main(given: Sequence[str]) -> None:
    """Play schedules while there is time, and print what they came to."""
    logging.disable()
    count, first, minutes = map(float, [*given, *("0", "inf")[len(given) - 1 :]])
    ends, red, played, began = Counter[str](), list[int](), 0, time.monotonic()
    for seed in range(int(first), int(first + count)):
        if time.monotonic() - began > minutes * 60:
            break
        played += 1
        try:
            ends.update(play(seed))
        except Exception:  # noqa: BLE001 - whatever is raised is the finding
            red.append(seed)
            sys.stdout.write(f"seed {seed}\n{traceback.format_exc()}")
    sys.stdout.write(f"{played} played, red: {red}, {dict(ends.most_common())}\n")
    sys.exit(bool(red))


if __name__ == "__main__":
    main(sys.argv[1:])
