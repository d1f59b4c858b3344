"""Fakes at the model's edge: the public fault kit under the name that the tests know it by."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langgraph_compaction.graph import build_dependencies
from langgraph_compaction.nodes.conversation.tokens import TextCounter
from langgraph_compaction.nodes.summary.summary_message import SummaryParts
from langgraph_compaction.nodes.testing import (
    Reply,
    ReplyingSummarizer,
    ScriptedModel,
    StalledSummarizer,
    StreamingModel,
    calls,
    texts,
    usage,
)

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
    "gpt",
    "sized_as",
    "summary_message",
    "texts",
    "usage",
]


def chars(divisor: int) -> TextCounter:
    """Return a counter of characters divided by this number, rounded down."""
    return TextCounter(f"chars/{divisor}", lambda text: len(text) // divisor)


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
