"""The figures of a policy: for each run, and for all runs together with confidence intervals."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, product, takewhile
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.nodes.conversation.transcript import Transcript

from .policies import Policy, count, keeps_archive
from .ratios import Pair, edges, ratio, rounded, summed
from .recoverable import Archive, Lost
from .sentences import CONSTRAINTS, REMARKS
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
    """A recorded run that was cut in two, and the inputs that were made from the messages before the cut.

    Each input in `constrained` has a constraint planted at one place, each in `remarked` a remark, which demands
    nothing.
    """

    run: Cut
    constrained: Sequence[Given]
    remarked: Sequence[Given]


def task(run: Cut, seed: int, constraints: Sequence[str] = CONSTRAINTS) -> Task:
    """Make the inputs of a cut run: for each place, one with a random constraint and one with a random remark.

    The sentence is put before or after the text of the user message at this place, which is drawn at random too.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret; with the same seed, every policy gets the same sentences
    if not any(isinstance(message, HumanMessage) for message in run.old):
        return Task(run, [Given(run.old)], [])

    def given(sentences: Sequence[str]) -> list[Given]:
        chosen = zip(PLACES.items(), draw.sample(sentences, len(PLACES)), strict=True)
        return [
            Given(planted(run.old, sentence, at, before=draw.random() < _HALF), place, sentence)
            for (place, at), sentence in chosen
        ]

    return Task(run, given(constraints), given(REMARKS))


@dataclass
class Score:
    """The results of a policy, most of them as pairs of hits and trials, one for each run."""

    recall: list[Pair] = field(default_factory=list[Pair])
    bound: list[Pair] = field(default_factory=list[Pair])
    calls: list[Pair] = field(default_factory=list[Pair])
    rules: dict[str, list[Pair]] = field(default_factory=lambda: {place: [] for place in PLACES})
    precision: list[Pair] = field(default_factory=list[Pair])
    """Number of planted constraints that a digest lists as rules, and number of all planted sentences that it lists.

    The second number includes the remarks, which are no rules.
    """
    shares: list[float] = field(default_factory=list[float])
    """Tokens of each context, divided by the cap."""
    within: list[Pair] = field(default_factory=list[Pair])
    broken_pairs: int = 0
    recovered: list[Pair] = field(default_factory=list[Pair])
    """Number of lost identifiers that `recall` finds, and of all lost identifiers; empty if there is no archive."""
    chance: list[Pair] = field(default_factory=list[Pair])
    """The same as `recovered`, but with queries for another run's identifiers: what a search finds by chance."""
    recalls: list[int] = field(default_factory=list[int])
    """Number of searches that it took to find each identifier that was found."""
    lost: list[Lost] = field(default_factory=list[Lost])
    """Lost identifiers, with their queries, of the last run that lost any."""

    def add(self, task: Task, seeds: Sequence[Policy], budget: float, archive: Archive) -> None:
        """Measure a policy on one run with each input and each seed, and add the sums of the results."""
        each = [_judged(task, given, policy, budget, archive) for given in task.constrained for policy in seeds]
        for name in ("recall", "bound", "calls", "within"):
            getattr(self, name).append(summed(pair for one in each for pair in getattr(one, name)))
        self._recover(task.run, [lost for one in each for lost in one.lost], archive)
        for place, pairs in self.rules.items():
            if found := [pair for one in each for pair in one.rules[place]]:
                pairs.append(summed(found))
        listed = [pair for one in each for pair in one.precision]
        listed += [(0, int(_is_rule(given, policy, budget))) for given in task.remarked for policy in seeds]
        self.precision.append(summed(listed))
        self.shares += [share for one in each for share in one.shares]
        self.broken_pairs += sum(one.broken_pairs for one in each)

    def _recover(self, run: Cut, lost: Sequence[Lost], archive: Archive) -> None:
        """Search the archive for the identifiers that the policy lost, and count how many are found.

        Then search for the same identifiers with the queries of the previous run, to see what is found by chance.
        """
        if not lost:
            return
        calls = [archive.calls(run, one) for one in lost]
        self.recovered.append((len(calls) - calls.count(None), len(calls)))
        self.recalls += filter(None, calls)
        if self.lost:
            others = [Lost(one.token, other.asked) for one, other in zip(lost, cycle(self.lost), strict=False)]
            self.chance.append((sum(archive.calls(run, one) is not None for one in others), len(others)))
        self.lost = list(lost)

    def figures(self) -> dict[str, Any]:
        """Return the figures as shares of 1, with 95 % bootstrap intervals over runs."""
        measured = {"recall": self.recall, "bound": self.bound, "calls": self.calls}
        recovered = {"recoverable": self.recovered} if self.recovered else {}
        ruled = {place: pairs for place, pairs in self.rules.items() if pairs}
        return {
            **{name: rounded(ratio(pairs)) for name, pairs in measured.items()},
            "rules": {place: rounded(ratio(pairs)) for place, pairs in ruled.items()},
            "precision": rounded(ratio(self.precision)) if any(trials for _, trials in self.precision) else None,
            "recoverable": rounded(ratio(self.recovered)) if self.recovered else None,
            "recall_calls": round(sum(self.recalls) / len(self.recalls), 2) if self.recalls else None,
            "recoverable_by_chance": rounded(ratio(self.chance)) if self.chance else None,
            "lost": sum(trials for _, trials in self.recovered),
            "tokens_over_cap": round(sum(self.shares) / len(self.shares), 3),
            "most_over_cap": round(max(self.shares), 3),
            "within_cap": rounded(ratio(self.within)),
            "broken_pairs": self.broken_pairs,
            "ci95": {
                **{name: edges(pairs) for name, pairs in measured.items()},
                **{name: edges(pairs) for name, pairs in recovered.items()},
                **{f"rules {place}": edges(pairs) for place, pairs in ruled.items()},
            },
        }


