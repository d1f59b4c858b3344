"""Policies that bring a conversation under a cap of tokens; each gets the same messages and the same cap."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage, trim_messages

from langgraph_compaction.graph.lab.evaluation.policies import (
    COUNTER,
    SEEDS,
    Policy,
    compacted,
    count,
    exchanges,
    random_exchanges,
    trimmed,
)
from langgraph_compaction.graph.lab.evaluation.survival import identifiers, text_of
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import MESSAGE_OVERHEAD
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.digest.value_extraction import parsed, scalars
from langgraph_compaction.nodes.summary.summary_message import NO_PARTS


def trimmed_to_human(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
    """`trim_messages` that starts at a user message, as its documentation recommends."""
    return trim_messages(list(old), max_tokens=cap, token_counter=count, strategy="last", start_on="human")


def exact_tail(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
    """Keep the end of the conversation's text, cut to exactly the cap."""
    text = text_of(old)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if COUNTER.text(text[middle:]) + MESSAGE_OVERHEAD <= cap else (middle + 1, high)
    return [HumanMessage(text[low:])]


def ledger_and_tail(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
    """Keep whole messages in half of the cap, and in the rest the newest `key.path: value` lines of the others."""
    kept = tail(old, cap // 2)
    lines, left = dict[str, str](), cap - count(kept) - MESSAGE_OVERHEAD
    for path, value in reversed(list(_pairs(old[: len(old) - len(kept)]))):
        line = f"{path}: {value}"
        if value in lines or not identifiers(value) or COUNTER.text(line) + 1 > left:
            continue
        lines[value] = line
        left -= COUNTER.text(line) + 1
    return [HumanMessage("\n".join(lines.values())), *kept]


def digest_and_tail(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
    """Keep whole messages in half of the cap, and a digest of the others in the rest."""
    return _digested(old, tail(old, cap // 2), cap)


def digest_alone(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
    """Keep a digest of all messages, and no message."""
    return _digested(old, [], cap)


POLICIES: Mapping[str, Policy] = {
    "trim_messages, start_on human": trimmed_to_human,
    "trim_messages": trimmed,
    "token-exact tail": exact_tail,
    **{f"random exchanges {seed}": random_exchanges(seed) for seed in SEEDS},
    "plain ledger half + tail half": ledger_and_tail,
    "digest half + tail half": digest_and_tail,
    "digest alone": digest_alone,
    "compact_messages": compacted(CompactionSettings()),
    "compact_messages, faithful": compacted(CompactionSettings(preset="faithful")),
}


def tail(old: Sequence[AnyMessage], cap: int) -> list[AnyMessage]:
    """Return the newest exchanges that fit the cap; a call and its results stay together."""
    kept, left = list[list[AnyMessage]](), cap
    for exchange in reversed(exchanges(old)):
        left -= count(exchange)
        if left < 0:
            break
        kept.append(exchange)
    return [message for exchange in reversed(kept) for message in exchange]


def _digested(old: Sequence[AnyMessage], kept: list[AnyMessage], cap: int) -> list[AnyMessage]:
    frame = count([NO_PARTS.message("", "")])
    made = digest(old[: len(old) - len(kept)], budget=cap - count(kept) - frame, counter=COUNTER)
    return [NO_PARTS.message(made.text, ""), *kept] if made.text else kept


def _pairs(old: Sequence[AnyMessage]) -> Iterator[tuple[str, str]]:
    for message in old:
        values: list[Any] = []
        if isinstance(message, AIMessage):
            values = [call["args"] for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            values = [parsed(message.text)]
        for path, _, key, leaf in (leaf for value in values for leaf in scalars(value)):
            yield ".".join(name for name in (path, key) if name), str(leaf)
