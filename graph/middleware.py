"""`CompactionMiddleware` compacts the conversation of an agent of LangChain's `create_agent` (extra `langchain`).

The middleware runs the nodes of this package's graph, in the order of the graph's edges, inside the agent's model
node, where prompt, tools and model of the call are known. A compaction after the answer runs when the agent ends, so
that nobody waits for it.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace as replaced
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import Annotated, Any, NotRequired, TypedDict, cast
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import ExtendedModelResponse, OmitFromOutput, PrivateStateAttr
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.runtime import Runtime
from langgraph.types import Command
from sqlalchemy import Engine

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes import CompactionSettings, Redaction, SettingsError, Summarizer, UnknownWindowError
from langgraph_compaction.nodes.compaction_request import (
    NO_REQUEST,
    CompactionRequest,
    RequestChannel,
    fault_of,
    request_in,
)
from langgraph_compaction.nodes.config.prompts import CONVERSATION
from langgraph_compaction.nodes.config.settings import effective, settings_of
from langgraph_compaction.nodes.conversation.message_marks import refusal
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.conversation.view import View
from langgraph_compaction.nodes.conversation.window_and_reserve import capped
from langgraph_compaction.nodes.errors import MessageRefusedError, RequestError
from langgraph_compaction.nodes.events import log
from langgraph_compaction.nodes.inline.runner import COMPACTION_NODES, NODES, run_nodes
from langgraph_compaction.nodes.runtime.dependencies import (
    Dependencies,
    Model,
    told_window,
    window_of,
    window_of_thread,
)
from langgraph_compaction.nodes.runtime.effects import Effects, arun, is_long, run
from langgraph_compaction.nodes.runtime.ephemeral_removal import ephemeral_tools
from langgraph_compaction.nodes.runtime.node_context import NodeContext, Update
from langgraph_compaction.nodes.state import CompactionChannel, merge, messages_in_view, newer, own_names
from langgraph_compaction.nodes.summary.summarizers import AcceptSummary

from .build_dependencies import Extensions, build_dependencies
from .chat_model import named_model
from .context_size import ContextSize, kept_by, sizes_in, with_sizes
from .database import NONE_OF_ITS_OWN, RecordsOfCheckpointers, records_for
from .exclusive_runs import one_run_at_a_time
from .hook_state import (
    answer_of,
    channels_update,
    config_of_run,
    context_of_hook,
    has_channel,
    newest_answer,
    update_of_hook,
)
from .model_request import Caller, Request, Response, SmallerModelChosen, schemas, with_answer

__all__ = ["CompactionMiddleware", "one_run_at_a_time"]

USUAL_WINDOW = 128_000
"""Context window, in tokens, against which the settings are checked before the first call if the model is not known
yet."""
REMEMBERED = 256
"""Number of answers for which the middleware remembers prompt, tools and model. A compaction when the agent ends
needs those of the last answer."""

THEIR_CUT = "_summarization_event"
"""The channel in which the summarizer of deepagents keeps the position of its cut."""
THEIR_NODE = "branch:to:SummarizationMiddleware.before_model"
"""The channel by which LangGraph starts a hook of LangChain's summarizer that ours does not have under any name."""

Trigger = ContextSize | Mapping[str, float] | list[ContextSize | Mapping[str, float]]


class CompactingState(AgentState[Any]):
    """The agent's state with the small channels of a compaction, which are private to this agent.

    Code that passes an agent's state to a sub-agent and back, as deepagents does, leaves private channels out.
    `compaction_request` is public and is cleared before any tool runs.
    """

    compaction: NotRequired[Annotated[CompactionChannel, PrivateStateAttr, merge]]
    compaction_view: NotRequired[Annotated[View | None, PrivateStateAttr, newer]]
    compaction_request: NotRequired[Annotated[CompactionRequest | None, RequestChannel, OmitFromOutput]]