def _judged(task: Task, given: Given, policy: Policy, budget: float, archive: Archive) -> Score:
    """Measure the context that a policy makes of one input."""
    cap = cap_of(given, budget)
    context = policy(given.messages, cap)
    score, run, text, tokens = Score(), task.run, text_of(context), count(context)
    before, wanted = run.text, run.identifiers
    found = {token for token in wanted if holds(text, token)}
    score.recall.append((len(found), len(wanted)))
    score.bound.append((sum(bound(text, before, token) for token in found), len(wanted)))
    score.calls.append((sum(needed <= found for needed in run.needed), len(run.needed)))
    if keeps_archive(policy):
        score.lost = archive.lost(run, context, sorted(wanted - found))
    if given.sentence:
        score.rules[given.place].append((int(survives(text, given.sentence)), 1))
        listed = int(_stands_among_rules(text, given.sentence))
        score.precision.append((listed, listed))
    score.shares.append(tokens / cap)
    score.within.append((int(tokens <= cap), 1))
    score.broken_pairs = max(0, _broken(context) - _broken(given.messages))
    return score


def cap_of(given: Given, budget: float) -> int:
    """Return the cap in tokens, which is the share `budget` of the tokens of the messages."""
    return max(1, int(budget * count(given.messages)))


def _is_rule(given: Given, policy: Policy, budget: float) -> bool:
    return _stands_among_rules(text_of(policy(given.messages, cap_of(given, budget))), given.sentence)


def _stands_among_rules(text: str, sentence: str) -> bool:
    """Whether a digest in this text lists the sentence among its rules."""
    _, _, listed = text.partition("\nRules:\n")
    rules = takewhile(lambda line: line.startswith("- "), listed.splitlines())
    return any(sentence[:-1] in line for line in rules)


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
    with Database.open() as database:
        database.setup()
        archive = Archive(database)
        for budget, (name, seeds) in product(budgets, policies.items()):
            score = Score()
            for task in tasks:
                score.add(task, seeds, budget, archive)
                seen()
            about = {"policy": name, "budget": budget, "runs": runs, "cuts": len(tasks), "identifiers": identifiers}
            yield {**about, "later_calls": calls, **score.figures()}
