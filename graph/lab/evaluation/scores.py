"""The figures of a policy: for each run, and for all runs together with confidence intervals."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from langgraph_compaction.nodes.conversation.transcript import Transcript

from .policies import Policy, count
from .ratios import Pair, edges, ratio, rounded, summed
from .sentences import CONSTRAINTS
from .survival import Cut, bound, holds, planted, survives, text_of

PLACES: Mapping[str, float] = {"top": 0.0, "middle": 0.5, "bottom": 1.0}
"""Names of the places at which a sentence is planted, with the position of the user message that takes the sentence.

Position 0.0 is the first user message before the cut, 1.0 the last.
"""

SAID = (
    "Presence in the context is necessary, not sufficient: no figure here shows that a model would use what is there."
)
"""The note under every table."""

_HALF = 0.5


@dataclass(frozen=True)
class Given:
    """The input of a policy: the messages before a cut, with a sentence planted into one of them."""

    messages: Sequence[AnyMessage]
    place: str = ""
    sentence: str = ""
    """The planted sentence; empty if the messages before the cut contain no user message."""


@dataclass(frozen=True)
class Task:
    """A recorded run that was cut in two, and the inputs of policies, one for each place of a constraint."""

    run: Cut
    inputs: Sequence[Given]


def task(run: Cut, seed: int, constraints: Sequence[str] = CONSTRAINTS) -> Task:
    """Make the inputs of a cut run: for each place, one with a random constraint planted there.

    The constraint is put before or after the text of the user message at this place, which is drawn at random too.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret; with the same seed, every policy gets the same sentences
    if not any(isinstance(message, HumanMessage) for message in run.old):
        return Task(run, [Given(run.old)])
    chosen = zip(PLACES.items(), draw.sample(constraints, len(PLACES)), strict=True)
    return Task(
        run,
        [
            Given(planted(run.old, sentence, at, before=draw.random() < _HALF), place, sentence)
            for (place, at), sentence in chosen
        ],
    )


@dataclass
class Score:
    """The results of a policy, most of them as pairs of hits and trials, one for each run."""

    recall: list[Pair] = field(default_factory=list[Pair])
    bound: list[Pair] = field(default_factory=list[Pair])
    calls: list[Pair] = field(default_factory=list[Pair])
    rules: dict[str, list[Pair]] = field(default_factory=lambda: {place: [] for place in PLACES})
    shares: list[float] = field(default_factory=list[float])
    """Tokens of each context, divided by the cap."""
    within: list[Pair] = field(default_factory=list[Pair])
    broken_pairs: int = 0

    def add(self, task: Task, seeds: Sequence[Policy], budget: float) -> None:
        """Measure a policy on one run with each input and each seed, and add the sums of the results."""
        each = [_judged(task.run, given, policy, budget) for given in task.inputs for policy in seeds]
        for name in ("recall", "bound", "calls", "within"):
            getattr(self, name).append(summed(pair for one in each for pair in getattr(one, name)))
        for place, pairs in self.rules.items():
            if found := [pair for one in each for pair in one.rules[place]]:
                pairs.append(summed(found))
        self.shares += [share for one in each for share in one.shares]
        self.broken_pairs += sum(one.broken_pairs for one in each)

    def figures(self) -> dict[str, Any]:
        """Return the figures as shares of 1, with 95 % bootstrap intervals over runs."""
        measured = {"recall": self.recall, "bound": self.bound, "calls": self.calls}
        ruled = {place: pairs for place, pairs in self.rules.items() if pairs}
        return {
            **{name: rounded(ratio(pairs)) for name, pairs in measured.items()},
            "rules": {place: rounded(ratio(pairs)) for place, pairs in ruled.items()},
            "tokens_over_cap": round(sum(self.shares) / len(self.shares), 3),
            "most_over_cap": round(max(self.shares), 3),
            "within_cap": rounded(ratio(self.within)),
            "broken_pairs": self.broken_pairs,
            "ci95": {
                **{name: edges(pairs) for name, pairs in measured.items()},
                **{f"rules {place}": edges(pairs) for place, pairs in ruled.items()},
            },
        }


def _judged(run: Cut, given: Given, policy: Policy, budget: float) -> Score:
    """Measure the context that a policy makes of one input."""
    cap = cap_of(given, budget)
    context = policy(given.messages, cap)
    score, text, tokens = Score(), text_of(context), count(context)
    before, wanted = run.text, run.identifiers
    found = {token for token in wanted if holds(text, token)}
    score.recall.append((len(found), len(wanted)))
    score.bound.append((sum(bound(text, before, token) for token in found), len(wanted)))
    score.calls.append((sum(needed <= found for needed in run.needed), len(run.needed)))
    if given.sentence:
        score.rules[given.place].append((int(survives(text, given.sentence)), 1))
    score.shares.append(tokens / cap)
    score.within.append((int(tokens <= cap), 1))
    score.broken_pairs = max(0, _broken(context) - _broken(given.messages))
    return score


def cap_of(given: Given, budget: float) -> int:
    """Return the cap in tokens, which is the share `budget` of the tokens of the messages."""
    return max(1, int(budget * count(given.messages)))


def _broken(messages: Sequence[BaseMessage]) -> int:
    """Return the number of calls without a result and of results without a call, matched by position."""
    view = Transcript(messages)  # type: ignore[arg-type] # a baseline may hold any message
    return len(view.orphans) + sum(result is None for block in view.blocks for result in block.results)


def measured(
    tasks: Sequence[Task],
    policies: Mapping[str, Sequence[Policy]],
    budgets: Sequence[float],
    *,
    seen: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each policy and budget (a share of the tokens before the cut).

    `seen` is called after each run.
    """
    runs = len({task.run.name for task in tasks})
    identifiers = sum(len(task.run.identifiers) for task in tasks)
    calls = sum(len(task.run.needed) for task in tasks)
    for budget, (name, seeds) in product(budgets, policies.items()):
        score = Score()
        for task in tasks:
            score.add(task, seeds, budget)
            seen()
        about = {"policy": name, "budget": budget, "runs": runs, "cuts": len(tasks), "identifiers": identifiers}
        yield {**about, "later_calls": calls, **score.figures()}
