"""Plays a whole run through a policy, turn by turn: the identifiers available to each call, and the cost."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage

from .policies import SEEDS, Policy, count, exchanges, random_exchanges, trimmed
from .survival import asked, holds, text_of

WRITE, READ, OUTPUT = 25, 2, 100
"""Price of an input token that is not cached, of one that is, and of an output token, in units of `1 / PRICE`."""

PRICE = 20
"""Price of an input token without a cache, in the same unit: the other prices are 1.25, 0.1 and 5 times that."""

DEPTH = 0.5
"""Share of the room that random exchanges may take after a compaction, as `target_ratio` in a preset."""


@dataclass(frozen=True)
class Run:
    """A whole real conversation."""

    name: str
    messages: Sequence[AnyMessage]
    schemas: int = 0
    """Tokens of the tools' schemas, which are part of every request."""

    @cached_property
    def answers(self) -> list[int]:
        """Index of each assistant message, which was the answer to a real request."""
        return [index for index, message in enumerate(self.messages) if isinstance(message, AIMessage)]

    @cached_property
    def needed(self) -> Mapping[int, list[frozenset[str]]]:
        """For each answer, by call: identifiers in the arguments that were said before, the system prompt aside."""
        before, found = "", dict[int, list[frozenset[str]]]()
        for index, message in enumerate(self.messages):
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            wanted = [frozenset(one for one in asked(call) if self._was_said(one, before)) for call in calls]
            if any(wanted):
                found[index] = [each for each in wanted if each]
            before += "" if isinstance(message, SystemMessage) else f"\n{text_of([message])}"
        return found

    def _was_said(self, identifier: str, before: str) -> bool:
        return holds(before, identifier) and not holds(self._prompt, identifier)

    @cached_property
    def _prompt(self) -> str:
        return text_of(self.header(len(self.messages)))

    def header(self, end: int) -> list[AnyMessage]:
        """The system messages before an index."""
        return [message for message in self.messages[:end] if isinstance(message, SystemMessage)]

    @cached_property
    def fixed(self) -> int:
        """Tokens that no policy touches: system messages and the tools' schemas."""
        return self.schemas + count(self.header(len(self.messages)))

    def limit(self, window: float) -> int:
        """Tokens that no request may exceed: the fixed part and this share of everything else."""
        rest = count(self.messages) + self.schemas - self.fixed
        return self.fixed + math.ceil(rest * window - 1e-9)  # floating point must not round 50 up to 51


class Sent(NamedTuple):
    """One request."""

    answer: int
    """Index of the recorded message that answers it."""
    messages: Sequence[BaseMessage]


@dataclass
class PlayedRun:
    """The requests that a policy sent for a run, and its compactions."""

    sent: list[Sent] = field(default_factory=list[Sent])
    compactions: int = 0
    extra_calls: int = 0
    """Calls of a summarizer that is a model."""
    extra_input: int = 0
    """Tokens sent to the summarizer."""
    extra_output: int = 0
    """Tokens that the summarizer wrote."""

    def send(self, answer: int, messages: Sequence[BaseMessage]) -> None:
        """Add a request; leading messages that equal those of the request before are shared with it."""
        before = self.sent[-1].messages if self.sent else ()
        same = beginning(before, messages)
        self.sent.append(Sent(answer, [*before[:same], *messages[same:]]))

    @property
    def extra_cost(self) -> int:
        """Cost of the summarizer's calls, of which nothing is cached."""
        return WRITE * self.extra_input + OUTPUT * self.extra_output


Online = Callable[[Run, int], PlayedRun]
"""Plays a run under a limit in tokens that includes system prompt and schemas."""


def uncompacted(run: Run, _limit: int = 0) -> PlayedRun:
    """Play a run without compaction: every request holds all messages before it, whatever the limit."""
    return PlayedRun([Sent(index, run.messages[:index]) for index in run.answers])


def turn_by_turn(policy: Policy, depth: float = 1.0) -> Online:
    """Apply a policy whenever the context exceeds the room, to compact it to the share `depth` of the room."""

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
    """Apply a policy to all but the newest exchange, which the model has not answered yet."""

    def kept(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
        newest = exchanges(old)[-1]
        return [*policy(old[: len(old) - len(newest)], max(0, cap - count(newest))), *newest]

    return kept


BASELINES: Mapping[str, tuple[Online, ...]] = {
    "no compaction": (uncompacted,),
    "trim_messages": (turn_by_turn(trimmed),),
    "random exchanges": tuple(turn_by_turn(but_the_newest(random_exchanges(seed)), DEPTH) for seed in SEEDS),
}
"""The policies that all others are compared with; several seeds of one are averaged."""


@dataclass(frozen=True)
class Bill:
    """Sizes and cost of the requests of a run."""

    sizes: list[int]
    """Tokens of each request, schemas included."""
    reused: list[int]
    """Tokens of each request in leading messages that equal those of the request before."""
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
    """Count tokens sent; a request reuses its longest common beginning with the one before, in whole messages."""
    sizes, reused, before = list[int](), list[int](), Sent(0, ())
    different = {id(message): message for sent in course.sent for message in sent.messages}
    tokens = {name: count([message]) for name, message in different.items()}
    for sent in course.sent:
        each = [tokens[id(message)] for message in sent.messages]
        sizes.append(run.schemas + sum(each))
        again = sum(each[: beginning(before.messages, sent.messages)])
        reused.append(again + (run.schemas if before.messages else 0))
        before = sent
    return Bill(sizes, reused, course.extra_cost)


def beginning(before: Sequence[BaseMessage], messages: Sequence[BaseMessage]) -> int:
    """Return how many leading messages of two requests are equal."""
    pairs = zip(before, messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    """Whether a provider receives the same for both; message ids and this package's marks are not sent."""
    return one is other or _wire(one) == _wire(other)


def _wire(message: BaseMessage) -> tuple[object, ...]:
    calls = [(call["id"], call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)


def available(run: Run, course: PlayedRun) -> list[tuple[int, int]]:
    """For each real call, count the identifiers that its request has (none if it was not sent) and that it needs."""
    texts = {sent.answer: sent.messages for sent in course.sent}
    found: list[tuple[int, int]] = []
    for answer, calls in run.needed.items():
        text = text_of(texts.get(answer, ()))
        found += [(sum(holds(text, one) for one in needed), len(needed)) for needed in calls]
    return found
