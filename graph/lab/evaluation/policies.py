"""Ways to bring a conversation under a cap: presets and strategies of ours, and two that anyone has at hand."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage, trim_messages

from langgraph_compaction.nodes import CompactionSettings, ContextExhaustedError, compact_messages
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.selection.strategies.registry import Strategy

COUNTER = tiktoken_counter()

Policy = Callable[[Sequence[AnyMessage], int], Sequence[BaseMessage]]
"""From the messages before a cut and a cap in tokens to the context."""

SEEDS = range(5)


def count(messages: Sequence[BaseMessage]) -> int:
    """Tokens of messages, in the form that `trim_messages` takes."""
    return total(COUNTER, messages)


def trimmed(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
    """langchain-core's `trim_messages`, newest first."""
    return trim_messages(list(old), max_tokens=cap, token_counter=count, strategy="last")


def random_exchanges(seed: int) -> Policy:
    """Whole exchanges in random order, as long as they fit."""

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
    """One message each, results with their call."""
    parts: list[list[AnyMessage]] = []
    for message in old:
        if isinstance(message, ToolMessage) and parts:
            parts[-1].append(message)
        else:
            parts.append([message])
    return parts


@dataclass(frozen=True)
class Compacted:
    """`compact_messages` with a digest; nothing is left where it says that what must stay does not fit."""

    settings: CompactionSettings
    strategies: Mapping[str, Strategy] | None = None

    def __call__(self, old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
        """The context."""
        try:
            return compact_messages(
                old, max_tokens=cap, token_counter=count, settings=self.settings, strategies=self.strategies
            )
        except ContextExhaustedError:
            return []


def compacted(settings: CompactionSettings, strategies: Mapping[str, Strategy] | None = None) -> Policy:
    """What `compact_messages` makes of a conversation with these settings."""
    return Compacted(settings, strategies)


def keeps_archive(policy: Policy) -> bool:
    """Whether what a policy takes out of view can be recalled."""
    return isinstance(policy, Compacted)


BASELINES: Mapping[str, tuple[Policy, ...]] = {
    "random exchanges": tuple(map(random_exchanges, SEEDS)),
    "trim_messages": (trimmed,),
}
"""What every policy is shown beside; one with seeds is the mean over them."""
