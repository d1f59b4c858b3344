"""A model and tools that replay a recording: its assistant messages and its tool results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import Field

from langgraph_compaction.nodes.conversation.transcript import Transcript, calls_of

from ..recordings import Recording


class RecordingEndedError(Exception):
    """Raised if the graph calls the model, but the recording goes on with a user message or has ended."""


@dataclass
class Playback:
    """A recording and the position up to which it has been played."""

    recording: Recording
    cursor: int = 0
    results: dict[str, list[ToolMessage]] = field(default_factory=dict[str, list[ToolMessage]])
    """Results of the last answer's calls, by call id and in the order of the calls."""
    strays: list[AnyMessage] = field(default_factory=list[AnyMessage])
    """Recorded results that belong to no call of the answer before them; they are said with the next input."""

    @property
    def over(self) -> bool:
        """Whether the whole recording was played."""
        return self.cursor >= len(self.recording.messages) and not self.strays

    def inputs(self) -> list[BaseMessage]:
        """Return copies of the messages up to the next answer; copies, because a graph writes ids into its input."""
        start, strays = self.cursor, self.strays
        self.strays = []
        messages = self.recording.messages
        while self.cursor < len(messages) and not isinstance(messages[self.cursor], AIMessage):
            self.cursor += 1
        said = [*strays, *messages[start : self.cursor]]
        return [message.model_copy() for message in said]

    def unasked(self) -> list[BaseMessage]:
        """Return copies of the next recorded answer and its tool results, and move on behind them.

        This is for a turn in which the graph did not call the model, so that neither came into the state.
        """
        start = self.cursor
        self.answer()
        self.strays = []
        return [message.model_copy() for message in self.recording.messages[start : self.cursor]]

    def answer(self) -> tuple[int, AIMessage]:
        """Return the next recorded answer and its index; raise `RecordingEndedError` if there is none."""
        index = self.cursor
        messages = self.recording.messages
        if index >= len(messages) or not isinstance(said := messages[index], AIMessage):
            raise RecordingEndedError
        self._lay_out_results(index)
        return index, said.model_copy()

    def _lay_out_results(self, index: int) -> None:
        """Move on behind the answer and its results, and keep the results of its calls for the tools.

        Any other results become input of the next turn.
        """
        messages, end = self.recording.messages, index + 1
        while end < len(messages) and isinstance(messages[end], ToolMessage):
            end += 1
        view = Transcript(cast("Sequence[AnyMessage]", messages[index:end]))
        own = view.blocks[0].results if view.blocks else ()
        self.results = {}
        for (call_id, _), place in zip(calls_of(messages[index]), own, strict=False):
            if place is not None:
                found = cast("ToolMessage", view.messages[place])
                self.results.setdefault(call_id or "", []).append(found)
        self.strays += [view.messages[place] for place in sorted(view.orphans)]
        self.cursor = end

    def result(self, request: ToolCallRequest, _execute: Callable[..., Any]) -> ToolMessage | Command[Any]:
        """Return the recorded result of a call, or an empty state update if the call was never answered."""
        waiting = self.results.get(request.tool_call["id"] or "")
        return waiting.pop(0).model_copy() if waiting else Command(update={})

    def tools(self) -> ToolNode:
        """Return a tool node that has the recording's tool schemas and returns the recorded results."""
        known = [_tool(schema["function"]) for schema in self.recording.tools]
        return ToolNode(known, wrap_tool_call=self.result)


def _tool(function: dict[str, Any]) -> StructuredTool:
    return StructuredTool(
        name=function["name"],
        description=function.get("description") or "",
        args_schema=function.get("parameters") or {"type": "object", "properties": {}},
    )


class RecordedModel(BaseChatModel):
    """Answers with the recording's next assistant message."""

    writes_summaries: ClassVar[bool] = False
    """Whether the model can summarize a conversation. This model cannot, so the digest writes the summaries."""

    playback: Any = Field(repr=False)  # LangChain traces a model by its repr, which would hold the conversation
    counter: Any = Field(repr=False)
    bias: float = 1.0
    """Factor by which the reported usage exceeds the count of `receive`, as if a provider had another tokenizer."""
    receive: Callable[[list[BaseMessage]], int] = Field(repr=False)
    """Called with the messages of every request; returns the request's tokens by the counter of the replay."""

    @property
    def _llm_type(self) -> str:
        return "recorded"

    @property
    def model_name(self) -> str:
        """Name of the model, as provider packages have it."""
        return "recorded"

    def bind_tools(self, *_: Any, **__: Any) -> "RecordedModel":
        """Return the model itself: its answers are recorded, so the tools do not matter."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the base class's signature
        **_: Any,
    ) -> ChatResult:
        sent = self.receive(messages)
        _, answer = self.playback.answer()
        said = self.counter.message(answer)
        answer.usage_metadata = UsageMetadata(
            input_tokens=round(self.bias * sent),
            output_tokens=round(self.bias * said),
            total_tokens=round(self.bias * sent) + round(self.bias * said),
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])
