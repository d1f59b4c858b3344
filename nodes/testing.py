"""Test doubles for your own agent: scripted models, and savers and records that fail on purpose.

A scripted model returns replies in turn, raises or stalls, and records the messages it received; `BAD_REPLIES` holds
faulty summaries by name; `failing` and `failing_records` make the nth call of a method raise.

    model, summarizer = ScriptedModel(), ScriptedModel(replies=[BAD_REPLIES["refusal"]])
    agent = create_compacting_agent(model, settings=..., summarizer=summarizer, checkpointer=InMemorySaver())
    agent.invoke(...)
    assert "the fact I need" in texts(model.received[-1])
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from .runtime.node_context import CompactionNode

T = TypeVar("T")
Reply = AIMessage | str | Exception | Callable[[list[BaseMessage]], Any]
"""A message, a text, an exception to raise, or a function that makes one of these from the received messages."""


class ScriptedModel(BaseChatModel):
    """A chat model that returns one scripted reply per call, in order; the last one is repeated."""

    replies: list[Any] = Field(default_factory=lambda: ["ok"])
    """The replies, returned one per call; when all are used, the last one is returned again."""
    received: list[list[BaseMessage]] = Field(default_factory=list)
    """The messages of every call, oldest call first."""
    profile_window: int | None = None
    """The context window, in tokens, that the model's profile reports; `None` for no profile."""
    bound_tools: list[Any] = Field(default_factory=list)
    name_: str = "scripted"

    def model_post_init(self, context: Any, /) -> None:
        """Put the context window into the profile, where providers report it."""
        super().model_post_init(context)
        if self.profile_window is not None:
            self.profile = {"max_input_tokens": self.profile_window}

    @property
    def model_name(self) -> str:
        """The model's name, under the attribute that provider packages use."""
        return self.name_

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, Any]:
        """Record the tools and return the same model; the script decides which tools are called."""
        self.bound_tools[:] = list(tools)
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        reply: Any = self.replies[min(len(self.received), len(self.replies) - 1)]
        self.received.append(list(messages))
        if callable(reply) and not isinstance(reply, Exception):
            reply = reply(messages)
        if isinstance(reply, Exception):
            raise reply
        answer = AIMessage(reply) if isinstance(reply, str) else cast("AIMessage", reply)
        return answer.model_copy()

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])


class StreamingModel(ScriptedModel):
    """A `ScriptedModel` that streams its replies word by word."""

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        *begun, last = reply.text.split(" ")
        calls = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=n)
            for n, call in enumerate(reply.tool_calls)
        ]
        kept: dict[str, Any] = {name: getattr(reply, name) for name in ("usage_metadata", "response_metadata")}
        end = AIMessageChunk(content=last, tool_call_chunks=calls, **kept)
        for message in [*(AIMessageChunk(content=f"{word} ") for word in begun), end]:
            yield ChatGenerationChunk(message=message)


class Stall:
    """A wait that ends when `let_go` is set or, on an event loop, when it is cancelled."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.calls = 0
        self.cancelled = False

    def wait(self) -> None:
        """Block the calling OS thread until a test sets `let_go`."""
        self._enter()
        self.let_go.wait()

    async def await_(self) -> None:
        """Wait until the task is cancelled, unless `let_go` is already set."""
        self._enter()
        try:
            if not self.let_go.is_set():
                await asyncio.Future()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def _enter(self) -> None:
        self.calls += 1
        self.entered.set()


class StalledModel(ScriptedModel):
    """A scripted model that does not answer until its stall's `let_go` is set."""

    stall: Any = Field(default_factory=Stall)

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        self.stall.wait()
        return super()._generate(messages, *args, **more)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        await self.stall.await_()
        return super()._generate(messages, *args, **more)


def calls(*pairs: tuple[str, dict[str, Any]], start: int = 1, text: str = "") -> AIMessage:
    """Return an assistant message that calls tools, given as `(name, arguments)`, with the ids call-1, call-2, ..."""
    made = [{"name": name, "args": args, "id": f"call-{start + n}"} for n, (name, args) in enumerate(pairs)]
    return AIMessage(text, tool_calls=made)


