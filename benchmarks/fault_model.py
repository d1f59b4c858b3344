"""The chat model of the fault benchmark: it refuses requests that a provider refuses, and records every request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.exceptions import ContextOverflowError, ModelInvalidRequestError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

MOST_CALLS = 300
"""Maximum calls of one model in one run, which ends a system that would call it without end."""


class TooManyCallsError(Exception):
    """The run made more than `MOST_CALLS` calls."""


@dataclass(frozen=True)
class Request:
    """A request that the model received, and whether a provider would accept it."""

    messages: Sequence[BaseMessage]
    tokens: int
    flaw: str | None
    """Why the request is malformed; `None` if it is well-formed."""
    is_over: bool
    """Whether the request is larger than the context window."""

    @property
    def text(self) -> str:
        """All text of the request, including the arguments of calls."""
        return said(self.messages)


Reply = Callable[[Request], AIMessage]
"""A function that answers a request, or raises."""


class Provider(BaseChatModel):
    """A model with a given context window; it counts as `count_tokens_approximately` does, tools included."""

    window: int
    reply: Any
    requests: list[Request] = Field(default_factory=list)

    @property
    def model_name(self) -> str:
        """The model's name, under the attribute that provider packages use."""
        return "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": "scripted"}

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Add the tools to the request, so that their schemas are counted."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the same
        *,
        tools: list[dict[str, Any]] | None = None,
        **_: Any,
    ) -> ChatResult:
        if len(self.requests) >= MOST_CALLS:
            raise TooManyCallsError(f"{MOST_CALLS} calls")
        tokens = count_tokens_approximately(messages, tools=tools)
        request = Request(list(messages), tokens, flaw(messages), tokens > self.window)
        self.requests.append(request)
        if request.flaw:
            raise ModelInvalidRequestError(request.flaw)
        if request.is_over:
            raise ContextOverflowError(
                f"This model's maximum context length is {self.window} tokens. However, your messages resulted in "
                f"{tokens} tokens."
            )
        return ChatResult(generations=[ChatGeneration(message=_signed(self.reply(request), tokens))])


def _signed(answer: AIMessage, tokens: int) -> AIMessage:
    """Return the answer with the metadata that provider packages add."""
    written = count_tokens_approximately([answer])
    usage = {"input_tokens": tokens, "output_tokens": written, "total_tokens": tokens + written}
    meta = {"model_provider": "scripted", "model_name": "scripted", "finish_reason": "stop"}
    return answer.model_copy(
        update={"usage_metadata": usage, "response_metadata": {**meta, **answer.response_metadata}}
    )


def flaw(messages: Sequence[BaseMessage]) -> str | None:
    """Return why providers would refuse a request with status 400: unpaired calls or results, no content."""
    if not any(isinstance(message, HumanMessage) for message in messages):
        return "there is no user message"
    waiting: list[str | None] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return f"messages.{index}: the tool result {message.tool_call_id!r} has no call in the message before"
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            return f"messages.{index}: the tool calls {waiting} before it have no result"
        waiting = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
        if not waiting and not message.text.strip():
            return f"messages.{index}: it is empty"
    return f"the tool calls {waiting} have no result" if waiting else None


def said(messages: Sequence[BaseMessage]) -> str:
    """Return all text of messages, including the arguments of calls."""
    return "\n".join(f"{message.text}\n{getattr(message, 'tool_calls', None) or ''}" for message in messages)
