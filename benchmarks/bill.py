"""The bill of a conversation of 400 turns with tool calls, with and without compaction, in three windows.

    python -m benchmarks.bill [--turns 400]

A model in the process answers by a script and reports usage as a provider with a prompt cache: the longest beginning
of a request that an earlier one had is read from the cache, and the rest of an agent's request is written to it. The
figures show what is paid for, not how good an answer is. Writes benchmarks/results/bill.json.
"""

import argparse
import logging
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langgraph_compaction.checkpoint.usage import FREE, Usage
from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent
from langgraph_compaction.nodes.config.prices import PRICES, usage_of
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from tests.kept_results import RESULTS, keep, origin

WINDOWS = (32_000, 128_000, 1_000_000)
TRIGGER_TOKENS = (50_000, 100_000)
PRESETS = ("selective", "faithful")
MODELS = ("claude-sonnet-4-6", "gpt-6.1-sol")
"""Whose prices the requests are billed at; the first is the name that the model of the process reports."""
STEPS = 2
LEAST_CACHED = 1_024
PROMPT = "You audit containers. Look up each with the tool. Keep every rule that the user sets. " + "Be exact. " * 100
RULE = re.compile(r"container (MSKU\d+) must not leave before inspection (ZX-\d+)|(MSKU\d+) waits for (ZX-\d+)")
COUNTER = tiktoken_counter()


tokens = lru_cache(maxsize=1_000_000)(COUNTER.text)
"""Return the tokens of a text."""


@tool
def lookup(container: str) -> str:
    """Return where a container is, its seal and its bay."""
    k = int(container[4:])
    rows = (
        f"{k + n} row held at quay {n % 7} gate {k * n % 31} weight {1000 + (k * 7 + n * 13) % 9000} kg; "
        for n in range(20)
    )
    return f"Container {container}: sealed with SEAL-{9000 + k}, stands in BAY-{k % 97 + 100}. {''.join(rows)}"


TOOL_TOKENS = tokens(str(convert_to_openai_tool(lookup)))


class Provider(BaseChatModel):
    """Answers by a script, writes summaries, and bills every call."""

    asked: int = 0
    prefixes: set[int] = Field(default_factory=set[int])
    requests: list[tuple[bool, Usage, dict[str, Any]]] = Field(default_factory=list[Any])
    read: str = ""
    """The text of the last request of the agent."""

    @property
    def _llm_type(self) -> str:
        return "provider"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Return the model with the tools that mark a request of the agent."""
        return self.bind(tools=tools)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the same
        tools: Any = None,
        **_: Any,
    ) -> ChatResult:
        size, cached, key = TOOL_TOKENS if tools else 0, 0, hash(bool(tools))
        for message in messages:
            calls = str([(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])])
            key, size = hash((key, message.type, message.text, calls)), size + 4 + tokens(message.text + calls)
            cached = size if key in self.prefixes else cached
            self.prefixes.add(key)
        cached = cached if cached >= LEAST_CACHED else 0
        text, last = "\n".join(message.text for message in messages), messages[-1]
        is_own = bool(tools) and "<summary>" not in last.text
        answer = self._answer(text) if is_own else AIMessage(summary_of(text))
        written = tokens(answer.text) + 20
        reported: Any = {"input_tokens": size, "output_tokens": written, "total_tokens": size + written}
        reported["input_token_details"] = {"cache_read": cached, "cache_creation": size - cached if tools else 0}
        answer.usage_metadata, answer.response_metadata = reported, {"model_name": MODELS[0]}
        self.requests.append((is_own, usage_of(reported, (MODELS[0],), PRICES), reported))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _answer(self, text: str) -> AIMessage:
        self.read, (turn, step) = text, divmod(self.asked, STEPS + 1)
        self.asked += 1
        if step == STEPS:
            return AIMessage(f"Turn {turn}: MSKU{4000 + turn * 10} and the next one are sealed and in their bays.")
        asked = {"name": "lookup", "args": {"container": f"MSKU{4000 + turn * 10 + step}"}, "id": f"c{self.asked}"}
        return AIMessage("", tool_calls=[asked])


def said(turn: int) -> HumanMessage:
    """Return what the user says in a turn, with a rule."""
    rule = f"container MSKU{4000 + turn * 10} must not leave before inspection ZX-{7000 + turn}"
    return HumanMessage(f"Turn {turn}. RULE {turn}: {rule}. Look up the next containers and report.")


def summary_of(text: str) -> str:
    """Return a summary with the newest rules that have room in it."""
    rules = dict.fromkeys(f"{a or c} waits for {b or d}" for a, b, c, d in RULE.findall(text))
    kept = list(rules)[-63:]  # in about 950 tokens
    body = f"## Task Overview\nThe user audits containers and sets rules.\n## Discoveries\n{', '.join(kept)}.\n"
    body += "## Next Steps\nGo on with the next container.\n## Context to Preserve\nEach rule holds."
    return f"<summary>\n{body}\n</summary>" if "<summary>" in text else body


def ours(window: int, **settings: Any) -> Callable[[Provider], Any]:
    """Return the builder of this package's agent."""
    chosen = CompactionSettings(context_window=window, summary_ahead=False, **settings)  # which depends on the clock
    given: dict[str, Any] = {"system_prompt": PROMPT, "settings": chosen, "checkpointer": InMemorySaver()}
    return lambda model: create_compacting_agent(model, [lookup], database="sqlite://", **given)