def _state_class(channel: str) -> type[CompactingState]:
    """Return the agent's state with public channels of these names, which a graph around the agent can keep."""
    compaction: Any = Annotated[CompactionChannel, merge]
    request: Any = Annotated[CompactionRequest | None, RequestChannel]
    kinds = {channel: compaction, f"{channel}_view": Annotated[View | None, newer], f"{channel}_request": request}
    typed_dict: Any = TypedDict
    made = typed_dict("CompactingState", {name: NotRequired[kind] for name, kind in kinds.items()})
    return cast("type[CompactingState]", made)


class CompactionMiddleware(AgentMiddleware[CompactingState, Any, Any]):
    """Keeps the conversation of LangChain's agent inside its model's window, each compaction a transaction.

    A drop-in for `SummarizationMiddleware`: `model` writes the summaries, or without it the agent's model, unless
    `summarizer` says otherwise; `trigger` and `keep` are understood. All else is as in `create_compacting_agent`. Put
    it last among the agent's middleware: there it sees the model, the prompt and the tools as the middleware before
    it has changed them, and counts the messages that they add. A compaction works on the messages of the state.

    With a durable checkpointer give `database=` too; with a saver of this package, the saver's `.database`.
    `CompactionThread` takes the agent. `channel` is for an agent that is a node of another graph, whose state keeps
    the agent's compactions: it inherits `CompactionState` for `channel="compaction"`, or declares `x`, `x_view` and
    `x_request` in the same way for `channel="x"`. `name` is the class's name by default; with
    `name="SummarizationMiddleware"` it takes the place of the summarizer that deepagents puts into every agent.

    Raises `SettingsError` for sizes that cannot work and, at the first call, if neither settings nor profile give the
    context window.
    """

    state_schema = CompactingState

    def __init__(
        self,
        model: str | BaseChatModel | None = None,
        *,
        trigger: Trigger | None = None,
        keep: ContextSize | None = None,
        summary_prompt: str | None = None,
        trim_tokens_to_summarize: int | None = None,
        settings: CompactionSettings | None = None,
        summarizer: Summarizer | Model | str | None = None,
        fallback_summarizers: Sequence[Summarizer | Model] = (),
        redact: Redaction | Callable[[str], str] | None = None,
        accept_summary: AcceptSummary | None = None,
        extensions: Extensions | None = None,
        database: str | Engine | Database | None = None,
        token_counter: Any = None,
        channel: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._name = name or type(self).__name__
        if channel is not None:
            self.state_schema = _state_class(channel)
        known = named_model(model) if isinstance(model, str) else model
        chosen = settings_of(settings)
        own = summary_prompt and summary_prompt.replace("{messages}", CONVERSATION)  # as LangChain writes it
        chosen = effective(chosen, {"summary_prompt": own})
        self._trigger, self._keep = sizes_in(trigger, "trigger"), sizes_in(keep, "keep")
        self._has_database, self._records = database is not None, RecordsOfCheckpointers()
        self._dependencies = build_dependencies(
            chosen,
            records_for(database, None),
            model=known or _no_model_yet,
            summary_model=known,
            summary_input=trim_tokens_to_summarize,
            summarizer=summarizer,
            fallback_summarizers=fallback_summarizers,
            redact=redact,
            accept_summary=accept_summary,
            extensions=extensions,
            token_counter=token_counter,
            channel=channel or "compaction",
            owns_list=channel is None,
        )
        self._sized(None, USUAL_WINDOW)
        self._dependencies.settle_off_loop()
        self._calls = OrderedDict[str, Dependencies]()
        self._working: list[tuple[Any, str, str]] = []
        self._warned = False
        self._lock = Lock()
        self.after_agent = AgentHook(self, self.after_agent)  # type: ignore[method-assign] # so that `dependencies_of` finds it

    @property
    def name(self) -> str:
        """The name by which LangChain tells the agent's middleware apart."""
        return self._name

    def dependencies_with(self, checkpointer: Any) -> Dependencies:
        """Return the dependencies of the newest call in an agent with this checkpointer, else the default ones.

        For an agent without a checkpointer of its own, such as a node of another graph, these are those of the newest
        call in any agent. Raise `SettingsError` if threads would outlive their snapshots.
        """
        known = self._dependencies_with(checkpointer)
        return self._newest_call(None if checkpointer in NONE_OF_ITS_OWN else known.records) or known

    def _newest_call(self, records: CompactionRecords | None) -> Dependencies | None:
        """Return the dependencies of the newest call with these records, or, if None is given, of the newest call."""
        with self._lock:
            calls = reversed(self._calls.values())
            return next((one for one in calls if records is None or one.records is records), None)

    def _dependencies_with(self, checkpointer: Any) -> Dependencies:
        """Return the dependencies that calls in agents with this checkpointer share.

        Several agents may share the middleware. The records of each are in the database of its own checkpointer.
        """
        if self._has_database or checkpointer in NONE_OF_ITS_OWN:
            return self._dependencies
        return replaced(self._dependencies, records=self._records.of(checkpointer))

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> ExtendedModelResponse[Any]:
        """Check the size, compact if a trigger fires, call the model, and check the size again."""
        return run(self._model_call(request, handler))

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> ExtendedModelResponse[Any]:
        """`wrap_model_call`, asynchronously."""
        step = self._model_call(request, handler)
        return await arun(step, off_loop=is_long(request.state["messages"]))

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: CompactingState, runtime: Runtime[Any]) -> Update | None:
        """Handle an input that is only a `compaction_request`; the model is not called."""
        return run(self._request_alone(state, runtime))

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: CompactingState, runtime: Runtime[Any]) -> Update | None:
        """`before_agent`, asynchronously."""
        return await arun(self._request_alone(state, runtime))

    def after_agent(self, state: CompactingState, runtime: Runtime[Any]) -> Update | None:
        """Compact if the check after the answer requires it."""
        return run(self._agent_end(state, runtime))

    async def aafter_agent(self, state: CompactingState, runtime: Runtime[Any]) -> Update | None:
        """`after_agent`, asynchronously."""
        return await arun(self._agent_end(state, runtime), off_loop=is_long(state["messages"]))

    def _model_call(self, request: Request, handler: Callable[[Request], Any]) -> Effects[ExtendedModelResponse[Any]]:
        """Call the handler with a request that fits the model, also one that other middleware chooses later.

        Then the request is made again for the smaller window, and that middleware chooses once more.
        """
        _refuse_second_summarizer(request.state)
        model = request.model
        while True:
            try:
                return (yield from self._call_of(request, Caller(request, handler, model)))
            except SmallerModelChosen as other:
                model = other.model

    def _call_of(self, request: Request, caller: Caller) -> Effects[ExtendedModelResponse[Any]]:
        dependencies = self._dependencies_of_call(request.override(model=caller.bound), caller)
        state = {**self._own(request.state), "messages": caller.given}
        context = context_of_hook(state, request.runtime, replaced(dependencies, model=caller))
        given = context.state["messages"]
        caller.fits = partial(self._fits, context)
        with self._calling():
            context = yield from run_nodes(context, "token_check", among=NODES)
        response = _response(context, caller, given)
        self._remember(response, dependencies)
        command: Command[Any] = Command(update=channels_update(context, state))
        return ExtendedModelResponse(model_response=response, command=command)

    def _fits(self, context: NodeContext, model: Model, messages: Sequence[AnyMessage]) -> bool:
        """Whether a request fits another model's window, by the count for this one; yes if that is not smaller."""
        facts = context.dependencies.facts_for(model)
        if facts.window is None or facts.window >= context.sizes.window:
            return True
        settings, fixed = self._sized(model, facts.window)["settings"], context.sizes.fixed
        sizes = context.dependencies.sizes_for(facts, settings, window=facts.window, fixed=fixed)
        return context.meter.request(messages) <= sizes.limit

    @contextmanager
    def _calling(self) -> Generator[None]:
        """Warn once if another run on the thread is at its model call, too."""
        run = config_of_run().get("configurable", {})
        place = (_saver(), str(run.get("thread_id")), str(run.get("checkpoint_ns") or "").rpartition("|")[0])
        with self._lock:
            overlaps = place[0] is not None and place in self._working
            warns, self._warned = overlaps and not self._warned, overlaps or self._warned
            self._working.append(place)
        if warns:
            log.warning(
                "Two runs work on thread %r at once, and LangGraph keeps the messages of one of them only: wrap the "
                "agent, one_run_at_a_time(create_agent(...)), so that its runs take turns",
                place[1],
            )
        try:
            yield
        finally:
            with self._lock:
                self._working.remove(place)

    def _own(self, state: Any) -> dict[str, Any]:
        """Return the agent's state by the names that the nodes know."""
        return own_names(state, self._dependencies.channel)

    def _request_alone(self, given: CompactingState, runtime: Runtime[Any]) -> Effects[Update | None]:
        _refuse_second_summarizer(given)
        state = self._own(given)
        said = Transcript(state["messages"])
        asked = request_in(state)
        fault = fault_of(asked, state.get("compaction") or {}, calls_open=said.has_open_call)
        if not fault and (asked is None or said.awaits_answer):
            return _without_old_refusal(state, self._dependencies.channel)
        context = yield from run_nodes(context_of_hook(state, runtime, self._remembered(state)), "token_check")
        return {**update_of_hook(context, state), "jump_to": "end"}

    def _agent_end(self, given: CompactingState, runtime: Runtime[Any]) -> Effects[Update | None]:
        state = self._own(given)
        compaction = state.get("compaction") or {}
        step, last = compaction.get("step", "end"), compaction.get("last") or {}
        if step == "model" and last.get("reason") == NO_REQUEST and not _is_continued(state["messages"], last):
            raise RequestError(last["detail"])
        if step == "model" and last.get("verdict") == "refused":
            told = refusal(messages_in_view(state))
            if state["messages"][-1].text == told:  # else another middleware has answered a later input
                raise MessageRefusedError(told)
        if step not in COMPACTION_NODES:
            return None
        context = yield from run_nodes(context_of_hook(state, runtime, self._remembered(state)), step)
        return update_of_hook(context, state)

    def _dependencies_of_call(self, request: Request, caller: Caller) -> Dependencies:
        """Return the dependencies of this call: model, prompt, tools, and the settings for the model's window.

        Messages that other middleware adds to this request count like the prompt.
        """
        dependencies, model = self._dependencies_with(_saver()), request.model
        try:
            window = window_of(dependencies.settings, model)
        except UnknownWindowError:
            if dependencies.fixed_model is None:
                raise
            window = window_of(dependencies.settings, dependencies.fixed_model)
        return replaced(
            dependencies,
            **self._sized(model, window),
            model=model.bind(**request.model_settings),
            summary_model=dependencies.summary_model or model,
            agent_model=None if dependencies.summary_model else caller.direct,
            system_prompt=request.system_message,
            tools=schemas(request),
            added=caller.added,
            ephemeral=ephemeral_tools(request.tools),
        )

    def _sized(self, model: Model | None, window: int) -> dict[str, Any]:
        """Return settings and strategies for a model; `window` is another one's if the model does not say its own."""
        used = capped(self._dependencies.settings, window)
        sized = with_sizes(self._dependencies.settings, self._trigger, self._keep, used)
        return {
            "settings": sized if told_window(model) else sized.model_copy(update={"context_window": used}),
            "strategies": {**self._dependencies.strategies, **kept_by(self._keep, used)},
        }

    def _remember(self, response: Response, dependencies: Dependencies) -> None:
        with self._lock:
            self._calls[newest_answer(response.result)] = dependencies
            if len(self._calls) > REMEMBERED:
                self._calls.popitem(last=False)

    def _remembered(self, state: Mapping[str, Any]) -> Dependencies:
        """Return the dependencies of the call that gave the newest answer, else of the newest call on these records.

        After a restart they are the default ones, with the window of the thread's last compaction if it is not known.
        """
        dependencies = self._dependencies_with(_saver())
        known, model = self._calls.get(newest_answer(state["messages"])), dependencies.fixed_model
        if known is not None and known.records is dependencies.records:
            return known
        if (called := self._newest_call(dependencies.records)) is not None:
            return called
        window = window_of_thread(dependencies.settings, model, state.get("compaction"))
        return replaced(dependencies, **self._sized(model, window), model=model)


