"""Policies that compact a conversation to a cap in tokens: presets and strategies, and two simple baselines."""

import random
from collections.abc import Callable, Mapping, Sequence

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage, trim_messages

from langgraph_compaction.nodes import CompactionSettings, ContextExhaustedError, compact_messages
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.selection.strategies.registry import Strategy

COUNTER = tiktoken_counter()

Policy = Callable[[Sequence[AnyMessage], int], Sequence[BaseMessage]]
"""Compacts the messages before a cut to a cap in tokens, and returns the remaining context."""

SEEDS = range(5)


def count(messages: Sequence[BaseMessage]) -> int:
    """Count the tokens of messages, for this evaluation and for `trim_messages`."""
    return total(COUNTER, messages)


def trimmed(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
    """Return the newest messages that fit the cap, by langchain-core's `trim_messages`."""
    return trim_messages(list(old), max_tokens=cap, token_counter=count, strategy="last")


def random_exchanges(seed: int) -> Policy:
    """Return a policy that tries the exchanges in random order, and keeps each that still fits under the cap."""

    def policy(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
        parts = exchanges(old)
        order = random.Random(seed).sample(range(len(parts)), len(parts))  # noqa: S311 - a baseline
        kept, left = set[int](), cap
        for index in order:
            size = count(parts[index])
            if size <= left:
                kept.add(index)
                left -= size
        return [message for index in sorted(kept) for message in parts[index]]

    return policy


def exchanges(old: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """Split messages into exchanges: a message with the tool results that follow it, if any."""
    parts: list[list[AnyMessage]] = []
    for message in old:
        if isinstance(message, ToolMessage) and parts:
            parts[-1].append(message)
        else:
            parts.append([message])
    return parts


def compacted(settings: CompactionSettings, strategies: Mapping[str, Strategy] | None = None) -> Policy:
    """Return a policy that calls `compact_messages` with a digest as the summary.

    The context is empty if the messages that must be kept do not fit.
    """

    def policy(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
        try:
            return compact_messages(
                old, max_tokens=cap, token_counter=count, settings=settings, strategies=strategies
            )
        except ContextExhaustedError:
            return []

    return policy


BASELINES: Mapping[str, tuple[Policy, ...]] = {
    "random exchanges": tuple(map(random_exchanges, SEEDS)),
    "trim_messages": (trimmed,),
}
"""The policies with which the chosen presets and strategies are compared, by name.

A policy that draws at random has one function for each seed, and their results are averaged.
"""
