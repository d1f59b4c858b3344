"""Plays whole runs through a policy, turn by turn; measures the cost, and the identifiers available to each call."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage

from langgraph_compaction.nodes import SettingsError

from .policies import SEEDS, Policy, count, exchanges, random_exchanges, trimmed
from .survival import asked, holds, text_of

WRITE, READ, OUTPUT = 25, 2, 100
"""Prices of an input token that is written to a cache, an input token read from a cache, and an output token.

They are 1.25, 0.1 and 5 times `PRICE`, as whole numbers, so that sums of costs are exact.
"""

PRICE = 20
"""Price of an input token of a provider without a cache; the unit of all prices is a twentieth of this price."""

DEPTH = 0.5
"""Size to which the policy "random exchanges" compacts, as a share of the limit less the fixed tokens.

The settings of a preset have the same figure as `target_ratio`.
"""


@dataclass(frozen=True)
class Run:
    """A whole recorded conversation, as the evaluation plays it."""

    name: str
    messages: Sequence[AnyMessage]
    schemas: int = 0
    """Tokens of the tools' schemas, which are part of every request."""

    @cached_property
    def answers(self) -> list[int]:
        """Indexes of the assistant messages, each of which answered a real request."""
        return [index for index, message in enumerate(self.messages) if isinstance(message, AIMessage)]

    @cached_property
    def needed(self) -> Mapping[int, list[frozenset[str]]]:
        """The identifiers that calls need from earlier messages: by index of the answer, a set for each of its calls.

        A call needs an identifier if its arguments and an earlier message hold it, but no system message does.
        """
        before, found = "", dict[int, list[frozenset[str]]]()
        for index, message in enumerate(self.messages):
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            wanted = [frozenset(one for one in asked(call) if self._was_said(one, before)) for call in calls]
            if any(wanted):
                found[index] = [each for each in wanted if each]
            before += f"\n{text_of([message])}"
        return found

    def _was_said(self, identifier: str, before: str) -> bool:
        return holds(before, identifier) and not holds(self._prompt, identifier)

    @cached_property
    def _prompt(self) -> str:
        return text_of(self.header(len(self.messages)))

    def header(self, end: int) -> list[AnyMessage]:
        """Return the system messages among the first `end` messages."""
        return [message for message in self.messages[:end] if isinstance(message, SystemMessage)]

    @cached_property
    def fixed(self) -> int:
        """Tokens of what no policy changes: the system messages and the tools' schemas."""
        return self.schemas + count(self.header(len(self.messages)))

    def limit(self, window: float) -> int:
        """Return the most tokens that a request may have.

        A `window` that is an int is this number; a float is the share of all tokens besides `fixed`, which are added.
        Raise `SettingsError` if nothing but `fixed` has room.
        """
        rest = count(self.messages) + self.schemas - self.fixed
        share = self.fixed + math.ceil(rest * window - 1e-9)  # floating point must not round 50 up to 51
        limit = window if isinstance(window, int) else share
        if limit <= self.fixed:
            raise SettingsError(
                f"{self.name}: no room for a conversation: window {limit:,}, system prompt and tools {self.fixed:,} "
                "tokens; give a larger --window"
            )
        return limit


class Sent(NamedTuple):
    """One request that a policy sent."""

    answer: int
    """Index of the recorded message that answers the request."""
    messages: Sequence[BaseMessage]


@dataclass
class PlayedRun:
    """The requests that a policy sent for a run, and its compactions."""

    sent: list[Sent] = field(default_factory=list[Sent])
    compactions: int = 0
    extra_calls: int = 0
    """Number of calls of the summarizer, if it is a model."""
    extra_input: int = 0
    """Tokens sent to a summarizer that is a model."""
    extra_output: int = 0
    """Tokens that a summarizer that is a model wrote."""

    def send(self, answer: int, messages: Sequence[BaseMessage]) -> None:
        """Add a request.

        For the messages at its start that equal those of the previous request, the objects of the previous request
        are stored, so that requests which repeat a long conversation share their messages.
        """
        before = self.sent[-1].messages if self.sent else ()
        same = beginning(before, messages)
        self.sent.append(Sent(answer, [*before[:same], *messages[same:]]))

    @property
    def extra_cost(self) -> int:
        """Cost of the summarizer's calls, none of whose tokens are cached."""
        return WRITE * self.extra_input + OUTPUT * self.extra_output