class AgentHook:
    """The hook `after_agent` as a callable that tells the dependencies of its agent.

    `create_agent` makes a node of each hook and keeps nothing else of a middleware, so `dependencies_of` looks there.
    """

    def __init__(self, middleware: CompactionMiddleware, hook: Callable[..., Update | None]) -> None:
        self._middleware, self._hook = middleware, hook

    def __call__(self, state: CompactingState, runtime: Runtime[Any]) -> Update | None:
        """Run the hook synchronously."""
        return self._hook(state, runtime)

    def dependencies_with(self, checkpointer: Any) -> Dependencies:
        """Return the dependencies of the middleware."""
        return self._middleware.dependencies_with(checkpointer)


def _refuse_second_summarizer(state: Mapping[str, Any]) -> None:
    """Raise `SettingsError` if the summarizer of LangChain or deepagents is in the agent, too.

    LangChain's summarizer removes messages for good. deepagents' summarizer stores the position of its cut in
    `messages`, which a compaction would move. Its channel is in the agent from the beginning, with a value only after
    its first cut.
    """
    config = config_of_run()
    if has_channel(config, THEIR_NODE):
        raise SettingsError(
            "LangChain's SummarizationMiddleware stands in this agent beside CompactionMiddleware, and would remove "
            "messages before they are stored: leave SummarizationMiddleware out of middleware=[...]"
        )
    if has_channel(config, THEIR_CUT) or state.get(THEIR_CUT) is not None:
        raise SettingsError(
            "deepagents' own summarizer is in this agent, too, and beside it CompactionMiddleware would leave the "
            "model only the newest messages: build the agent with "
            'CompactionMiddleware(name="SummarizationMiddleware"), which takes that summarizer\'s place. A '
            "thread that it has summarized still has all its messages, and goes on"
        )


