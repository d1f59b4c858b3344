"""The stage of a fault scenario: an agent, its streamed events, and checks that hold after every turn."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.state import messages_in_view
from langgraph_compaction.nodes.testing import ScriptedModel, texts
from tests.graph.harness import (
    CONFIG,
    SUMMARY,
    Clock,
    Drive,
    agent,
    events,
    ledger,
    reading,
    standing,
    verdicts,
)
from tests.invariants import check_request, is_summary

NEEDLE = r"NEEDLE-\d+"
BOTH = ["updates", "custom"]


@dataclass
class Stage:
    """An agent and its streamed events, from replies of model and summarizer and from arguments of the agent."""

    go: Drive
    replies: Sequence[Any] = ("ok",)
    summaries: Sequence[Any] = (SUMMARY,)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reads: int = 2_000
    """Words that the summarizer is shown in one call."""

    def __post_init__(self) -> None:
        self.model = ScriptedModel(replies=list(self.replies))
        self.summarizer = reading(ScriptedModel(replies=list(self.summaries)), self.reads)
        self.clock, self.saver = Clock(), InMemorySaver()
        self.chunks: list[Any] = []
        self.database = Database.open("memory")
        self.open()

    def open(self) -> None:
        """Build the agent, or build it again on the same database, as after a restart."""
        given = {"checkpointer": self.saver, "database": self.database, "now": self.clock, **self.options}
        given.setdefault("summarizer", self.summarizer)
        self.graph = agent(self.model, given.pop("summarizer"), **given)

    async def turn(self, given: Any, **options: Any) -> list[Any]:
        """Run an input, or resume with `None`; keep the streamed events and check the request."""
        chunks = await self.go.stream(self.graph, given, stream_mode=BOTH, **options)
        self.chunks += chunks
        return chunks

    @property
    def messages(self) -> list[AnyMessage]:
        """The thread's messages, as the model sees them."""
        return messages_in_view(self.graph.get_state(CONFIG).values)

    @property
    def standing(self) -> dict[str, Any]:
        """The compaction channel."""
        return standing(self.graph)

    @property
    def ledger(self) -> list[LedgerRow]:
        """The attempts."""
        return ledger(self.graph)

    @property
    def sent(self) -> list[AnyMessage]:
        """The last request that the model received."""
        return cast("list[AnyMessage]", self.model.received[-1])

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one class, of all turns."""
        return events(self.chunks, name)

    def check(
        self,
        expected: Sequence[str],
        *,
        said: Sequence[BaseMessage] = (),
        holds: Collection[str] = (),
        told: Sequence[str] | None = None,
    ) -> None:
        """Assert what the model received, the state, the ledger and the events.

        `expected` are the ledger's verdicts; the events tell the same, but for what was put off, unless `told` says
        otherwise (the stream of a run that raised is lost). `said` are messages that must stand in the state byte for
        byte, `holds` texts that the newest request must hold.
        """
        for request in self.model.received:
            check_request(cast("list[AnyMessage]", request))
        missing = [text for text in holds if text not in texts(self.sent)]
        assert not missing, f"the model no longer knows {missing}"
        self._check_state(said)
        assert verdicts(self.graph) == list(expected)
        found = [event["verdict"] for event in self.told("CompactionEvent")]
        told_of = [verdict for verdict in expected if verdict != "deferred_cooldown"]
        assert found == list(told_of if told is None else told)

    def _check_state(self, said: Sequence[BaseMessage]) -> None:
        ids = [message.id for message in self.messages]
        assert None not in ids
        assert len(set(ids)) == len(ids)
        assert sum(map(is_summary, self.messages)) <= 1
        assert self.standing.get("draft") is None
        check_request(render(self.messages))
        whole = {message.id: message for message in self.graph.get_state(CONFIG).values["messages"]}
        for message in said:
            assert whole.get(message.id) == message, f"{message.id} is lost or changed"


Play = Callable[[Drive], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """One known failure of other systems, and the scenario that plays it."""

    number: str
    title: str
    play: Play


SCENARIOS: dict[str, Scenario] = {}


def scenario(number: str, title: str) -> Callable[[Play], Play]:
    """Register a scenario."""

    def enter(play: Play) -> Play:
        assert number not in SCENARIOS, f"{number} is there twice"
        SCENARIOS[number] = Scenario(number, title, play)
        return play

    return enter