Online = Callable[[Run, int], PlayedRun]
"""Plays a run under a limit in tokens, which covers the messages, the system prompt and the tools' schemas."""


def uncompacted(run: Run, _limit: int = 0) -> PlayedRun:
    """Play a run without compaction: every request holds all messages before it, whatever the limit."""
    return PlayedRun([Sent(index, run.messages[:index]) for index in run.answers])


def turn_by_turn(policy: Policy, depth: float = 1.0) -> Online:
    """Return a function that plays a run and compacts the context by `policy` whenever it becomes too large.

    The context is too large if it exceeds the limit less the run's `fixed` tokens. It is compacted to `depth` times
    this size.
    """

    def played(run: Run, limit: int) -> PlayedRun:
        room, context, tokens, course = limit - run.fixed, list[BaseMessage](), 0, PlayedRun()
        for index, message in enumerate(run.messages):
            if isinstance(message, AIMessage):
                if tokens > room:
                    context = list(policy(context, int(depth * room)))  # type: ignore[arg-type] # from the run itself
                    tokens = count(context)
                    course.compactions += 1
                course.send(index, [*run.header(index), *context])
            if not isinstance(message, SystemMessage):
                context.append(message)
                tokens += count([message])
        return course

    return played


def but_the_newest(policy: Policy) -> Policy:
    """Return a policy that keeps the newest exchange, which the model has yet to answer, and compacts the others."""

    def kept(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
        newest = exchanges(old)[-1]
        return [*policy(old[: len(old) - len(newest)], max(0, cap - count(newest))), *newest]

    return kept


BASELINES: Mapping[str, tuple[Online, ...]] = {
    "no compaction": (uncompacted,),
    "trim_messages": (turn_by_turn(trimmed),),
    "random exchanges": tuple(turn_by_turn(but_the_newest(random_exchanges(seed)), DEPTH) for seed in SEEDS),
}
"""The policies with which the chosen presets and strategies are compared, by name.

A policy that draws at random has one function for each seed, and their results are averaged.
"""


@dataclass(frozen=True)
class Bill:
    """Sizes and cost of the requests of a run."""

    sizes: list[int]
    """Tokens of each request, including the tools' schemas."""
    reused: list[int]
    """Tokens of each request that a cache holds, because the previous request began in the same way."""
    extra: int = 0
    """Cost of the summarizer's calls."""

    @property
    def costs(self) -> list[int]:
        """Cost of each request."""
        pairs = zip(self.sizes, self.reused, strict=True)
        return [WRITE * (size - reused) + READ * reused for size, reused in pairs]

    @property
    def cost(self) -> int:
        """Cost of all requests and summarizer calls."""
        return sum(self.costs) + self.extra


def bill(run: Run, course: PlayedRun) -> Bill:
    """Return what the requests of a run cost with a provider that caches the beginning of each request.

    The tokens of the messages at the start of a request that equal those of the previous request are read from the
    cache, as are the tools' schemas; all other tokens are written to it.
    """
    sizes, reused = list[int](), list[int]()
    before: Sequence[BaseMessage] = ()
    different = {id(message): message for sent in course.sent for message in sent.messages}
    tokens = {name: count([message]) for name, message in different.items()}
    for sent in course.sent:
        each = [tokens[id(message)] for message in sent.messages]
        sizes.append(run.schemas + sum(each))
        again = sum(each[: beginning(before, sent.messages)])
        reused.append(again + (run.schemas if before else 0))
        before = sent.messages
    return Bill(sizes, reused, course.extra_cost)


def beginning(before: Sequence[BaseMessage], messages: Sequence[BaseMessage]) -> int:
    """Return how many leading messages of two requests are equal."""
    pairs = zip(before, messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    """Whether a provider receives equal data for two messages; message ids and this package's marks are not sent."""
    return one is other or _wire(one) == _wire(other)


def _wire(message: BaseMessage) -> tuple[object, ...]:
    calls = [(call["id"], call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)


def available(run: Run, course: PlayedRun) -> list[tuple[int, int]]:
    """Return, for each recorded call, how many of the needed identifiers its request holds, and how many it needs."""
    texts = {sent.answer: sent.messages for sent in course.sent}
    found: list[tuple[int, int]] = []
    for answer, calls in run.needed.items():
        text = text_of(texts.get(answer, ()))
        found += [(sum(holds(text, one) for one in needed), len(needed)) for needed in calls]
    return found
