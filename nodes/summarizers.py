"""Who writes the summary: a chat model, a compiled graph, an object of the protocol, or the digest."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_HIDDEN

from .errors import SettingsError
from .policies.digest import digest
from .policies.summary import Reply
from .policies.tokens import TokenCounter
from .prompts import SYSTEM, user_prompt
from .steps import Step, blocking, either

T = TypeVar("T")
TAGS = ["nostream", "compaction"]


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """What one call of a summariser is asked to stand for."""

    messages: tuple[AnyMessage, ...]
    """The originals that leave the view, or one chunk of them."""
    conversation: str
    """The same as escaped text, fitted to the summariser's input."""
    earlier: str | None
    """The summary so far, which the new one replaces and absorbs."""
    record: Mapping[str, Any] | None
    """Structured content of the summary so far, if a digest wrote it."""
    max_tokens: int
    """Most tokens the summary may hold."""
    counter: TokenCounter
    focus: str | None = None
    defect: str | None = None
    """Why the last reply to this request was rejected."""
    callbacks: Any = None
    """Callbacks of the run, so that tracing sees the call."""

    def prompt(self) -> list[BaseMessage]:
        """The request as messages for a chat model."""
        text = user_prompt(
            self.conversation,
            earlier=self.earlier,
            max_tokens=self.max_tokens,
            focus=self.focus,
            defect=self.defect,
        )
        return [SystemMessage(SYSTEM), HumanMessage(text)]


@runtime_checkable
class Summarizer(Protocol):
    """Turns the old part of a conversation into text. May raise; never called twice for the same failure."""

    @property
    def name(self) -> str:
        """Name of the strategy in ledger and events."""
        ...

    def summarize(self, request: SummaryRequest) -> Reply:
        """Answer the request."""
        ...

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Answer the request, asynchronously."""
        ...


def notice(request: SummaryRequest) -> str:
    """The shortest summary there is: that something left."""
    return f"{len(request.messages)} earlier messages are no longer in view."


@dataclass(frozen=True)
class DigestSummarizer:
    """Extracts goal, rules, identifiers, steps and open points. Needs no model and cannot be refused."""

    name: str = "digest"
    whole: bool = True
    """Takes the old part whole, as messages: there is no input limit to fit."""

    def summarize(self, request: SummaryRequest) -> Reply:
        """Extract what fits the request's budget."""
        made = digest(
            request.messages,
            budget=request.max_tokens,
            counter=request.counter,
            previous=request.record,
            previous_text=None if request.record else request.earlier,
            focus=request.focus,
        )
        text = made.text or notice(request)
        return Reply(content=text, record=made.record, contract="free")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Extract on a worker thread: the text may be long."""
        return await asyncio.to_thread(self.summarize, request)


@dataclass(frozen=True)
class NoticeSummarizer:
    """The last rung's text: that something left, and as much of the earlier summary as fits."""

    name: str = "hide"
    whole: bool = True

    def summarize(self, request: SummaryRequest) -> Reply:
        """Write the notice."""
        text = notice(request)
        left = request.max_tokens - request.counter.text(text) - 2
        kept = request.counter.head(request.earlier, left) if request.earlier and left > 0 else ""
        return Reply(content=f"{text}\n{kept}".strip(), record=request.record, contract="free")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Write the notice."""
        return self.summarize(request)


@dataclass(frozen=True)
class RunnableSummarizer:
    """Asks a chat model, or a compiled graph whose state has `messages`."""

    runnable: Runnable[Any, Any]
    is_graph: bool
    name: str = "model"

    def summarize(self, request: SummaryRequest) -> Reply:
        """Ask, outside the turn's own context: thread, checkpointer and tools are not inherited."""
        return self._reply(self.runnable.invoke(self._input(request), self._config(request)))

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Ask, asynchronously."""
        return self._reply(await self.runnable.ainvoke(self._input(request), self._config(request)))

    def _input(self, request: SummaryRequest) -> Any:
        return {"messages": request.prompt()} if self.is_graph else request.prompt()

    def _config(self, request: SummaryRequest) -> RunnableConfig:
        tags = [*TAGS, TAG_HIDDEN] if self.is_graph else TAGS  # a graph's nodes would stream their messages
        return RunnableConfig(tags=tags, callbacks=request.callbacks, run_name="compaction_summary")

    def _reply(self, output: Any) -> Reply:
        if isinstance(output, Mapping):
            output = cast("Mapping[str, Any]", output)["messages"][-1]
        if not isinstance(output, AIMessage):
            return Reply(content=output)
        usage, meta = output.usage_metadata, output.response_metadata
        return Reply(
            content=output.content,
            finish_reason=_finish_reason(output),
            has_tool_calls=bool(output.tool_calls or output.invalid_tool_calls),
            input_tokens=usage["input_tokens"] if usage else 0,
            output_tokens=usage["output_tokens"] if usage else 0,
            model=meta.get("model_name") or meta.get("model"),
        )


def _finish_reason(answer: AIMessage) -> str | None:
    """Why the model stopped, under whatever name its provider's package gives it; a refusal comes first."""
    if answer.additional_kwargs.get("refusal"):
        return "refusal"
    names = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
    found = (answer.response_metadata.get(name) for name in names)
    return next((str(reason) for reason in found if reason), None)


