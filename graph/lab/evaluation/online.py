"""A whole run through a policy, turn by turn: what each call found in its request, and what the requests cost."""

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
"""Twentieths of the input's price: of a token that the cache has not, of one that it has, and of one that a
summarizer writes, five times the input's."""

PRICE = 20
"""What a token of input costs without a cache, in the same unit."""

DEPTH = 0.5
"""Share of the room that random exchanges may take after a compaction: as `target_ratio` says of a preset."""


@dataclass(frozen=True)
class Run:
    """A real conversation, whole."""

    name: str
    messages: Sequence[AnyMessage]
    schemas: int = 0
    """Tokens of the tools' schemas, which stand before every request."""

    @cached_property
    def answers(self) -> list[int]:
        """Index of each assistant message: each was the answer to a real request."""
        return [index for index, message in enumerate(self.messages) if isinstance(message, AIMessage)]

    @cached_property
    def needed(self) -> Mapping[int, list[frozenset[str]]]:
        """By answer, for each of its calls: identifiers in the arguments that somebody had said, the prompt aside."""
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
        """What no request is to exceed: the fixed part and this share of all the rest."""
        rest = count(self.messages) + self.schemas - self.fixed
        return self.fixed + math.ceil(rest * window - 1e-9)  # half of 100 tokens is 50, whatever the float says


class Sent(NamedTuple):
    """One request."""

    answer: int
    """Index of the recorded message that answers it."""
    messages: Sequence[BaseMessage]


@dataclass
class Course:
    """What a policy made of a run."""

    sent: list[Sent] = field(default_factory=list[Sent])
    compactions: int = 0
    extra_calls: int = 0
    """Calls of a summarizer that is a model."""
    extra_input: int = 0
    """Tokens that it was sent."""
    extra_output: int = 0
    """Tokens that it wrote."""

    def send(self, answer: int, messages: Sequence[BaseMessage]) -> None:
        """Note a request; what it begins with as the one before it did is kept once."""
        before = self.sent[-1].messages if self.sent else ()
        same = beginning(before, messages)
        self.sent.append(Sent(answer, [*before[:same], *messages[same:]]))

    @property
    def extra_cost(self) -> int:
        """What its calls cost; nothing of them is in the cache."""
        return WRITE * self.extra_input + OUTPUT * self.extra_output


Online = Callable[[Run, int], Course]
"""From a run and a limit in tokens, system prompt and schemas included, to what is sent."""


def uncompacted(run: Run, _limit: int = 0) -> Course:
    """Every request holds all that was said before it, whatever the limit."""
    return Course([Sent(index, run.messages[:index]) for index in run.answers])


def turn_by_turn(policy: Policy, depth: float = 1.0) -> Online:
    """A policy that compacts to a share of the room once the context is over it, and gets next what it made."""

    def played(run: Run, limit: int) -> Course:
        room, context, tokens, course = limit - run.fixed, list[BaseMessage](), 0, Course()
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
    """The policy on all but the newest exchange, which the model has not answered yet."""

    def kept(old: Sequence[AnyMessage], cap: int) -> list[BaseMessage]:
        newest = exchanges(old)[-1]
        return [*policy(old[: len(old) - len(newest)], max(0, cap - count(newest))), *newest]

    return kept


BASELINES: Mapping[str, tuple[Online, ...]] = {
    "no compaction": (uncompacted,),
    "trim_messages": (turn_by_turn(trimmed),),
    "random exchanges": tuple(turn_by_turn(but_the_newest(random_exchanges(seed)), DEPTH) for seed in SEEDS),
}
"""What every policy is shown beside; one with seeds is the mean over them."""


@dataclass(frozen=True)
class Bill:
    """What the requests of a run held and cost."""

    sizes: list[int]
    """Tokens of each request, schemas included."""
    reused: list[int]
    """Tokens of each that it begins with as the request before it did."""
    extra: int = 0
    """What the calls of a summarizer cost."""

    @property
    def costs(self) -> list[int]:
        """What each request costs."""
        pairs = zip(self.sizes, self.reused, strict=True)
        return [WRITE * (size - reused) + READ * reused for size, reused in pairs]

    @property
    def cost(self) -> int:
        """What all of it costs."""
        return sum(self.costs) + self.extra


def bill(run: Run, course: Course) -> Bill:
    """Count what was sent; of two requests the longest common beginning in whole messages is reused."""
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
    """How many messages two requests begin with alike."""
    pairs = zip(before, messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: _same(*pair), pairs))


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    """Whether a provider is sent the same for both: ids of messages and marks of ours are not sent."""
    return one is other or _wire(one) == _wire(other)


def _wire(message: BaseMessage) -> tuple[object, ...]:
    calls = [(call["id"], call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    return message.type, message.content, calls, getattr(message, "tool_call_id", None)


def available(run: Run, course: Course) -> list[tuple[int, int]]:
    """For each real call: identifiers that it found in its request, none where none was sent, and those it needed."""
    texts = {sent.answer: sent.messages for sent in course.sent}
    found: list[tuple[int, int]] = []
    for answer, calls in run.needed.items():
        text = text_of(texts.get(answer, ()))
        found += [(sum(holds(text, one) for one in needed), len(needed)) for needed in calls]
    return found
