"""The summarizers: a chat model or a compiled graph, an object of the `Summarizer` protocol, or the digest."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_HIDDEN

from ..config.prompts import FIVE_SECTIONS, WORDINGS, Asked, Language, filled
from ..conversation.tokens import TokenCounter, joined_texts
from ..digest.digest import digest
from ..errors import SettingsError
from ..gate.reply_checks import Reply
from ..providers.finish_reasons import finish_reason
from ..text.quoting import one_line, quoted
from .prompt_cache import with_cache_markers

TAGS = ["nostream", "compaction"]
NAMED_CHARS = 120
"""Number of leading characters of the last message to be summarized by which a request names it."""

AcceptSummary = Callable[[str, Sequence[AnyMessage]], bool]
"""An application's check of a model's summary; it is given the summary and the messages that it replaces."""


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """The input of one call of a summarizer."""

    messages: tuple[AnyMessage, ...]
    """The messages to be summarized and removed, or one chunk of these messages."""
    conversation: str
    """The messages in `messages` as escaped text, cut to the summarizer's input limit."""
    earlier: str | None
    """The current summary, if any; the new summary replaces the current summary and must keep its content."""
    record: Mapping[str, Any] | None
    """Structured content of the current summary, if a digest wrote it."""
    facts: Mapping[str, Any] | None = None
    """The facts next to the current summary, if a model wrote that summary."""
    stays: tuple[AnyMessage, ...] = ()
    """The messages that remain in the conversation next to the new summary."""
    max_tokens: int
    """Maximum number of tokens of the summary."""
    counter: TokenCounter
    focus: str | None = None
    """What the user asked the summary to keep above all."""
    defect: str | None = None
    """The reason why the last reply to this request was rejected."""
    summary_prompt: str = FIVE_SECTIONS
    """The prompt for a chat model."""
    language: Language = "en"
    """Language of the requests that are added to the prompt."""
    max_chars: int | None = None
    """Maximum number of characters of the summary; `None` for no limit."""
    callbacks: Any = None
    """Callbacks of the graph's invocation, through which tracing sees the summarizer's call."""
    configurable: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the application's config names for its run, such as a model, without what belongs to the thread."""
    lists: bool = False
    """Whether the model is asked to list rules and decisions after its summary (see `split_list`)."""
    behind: tuple[AnyMessage, ...] = ()
    """The agent's own request, behind which its model is asked, so that the provider reads it from its prompt cache;
    empty if the model is shown `conversation` instead."""

    def prompt(self) -> list[BaseMessage]:
        """Return the request as messages for a chat model."""
        said = WORDINGS[self.language]
        above = quoted(beginning_of(self.messages[-1])) if self.behind else ""
        asked = Asked(
            conversation=above.join(said.above) if self.behind else self.conversation,
            earlier=said.above_record if self.behind and self.earlier else self.earlier,
            max_tokens=self.max_tokens,
            max_chars=self.max_chars,
            focus=self.focus,
            defect=self.defect,
            lists=self.lists,
        )
        system, user = filled(self.summary_prompt, asked, self.language)
        if self.behind:
            return [*self.behind, HumanMessage("\n\n".join(filter(None, (system, user))))]
        return [*([] if system is None else [SystemMessage(system)]), HumanMessage(user)]


def beginning_of(message: AnyMessage) -> str:
    """Return the line by which a request names a message of the agent's own request."""
    return one_line(joined_texts(message), NAMED_CHARS)


