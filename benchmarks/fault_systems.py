"""The interface of the compared systems, and its implementation by this package."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from fault_model import Provider
from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionThread,
    build_dependencies,
    create_compacting_agent,
)

CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}}
SYSTEM_PROMPT = "You help somebody who moves house."
TRIGGER = 0.8
"""Share of the window at which every system with such a setting compacts."""


class Clock:
    """A wall clock that advances a minute between two turns."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.time


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The inputs from which each system is built, the same for all."""

    model: Provider
    summarizer: Provider
    tools: Sequence[BaseTool]
    window: int
    """Context window in tokens, for systems that need it as a setting: the profile's, or the one it should report."""
    clock: Clock
    prompt: str | None
    """The host's own summary prompt, which ends with `{messages}`; `None` for the system's prompt."""


@dataclass(frozen=True)
class System:
    """One system of the comparison."""

    name: str
    build: Callable[[Setup], Any]
    """Builds a compiled LangGraph agent with a checkpointer."""
    recall: Callable[[Any], Sequence[BaseMessage]]
    """Returns all messages of the conversation that the system's own archive still holds."""
    not_asked: Mapping[str, str] = field(default_factory=dict[str, str])
    """By a word of a scenario's name, why the scenario does not apply to this system."""


def state_of(agent: Any) -> Sequence[BaseMessage]:
    """The messages of the thread's state."""
    messages: list[BaseMessage] = agent.get_state(CONFIG).values.get("messages", [])
    return messages


def _ours(setup: Setup) -> Any:
    """Build our agent with the defaults, but with a model as the summarizer, as the other systems have."""
    with patch.object(build_dependencies, "time", setup.clock):
        return create_compacting_agent(
            setup.model,
            setup.tools,
            system_prompt=SYSTEM_PROMPT,
            settings=CompactionSettings(trigger_ratio=TRIGGER, summary_ahead=False),  # its faults have a fixed order
            summarizer=setup.summarizer,
            checkpointer=InMemorySaver(),
            token_counter=count_tokens_approximately,
        )


OURS = System(
    "ours",
    _ours,
    lambda agent: CompactionThread(agent, CONFIG).transcript(),
    {"prompt of one's own": "a summarizer of one's own writes its prompt"},
)
