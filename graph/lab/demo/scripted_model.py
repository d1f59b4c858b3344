"""The demonstration's model and summarizer: scripted, and honest about the tokens they are sent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from langgraph_compaction.nodes import Reply, Summarizer, SummaryRequest
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, total

from .scripted_decisions import decide


class LibraryReader(BaseChatModel):
    """Works through questions about the standard library by a script; `requests` holds what it was sent."""

    counter: Any
    overhead: int = 0
    """Tokens of the tool schemas."""
    requests: list[list[BaseMessage]] = Field(default_factory=list[list[BaseMessage]])
    sizes: list[int] = Field(default_factory=list[int])
    """Tokens of each request, prompt and tool schemas included."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def model_name(self) -> str:
        """Name of the model, as provider packages have it."""
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> "LibraryReader":
        """The script knows its tools; their schemas are counted."""
        counter: TokenCounter = self.counter
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        self.overhead = counter.text(json.dumps(schemas, ensure_ascii=False))
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the same
        **_: Any,
    ) -> ChatResult:
        self.requests.append(list(messages))
        self.sizes.append(self.overhead + total(self.counter, messages))
        answer = decide(messages, f"call-{len(self.requests)}")
        sent, said = self.sizes[-1], self.counter.message(answer)
        answer.usage_metadata = UsageMetadata(input_tokens=sent, output_tokens=said, total_tokens=sent + said)
        return ChatResult(generations=[ChatGeneration(message=answer)])


@dataclass
class FaultySummarizer:
    """A summarizer whose next attempt, once `armed`, ends in cut-off replies, its retries included."""

    inner: Summarizer
    armed: bool = False
    failing: bool = False

    @property
    def name(self) -> str:
        """Name of the strategy in ledger and events."""
        return f"faulty-{self.inner.name}"

    @property
    def whole(self) -> bool:
        """Whether the old part comes whole, as messages."""
        return bool(getattr(self.inner, "whole", False))

    def summarize(self, request: SummaryRequest) -> Reply:
        """Answer, or fail as a model does whose answer was cut off before its first word."""
        return self._fault(request) or self.inner.summarize(request)

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Answer, asynchronously."""
        return self._fault(request) or await self.inner.asummarize(request)

    def _fault(self, request: SummaryRequest) -> Reply | None:
        if request.defect is None:  # a first call, not a retry
            self.armed, self.failing = False, self.armed
        return Reply(content="", finish_reason="length") if self.failing else None
