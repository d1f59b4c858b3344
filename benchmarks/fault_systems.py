"""The interface of the compared systems, and its implementation by this package."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fault_model import Provider
from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent

CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}}
SYSTEM_PROMPT = "You help somebody who moves house."
TRIGGER = 0.8
"""Share of the window at which every system compacts, where it lets one choose."""


class Clock:
    """A wall clock on which a minute passes between two turns."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.time


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What each system is built from, the same for all."""

    model: Provider
    summarizer: Provider
    tools: Sequence[BaseTool]
    window: int
    """For systems that have to be told one: what the profile says, or should have said."""
    clock: Clock
    prompt: str | None
    """A summary prompt of one's own, which ends with `{messages}`."""


@dataclass(frozen=True)
class System:
    """One of the systems."""

    name: str
    build: Callable[[Setup], Any]
    """An agent as LangGraph has them, with a checkpointer."""
    recall: Callable[[Any], Sequence[BaseMessage]]
    """What it still knows of the whole conversation, by its own means."""
    not_asked: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a scenario, by a word of its name, says nothing about it."""


def state_of(agent: Any) -> Sequence[BaseMessage]:
    """The messages of the thread's state."""
    messages: list[BaseMessage] = agent.get_state(CONFIG).values.get("messages", [])
    return messages


def _ours(setup: Setup) -> Any:
    """Defaults, but for the summarizer: ours would need no model, and then there were nothing to compare."""
    return create_compacting_agent(
        setup.model,
        setup.tools,
        system_prompt=SYSTEM_PROMPT,
        settings=CompactionSettings(trigger_ratio=TRIGGER),
        summarizer=setup.summarizer,
        checkpointer=InMemorySaver(),
        token_counter=count_tokens_approximately,
        now=setup.clock,
    )


OURS = System(
    "ours",
    _ours,
    lambda agent: CompactionThread(agent, CONFIG).transcript(),
    {"prompt of one's own": "a summarizer of one's own writes its prompt"},
)
