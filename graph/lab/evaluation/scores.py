"""The figures of a policy: for each run, and for all runs together with confidence intervals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.nodes.conversation.transcript import Transcript

from .policies import Policy, count
from .ratios import Pair, edges, ratio, rounded, summed
from .survival import Cut, bound, holds, text_of

SAID = (
    "Presence in the context is necessary, not sufficient: no figure here shows that a model would use what is there."
)
"""The note under every table."""


@dataclass
class Score:
    """The results of a policy, most of them as pairs of hits and trials, one for each run."""

    recall: list[Pair] = field(default_factory=list[Pair])
    bound: list[Pair] = field(default_factory=list[Pair])
    calls: list[Pair] = field(default_factory=list[Pair])
    shares: list[float] = field(default_factory=list[float])
    """Tokens of each context, divided by the cap."""
    within: list[Pair] = field(default_factory=list[Pair])
    broken_pairs: int = 0

    def add(self, run: Cut, seeds: Sequence[Policy], budget: float) -> None:
        """Measure a policy on one run with each input and each seed, and add the sums of the results."""
        each = [_judge(run, messages, policy, budget) for messages in run.inputs for policy in seeds]
        for name in ("recall", "bound", "calls", "within"):
            getattr(self, name).append(summed(pair for one in each for pair in getattr(one, name)))
        self.shares += [share for one in each for share in one.shares]
        self.broken_pairs += sum(one.broken_pairs for one in each)

    def figures(self) -> dict[str, Any]:
        """Return the figures as shares of 1, with 95 % bootstrap intervals over runs."""
        shares = {"recall": self.recall, "bound": self.bound, "calls": self.calls}
        return {
            **{name: rounded(ratio(pairs)) for name, pairs in shares.items()},
            "tokens_over_cap": round(sum(self.shares) / len(self.shares), 3),
            "most_over_cap": round(max(self.shares), 3),
            "within_cap": rounded(ratio(self.within)),
            "broken_pairs": self.broken_pairs,
            "ci95": {name: edges(pairs) for name, pairs in shares.items()},
        }


def _judge(run: Cut, messages: Sequence[AnyMessage], policy: Policy, budget: float) -> Score:
    """Measure the context that a policy makes of one input."""
    cap = cap_of(messages, budget)
    context = policy(messages, cap)
    text, tokens, wanted = text_of(context), count(context), run.identifiers
    found = {token for token in wanted if holds(text, token)}
    return Score(
        recall=[(len(found), len(wanted))],
        bound=[(sum(bound(text, run.text, token) for token in found), len(wanted))],
        calls=[(sum(needed <= found for needed in run.needed), len(run.needed))],
        shares=[tokens / cap],
        within=[(int(tokens <= cap), 1)],
        broken_pairs=max(0, _broken(context) - _broken(messages)),
    )


def cap_of(messages: Sequence[AnyMessage], budget: float) -> int:
    """Return the cap in tokens, which is the share `budget` of the tokens of the messages."""
    return max(1, int(budget * count(messages)))


def _broken(messages: Sequence[BaseMessage]) -> int:
    """Return the number of calls without a result and of results without a call, matched by position."""
    view = Transcript(messages)  # type: ignore[arg-type] # a baseline may hold any message
    return len(view.orphans) + sum(result is None for block in view.blocks for result in block.results)


def measured(
    runs: Sequence[Cut],
    policies: Mapping[str, Sequence[Policy]],
    budgets: Sequence[float],
    *,
    seen: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each policy and budget (a share of the tokens before the cut).

    `seen` is called after each run.
    """
    about = {
        "runs": len({run.name for run in runs}),
        "cuts": len(runs),
        "identifiers": sum(len(run.identifiers) for run in runs),
        "later_calls": sum(len(run.needed) for run in runs),
    }
    for budget, (name, seeds) in product(budgets, policies.items()):
        score = Score()
        for run in runs:
            score.add(run, seeds, budget)
            seen()
        yield {"policy": name, "budget": budget, **about, **score.figures()}