@runtime_checkable
class Summarizer(Protocol):
    """Summarizes messages to be removed. If a summarizer raises, the attempt fails and is rolled back.

    With an attribute `max_input_tokens`, it is shown at most 75 % of these tokens in one call; without it, as many as
    the agent's own model.
    """

    @property
    def name(self) -> str:
        """The name that the ledger and the events record as part of the strategy."""
        ...

    def summarize(self, request: SummaryRequest) -> Reply:
        """Return a reply that holds the summary."""
        ...

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Asynchronous form of `summarize`."""
        ...


def notice(request: SummaryRequest) -> str:
    """Return the shortest possible summary, which gives only the number of removed messages."""
    return f"{len(request.messages)} earlier messages are no longer in view."


@dataclass(frozen=True)
class DigestSummarizer:
    """Extracts the user's own words, identifiers, steps and statements, without a model."""

    name: str = "digest"
    deterministic: bool = True
    """Whether the summarizer needs no model and reads all messages in one call, whatever their size."""

    def summarize(self, request: SummaryRequest) -> Reply:
        """Extract a digest of at most `request.max_tokens` tokens."""
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
        return Reply(content=text, record=made.record)

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Extract on a worker OS thread, because a long text would block the event loop."""
        return await asyncio.to_thread(self.summarize, request)


@dataclass(frozen=True)
class NoticeSummarizer:
    """Writes a notice and as much of the earlier summary as fits; the summarizer of the last fallback level.

    The record holds the earlier summary whole, as far as its size allows, for the next compaction.
    """

    name: str = "hide"
    deterministic: bool = True

    def summarize(self, request: SummaryRequest) -> Reply:
        """Write the notice."""
        text = notice(request)
        left = request.max_tokens - request.counter.text(text) - 2
        kept = request.counter.head(request.earlier, left) if request.earlier and left > 0 else ""
        record, budget = request.record, max(1, left)
        if not record and request.earlier:
            known, told, counter = request.facts, request.earlier, request.counter
            record = digest((), budget=budget, counter=counter, previous=known, previous_text=told).record
        return Reply(content=f"{text}\n{kept}".strip(), record=record)

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Write the notice."""
        return self.summarize(request)


@dataclass(frozen=True)
class RunnableSummarizer:
    """Calls a chat model, or a compiled graph whose state has `messages`."""

    runnable: Runnable[Any, Any]
    is_graph: bool
    name: str = "model"
    max_input_tokens: int | None = None
    """Tokens that the model accepts by its profile, less those of its answer; `None` if no profile says it."""
    agent_model: Runnable[Any, Any] | None = None
    """The model with its tools, as the agent calls it, for a request behind the agent's own."""

    def summarize(self, request: SummaryRequest) -> Reply:
        """Call the model or graph without the turn's conversation thread and checkpointer."""
        model, given, cached = self._call(request)
        return self._reply(model.invoke(given, self._config(request), **cached))

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Asynchronous form of `summarize`."""
        model, given, cached = self._call(request)
        return self._reply(await model.ainvoke(given, self._config(request), **cached))

    def _call(self, request: SummaryRequest) -> tuple[Runnable[Any, Any], Any, Mapping[str, Any]]:
        """Return what is called, its input, and arguments of the call."""
        prompt: list[Any] = request.prompt()
        if request.behind and self.agent_model is not None:
            return (self.agent_model, *with_cache_markers(self.agent_model, prompt))
        return self.runnable, {"messages": prompt} if self.is_graph else prompt, {}

    def _config(self, request: SummaryRequest) -> RunnableConfig:
        tags = [*TAGS, TAG_HIDDEN] if self.is_graph else TAGS  # a graph's nodes would stream their messages
        named = {**request.configurable}
        return RunnableConfig(
            tags=tags, callbacks=request.callbacks, configurable=named, run_name="compaction_summary"
        )

    def _reply(self, output: Any) -> Reply:
        if isinstance(output, Mapping):
            output = cast("Mapping[str, Any]", output)["messages"][-1]
        if not isinstance(output, AIMessage):
            return Reply(content=output)
        usage, meta = output.usage_metadata, output.response_metadata
        return Reply(
            content=output.content,
            finish_reason=finish_reason(output),
            has_tool_calls=bool(output.tool_calls or output.invalid_tool_calls),
            input_tokens=usage["input_tokens"] if usage else 0,
            output_tokens=usage["output_tokens"] if usage else 0,
            details=usage,
            model=meta.get("model_name") or meta.get("model"),
        )


def summarizer_of(given: Any) -> Summarizer:
    """Return the summarizer for a builder's `summarizer=`; raise `SettingsError` for anything else."""
    if given == "digest":
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


def is_asked_behind(summarizer: Summarizer) -> bool:
    """Whether a summarizer is the agent's own model, which may have the conversation in its prompt cache."""
    return getattr(summarizer, "agent_model", None) is not None


def is_deterministic(summarizer: Summarizer) -> bool:
    """Whether a summarizer works without a model; it then reads all messages in one call, and a retry cannot help."""
    return bool(getattr(summarizer, "deterministic", False))