def _no_model_yet(_state: Any, _runtime: Any) -> Model:
    """Raise `UnknownWindowError`: before an agent's first call, its model is not known."""
    raise UnknownWindowError(
        "the agent's model is known at its first call: give CompactionMiddleware its model=, too"
    )


def _saver() -> Any:
    """Return this run's checkpointer: the parent's if the agent is a node of another graph."""
    return config_of_run().get("configurable", {}).get(CONFIG_KEY_CHECKPOINTER)


def _without_old_refusal(state: Mapping[str, Any], channel: str) -> Update | None:
    """End the step of a run that was refused, so that a later run which calls no model does not raise again."""
    compaction = state.get("compaction") or {}
    refused = (compaction.get("last") or {}).get("verdict") == "refused"
    return {channel: {"step": "end"}} if refused and compaction.get("step") == "model" else None


def _is_continued(messages: Sequence[AnyMessage], last: Mapping[str, Any]) -> bool:
    """Whether the user has written since a request was refused: an earlier run raised the error of this request."""
    later = takewhile(lambda message: message.id != last.get("message_id"), reversed(messages))
    return any(isinstance(message, HumanMessage) for message in later)


def _response(context: NodeContext, caller: Caller, given: Sequence[Any]) -> Response:
    """Return the handler's response with the stored answer; if no model was called, a message that says why."""
    if answer := answer_of(context, given):
        # a message over the limit is answered without a call of the model
        return with_answer(caller.response, answer) if caller.response.result else Response(result=[answer])
    last: Mapping[str, Any] = context.compaction.get("last") or {}
    refused = last.get("verdict") == "refused"
    told = refusal(context.messages) if refused else f"[compaction: {last.get('verdict', 'noop')}]"
    return Response(result=[AIMessage(told, id=f"lc_run--{uuid4()}")])