class SummaryTimeoutError(TimeoutError):
    """The summariser gave no answer in the time that a call of it may take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the summariser gave no answer within {seconds} s (summary_timeout_s)")


def summarizer_of(given: Any) -> Summarizer:
    """The summariser that a builder's argument means; raises `SettingsError` for anything else."""
    if given in (None, "digest"):
        return DigestSummarizer()
    if isinstance(given, BaseChatModel):
        return RunnableSummarizer(given, is_graph=False)
    if isinstance(given, Runnable):
        return RunnableSummarizer(given, is_graph=hasattr(given, "get_graph") and hasattr(given, "nodes"))
    if isinstance(given, Summarizer):
        return given
    raise SettingsError(
        f"summarizer={given!r} is not a summariser: give a chat model, a compiled graph, an object with "
        'name, summarize and asummarize, or "digest"'
    )


def called(summarizer: Summarizer, request: SummaryRequest, seconds: float) -> Step[Reply]:
    """Ask a summariser, for at most `seconds`; `TypeError` where it gives back what is no reply.

    One that needs nobody's answer has no time-out: on a busy machine too it must come to its end (F11).
    """
    if getattr(summarizer, "whole", False):
        return (yield from blocking(lambda: summarizer.summarize(request)))
    reply: Any = yield from either(
        lambda: bounded(lambda: summarizer.summarize(request), seconds),
        lambda: abounded(lambda: summarizer.asummarize(request), seconds),
    )
    if not isinstance(reply, Reply):
        raise TypeError(f"the summariser {summarizer.name!r} returned a {type(reply).__name__}, not a Reply")
    return reply


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Run a call on a thread of its own, in an empty context; raise `SummaryTimeoutError` after `seconds`.

    A call that has stalled is left behind: it can delay neither the turn nor the end of the process.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            failure.append(error)

    thread = threading.Thread(
        target=contextvars.Context().run, args=(target,), daemon=True, name="compaction-summary"
    )
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise SummaryTimeoutError(seconds)
    return outcome[0]


async def abounded(call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Await a call in an empty context; raise `SummaryTimeoutError` after `seconds`."""

    async def target() -> T:
        return await call()

    task = asyncio.get_running_loop().create_task(target(), context=contextvars.Context())
    try:
        async with asyncio.timeout(seconds):
            return await task
    except TimeoutError:
        if task.done() and not task.cancelled():
            raise  # the summariser's own
        raise SummaryTimeoutError(seconds) from None
    finally:
        task.cancel()
