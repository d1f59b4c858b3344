"""The other systems of the fault comparison, each set up for a known window as its documentation says.

All compact at 80 % of the window where that can be chosen, all count tokens as the model does (their default),
all have the same summarizer and an `InMemorySaver`.
"""

from typing import Any
from unittest.mock import patch

from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware.summarization import create_summarization_middleware
from fault_systems import OURS, SYSTEM_PROMPT, TRIGGER, Setup, System, state_of
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.prebuilt.chat_agent_executor import AgentState
from langmem.short_term import RunningSummary, SummarizationNode

from langgraph_compaction.graph import build_dependencies
from langgraph_compaction.graph.middleware import CompactionMiddleware

SUMMARY_SHARE = 0.05
"""Share of the window for the summary, for systems that need one given; it equals our default."""


class RunningState(AgentState):
    """The agent's state, as in langmem's guide."""

    context: dict[str, RunningSummary]


def _langchain(setup: Setup) -> Any:
    """Set `trigger` only: by default 20 messages are kept, and the summarizer is shown 4,000 tokens."""
    return _middleware(setup)


def _langchain_tuned(setup: Setup) -> Any:
    """Set it up for the best result: keep messages by tokens, and show all others to the summarizer."""
    return _middleware(setup, keep=("fraction", 0.3), trim_tokens_to_summarize=None)


def _middleware(setup: Setup, **options: Any) -> Any:
    if setup.prompt:
        options["summary_prompt"] = setup.prompt
    middleware = SummarizationMiddleware(setup.summarizer, trigger=("fraction", TRIGGER), **options)
    return create_agent(
        setup.model,
        setup.tools,
        system_prompt=SYSTEM_PROMPT,
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )


def _deepagents(setup: Setup) -> Any:
    """Build the default agent, with its own trigger (85 % of the window), file tools and prompts."""
    options = {"summary_prompt": setup.prompt} if setup.prompt else {}
    middleware = create_summarization_middleware(setup.model, StateBackend(), summarizer=setup.summarizer, **options)
    return create_deep_agent(
        setup.model,
        list(setup.tools),
        system_prompt=SYSTEM_PROMPT,
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )


def _ours_in_deepagents(setup: Setup) -> Any:
    """Build the same agent with our middleware, by its defaults, in the place of its own."""
    with patch.object(build_dependencies, "time", setup.clock):
        middleware = CompactionMiddleware(
            summarizer=setup.summarizer,
            token_counter=count_tokens_approximately,
            name="SummarizationMiddleware",
        )
    return create_deep_agent(
        setup.model,
        list(setup.tools),
        system_prompt=SYSTEM_PROMPT,
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )


def _langmem(setup: Setup) -> Any:
    """Build the agent of its guide: a `SummarizationNode` before the model; the state keeps all messages."""
    size = int(SUMMARY_SHARE * setup.window)
    prompt = setup.prompt and ChatPromptTemplate.from_messages(
        [("placeholder", "{messages}"), ("user", setup.prompt.removesuffix("{messages}"))]
    )
    node = SummarizationNode(
        model=setup.summarizer.bind(max_tokens=size),
        max_tokens=int(TRIGGER * setup.window),
        max_summary_tokens=size,
        token_counter=count_tokens_approximately,
        output_messages_key="llm_input_messages",
        **({"initial_summary_prompt": prompt} if prompt else {}),
    )
    return create_react_agent(
        setup.model,
        list(setup.tools),
        prompt=SYSTEM_PROMPT,
        pre_model_hook=node,
        state_schema=RunningState,
        checkpointer=InMemorySaver(),
    )


PEERS = (
    System("langchain", _langchain, state_of),
    System("langchain, tuned", _langchain_tuned, state_of),
    System("deepagents", _deepagents, state_of),
    System("langmem", _langmem, state_of, {"window is not known": "it is always told one"}),
    System("ours in deepagents", _ours_in_deepagents, OURS.recall, OURS.not_asked),
)
