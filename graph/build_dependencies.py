"""Make the objects that nodes work with (models, counters, records) from a builder's arguments; find them again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Any, TypedDict, TypeGuard, Unpack

from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph.state import CompiledStateGraph

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.nodes import CompactionSettings, Redaction, SettingsError, Summarizer
from langgraph_compaction.nodes.config.prices import PRICES, Price
from langgraph_compaction.nodes.runtime.dependencies import (
    Dependencies,
    Model,
    ModelSource,
    counter_of,
    given_summarizer,
    loaded,
    redaction_of,
)
from langgraph_compaction.nodes.runtime.ephemeral_removal import ephemeral_tools
from langgraph_compaction.nodes.selection.strategies.registry import Strategy, with_own
from langgraph_compaction.nodes.selection.trigger_evaluation import OwnTrigger
from langgraph_compaction.nodes.state import newer
from langgraph_compaction.nodes.summary.key_information import KeyInformationArgument, providers_of
from langgraph_compaction.nodes.summary.summarizers import AcceptSummary

from .chat_model import named_model

_CHANNEL = "__compaction_channel"
"""Key of `configurable` with the channel of an agent. LangGraph stores no key that begins with two underscores."""


@dataclass(frozen=True, kw_only=True)
class Extensions:
    """Functions of the application by name; the settings use them by these names."""

    strategies: Mapping[str, Strategy] = field(default_factory=dict[str, Strategy])
    """Functions of a conversation and of what is demanded, which choose the messages to remove."""
    triggers: Mapping[str, OwnTrigger] = field(default_factory=dict[str, OwnTrigger])
    """Functions of what was measured, which say whether a compaction starts."""
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """What models cost, by the beginnings of their names, before the prices of the package (`PRICES`)."""
    key_information: KeyInformationArgument = None
    """Providers of text that each summary carries: functions by name, or objects such as `GitDiff(repository)`."""


class Given(TypedDict, total=False):
    """The arguments that both builders and the middleware share; see `create_compacting_agent`."""

    summarizer: Summarizer | Model | str | None
    fallback_summarizers: Sequence[Summarizer | Model]
    redact: Redaction | Callable[[str], str] | None
    accept_summary: AcceptSummary | None
    extensions: Extensions | None
    token_counter: Any


def build_dependencies(
    settings: CompactionSettings,
    records: CompactionRecords,
    *,
    model: ModelSource = None,
    summary_model: ModelSource = None,
    agent_model: ModelSource = None,
    system_prompt: str | SystemMessage | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    embedded: bool = False,
    check_saver: Callable[[Any], None] | None = None,
    channel: str = "compaction",
    owns_list: bool = False,
    summary_input: int | None = None,
    **given: Unpack[Given],
) -> Dependencies:
    """Return the dependencies of the nodes; raise `SettingsError` for an argument of a wrong type.

    This function runs no blocking set-up; the caller runs the set-up later with `settle`.
    """
    counter, summarizer = counter_of(given.get("token_counter")), given.get("summarizer")
    extensions = given.get("extensions") or Extensions()
    writer = summarizer if isinstance(summarizer, str) and summarizer in ("model", "digest") else None
    return Dependencies(
        settings=settings,
        records=records,
        model=model,
        writer=writer,
        summarizer=None if summarizer is None or writer else _opened(summarizer),
        summary_model=summary_model,
        agent_model=agent_model,
        summary_input=summary_input,
        fallbacks=tuple(map(_opened, given.get("fallback_summarizers", ()))),
        redaction=redaction_of(given.get("redact")),
        accept_summary=given.get("accept_summary"),
        strategies=with_own(extensions.strategies),
        triggers=extensions.triggers,
        prices={**PRICES, **extensions.prices},
        key_information=providers_of(extensions.key_information),
        counter=counter,
        now=time,
        tools=[convert_to_openai_tool(tool) for tool in tools],
        ephemeral=ephemeral_tools(tools),
        system_prompt=SystemMessage(system_prompt) if isinstance(system_prompt, str) else system_prompt,
        embedded=embedded,
        check_saver=check_saver,
        channel=channel,
        owns_list=owns_list,
        due=[records.database.finish_setup, *([partial(loaded, counter)] if counter else [])],
    )


def _opened(given: Any) -> Summarizer:
    """Return the summarizer of a builder's argument; a text other than "digest" is the name of a chat model."""
    if not isinstance(given, str) or given == "digest":
        return given_summarizer(given)
    try:
        return given_summarizer(named_model(given))
    except SettingsError as error:
        raise SettingsError(f'summarizer={given!r} is neither "model" nor "digest": {error}') from error


def node_of_compaction(graph: CompiledStateGraph[Any, Any, Any, Any]) -> str:
    """Return the name of the only node in a parent graph that compacts; an empty text in other graphs."""
    found = [name for name, spec in graph.builder.nodes.items() if _is_ours(spec.runnable)]
    return found[0] if len(found) == 1 else ""


def _is_ours(runnable: Any) -> TypeGuard[CompiledStateGraph[Any, Any, Any, Any]]:
    return isinstance(runnable, CompiledStateGraph) and any(
        getattr(channel, "operator", None) is newer for channel in runnable.channels.values()
    )


def _configurable(config: Any) -> Mapping[str, Any]:
    """Return what a config names; nothing for what is no config, of which `check_thread` tells."""
    given = config.get("configurable") if isinstance(config, Mapping) else None
    return given if isinstance(given, Mapping) else {}


def naming(config: RunnableConfig, channel: str) -> RunnableConfig:
    """Return the config of a thread with the channel of one of the agents in a parent graph."""
    return {**config, "configurable": {**_configurable(config), _CHANNEL: channel}}


def dependencies_of(
    graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig | None = None
) -> Dependencies:
    """Return the dependencies of a graph made by this package, or of an agent with its middleware.

    In a parent of several agents they are those of the agent that `config` names, else of the first one. Raises
    `TypeError` for a graph without such an agent, and `SettingsError` if none has the channel of `config`.
    """
    channel, known = _configurable(config).get(_CHANNEL), list[str]()
    for one in _all_dependencies(graph):
        if channel in (None, one.channel):
            return one
        known.append(one.channel)
    if known:
        there = ", ".join(map(repr, dict.fromkeys(known)))
        raise SettingsError(f"no agent of this graph has the channel {channel!r}; there is {there}")
    raise TypeError(
        "this graph was made neither by create_compacting_agent nor by create_compaction_graph, and has no "
        "CompactionMiddleware"
    )


def _all_dependencies(graph: CompiledStateGraph[Any, Any, Any, Any]) -> Iterator[Dependencies]:
    """Yield the dependencies of each agent: a node, or its function, has a method that tells them."""
    builder = getattr(graph, "builder", None)  # a workflow of the functional API has none
    for spec in builder.nodes.values() if builder else ():
        if _is_ours(spec.runnable):
            yield from _all_dependencies(spec.runnable)
        for node in (spec.runnable, getattr(spec.runnable, "func", None)):
            if (dependencies_with := getattr(node, "dependencies_with", None)) is not None:
                yield dependencies_with(graph.checkpointer)