def usage(message: AIMessage, input_tokens: int, output_tokens: int = 10) -> AIMessage:
    """Return the message with this token usage in `usage_metadata`."""
    counts = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return message.model_copy(update={"usage_metadata": {**counts, "total_tokens": sum(counts.values())}})


def texts(messages: Sequence[AnyMessage | BaseMessage]) -> str:
    """Return all texts and tool calls of a request as one string in which a test can search."""
    return "\n".join(f"{message.text} {getattr(message, 'tool_calls', '')}" for message in messages)


def inflated(messages: list[BaseMessage]) -> str:
    """Return a summary that is longer than the text that the summarizer was shown."""
    return f"<summary>The user said {' '.join(f'word{n}' for n, _ in enumerate(texts(messages).split()))}</summary>"


_GOOD = "<summary>The user asked for a report. The assistant wrote half of it.</summary>"

BAD_REPLIES: Mapping[str, Reply] = MappingProxyType(
    {
        "empty": AIMessage(""),
        "whitespace": AIMessage(" \n\t "),
        "thinking only": AIMessage([{"type": "thinking", "thinking": "let me see what was said"}]),
        "nothing before the output limit": AIMessage("", response_metadata={"finish_reason": "length"}),
        "cut off": AIMessage(_GOOD, response_metadata={"finish_reason": "length"}),
        "refusal": AIMessage("", additional_kwargs={"refusal": "I'm sorry, but I can't help with that."}),
        "withheld": AIMessage(_GOOD, response_metadata={"finish_reason": "content_filter"}),
        "tool call": calls(("read", {"path": "notes.txt"})),
        "unclosed tag": AIMessage("<summary>The user asked for a report."),
        "empty tags": AIMessage("<summary> \n </summary>"),
        "placeholder": AIMessage("<summary>(no summary available)</summary>"),
        "headings only": AIMessage("<summary># Task Overview\n# Current State\n# Next Steps</summary>"),
        "continues the chat": AIMessage("<summary>Sure! I'll open the file now. Shall I go on?</summary>"),
        "inflated": inflated,
        "transient error": ConnectionError("connection reset"),
        "permanent error": ValueError("no such model"),
    }
)
"""Faulty replies of a summarizer, by name, to be used as `ScriptedModel(replies=[BAD_REPLIES[name]])`."""


class Fault:
    """Makes `times` calls of an object's method raise, from the nth call on; all of them if `times` is `None`.

    The fault takes effect when it is created, and ends with `mend()` or at the end of a `with` block. The object is
    changed in place, so it keeps its class and its other methods. A coroutine method raises when it is awaited.
    """

    def __init__(
        self, thing: Any, method: str, *, nth: int = 1, times: int | None = 1, error: Exception | None = None
    ) -> None:
        self.thing, self.method, self.nth, self.times = thing, method, nth, times
        self.error = error or OSError(f"{method} fails on purpose")
        self.calls = 0
        """Number of calls so far, including those that raised."""
        self._lock = threading.Lock()
        setattr(thing, method, self._around(getattr(thing, method)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()

    def mend(self) -> None:
        """Remove the fault, so that the method works again."""
        vars(self.thing).pop(self.method, None)

    def _around(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        async def raise_late() -> None:
            raise self.error

        @wraps(whole)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._is_due():
                return whole(*args, **kwargs)
            if iscoroutinefunction(whole):
                return raise_late()
            raise self.error

        return call

    def _is_due(self) -> bool:
        with self._lock:
            self.calls += 1
            since = self.calls - self.nth
        return since >= 0 and (self.times is None or since < self.times)


def failing(thing: T, method: str, **how: Any) -> T:
    """Put a `Fault` into an object and return the object: `checkpointer=failing(InMemorySaver(), "put", nth=3)`."""
    Fault(thing, method, **how)
    return thing


def failing_records(graph: Any, method: str, **how: Any) -> Fault:
    """Put a `Fault` into a graph's records: `begin` (snapshot), `record_summary`, `commit` (archive) or `close`."""
    node = graph.builder.nodes["token_check"].runnable
    if not isinstance(node, CompactionNode):
        raise TypeError("this graph was not made by create_compacting_agent or create_compaction_graph")
    return Fault(node.dependencies.records, method, **how)