def langchain(model: Provider, *middleware: Any) -> Any:
    """Build LangChain's agent."""
    return create_agent(model, [lookup], system_prompt=PROMPT, middleware=middleware, checkpointer=InMemorySaver())


def deepagents(model: Provider) -> Any:
    """Build an agent of deepagents as it is."""
    from deepagents import create_deep_agent  # noqa: PLC0415 - only this one needs it

    return create_deep_agent(model=model, tools=[lookup], system_prompt=PROMPT, checkpointer=InMemorySaver())


def systems(window: int) -> Mapping[str, Callable[[Provider], Any]]:
    """Return the builders by name; LangChain's trigger is the same share of the window."""
    found: dict[str, Callable[[Provider], Any]] = {
        "LangChain": lambda model: langchain(model, SummarizationMiddleware(model, trigger=("fraction", 0.8))),
        "deepagents": deepagents,
    }
    if window == WINDOWS[0]:
        found["none"] = langchain  # the same in each window, as long as the provider accepts it
    for preset in PRESETS:
        found[preset] = ours(window, preset=preset)
        for most in TRIGGER_TOKENS:
            if most < 0.8 * window:
                found[f"{preset}, trigger_tokens={most}"] = ours(window, preset=preset, trigger_tokens=most)
    return found


def played(name: str, build: Callable[[Provider], Any], window: int, turns: int) -> dict[str, Any]:
    """Return the figures of one system in one window."""
    model = Provider(profile={"max_input_tokens": window})
    agent, config = build(model), RunnableConfig(configurable={"thread_id": "1"}, recursion_limit=100)
    for turn in range(turns):
        agent.invoke({"messages": [said(turn)]}, config)
    row: dict[str, Any] = {"system": name, "window": window, "turns": turns}
    if name.startswith(PRESETS):
        row["reported"] = round(CompactionThread(agent, config).bill().total.cost or 0, 4)
    own, summaries = (sum((u for is_own, u, _ in model.requests if is_own is kind), FREE) for kind in (True, False))
    row |= {"calls": own.calls, "summaries": summaries.calls, "cached": own.cache_read_tokens / own.input_tokens}
    for priced in MODELS:
        costs = [usage_of(reported, (priced,), PRICES).cost or 0 for _, _, reported in model.requests]
        row[priced] = round(sum(costs), 4)
    row["summaries_cost"] = round(summaries.cost or 0, 4)
    row["rules_in_last_request"] = sum(f"ZX-{7000 + turn}" in model.read for turn in range(turns))
    return row | origin()


def main() -> None:
    """Play the systems, and keep and print their figures."""
    logging.disable(logging.CRITICAL)
    options = argparse.ArgumentParser()
    options.add_argument("--turns", type=int, default=400)
    turns = options.parse_args().turns
    for window in WINDOWS:
        for name, build in systems(window).items():
            row = played(name, build, window, turns)
            keep(RESULTS / "bill.json", [row], "system", "window", "turns")
            print(row, flush=True)


if __name__ == "__main__":
    main()
