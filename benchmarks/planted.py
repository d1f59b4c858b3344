"""Constraints that are planted into the messages before a cut, and how many of them a policy keeps."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from sentences import CONSTRAINTS

from langgraph_compaction.checkpoint.patterns import Anchored, Pattern
from langgraph_compaction.graph.lab.evaluation import scores
from langgraph_compaction.graph.lab.evaluation.policies import Policy
from langgraph_compaction.graph.lab.evaluation.ratios import Pair, edges, ratio, rounded, summed
from langgraph_compaction.graph.lab.evaluation.survival import Cut, text_of

PLACES: Mapping[str, float] = {"top": 0.0, "middle": 0.5, "bottom": 1.0}
"""Names of the places at which a constraint is planted, with the position of the user message that takes it.

Position 0.0 is the first user message before the cut, 1.0 the last.
"""

WINDOW = 60
"""Number of consecutive words of a context among which the words of a constraint must be found."""

_HALF = 0.5
_TERM = Pattern(r"[a-z0-9']+|[一-鿿]+")
_ENDINGS = ("ing", "ed", "es", "s", "ly")
FILLER = Anchored(
    r"a|an|and|are|as|at|be|by|do|does|for|from|have|i|in|is|it|its|me|must|my|never|no|not|of|on|only|or|please"
    r"|that|the|their|them|this|to|under|want|with|you|your"
)
"""Matches words without content of their own, such as articles and pronouns."""


@dataclass(frozen=True)
class PlantedCut(Cut):
    """A recorded run that was cut in two; each of its inputs has a constraint planted at one place."""

    planted: Sequence[tuple[str, str, Sequence[AnyMessage]]] = ()
    """Place, constraint and messages of each input; empty if the messages before the cut contain no user message."""

    @property
    def inputs(self) -> Sequence[Sequence[AnyMessage]]:
        """The messages before the cut with the constraints."""
        return [messages for _, _, messages in self.planted] or [self.old]


def plant(run: Cut, seed: int, constraints: Sequence[str] = CONSTRAINTS) -> PlantedCut:
    """Make the inputs of a cut run: for each place, one with a random constraint planted there.

    The constraint is put before or after the text of the user message at this place, which is drawn at random too.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret; with the same seed, every policy gets the same sentences
    chosen = []
    if any(isinstance(message, HumanMessage) for message in run.old):
        chosen = list(zip(PLACES.items(), draw.sample(constraints, len(PLACES)), strict=True))
    inputs = [
        (place, sentence, planted(run.old, sentence, at, before=draw.random() < _HALF))
        for (place, at), sentence in chosen
    ]
    return PlantedCut(run.name, run.old, run.needed, run.later, inputs)


@dataclass
class Watched:
    """A policy that also records the texts of its contexts."""

    policy: Policy
    texts: list[str] = field(default_factory=list[str])

    def __call__(self, old: Sequence[AnyMessage], cap: int) -> Sequence[BaseMessage]:
        """Return the policy's context, and record its text."""
        context = self.policy(old, cap)
        self.texts.append(text_of(context))
        return context


def measured(
    runs: Sequence[PlantedCut],
    policies: Mapping[str, Sequence[Policy]],
    budgets: Sequence[float],
    *,
    seen: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the evaluation, and in each the share of constraints that survive, by place."""
    for budget, (name, seeds) in product(budgets, policies.items()):
        watched = [Watched(policy) for policy in seeds]
        (row,) = scores.measured(runs, {name: watched}, [budget], seen=seen)
        rules = {place: pairs for place, pairs in _survived(runs, watched).items() if pairs}
        intervals = {f"rules {place}": edges(pairs) for place, pairs in rules.items()}
        shares = {place: rounded(ratio(pairs)) for place, pairs in rules.items()}
        yield {**row, "rules": shares, "ci95": {**row["ci95"], **intervals}}


def _survived(runs: Sequence[PlantedCut], watched: Sequence[Watched]) -> dict[str, list[Pair]]:
    """Return, by place, the constraints that survive of each run; the texts are in the order of runs and inputs."""
    found: dict[str, list[Pair]] = {place: [] for place in PLACES}
    texts = [iter(one.texts) for one in watched]
    for run in runs:
        for place, sentence, _ in run.planted:
            found[place].append(summed((int(survives(next(each), sentence)), 1) for each in texts))
        if not run.planted:
            for each in texts:
                next(each)
    return found


def terms(text: str) -> list[str]:
    """Return the stemmed words of a text; for Chinese, every pair of neighboring characters."""
    found: list[str] = []
    for term in _TERM.findall(text.lower()):
        if term[0] >= "一":
            found += [term[i : i + 2] for i in range(max(1, len(term) - 1))]
        elif not FILLER.fullmatch(term):
            ending = next(filter(term.endswith, _ENDINGS), "")
            found.append(term.removesuffix(ending))
    return found


def survives(context: str, constraint: str) -> bool:
    """Whether some 60 consecutive words of the context hold at least half of a constraint's content words."""
    wanted, said = set(terms(constraint)), terms(context)
    best = max(len(wanted & set(said[i : i + WINDOW])) for i in range(max(1, len(said) - WINDOW + 1)))
    return 2 * best >= len(wanted)


def planted(old: Sequence[AnyMessage], constraint: str, place: float, before: bool) -> list[AnyMessage]:
    """Return the messages with a constraint planted into the user message at a place; place 0.0 is the first."""
    users = [index for index, message in enumerate(old) if isinstance(message, HumanMessage)]
    if not users:
        return list(old)
    at = users[round(place * (len(users) - 1))]
    words = (constraint, old[at].text) if before else (old[at].text, constraint)
    return [m if i != at else HumanMessage(" ".join(words), id=m.id) for i, m in enumerate(old)]
