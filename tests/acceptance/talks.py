"""Conversations of real size, and what a provider's own chat model is sent instead of the call over the network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, tiktoken_counter
from tests.fakes import claude, clock_of, gpt
from tests.graph.harness import CONFIG
from tests.settings import KNOWN

Replies = Callable[[], Any]
REAL = pytest.mark.parametrize("real", [lambda: gpt("gpt-4o"), claude], ids=["gpt-4o", "claude"])
SENTENCE = "The harbor office wrote that the ferry leaves at nine and that the crates stay in the northern shed. "
"""Twenty tokens."""
NOTED = "The harbor office wrote to the user when the ferry leaves and where the crates stay; the assistant read it."
"""A summary that a chat model writes unless a test says otherwise."""
QUESTION = HumanMessage("When does the ferry leave?", id="question")


class Sent(list[list[BaseMessage]]):
    """The requests that a chat model was sent, oldest first; `replies` are its answers, the last one repeated.

    Requests for a summary are kept apart in `summaries` and answered with `summary`, if it is given: a reply, or a
    list of replies, of which the last one is repeated.
    """

    def __init__(self, replies: Sequence[Any], summary: Any = None) -> None:
        super().__init__()
        self.replies: Iterator[Any] = iter(replies)
        self.last: Any = "Noted."
        self.summary = summary.pop(0) if isinstance(summary, list) else summary
        self.next_summaries: list[Any] = summary if isinstance(summary, list) else []
        self.summaries: list[list[BaseMessage]] = []
        self.tools: list[list[str]] = []
        """The names of the tools of each request, as OpenAI is sent them."""

    def answer(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        """Stand in for `_generate` of a chat model."""
        if self.summary is not None and "<conversation>" in messages[-1].text:
            self.summaries.append(list(messages))
            written = self.summary
            if self.next_summaries:
                self.summary = self.next_summaries.pop(0)
            return result_of(written)
        self.append(list(messages))
        self.tools.append([tool["function"]["name"] for tool in options.get("tools", ()) if "function" in tool])
        self.last = next(self.replies, self.last)
        return result_of(self.last)


def result_of(reply: Any) -> ChatResult:
    """Return a reply, a text or a message, as a chat model does; raise it where it is an exception."""
    if isinstance(reply, Exception):
        raise reply
    message = AIMessage(reply) if isinstance(reply, str) else reply.model_copy()
    return ChatResult(generations=[ChatGeneration(message=message)])


def answer_with(patch: pytest.MonkeyPatch, model: Any, *replies: Any, summary: Any = NOTED) -> Sent:
    """Let a chat model answer with these replies instead of calling its provider, and summarize with `summary`."""
    sent = Sent(replies, summary)
    patch.setattr(type(model), "_generate", lambda _, messages, *a, **k: sent.answer(messages, *a, **k))
    return sent


def agent_of(model: Any, preset: str, tools: Sequence[Any] = (), summarizer: Any = None, **given: Any) -> Any:
    """Build an agent with a preset's own settings; what is no setting is an argument of the builder.

    `summary_ahead` is off unless asked for: a summary prepared in the background would make the number of requests
    depend on time.
    """
    given.setdefault("summary_ahead", False)
    settings = {name: given.pop(name) for name in list(given) if name in KNOWN}
    given.setdefault("checkpointer", InMemorySaver())
    with clock_of(given.pop("now", None)):
        return create_compacting_agent(
            model,
            tools,
            settings=CompactionSettings.model_validate({"preset": preset, **settings}),
            summarizer=summarizer,
            **given,
        )


@dataclass(frozen=True)
class Story:
    """What happened to an agent once, for several tests to look at."""

    agent: Any
    sent: Sent
    chunks: list[Any]
    """What the runs streamed: updates and events."""
    begun: list[AnyMessage]
    """The messages of the first input."""

    @property
    def request(self) -> list[BaseMessage]:
        """The first request that the model was sent after the compaction."""
        return self.sent[0]


def story(
    model: Any, preset: str, *inputs: Any, replies: Sequence[Any] = (), summary: Any = None, **given: Any
) -> Story:
    """Lead an agent whose own model writes its summaries through these inputs, one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        sent = answer_with(patch, model, *replies, summary=summary)
        agent = agent_of(model, preset, **{"summarizer": None, **given})
        chunks = [c for one in inputs for c in agent.stream(one, CONFIG, stream_mode=["updates", "custom"])]
    return Story(agent, sent, chunks, inputs[0]["messages"])


@cache
def counter() -> TokenCounter:
    """Return the counter of gpt-4o, with which an agent counts too."""
    return tiktoken_counter("gpt-4o")


@cache
def words(tokens: int) -> str:
    """Return a text of exactly so many tokens, as gpt-4o counts them."""
    text = "word" + " word" * (tokens - 1)
    assert counter().text(text) == tokens
    return text


def said(count: int, sentences: int) -> list[AnyMessage]:
    """Return so many answered rounds of two messages of so many sentences, about 20 tokens each."""
    return [
        message
        for n in range(count)
        for message in (
            HumanMessage(f"Note {n}. " + SENTENCE * sentences, id=f"note-{n}"),
            AIMessage(f"Read {n}. " + SENTENCE * sentences, id=f"read-{n}"),
        )
    ]


def block(number: int, tool: str, result: str, **arguments: Any) -> list[AnyMessage]:
    """Return a message that calls a tool, and the tool's result."""
    call = {"name": tool, "args": {"n": number, **arguments}, "id": f"call-{number}"}
    return [
        AIMessage("", tool_calls=[call], id=f"asks-{number}"),
        ToolMessage(result, tool_call_id=f"call-{number}", id=f"gets-{number}", name=tool),
    ]


def blocks(count: int, sentences: int, tools: Sequence[str] = ("read", "search", "list")) -> list[AnyMessage]:
    """Return so many tool blocks of different tools in turn, each with a result of so many sentences."""
    return [
        message for n in range(count) for message in block(n, tools[n % len(tools)], f"{n}: " + SENTENCE * sentences)
    ]


def ids(messages: Sequence[BaseMessage], prefix: str = "") -> list[str]:
    """Return the ids that begin so, in order."""
    return [message.id for message in messages if message.id is not None and message.id.startswith(prefix)]
