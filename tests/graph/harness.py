"""A small agent whose tokens are words, and what a test asks of it.

Window and limit are 1,000, the trigger is 800 and the aim 500; a message costs its words and 4 more.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from blockbuster import BlockBuster
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.graph import create_compacting_agent
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from langgraph_compaction.nodes.state import messages_in_view
from tests.fakes import ScriptedModel, clock_of, usage
from tests.settings import settings, taken

WORDS = TokenCounter("words", lambda text: len(text.split()))
THREAD = "thread"
CONFIG: RunnableConfig = {"configurable": {"thread_id": THREAD}}
SUMMARY = "<summary>what was said before</summary>"
SMALL: dict[str, Any] = {
    "context_window": 1_000,
    "output_reserve": 0,
    "dialogue_rounds_keep_min": 2,
    "dialogue_beyond_keep": 0,
    "summary_ahead": False,  # its own tests switch it on
}


def reading(summarizer: Any, words: int = 2_000) -> Any:
    """The summarizer, which is shown so many words in one call if it is a model; by default it is one of its own."""
    made = summarizer or ScriptedModel(replies=[SUMMARY])
    if isinstance(made, ScriptedModel) and not made.profile:
        made.profile = {"max_input_tokens": words * 4 // 3 + 1}
    return made


class Clock:
    """A wall clock that stands still until it is set."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.time


