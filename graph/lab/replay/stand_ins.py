"""A recorded conversation speaks: its assistant turns stand in for the model, its results for the tools."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import linear_regression
from typing import Any, cast

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

from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from langgraph_compaction.nodes.conversation.transcript import Transcript, calls_of

from ..recordings import Recording

USAGE_BIAS = 1.22
"""How much more than o200k the stand-in model reports where a file has no usage of its own."""


class RecordingEndedError(Exception):
    """The model is called where the recording has no answer: the person spoke, or the recording is over."""


@dataclass
class Playback:
    """A recording and how far it has been played."""

    recording: Recording
    cursor: int = 0
    results: dict[str, list[ToolMessage]] = field(default_factory=dict[str, list[ToolMessage]])
    """By call id: what the calls of the last answer will return, in call order."""
    strays: list[AnyMessage] = field(default_factory=list[AnyMessage])
    """Results behind the last answer that none of its calls asked for."""

    @property
    def over(self) -> bool:
        """Whether everything was played."""
        return self.cursor >= len(self.recording.messages) and not self.strays

    def inputs(self) -> list[BaseMessage]:
        """What was said to the agent up to its next answer; copies, because a graph writes ids on its input."""
        start, strays = self.cursor, self.strays
        self.strays = []
        messages = self.recording.messages
        while self.cursor < len(messages) and not isinstance(messages[self.cursor], AIMessage):
            self.cursor += 1
        said = [*strays, *messages[start : self.cursor]]
        return [message.model_copy() for message in said]

    def unasked(self) -> list[BaseMessage]:
        """The next answer and the results behind it, as copies: said all the same where the graph asks for none."""
        start = self.cursor
        self.answer()
        self.strays = []
        return [message.model_copy() for message in self.recording.messages[start : self.cursor]]

    def answer(self) -> tuple[int, AIMessage]:
        """The next recorded answer and its index; raises `RecordingEndedError` where none was recorded."""
        index = self.cursor
        messages = self.recording.messages
        if index >= len(messages) or not isinstance(said := messages[index], AIMessage):
            raise RecordingEndedError
        self.cursor += 1
        self._lay_out_results(index)
        return index, said.model_copy()

    def _lay_out_results(self, index: int) -> None:
        """Results recorded directly behind their calls; late ones, and strays, are input when their time comes."""
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
        self.strays = [view.messages[place] for place in sorted(view.orphans)]
        self.cursor = end

    def result(self, request: ToolCallRequest, _execute: Callable[..., Any]) -> ToolMessage | Command[Any]:
        """What the recorded tool returned; nothing at all for a call that was never answered."""
        waiting = self.results.get(request.tool_call["id"] or "")
        return waiting.pop(0).model_copy() if waiting else Command(update={})

    def tools(self) -> ToolNode:
        """The recorded tools, with the schemas that the file has."""
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

    playback: Any = Field(repr=False)  # LangChain traces a model by its repr, and this would be the conversation
    counter: Any = Field(repr=False)
    bias: float = 1.0
    """Factor between the usage that is reported and our own count."""
    receive: Callable[[list[BaseMessage]], int] = Field(repr=False)
    """Is shown every request, and says how many tokens it holds by our own count."""

    @property
    def _llm_type(self) -> str:
        return "recorded"

    @property
    def model_name(self) -> str:
        """Name of the stand-in."""
        return "recorded"

    def bind_tools(self, *_: Any, **__: Any) -> "RecordedModel":
        """The recording has its calls already."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the same
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


def bias_of(recording: Recording, counter: TokenCounter) -> float:
    """How the recording's own provider counts in comparison with us: the slope of its usage over our counts.

    The slope, because the recorded prompts held a system prompt and tools that the file may not have. Without
    usage in the file: `USAGE_BIAS`.
    """
    counted, reported, so_far = list[float](), list[float](), 0
    for index, message in enumerate(recording.messages):
        so_far += counter.message(message)
        if index in recording.usage:
            counted.append(so_far)
            reported.append(recording.usage[index])
    if len(set(counted)) < 3:  # noqa: PLR2004 - a line through fewer points says nothing
        return USAGE_BIAS
    slope = linear_regression(counted, reported).slope
    return slope if slope > 0 else USAGE_BIAS
