"""The builders of the two graphs: the agent, and the compaction without an agent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast

from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from sqlalchemy import Engine

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Database, SQLAlchemySaver
from langgraph_compaction.checkpoint.messages.allowed_types import classes_in
from langgraph_compaction.nodes import CompactionSettings, CompactionState, Redaction, SettingsError, Summarizer
from langgraph_compaction.nodes.config.settings import CompactionOverrides, settings_of
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.errors import EmbeddingError
from langgraph_compaction.nodes.inline.runner import NODES
from langgraph_compaction.nodes.runtime.dependencies import (
    Dependencies,
    Model,
    ModelSource,
    counter_of,
    window_of,
    with_tools,
)
from langgraph_compaction.nodes.runtime.node_context import CompactionNode
from langgraph_compaction.nodes.state import CHANNELS, CompactionChannels, with_ids
from langgraph_compaction.nodes.summary.summarizers import AcceptSummary

from .build_dependencies import Extensions, build_dependencies
from .chat_model import named_model
from .database import check_parent, records_for
from .exclusive_runs import ExclusiveGraph
from .recall_tool import recall_tool
from .routing import AGENT_EDGES, COMPACTION_EDGES, TOOLS_EDGES, Edges, Router, after_model, after_tools, by_step

RECURSION_LIMIT = 2_000
"""Largest number of steps in one run; LangGraph's default would let a loop call the model thousands of times.