class Synchronous:
    """Drives a graph by `invoke` and `stream`, off the event loop."""

    async def invoke(self, graph: Any, given: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run to the end or to an interrupt."""
        return await asyncio.to_thread(lambda: graph.invoke(given, config or CONFIG, **options))

    async def stream(self, graph: Any, given: Any, config: RunnableConfig | None = None, **options: Any) -> list[Any]:
        """Run, and return what was streamed."""
        return await asyncio.to_thread(lambda: list(graph.stream(given, config or CONFIG, **options)))


class Asynchronous:
    """Drives a graph by `ainvoke` and `astream`, where each call that blocks the event loop is an error."""

    def __init__(self) -> None:
        self._guard, self._runs = BlockBuster(), 0

    async def invoke(self, graph: Any, given: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run to the end or to an interrupt."""
        with self.guarded():
            return await graph.ainvoke(given, config or CONFIG, **options)

    async def stream(self, graph: Any, given: Any, config: RunnableConfig | None = None, **options: Any) -> list[Any]:
        """Run, and return what was streamed."""
        with self.guarded():
            return [chunk async for chunk in graph.astream(given, config or CONFIG, **options)]

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Guard the event loop; of runs at once, the last one ends it."""
        self._runs += 1
        self._guard.activate()
        try:
            yield
        finally:
            self._runs -= 1
            if not self._runs:
                self._guard.deactivate()


Drive = Synchronous | Asynchronous


def agent(model: Any = None, summarizer: Any = None, **options: Any) -> Any:
    """Build the small agent; what is no argument of the builder is a setting."""
    counter = options.pop("token_counter", WORDS)
    chosen = settings(SMALL, **taken(options))
    options.setdefault("checkpointer", InMemorySaver())
    with clock_of(options.pop("now", None)):
        return create_compacting_agent(
            model or ScriptedModel(),
            options.pop("tools", ()),
            settings=chosen,
            summarizer=reading(summarizer),
            fallback_summarizers=[reading(one) for one in options.pop("fallback_summarizers", ())],
            token_counter=counter,
            **options,
        )


BEFORE = ("pre_model", "on_overflow")
"""Hooks with which a person is asked before the call of the model, also where the request fits."""


def calm(text: str = "answered") -> ScriptedModel:
    """A model whose real usage is small, so that nothing is compacted after its answer."""
    return ScriptedModel(replies=[usage(AIMessage(text, id="the-answer"), 100)])


def filler(words: int, tag: str = "w") -> str:
    """So many words, no two of them alike."""
    return " ".join(f"{tag}{number}" for number in range(words))


def said(text: str, name: str | None = None) -> dict[str, Any]:
    """The input of a user who says this."""
    return {"messages": [HumanMessage(text, id=name)]}


def rounds(count: int, words: int = 50, tag: str = "r") -> list[AnyMessage]:
    """Answered rounds of two messages of so many words, with ids."""
    return [
        message
        for n in range(count)
        for message in (
            HumanMessage(filler(words, f"{tag}u{n}-"), id=f"{tag}-user-{n}"),
            AIMessage(filler(words, f"{tag}a{n}-"), id=f"{tag}-answer-{n}"),
        )
    ]


NEAR: dict[str, Any] = {"messages": [*rounds(6), HumanMessage(filler(60, "near"), id="near")]}
"""An input after which one more round as long as the last two would reach the trigger of 800 words."""


def at_work() -> list[threading.Thread]:
    """The OS threads that prepare summaries."""
    return [one for one in threading.enumerate() if one.name == "compaction-ahead"]


async def ended() -> None:
    """Wait until nothing is prepared any more."""
    for worker in at_work():
        await asyncio.to_thread(worker.join, 60)


def full(text: str = "and now?") -> dict[str, Any]:
    """An input that adopts a conversation over the trigger (864 tokens) and asks something."""
    return {"messages": [*rounds(8), HumanMessage(text, id="question")]}


PROSE = (
    "Container lashings, harbour pilots, customs brokers, refrigerated lorries, ballast pumps, bilge alarms, anchor "
    "chains, lighthouse keepers, tugboat captains, mooring ropes, gangways, radar echoes, lifeboats, propellers."
)
"""A text of so many different words that a summary has to share some of them."""


def told() -> dict[str, Any]:
    """An input like `full`, whose first message is `PROSE`."""
    return {"messages": [HumanMessage(PROSE, id="prose"), *full()["messages"]]}


def tool_block(number: int, words: int, name: str = "read") -> list[AnyMessage]:
    """A call and its result of so many words."""
    call = {"name": name, "args": {"n": number}, "id": f"call-{number}"}
    return [
        AIMessage("", tool_calls=[call], id=f"call-message-{number}"),
        ToolMessage(filler(words, f"t{number}-"), tool_call_id=f"call-{number}", id=f"result-{number}", name=name),
    ]


def values(graph: Any, config: RunnableConfig | None = None) -> dict[str, Any]:
    """The thread's state, with the messages that the model sees."""
    found: dict[str, Any] = graph.get_state(config or CONFIG).values
    return {**found, "messages": messages_in_view(found)} if "messages" in found else found


def standing(graph: Any, config: RunnableConfig | None = None) -> dict[str, Any]:
    """The thread's compaction channel."""
    found: dict[str, Any] = values(graph, config)["compaction"]
    return found


def ledger(graph: Any, thread: str = THREAD) -> list[LedgerRow]:
    """The thread's attempts."""
    return records_of(graph).history(thread)


def verdicts(graph: Any, thread: str = THREAD) -> list[str | None]:
    """The verdicts of the thread's attempts."""
    return [row.verdict for row in ledger(graph, thread)]


def steps(chunks: Sequence[Any]) -> list[str]:
    """Names of the nodes that ran, from a stream of updates or of several modes."""
    return list(_steps(chunks))


def _steps(chunks: Sequence[Any]) -> Iterator[str]:
    for chunk in chunks:
        mode, update = chunk if isinstance(chunk, tuple) else ("updates", chunk)
        if mode == "updates":
            yield from update


def events(chunks: Sequence[Any], name: str | None = None) -> list[dict[str, Any]]:
    """Events of a stream whose modes include `custom`, of one class or of all."""
    found = [payload for mode, payload in chunks if mode == "custom"]
    return [event for event in found if name in (None, event["event"])]


def request_tokens(messages: Sequence[BaseMessage]) -> int:
    """Tokens of a request without calls: its words, and four more for each message."""
    return sum(len(message.text.split()) + 4 for message in messages)


def frozen(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as plain data, for a comparison to the byte."""
    return [message.model_dump() for message in messages]
