"""A chat model that needs no key: it repeats the user's message, and says that it does so."""

from collections.abc import Iterator
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

from langgraph_compaction.nodes.conversation.message_marks import is_real_user, is_summary
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total

MOST_REPEATED = 400
"""Largest number of characters of the user's message that are repeated."""


class EchoModel(BaseChatModel):
    """Repeats the newest user message, streaming, with the usage that a provider would report."""

    writes_summaries: ClassVar[bool] = False
    """Whether the model can summarize a conversation. This model cannot, so the digest writes the summaries."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    @property
    def model_name(self) -> str:
        """Name of the model, in the attribute that provider packages use."""
        return "echo"

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:  # noqa: ARG002 - the base class's signature
        """Accept tools, which this model never calls."""
        return self

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = reply(messages)
        sent, words = total(tiktoken_counter(), messages), said.split(" ")
        for position, word in enumerate(words):
            last = position == len(words) - 1
            usage = UsageMetadata(input_tokens=sent, output_tokens=len(words), total_tokens=sent + len(words))
            message = AIMessageChunk(content=word if last else f"{word} ", usage_metadata=usage if last else None)
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        whole = list(self._stream(messages, stop, run_manager, **kwargs))
        merged = whole[0]
        for chunk in whole[1:]:
            merged += chunk
        return ChatResult(generations=[merged])


def reply(messages: list[BaseMessage]) -> str:
    """Return the echo model's answer to a request."""
    spoken = [message.text for message in messages if is_real_user(message)]
    newest = spoken[-1] if spoken else ""
    cut = f"{newest[:MOST_REPEATED]} …" if len(newest) > MOST_REPEATED else newest
    seen = " and a summary of what came before" if any(map(is_summary, messages)) else ""
    return f"(a scripted echo; it sees {len(spoken)} of your messages{seen}) {cut}"