A call of a tool takes three steps, so that the 700 events of `layered_defence` take 1,050 and its compactions more.
"""

Checkpointer = BaseCheckpointSaver[Any] | bool | None
Graph = CompiledStateGraph[Any, Any, Any, Any]


def create_compacting_agent(
    model: ModelSource | str,
    tools: Sequence[BaseTool | Callable[..., Any]] | ToolNode = (),
    *,
    system_prompt: str | SystemMessage | None = None,
    settings: CompactionSettings | None = None,
    summarizer: Summarizer | Model | str | None = None,
    fallback_summarizers: Sequence[Summarizer | Model] = (),
    redact: Redaction | Callable[[str], str] | None = None,
    accept_summary: AcceptSummary | None = None,
    extensions: Extensions | None = None,
    checkpointer: Checkpointer = None,
    database: str | Engine | Database | None = None,
    token_counter: Any = None,
    store: BaseStore | None = None,
    state_schema: type[CompactionState] = CompactionState,
    name: str = "compacting_agent",
) -> Graph:
    """Build an agent whose conversation stays within its model's context window.

    - `model`: a chat model, its name ("openai:gpt-4o", read as by LangChain's `create_agent`), or a function of
      (state, runtime) that returns one. The model's profile or `settings.context_window` gives the context window.
    - `tools`, `system_prompt`, `checkpointer`, `store`, `name`: as in `create_agent`.
    - `settings`: when and how the conversation is compacted.
    - `summarizer`: a chat model or its name, a compiled graph, an object of the `Summarizer` protocol, "model" (the
      model of the call) or "digest" (extraction without a model); without it the policy decides.
      `fallback_summarizers` are called in turn if the summarizer fails; the digest is the last resort.
    - `redact`: a function that changes every text before the summarizer, the facts and the ledger see it;
      `Redaction(hook=..., store=True)` also changes the texts in archive and snapshots.
    - `accept_summary`: a function that is given a model's summary and the messages that it replaces, and returns
      whether the summary is used. Without it, a summary that shares no words with these messages is rejected.
    - `extensions`: strategies, triggers and key information of the application, which the settings use by name.
    - `database`: holds snapshots, ledger and archive. By default the checkpointer's database, if the checkpointer is
      a `SQLAlchemySaver`, else memory.
    - `token_counter`: a function on a list of messages, as `trim_messages` takes it.
    - `state_schema`: a subclass of `CompactionState` with more channels. A saver of this package also stores the
      classes that this schema names.

    Raise `SettingsError` for arguments that cannot work: no model, an unknown context window, a system prompt that
    leaves no tokens for messages, another package's durable checkpointer without `database`.
    """
    source = _source_of(model)
    chosen = settings_of(settings)
    records = records_for(database, checkpointer)
    own = [recall_tool(records, counter_of(token_counter) or tiktoken_counter())] if chosen.has_recall_tool else []
    tool_node = _tool_node(tools, own)
    known = list(tool_node.tools_by_name.values())
    called = _with_tools(source, known)
    dependencies = build_dependencies(
        chosen,
        records,
        model=called,
        summary_model=source,
        agent_model=called,
        system_prompt=system_prompt,
        tools=known,
        owns_list=True,
        summarizer=summarizer,
        fallback_summarizers=fallback_summarizers,
        redact=redact,
        accept_summary=accept_summary,
        extensions=extensions,
        token_counter=token_counter,
    )
    _checked(dependencies)
    graph = StateGraph(state_schema, context_schema=CompactionOverrides)
    _add_nodes(graph, dependencies, AGENT_EDGES)
    graph.add_node("tools", tool_node)
    direct = frozenset(tool.name for tool in known if tool.return_direct)
    graph.add_conditional_edges("tools", Router(after_tools(direct)), TOOLS_EDGES)
    return _compiled(graph, checkpointer, store, name)


def _given(old: list[AnyMessage], new: Any) -> Any:
    """Add messages as `add_messages` does; those of a parent get the ids that they have whenever it is read."""
    given: Any = with_ids(new, derived=True) if isinstance(new, list) and not old else new
    return add_messages(cast("Any", old), given)


class _GivenState(CompactionChannels):
    """The state of a compaction graph in a parent graph, whose messages may have no ids."""

    messages: Annotated[list[AnyMessage], _given]


def create_compaction_graph(
    *,
    settings: CompactionSettings,
    summarizer: Summarizer | Model | str | None = None,
    fallback_summarizers: Sequence[Summarizer | Model] = (),
    redact: Redaction | Callable[[str], str] | None = None,
    accept_summary: AcceptSummary | None = None,
    extensions: Extensions | None = None,
    system_prompt: str | SystemMessage | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    checkpointer: Checkpointer = None,
    database: str | Engine | Database | None = None,
    token_counter: Any = None,
    state_schema: type[CompactionState] = CompactionState,
    name: str = "compaction",
) -> Graph:
    """Build a graph that only compacts, without model and tools, as a node of your own graph.

    ```python
    class State(CompactionState): ...

    builder = StateGraph(State)
    builder.add_node("compact", create_compaction_graph(settings=CompactionSettings(context_window=32_000)))
    builder.add_node("model", lambda state: {"messages": [model.invoke(view(state))]})
    builder.add_edge("compact", "model")
    ```

    `system_prompt` and `tools` are those of the parent graph's model, so that their tokens are counted. `settings`
    must give `context_window`. Providers of key information read the channels of `state_schema`, the parent's class.
    The other arguments are those of `create_compacting_agent`.
    """
    dependencies = build_dependencies(
        settings_of(settings),
        records_for(database, checkpointer),
        system_prompt=system_prompt,
        tools=tools,
        embedded=True,
        check_saver=check_parent if database is None and not checkpointer else None,
        summarizer=summarizer,
        fallback_summarizers=fallback_summarizers,
        redact=redact,
        accept_summary=accept_summary,
        extensions=extensions,
        token_counter=token_counter,
    )
    _checked(dependencies)
    known = _GivenState if state_schema is CompactionState else state_schema
    graph = StateGraph(known, context_schema=CompactionOverrides, output_schema=CompactionChannels)
    if lacking := {"messages", *CHANNELS} - graph.schemas[known].keys():
        raise EmbeddingError(f"state_schema has no {', '.join(sorted(lacking))}: let it inherit CompactionState")
    _add_nodes(graph, dependencies, COMPACTION_EDGES)
    return _compiled(graph, checkpointer, None, name)


def _add_nodes(graph: StateGraph[Any, Any, Any, Any], dependencies: Dependencies, edges: Mapping[str, Edges]) -> None:
    """Add each node that is a key of `edges`, with its edges."""
    for name, targets in edges.items():
        graph.add_node(name, CompactionNode(name, NODES[name], dependencies))
        graph.add_conditional_edges(name, Router(after_model if name == "model" else by_step(name)), targets)
    graph.add_edge(START, "token_check")


def _compiled(
    graph: StateGraph[Any, Any, Any, Any], checkpointer: Checkpointer, store: BaseStore | None, name: str
) -> Graph:
    if isinstance(checkpointer, SQLAlchemySaver | AsyncSQLAlchemySaver):
        checkpointer = checkpointer.with_allowlist(classes_in([graph.state_schema]))
    compiled = ExclusiveGraph.of(graph.compile(checkpointer=checkpointer, store=store, name=name))
    return compiled.with_config(recursion_limit=RECURSION_LIMIT)


def _tool_node(tools: Sequence[BaseTool | Callable[..., Any]] | ToolNode, own: Sequence[BaseTool]) -> ToolNode:
    if not isinstance(tools, ToolNode):
        return ToolNode([*tools, *own], handle_tool_errors=True)
    if own:
        raise SettingsError("with the recall tool, give the tools as a list: the tool `recall` is put beside them")
    return tools


def _source_of(model: Any) -> ModelSource:
    """Return the model, or the function that chooses a model, from a builder's argument `model`."""
    if isinstance(model, str):
        return named_model(model)
    if not isinstance(model, Runnable) and not callable(model):
        raise SettingsError(
            f'model={model!r} is no model: give a chat model, its name, such as "openai:gpt-4o", or a function '
            "of (state, runtime) that chooses one"
        )
    return cast("ModelSource", model)


def _with_tools(model: ModelSource, tools: Sequence[BaseTool]) -> ModelSource:
    if not tools or model is None:
        return model
    if isinstance(model, Runnable):
        return with_tools(model, tools)
    choose = model
    return lambda state, runtime: with_tools(choose(state, runtime), tools)


def _checked(dependencies: Dependencies) -> None:
    """Raise an error for an unknown or too small context window; warn if the trigger differs from its setting.

    This check counts the tokens of system prompt and tool schemas, and counting can load a tokenizer. On a running
    event loop, where a server calls graph factories, the check is therefore postponed to the first turn.
    """
    if dependencies.has_known_window:
        window_of(dependencies.settings, dependencies.fixed_model)
    dependencies.due.append(dependencies.sizes)
    dependencies.settle_off_loop()
