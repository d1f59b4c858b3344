"""Runs one scenario with one system: an application asks, catches errors, and asks the next question."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from fault_histories import QUESTION, calls, prose
from fault_model import Provider, Request, said
from fault_scenarios import WINDOW, NodeContext, Scenario
from fault_systems import CONFIG, Clock, Setup, System, state_of
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command, interrupt

PROMPT = 'Summarize as JSON: {"goal": "...", "facts": [{"name": "..."}]}.\n{messages}'


@dataclass(frozen=True)
class Row:
    """The result of a scenario, such as the planted facts in the last request that the model accepted."""

    scenario: str
    system: str
    needles: int = 0
    needles_of: int = 0
    retrievable: int = 0
    """Number of facts that the state, or the system's own archive, still holds."""
    answered: int = 0
    turns: int = 0
    summary_calls: int = 0
    invalid_requests: int = 0
    """Malformed requests to the model and the summarizer."""
    over_window: int = 0
    note: str = ""


@dataclass
class Person:
    """The model's script: it reads the documents that the turn names, then answers the newest question."""

    turns: Sequence[NodeContext]
    begun: set[int] = field(default_factory=set[int])
    failed: set[int] = field(default_factory=set[int])

    def __call__(self, request: Request) -> AIMessage:
        """Answer."""
        asked = [found for message in request.messages for found in QUESTION.findall(message.text)]
        if not asked:
            return AIMessage("Nothing was asked.")
        number = int(asked[-1].split()[-1])
        turn = self.turns[number - 1]
        if turn.error and number not in self.failed:
            self.failed.add(number)
            raise turn.error
        if turn.reads and number not in self.begun:
            self.begun.add(number)
            return _reading(turn, number)
        return AIMessage(f"Answer {number}. {prose(150, f'answer {number}')}")


def _reading(turn: NodeContext, number: int) -> AIMessage:
    message = calls(*turn.reads, start=1_000 * number)
    if turn.asks_approval:
        message.tool_calls.append({"name": "approve", "args": {}, "id": f"approval-{number}", "type": "tool_call"})
    return message


@dataclass
class Host:
    """The program that calls the agent."""

    agent: Any
    scenario: Scenario
    clock: Clock
    answered: int = 0
    trouble: Counter[str] = field(default_factory=Counter[str])

    def ask_all(self) -> None:
        """Ask one question after the other, a minute apart."""
        for number, turn in enumerate(self.scenario.turns, 1):
            self.clock.time += 60
            adopted = [message.model_copy() for message in self.scenario.history] if number == 1 else []
            messages = [*adopted, *self._deleted(turn)]
            question = HumanMessage(f"Question {number}? {prose(turn.size, f'question {number}')}")
            shown = self._run({"messages": [*messages, question]})
            if shown is None and turn.error:
                shown = self._run(None)
            self.answered += shown is not None and self._answers(shown, number)

    def _answers(self, shown: str, number: int) -> bool:
        """Whether the user is shown the answer, and no other text before it."""
        if shown.startswith(f"Answer {number}."):
            return True
        self.trouble["another answer" if shown else "no answer"] += 1
        return False

    def _deleted(self, turn: NodeContext) -> list[RemoveMessage]:
        """Return the removal of the user's oldest remaining message that holds no fact."""
        theirs = [m for m in state_of(self.agent) if m.id and m.id.startswith("user-")]
        idle = [m for m in theirs if not any(fact in m.text for fact in self.scenario.facts)]
        return [RemoveMessage(id=m.id or "") for m in idle[:1] if turn.deletes]

    def _run(self, given: Any) -> str | None:
        """Run until no interrupt is pending; return the text that the user is shown, or `None` if the run raised."""
        try:
            while True:
                shown = self._streamed(given) if self.scenario.is_streamed else self._invoked(given)
                if not self.agent.get_state(CONFIG).interrupts:
                    return shown
                given = Command(resume="yes")
        except Exception as error:  # noqa: BLE001 - a host survives whatever a turn raises
            self.trouble[type(error).__name__] += 1
            return None

    def _invoked(self, given: Any) -> str:
        message: BaseMessage = self.agent.invoke(given, CONFIG)["messages"][-1]
        return message.text if isinstance(message, AIMessage) else ""

    def _streamed(self, given: Any) -> str:
        """Return all assistant text of the stream of messages."""
        chunks = [message for message, _ in self.agent.stream(given, CONFIG, stream_mode="messages")]
        return "\n".join(message.text for message in chunks if isinstance(message, AIMessage))


@dataclass(frozen=True)
class Stage:
    """An agent of a system with its models, and the program that is to ask it a scenario's questions."""

    agent: Any
    host: Host
    model: Provider
    summarizer: Provider

    @property
    def last(self) -> Sequence[BaseMessage]:
        """The messages of the last request that the model accepted."""
        accepted = [request for request in self.model.requests if not request.flaw and not request.is_over]
        return accepted[-1].messages if accepted else ()

    def play(self) -> "Stage":
        """Ask all questions."""
        with _no_waiting():
            self.host.ask_all()
        return self


def staged(scenario: Scenario, build: Callable[[Setup], Any]) -> Stage:
    """Build a system's agent for a scenario; what it raises is the finding."""
    clock = Clock()
    model = _provider(scenario, Person(scenario.turns))
    summarizer = _provider(scenario, scenario.writer(scenario.copied))
    setup = Setup(
        model=model,
        summarizer=summarizer,
        tools=_tools(scenario),
        window=scenario.advertised or WINDOW,
        clock=clock,
        prompt=PROMPT if scenario.has_braces else None,
    )
    with _no_waiting():
        agent = build(setup)
    return Stage(agent, Host(agent, scenario, clock), model, summarizer)


def measured(scenario: Scenario, system: System) -> Row:
    """Run a scenario with a system, and return its result."""
    for word, why in system.not_asked.items():
        if word in scenario.name:
            return Row(scenario.name, system.name, note=f"n/a: {why}")
    whole = {"needles_of": len(scenario.facts), "turns": len(scenario.turns)}
    try:
        stage = staged(scenario, system.build)
    except Exception as error:  # noqa: BLE001 - that it refuses to be built is the finding
        return Row(scenario.name, system.name, note=f"not built: {type(error).__name__}")
    stage.play()
    requests = [*stage.model.requests, *stage.summarizer.requests]
    return Row(
        scenario.name,
        system.name,
        **whole,
        needles=held(scenario.facts, stage.last),
        retrievable=held(scenario.facts, system.recall(stage.agent)),
        answered=stage.host.answered,
        summary_calls=len(stage.summarizer.requests),
        invalid_requests=sum(request.flaw is not None for request in requests),
        over_window=sum(request.is_over for request in requests),
        note=", ".join(f"{count} x {name}" for name, count in sorted(stage.host.trouble.items())),
    )


def held(facts: Sequence[str], messages: Sequence[BaseMessage]) -> int:
    """Return how many facts stand in messages."""
    text = said(messages)
    return sum(fact in text for fact in facts)


def _provider(scenario: Scenario, reply: Any) -> Provider:
    profile = {"max_input_tokens": scenario.advertised} if scenario.advertised else None
    return Provider(window=scenario.window, reply=reply, profile=profile)


def _tools(scenario: Scenario) -> list[BaseTool]:
    @tool
    def read(name: str) -> str:
        """Read a document."""
        return scenario.documents[name]

    @tool
    def approve() -> str:
        """Ask a person for approval."""
        return str(interrupt("Go on?"))

    return [read, approve]


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Skip the pauses before retries: they are random, and no figure is measured in seconds."""
    with patch.object(time, "sleep", lambda _: None):
        yield
