"""A model for the node `model` that calls LangChain's handler with the compacted request."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import zip_longest
from typing import Any, cast

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp

from langgraph_compaction.nodes.runtime.dependencies import Model, with_tools
from langgraph_compaction.nodes.state import with_ids
from langgraph_compaction.nodes.summary.bindings import core
from langgraph_compaction.nodes.summary.prompt_cache import is_claude

Request = ModelRequest[Any]
Response = ModelResponse[Any]


Fits = Callable[[Any, Sequence[AnyMessage]], bool]
"""Whether a request with these messages fits the window of a model."""


class SmallerModelChosen(GraphBubbleUp):
    """Other middleware has chosen a model for whose window the request is too large; `model` is this model.

    Middleware that retries or falls back lets it pass, as it lets an interrupt pass: the call has not failed.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model


class CheckedRequest(ModelRequest[Any]):
    """A request that is checked again where middleware listed behind ours chooses another model for it."""

    fits: Fits
    marked: Mapping[str, tuple[Any, Any]]
    """By the name of an attribute, its value with and without what only Claude's API takes."""

    @classmethod
    def of(cls, request: Request, fits: Fits, marked: Mapping[str, tuple[Any, Any]]) -> "CheckedRequest":
        """Return the same request with a check of its size."""
        checked = cls(**{field.name: getattr(request, field.name) for field in fields(request)})
        object.__setattr__(checked, "fits", fits)  # a plain assignment warns
        object.__setattr__(checked, "marked", marked)
        return checked

    def override(self, **overrides: Any) -> "CheckedRequest":
        """Return the request with these attributes; raise `SmallerModelChosen` if it is too large for a new model."""
        model = overrides.get("model")
        if model is not None and not self.fits(model, self.messages):
            raise SmallerModelChosen(model)
        if model is not None and not is_claude(core(model)):
            plain = {name: plain for name, (own, plain) in self.marked.items() if getattr(self, name) is own}
            overrides = {**plain, **overrides}
        return CheckedRequest.of(super().override(**overrides), self.fits, self.marked)


class Caller(Runnable[Any, Any]):
    """Stands for the request's model, but calls LangChain's handler, so that other middleware sees the call."""

    def __init__(self, request: Request, handler: Callable[[Request], Any], model: Any = None) -> None:
        self.bound = model or request.model
        """The chat model itself, from which name, window and output limit are read, as from any LangChain binding."""
        self.kwargs = request.model_settings
        """The arguments that LangChain's handler binds to the chat model, such as `max_tokens`."""
        self.request, self.handler = request, handler
        self.given = with_ids(request.state["messages"], derived=True)
        """The messages of the state, each with an id."""
        self.response = Response(result=[])
        self.fits: Fits = lambda _model, _messages: True

    def invoke(self, input: Sequence[AnyMessage], config: RunnableConfig | None = None, **given: Any) -> AIMessage:  # noqa: A002, ARG002
        """Call the handler and return the model's answer, even if the response holds other messages too."""
        self.response = self.handler(self._sent(input, given))
        return self._answer()

    async def ainvoke(
        self,
        input: Sequence[AnyMessage],  # noqa: A002
        config: RunnableConfig | None = None,  # noqa: ARG002
        **given: Any,
    ) -> AIMessage:
        """Call the handler, asynchronously."""
        self.response = await self.handler(self._sent(input, given))
        return self._answer()

    def _answer(self) -> AIMessage:
        """Return the answer; its id is removed if a message of the state has the same id, which would be replaced."""
        answer = next(message for message in reversed(self.response.result) if isinstance(message, AIMessage))
        taken = answer.id in [message.id for message in self.given]
        return answer.model_copy(update={"id": None}) if taken else answer

    def _sent(self, rendered: Sequence[AnyMessage], given: Mapping[str, Any]) -> Request:
        prompt = cast("SystemMessage", rendered[0]) if self.request.system_message else None  # the handler adds it
        shown = as_shown(rendered[1:] if prompt else rendered, self.given, self._shown)
        own: dict[str, Any] = {"model_settings": {**self.request.model_settings, **given}} if given else {}
        own |= {"system_message": prompt} if given and prompt else {}
        marked = {name: (value, getattr(self.request, name)) for name, value in own.items()}
        return CheckedRequest.of(self.request.override(messages=shown, **own), self.fits, marked)

    @cached_property
    def direct(self) -> Model | None:
        """The model as the handler calls it, to be asked behind the same request; `None` if that is not known here.

        Other middleware may have changed the request, and a form of the answer binds other tools.
        """
        request = self.request
        shown = all(one is other for one, other in zip_longest(request.messages, request.state["messages"]))
        if not shown or request.response_format is not None or request.tool_choice is not None:
            return None
        return with_tools(self.bound.bind(**request.model_settings), request.tools) if request.tools else self.bound

    @cached_property
    def added(self) -> list[AnyMessage]:
        """The messages that other middleware added to the request."""
        ids = _added(self._shown, {message.id: message for message in self.given})
        return [message for message in self._shown if message.id in ids]

    @cached_property
    def _shown(self) -> list[AnyMessage]:
        """The messages of the request as other middleware made them, each with an id."""
        named = {id(had): has for had, has in zip(self.request.state["messages"], self.given, strict=True)}
        return with_ids([named.get(id(message), message) for message in self.request.messages], derived=True)


