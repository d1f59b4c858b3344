"""Fakes at the model's edge: the public ones under the name that the tests know them by, and our own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.graph import build_dependencies
from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from langgraph_compaction.nodes.gate.reply_checks import Reply as SummaryReply
from langgraph_compaction.nodes.summary.summarizers import SummaryRequest
from langgraph_compaction.nodes.summary.summary_message import SummaryParts
from langgraph_compaction.nodes.testing import Reply, ScriptedModel, Stall, StreamingModel, calls, texts, usage

__all__ = [
    "Reply",
    "ReplyingSummarizer",
    "ScriptedModel",
    "SizedModel",
    "StalledSummarizer",
    "StreamingModel",
    "calls",
    "chars",
    "claude",
    "clock_of",
    "copying",
    "gpt",
    "sized_as",
    "summary_message",
    "texts",
    "usage",
]


def chars(divisor: int) -> TokenCounter:
    """Return a counter of characters divided by this number, rounded down."""
    return TokenCounter(f"chars/{divisor}", lambda text: len(text) // divisor)


@contextmanager
def clock_of(now: Callable[[], float] | None) -> Iterator[None]:
    """Let what is built meanwhile take the time from this function; `None` changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        if now is not None:
            patch.setattr(build_dependencies, "time", now)
        yield


def summary_message(
    body: str, compaction_id: str, record: Mapping[str, Any] | None = None, **parts: Any
) -> HumanMessage:
    """Return the message of a summary with these parts beside it."""
    return SummaryParts(**parts).message(body, compaction_id, record)


def gpt(name: str, **given: Any) -> ChatOpenAI:
    """Return a real model object of OpenAI's; nothing is sent."""
    return ChatOpenAI(model=name, api_key=SecretStr("none"), **given)


def claude(name: str = "claude-sonnet-4-5", **given: Any) -> ChatAnthropic:
    """Return a real model object of Anthropic's, which sets `max_tokens` itself: 64,000; nothing is sent."""
    return ChatAnthropic(model_name=name, api_key=SecretStr("none"), **given)


class SizedModel(ScriptedModel):
    """A scripted model with an output limit of its own, as a provider's may have."""

    max_tokens: int | None = None


def sized_as(real: ChatOpenAI | ChatAnthropic, *replies: Any) -> SizedModel:
    """Return a scripted model with the name, profile and output limit of a real one."""
    name = real.model_name if isinstance(real, ChatOpenAI) else real.model
    model = SizedModel(replies=list(replies or ("ok",)), name_=name, max_tokens=real.max_tokens)
    model.profile = real.profile
    return model


class ReplyingSummarizer:
    """A summarizer that always returns the same reply, or raises it if it is an exception."""

    name = "own"

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.requests: list[SummaryRequest] = []

    def summarize(self, request: SummaryRequest) -> Any:
        """Record the request and return the reply."""
        self.requests.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    async def asummarize(self, request: SummaryRequest) -> Any:
        """Asynchronous form of `summarize`."""
        return self.summarize(request)


class StalledSummarizer(Stall, ReplyingSummarizer):
    """A summarizer that does not answer until `let_go` is set."""

    name = "stalled"

    def __init__(self) -> None:
        Stall.__init__(self)
        ReplyingSummarizer.__init__(self, SummaryReply(content="<summary>what came too late</summary>"))

    def summarize(self, request: SummaryRequest) -> Any:
        """Wait, then return the reply."""
        self.wait()
        return super().summarize(request)

    async def asummarize(self, request: SummaryRequest) -> Any:
        """Asynchronous form of `summarize`."""
        await self.await_()
        return super().summarize(request)


def copying(pattern: str) -> Callable[[list[BaseMessage]], str]:
    """Return a reply for `ScriptedModel`: a summary that repeats each match of a pattern in the request."""
    return lambda messages: f"<summary>{' '.join(dict.fromkeys(Pattern(pattern).findall(texts(messages))))}</summary>"
