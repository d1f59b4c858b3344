"""Shows for each row of the README's table what the installed packages do, by running them.

    make bench-peers

The conversations, models and agents are those of the fault comparison; LangChain is the middleware that is set up for
the best result. Where a package has no operation of a kind, no public name of its summarization says so. Writes
benchmarks/results/peers.json, from which `python -m tests.write_pages` writes the table.
"""

import inspect
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware import summarization as deep_summarization
from fault_peers import PEERS, RunningState
from fault_runs import Stage, held, measured, staged
from fault_scenarios import SCENARIOS, Scenario
from fault_systems import CONFIG, OURS, SYSTEM_PROMPT, Setup, System, state_of
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langmem.short_term import SummarizationNode, summarize_messages

from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent, view
from langgraph_compaction.graph.middleware import CompactionMiddleware
from tests.kept_results import RESULTS, origin

PACKAGES = ("langchain", "deepagents", "langmem", "langgraph", "langchain-core")
Cell = tuple[str, str]
"""What the table says, and what was seen."""


def _trimming(setup: Setup) -> Any:
    """Build a graph that calls the model on what `trim_messages` leaves."""

    def call(state: MessagesState) -> dict[str, Any]:
        options: Any = {"token_counter": count_tokens_approximately, "start_on": "human"}
        kept = trim_messages(state["messages"], max_tokens=setup.window // 2, **options)
        return {"messages": [setup.model.invoke(kept)]}

    return StateGraph(MessagesState).add_node(call).add_edge(START, "call").compile(checkpointer=InMemorySaver())


def _digesting(setup: Setup) -> Any:
    return _ours(setup, summarizer="digest")


def _ours(setup: Setup, *, summarizer: Any, **settings: Any) -> Any:
    return create_compacting_agent(
        setup.model,
        setup.tools,
        settings=CompactionSettings(summary_ahead=False, **settings),
        summarizer=summarizer,
        checkpointer=InMemorySaver(),
        token_counter=count_tokens_approximately,
    )


def newest(messages: Sequence[AnyMessage]) -> str:
    """Return a summary that no model has written."""
    return f"Of {len(messages)} messages the last one says: {messages[-1].text[:200]}"


def _langchain_function(setup: Setup) -> Any:
    middleware = SummarizationMiddleware(setup.model, trigger=("fraction", 0.8), summarizer=newest)
    return create_agent(setup.model, setup.tools, middleware=[middleware], checkpointer=InMemorySaver())


def _deepagents_function(setup: Setup) -> Any:
    middleware = deep_summarization.create_summarization_middleware(setup.model, StateBackend(), summarizer=newest)
    options: Any = {"system_prompt": SYSTEM_PROMPT, "middleware": [middleware], "checkpointer": InMemorySaver()}
    return create_deep_agent(setup.model, list(setup.tools), **options)


def _langmem_function(setup: Setup) -> Any:
    node = SummarizationNode(
        model=RunnableLambda(lambda messages: AIMessage(newest(messages))),
        max_tokens=int(0.8 * setup.window),
        max_summary_tokens=3_000,
        token_counter=count_tokens_approximately,
        output_messages_key="llm_input_messages",
    )
    return create_react_agent(
        setup.model, [], pre_model_hook=node, state_schema=RunningState, checkpointer=InMemorySaver()
    )


@dataclass(frozen=True)
class Package:
    """A column of the table."""

    system: System
    model_free: Callable[[Setup], Any]
    """Builds its agent without a model that writes summaries."""
    public: Sequence[Any]
    """Where its operations and options stand: classes, functions and modules."""
    summarizes: bool = True


_BY_NAME = {system.name: system for system in PEERS}
THREAD = str(CONFIG["configurable"]["thread_id"])
COLUMNS: Mapping[str, Package] = {
    "this package": Package(OURS, _digesting, (CompactionThread, CompactionSettings, CompactionMiddleware)),
    "LangChain": Package(_BY_NAME["langchain, tuned"], _langchain_function, (SummarizationMiddleware,)),
    "deepagents": Package(
        _BY_NAME["deepagents"],
        _deepagents_function,
        (
            deep_summarization,
            deep_summarization.SummarizationMiddleware,
            deep_summarization.SummarizationToolMiddleware,
            create_deep_agent,
        ),
    ),
    "langmem": Package(_BY_NAME["langmem"], _langmem_function, (SummarizationNode, summarize_messages)),
    "`trim_messages`": Package(
        System("trim_messages", _trimming, state_of), _trimming, (trim_messages,), summarizes=False
    ),
}
NO_SUMMARY: Cell = ("–", "it writes no summary")


def scenario(words: str) -> Scenario:
    """Return the scenario with these words in its name."""
    return next(one for one in SCENARIOS if words in one.name)


CALM = scenario("nothing fails")
BAD_REPLIES = tuple(one for one in SCENARIOS if "(F2)" in one.name)


def summarizes(package: Package) -> Cell:
    """Whether facts of hidden messages stand in the last request."""
    stage = staged(CALM, package.system.build).play()
    kept, asked = held(CALM.facts, stage.last), len(stage.summarizer.requests)
    is_shorter = len(stage.last) < len(CALM.history)
    seen = f"{kept} of {len(CALM.facts)} facts in the last request of {len(stage.last)} messages, {asked} summaries"
    return ("yes" if kept > len(CALM.facts) / 2 and asked and is_shorter else "no"), seen


def answers(package: Package) -> Cell:
    """Whether every question is answered where the summarizer raises."""
    if not package.summarizes:
        return NO_SUMMARY
    row = measured(scenario("the summarizer raises, every time"), package.system)
    return ("yes" if row.answered == row.turns else "no"), f"{row.answered} of {row.turns} turns answered"


def refuses_replies(package: Package) -> Cell:
    """Whether the facts are still there after replies that are no summaries."""
    if not package.summarizes:
        return NO_SUMMARY
    kept = {one.name: measured(one, package.system).needles for one in BAD_REPLIES}
    lost = [name for name, needles in kept.items() if needles < len(CALM.facts) / 2]
    return ("no" if lost else "yes"), f"facts lost after {len(lost)} of {len(kept)} kinds of reply"


def keeps(package: Package) -> Cell:
    """Where the oldest messages still are after a compaction."""
    if not package.summarizes:
        return "–", "it gets a list and stores nothing"
    stage = staged(CALM, package.system.build).play()
    said = CALM.history[0].text
    values = stage.agent.get_state(CONFIG).values
    places = ["in the state"] if any(message.text == said for message in values["messages"]) else []
    if any(said[:200] in str(file) for file in values.get("files", {}).values()):
        places.append("in a file")
    if package.system is OURS:
        thread = CompactionThread(stage.agent, CONFIG)
        taken = thread.records.taken_by(THREAD, thread.history()[-1].compaction_id)
        places += ["in SQL"] if any(message.text == said for message in taken) else []
    return (f"yes, {' and '.join(places)}" if places else "no"), f"the first message is {places or 'nowhere'}"


def names(package: Package, pattern: str) -> list[str]:
    """Return the public names and parameters that match."""
    found = {name for public in package.public for name in _names_of(public) if re.search(pattern, name)}
    return sorted(found)


_HOMES = ("langchain", "deepagents", "langmem", "langgraph_compaction")


def _names_of(public: Any) -> Iterator[str]:
    yield from (name for name in dir(public) if not name.startswith("_"))
    yield from getattr(public, "model_fields", ())
    functions = [public, *(getattr(public, name) for name in dir(public) if not name.startswith("_"))]
    for function in functions:
        is_its_own = str(getattr(function, "__module__", "")).startswith(_HOMES)
        if is_its_own and (inspect.isfunction(function) or inspect.isclass(function)):
            with suppress(ValueError):  # a TypedDict has none
                yield from inspect.signature(function).parameters


def undoes(package: Package) -> Cell:
    """Whether a compaction can be undone: the model sees all messages again."""
    if not (found := names(package, r"^undo|revert|restore|rollback")):
        return "no", "no public name says undo, revert, restore or rollback"
    stage = staged(CALM, package.system.build).play()
    CompactionThread(stage.agent, CONFIG).undo(force=True)
    values = stage.agent.get_state(CONFIG).values
    is_whole = [m.text for m in view(values)] == [m.text for m in values["messages"]]
    return ("yes" if is_whole else "no"), f"{found[0]}: {len(view(values))} messages in view again"


def pins(package: Package) -> Cell:
    """Whether a message can be pinned, so that it stays word for word while others leave."""
    if not (found := names(package, r"^(un)?pin|_pin|protect")):
        return "no", "no public name says pin or protect"
    stage = staged(CALM, package.system.build)
    first, pinned, *rest = CALM.history[:2], CALM.history[2], *CALM.history[3:]
    stage.agent.invoke({"messages": [*first, pinned, HumanMessage("Question 1? Go on.")]}, CONFIG)
    CompactionThread(stage.agent, CONFIG).pin(message_id=pinned.id)
    stage.agent.invoke({"messages": [*rest, HumanMessage("Question 2? Go on.")]}, CONFIG)
    stays = any(pinned.text in message.text for message in stage.last)
    left = not any(CALM.history[4].text in message.text for message in stage.last)
    return ("yes" if stays and left else "no"), f"{found[0]}: pinned stays: {stays}, others leave: {left}"


def asks(package: Package) -> Cell:
    """Whether a person is asked before a compaction, and before which."""
    if not (found := names(package, r"confirm|approv|interrupt_on")):
        return "no", "no public name says confirm, approve or interrupt"
    if package.system is OURS:
        stage = staged(CALM, lambda setup: _ours(setup, summarizer=setup.summarizer, require_confirmation=True))
        _ask(stage)
        waits = bool(stage.agent.get_state(CONFIG).interrupts) and not stage.summarizer.requests
        return ("yes" if waits else "no"), f"{found[-1]}: waits for a person before a summary: {waits}"
    by_itself = staged(CALM, _deep_agent_that_asks)
    _ask(by_itself)
    is_asked = bool(by_itself.agent.get_state(CONFIG).interrupts)
    by_tool = staged(CALM, _deep_agent_that_asks)
    by_tool.model.reply = lambda _: AIMessage("", tool_calls=[{"name": TOOL, "args": {}, "id": "c1"}])
    _ask(by_tool)
    waits = bool(by_tool.agent.get_state(CONFIG).interrupts)
    seen = f"interrupt_on: asked before its tool: {waits}, before a compaction at the trigger: {is_asked}"
    return ("yes" if is_asked else "before its tool runs" if waits else "no"), seen


TOOL = "compact_conversation"


def _deep_agent_that_asks(setup: Setup) -> Any:
    middleware = deep_summarization.create_summarization_middleware(
        setup.model, StateBackend(), summarizer=setup.summarizer
    )
    return create_deep_agent(
        setup.model,
        system_prompt=SYSTEM_PROMPT,
        middleware=[middleware, deep_summarization.SummarizationToolMiddleware(middleware)],
        interrupt_on={TOOL: True},
        checkpointer=InMemorySaver(),
    )


def _ask(stage: Stage) -> None:
    stage.agent.invoke({"messages": [*CALM.history, HumanMessage("Question 1? Go on.")]}, CONFIG)


def needs_no_model(package: Package) -> Cell:
    """Whether its agent compacts where no model writes summaries, by itself or with a function of the user."""
    try:
        stage = staged(CALM, package.model_free).play()
    except Exception as error:  # noqa: BLE001 - that it refuses to be built is the finding
        return "no", f"{type(error).__name__}: {str(error)[:100]}"
    asked, turns = len(stage.model.requests) + len(stage.summarizer.requests), len(CALM.turns)
    works = stage.host.answered == turns == asked and len(stage.last) < len(CALM.history)
    how = "yes" if package.system is OURS or not package.summarizes else "with a function of yours"
    return (how if works else "no"), f"{asked} calls of models in {turns} turns, {len(stage.last)} messages sent"


def streams(package: Package) -> Cell:
    """Whether `stream_mode="messages"` shows the answers alone."""
    if not package.summarizes:
        return NO_SUMMARY
    row = measured(scenario("what is streamed"), package.system)
    return ("yes" if row.answered == row.turns else "no"), f"{row.answered} of {row.turns} answers alone; {row.note}"


CLAIMS: Mapping[str, Callable[[Package], Cell]] = {
    "shows the model a summary in place of old messages": summarizes,
    "answers the user even if the summarizer fails": answers,
    "never uses an empty reply, a truncated reply or a refusal as the summary": refuses_replies,
    "keeps the old messages, for people and front ends": keeps,
    "can undo a compaction": undoes,
    "can pin messages and rules, so that they stay word for word": pins,
    "can ask a person before a compaction": asks,
    "works without a model that writes summaries": needs_no_model,
    "with `stream_mode=\"messages\"`, streams the answer's tokens without the summary's tokens": streams,
}
"""The rows of the table, and what tries each."""


def main() -> None:
    """Try all, print, and keep what was found."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rows: list[dict[str, Any]] = []
    for claim, tried in CLAIMS.items():
        cells = {name: dict(zip(("cell", "seen"), tried(package), strict=True)) for name, package in COLUMNS.items()}
        rows.append({"claim": claim, "cells": cells})
        print(claim, *(f"  {name}: {cell['cell']} ({cell['seen']})" for name, cell in cells.items()), sep="\n")
    found = {"versions": {name: version(name) for name in PACKAGES}, "rows": rows, **origin()}
    (RESULTS / "peers.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
