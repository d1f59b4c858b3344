"""Conversations of the fault benchmark: prose of a known size with planted facts, and tool blocks."""

import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

_WORDS = (
    "the a this our their every some of in on under between after before with without and or but because while "
    "table garden window kitchen ladder carpet mirror corner cellar balcony staircase drawer cupboard lamp curtain "
    "shelf ceiling doorstep hallway pantry attic basket bucket cushion blanket candle kettle teapot quickly slowly "
    "carefully perhaps tomorrow morning evening heavy light narrow wooden empty yellow quiet early broken ready"
)
WORDS = _WORDS.split()
"""Filler words without verbs: the digest would keep a sentence that reads like an order."""

FACTS = (
    "the reservation is ZX81QP",
    "the gardener is allergic to bees",
    "invoice INV-20417-B is not paid",
    "grandmother's clock must stand upright",
    "the van is booked at depot HAM-77",
    "the neighbors above work at night",
    "the alarm code of the cellar is 40-19-63",
    "the piano goes to the younger sister",
)
"""The planted facts: half of them hold an identifier, half are plain words."""

QUESTION = re.compile(r"Question \d+(?=\?)")
"""Matches the beginning of the user's questions."""

RULES = ("Never ring the door bell, always knock.", "Write every sum in Swiss francs.")


@cache
def prose(tokens: int, seed: str) -> str:
    """Return about so many tokens of words, at four characters per token; the same seed gives the same text."""
    draw = random.Random(seed)  # noqa: S311 - filler
    words: list[str] = []
    left = 4 * tokens
    while left > 0:
        words.append(draw.choice(WORDS) + ("." if len(words) % 12 == 11 else ""))
        left -= len(words[-1]) + 1
    return " ".join(words)


def chat(
    rounds: int, tokens: int, facts: Sequence[str] = FACTS, *, begin: float = 0.0, until: float = 0.7
) -> list[AnyMessage]:
    """Return answered rounds of messages of a given size, with the facts spread over part of the user messages."""
    places = {int(rounds * (begin + (until - begin) * n / len(facts))): fact for n, fact in enumerate(facts)}
    messages: list[AnyMessage] = []
    for n in range(rounds):
        fact = f" Note that {places[n]}." if n in places else ""
        messages.append(HumanMessage(f"{prose(tokens, f'user {n}')}{fact}", id=f"user-{n}"))
        messages.append(AIMessage(prose(tokens, f"answer {n}"), id=f"answer-{n}"))
    return messages


def calls(*names: str, start: int = 1) -> AIMessage:
    """Return a message with parallel calls that read documents."""
    made = [{"name": "read", "args": {"name": name}, "id": f"call-{start + n}"} for n, name in enumerate(names)]
    return AIMessage("", tool_calls=made)


def result(call: int, text: str) -> ToolMessage:
    """Return the result of the call with this number."""
    return ToolMessage(text, tool_call_id=f"call-{call}", name="read")


def blocks(count: int, tokens: int, facts: Sequence[str] = FACTS, *, width: int = 4) -> list[AnyMessage]:
    """Return tool blocks of parallel calls that reuse their ids; results of the first half hold the facts."""
    messages: list[AnyMessage] = [HumanMessage("Read everything in the folder, please.")]
    for n in range(count):
        messages.append(calls(*(f"file {n}.{place}" for place in range(width))))
        fact = f" Note that {facts[n]}." if n < len(facts) else ""
        messages += [result(place + 1, prose(tokens, f"result {n}.{place}") + fact) for place in range(width)]
    return [*messages, AIMessage("I have read them all.")]


def interrupted() -> list[AnyMessage]:
    """Return parallel calls with a user message between their results."""
    return [calls("a", "b", start=901), result(901, "a is read"), HumanMessage("Wait."), result(902, "b is read")]


def unanswered() -> list[AnyMessage]:
    """Return parallel calls of which one has no result."""
    return [calls("a", "b", start=951), result(951, "a is read")]


def planted(messages: Sequence[AnyMessage], message: AnyMessage, at: int) -> list[AnyMessage]:
    """Return the messages with one more inserted at this position."""
    return [*messages[:at], message, *messages[at:]]


def schema(tool: Any) -> str:
    """Return text with braces, which `str.format` would take for placeholders."""
    return f'{{"tool": "{tool}", "args": {{"name": {{messages}}}}}}'
