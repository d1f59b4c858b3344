"""Fakes at the model's edge: scripted, and recording what they received."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from langgraph_compaction.nodes import Reply as SummaryReply
from langgraph_compaction.nodes import SummaryRequest

Reply = AIMessage | str | Exception | Callable[[list[BaseMessage]], Any]


class ScriptedModel(BaseChatModel):
    """Gives one scripted reply a call, in order; the last one is repeated for ever.

    A reply is a message, a text, an exception to raise, or a function of the messages received. `received`
    holds the messages of every call.
    """

    replies: list[Any] = Field(default_factory=lambda: ["ok"])
    received: list[list[BaseMessage]] = Field(default_factory=list)
    profile_window: int | None = None
    bound_tools: list[Any] = Field(default_factory=list)
    name_: str = "scripted"

    def model_post_init(self, context: Any, /) -> None:
        """Carry the window as providers do: in the profile."""
        super().model_post_init(context)
        if self.profile_window is not None:
            self.profile = {"max_input_tokens": self.profile_window}

    @property
    def model_name(self) -> str:
        """Name of the model, as provider packages have it."""
        return self.name_

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, Any]:
        """Remember the tools; the script decides what is called."""
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

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the same
        **_: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])


class StreamingModel(ScriptedModel):
    """The same, word by word."""

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        calls = [
            tool_call_chunk(name=call["name"], args=str(call["args"]).replace("'", '"'), id=call["id"], index=n)
            for n, call in enumerate(reply.tool_calls)
        ]
        words = reply.text.split(" ") if reply.text else [""]
        for position, word in enumerate(words):
            last = position == len(words) - 1
            message = AIMessageChunk(
                content=word if last else f"{word} ",
                tool_call_chunks=calls if last else [],
                usage_metadata=reply.usage_metadata if last else None,
                response_metadata=reply.response_metadata if last else {},
            )
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


class ReplyingSummarizer:
    """A summariser of the user's own that always gives the same reply, or raises it."""

    name = "own"

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.requests: list[SummaryRequest] = []

    def summarize(self, request: SummaryRequest) -> Any:
        """Give the reply."""
        self.requests.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    async def asummarize(self, request: SummaryRequest) -> Any:
        """Give the reply, asynchronously."""
        return self.summarize(request)


class StalledSummarizer:
    """A summariser that gives no answer until it is let go."""

    name = "stalled"

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.calls = 0
        self.cancelled = False

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Wait."""
        self.calls += 1
        self.entered.set()
        self.let_go.wait()
        return self._late(request)

    async def asummarize(self, request: SummaryRequest) -> SummaryReply:
        """Wait to be cancelled, unless it was let go before."""
        self.calls += 1
        self.entered.set()
        try:
            if not self.let_go.is_set():
                await asyncio.Future()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self._late(request)

    def _late(self, request: SummaryRequest) -> SummaryReply:
        return SummaryReply(content=f"<summary>late: {len(request.messages)} messages</summary>")


def calls(*pairs: tuple[str, dict[str, Any]], start: int = 1, text: str = "") -> AIMessage:
    """An assistant message that calls tools: `(name, arguments)` each, with ids call-1, call-2 and so on."""
    made = [{"name": name, "args": args, "id": f"call-{start + n}"} for n, (name, args) in enumerate(pairs)]
    return AIMessage(text, tool_calls=made)


def usage(message: AIMessage, input_tokens: int, output_tokens: int = 10) -> AIMessage:
    """The message with the provider's usage on it."""
    counts = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }
    return message.model_copy(update={"usage_metadata": counts})


def texts(messages: Sequence[AnyMessage | BaseMessage]) -> str:
    """All text of a request, for searching."""
    return "\n".join(f"{message.text} {getattr(message, 'tool_calls', '')}" for message in messages)
