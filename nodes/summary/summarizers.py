"""Who writes the summary: a chat model, a compiled graph, an object of the protocol, or the digest."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_HIDDEN

from ..config.prompts import FIVE_SECTIONS, PromptSet
from ..conversation.tokens import TokenCounter
from ..digest.digest import digest
from ..errors import SettingsError
from ..gate.reply_form import CONTRACTS, Contract, Free
from .summary_message import Reply

TAGS = ["nostream", "compaction"]


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """What one call of a summarizer is asked to stand for."""

    messages: tuple[AnyMessage, ...]
    """The originals that leave the view, or one chunk of them."""
    conversation: str
    """The same as escaped text, fitted to the summarizer's input."""
    earlier: str | None
    """The summary so far, which the new one replaces and absorbs."""
    record: Mapping[str, Any] | None
    """Structured content of the summary so far, if a digest wrote it."""
    facts: Mapping[str, Any] | None = None
    """The facts that stood beside it, if it is prose."""
    stays: tuple[AnyMessage, ...] = ()
    """The messages that stay in view beside the summary, as they will stand there."""
    max_tokens: int
    """Most tokens the summary may hold."""
    counter: TokenCounter
    focus: str | None = None
    defect: str | None = None
    """Why the last reply to this request was rejected."""
    prompts: PromptSet = FIVE_SECTIONS
    """What a chat model is told."""
    instructions: str | None = None
    """What the settings ask of every summary besides."""
    max_chars: int | None = None
    """Most characters the summary may hold, where they are limited too."""
    callbacks: Any = None
    """Callbacks of the run, so that tracing sees the call."""

    def prompt(self) -> list[BaseMessage]:
        """The request as messages for a chat model."""
        text = self.prompts.user(
            self.conversation,
            earlier=self.earlier,
            max_tokens=self.max_tokens,
            max_chars=self.max_chars,
            instructions=self.instructions,
            focus=self.focus,
            defect=self.defect,
        )
        return [SystemMessage(self.prompts.system), HumanMessage(text)]


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
            previous=request.record or request.facts,
            previous_text=None if request.record else request.earlier,
            focus=request.focus,
            beside=request.stays,
        )
        text = made.text or notice(request)
        return Reply(content=text, record=made.record, contract=Free())

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Extract on a worker thread: the text may be long."""
        return await asyncio.to_thread(self.summarize, request)


@dataclass(frozen=True)
class NoticeSummarizer:
    """The last level's text: that something left, and as much of the earlier summary as fits."""

    name: str = "hide"
    whole: bool = True

    def summarize(self, request: SummaryRequest) -> Reply:
        """Write the notice."""
        text = notice(request)
        left = request.max_tokens - request.counter.text(text) - 2
        kept = request.counter.head(request.earlier, left) if request.earlier and left > 0 else ""
        return Reply(content=f"{text}\n{kept}".strip(), record=request.record, contract=Free())

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
        output = self.runnable.invoke(self._input(request), self._config(request))
        return self._reply(output, CONTRACTS[request.prompts.form])

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Ask, asynchronously."""
        output = await self.runnable.ainvoke(self._input(request), self._config(request))
        return self._reply(output, CONTRACTS[request.prompts.form])

    def _input(self, request: SummaryRequest) -> Any:
        return {"messages": request.prompt()} if self.is_graph else request.prompt()

    def _config(self, request: SummaryRequest) -> RunnableConfig:
        tags = [*TAGS, TAG_HIDDEN] if self.is_graph else TAGS  # a graph's nodes would stream their messages
        return RunnableConfig(tags=tags, callbacks=request.callbacks, run_name="compaction_summary")

    def _reply(self, output: Any, contract: Contract) -> Reply:
        if isinstance(output, Mapping):
            output = cast("Mapping[str, Any]", output)["messages"][-1]
        if not isinstance(output, AIMessage):
            return Reply(content=output, contract=contract)
        usage, meta = output.usage_metadata, output.response_metadata
        return Reply(
            content=output.content,
            finish_reason=_finish_reason(output),
            has_tool_calls=bool(output.tool_calls or output.invalid_tool_calls),
            input_tokens=usage["input_tokens"] if usage else 0,
            output_tokens=usage["output_tokens"] if usage else 0,
            model=meta.get("model_name") or meta.get("model"),
            contract=contract,
        )


def _finish_reason(answer: AIMessage) -> str | None:
    """Why the model stopped, under whatever name its provider's package gives it; a refusal comes first."""
    if answer.additional_kwargs.get("refusal"):
        return "refusal"
    names = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
    found = (answer.response_metadata.get(name) for name in names)
    return next((str(reason) for reason in found if reason), None)


def summarizer_of(given: Any) -> Summarizer:
    """The summarizer that a builder's argument means; raises `SettingsError` for anything else."""
    if given in (None, "digest"):
        return DigestSummarizer()
    if isinstance(given, BaseChatModel):
        return RunnableSummarizer(given, is_graph=False)
    if isinstance(given, Runnable):
        return RunnableSummarizer(given, is_graph=hasattr(given, "get_graph") and hasattr(given, "nodes"))
    if isinstance(given, Summarizer):
        return given
    raise SettingsError(
        f"summarizer={given!r} is not a summarizer: give a chat model, a compiled graph, an object with "
        'name, summarize and asummarize, or "digest"'
    )


def is_deterministic(summarizer: Summarizer) -> bool:
    """Whether it takes the old part whole, needs nobody's answer, and would give the same one again."""
    return bool(getattr(summarizer, "whole", False))