def as_shown(
    rendered: Sequence[AnyMessage], given: Sequence[AnyMessage], others: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """Return the messages to send: the compacted ones, with what other middleware edited, omitted or added.

    `given` are the messages of the state, `others` what other middleware made of them. A message that the compaction
    or the rendering changed is sent as they changed it. An added message stays before the message that it was added
    before, or before the next one that was not removed; those at the beginning stay at the beginning.
    """
    known = {message.id: message for message in given}
    shown = {message.id: message for message in others}
    kept = [
        shown.get(message.id, message) if message is known.get(message.id) else message
        for message in rendered
        if message.id in shown or message.id not in known
    ]
    added, left = _added(others, known), {message.id for message in kept}
    first = next((n for n, message in enumerate(others) if message.id in known), 0)
    before, following = defaultdict[str | None, list[AnyMessage]](list), None
    for message in reversed(others[first:]):
        if message.id in added:
            before[following].insert(0, message)
        elif message.id in left:
            following = message.id
    placed = [one for message in kept for one in (*before[message.id], message)]
    return [*[message for message in others[:first] if message.id in added], *placed, *before[None]]


def _added(messages: Sequence[AnyMessage], known: Mapping[str | None, AnyMessage]) -> set[str | None]:
    """Return the ids of the messages that other middleware added to the request.

    A result of a call that is not among them is a placeholder for a result that the state lacks, and is left out.
    """
    new = [message for message in messages if message.id not in known]
    calls = {call["id"] for message in new if isinstance(message, AIMessage) for call in message.tool_calls}
    return {one.id for one in new if not isinstance(one, ToolMessage) or one.tool_call_id in calls}


def with_answer(response: Response, answer: AIMessage) -> Response:
    """Return the response with this answer in place of its own answer, and with an id for every message."""
    old = [message for message in response.result if isinstance(message, AIMessage)][-1]
    result = with_ids([answer if message is old else message for message in response.result])
    return Response(result=list(result), structured_response=response.structured_response)


def schemas(request: Request) -> list[dict[str, Any]]:
    """Return the schemas of tools and structured output, as the model receives them, for counting tokens."""
    return [_schema(tool) for tool in [*request.tools, *_formats(request.response_format)]]


def _schema(tool: Any) -> dict[str, Any]:
    """Return the schema of a tool; a provider's own tool, given as a dictionary, is its own schema."""
    try:
        return convert_to_openai_tool(tool)
    except ValueError:
        if not isinstance(tool, dict):
            raise
        return cast("dict[str, Any]", tool)


def _formats(response_format: Any) -> list[Any]:
    match response_format:
        case None:
            return []
        case ToolStrategy():
            specs: list[Any] = response_format.schema_specs
        case ProviderStrategy():
            specs = [response_format.schema_spec]
        case AutoStrategy():
            return [response_format.schema]
        case _:  # a bare schema: LangChain's handler decides how the model is asked for it
            return [response_format]
    return [{"title": spec.name, "description": spec.description or "", **spec.json_schema} for spec in specs]
