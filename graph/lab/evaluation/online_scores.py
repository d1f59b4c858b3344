"""The figures of online replays: availability, and cost relative to no compaction."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from .online import Bill, Online, Run, available, bill, uncompacted
from .ratios import Pair, edges, ratio, rounded, summed

POINTS = 20
"""Number of points of a line in a chart; they are spread evenly over the requests of a run."""


@dataclass
class Tally:
    """The results of a policy; each list of pairs has one pair for each run."""

    found: list[Pair] = field(default_factory=list[Pair])
    """Number of identifiers found in the requests, and of identifiers needed by the calls."""
    calls: list[Pair] = field(default_factory=list[Pair])
    """Number of calls whose request holds all identifiers that they need, and of calls that need any."""
    costs: list[Pair] = field(default_factory=list[Pair])
    """Cost of the run under the policy, and without compaction."""
    tokens: list[Pair] = field(default_factory=list[Pair])
    """Tokens sent under the policy, and tokens sent without compaction."""
    reused: list[Pair] = field(default_factory=list[Pair])
    """Tokens sent that a cache held, and all tokens sent."""
    over: list[Pair] = field(default_factory=list[Pair])
    """Number of requests that were over the limit or never sent, and of all requests."""
    compactions: list[Pair] = field(default_factory=list[Pair])
    """Number of compactions, and of times that the run was played (once for each seed)."""
    extra_calls: int = 0
    sizes: list[list[int]] = field(default_factory=list[list[int]])
    """Tokens of the request at each point of a chart: a list for each playing of a run."""
    spent: list[list[int]] = field(default_factory=list[list[int]])
    """Cost of all requests up to each point of a chart: a list for each playing of a run."""

    def add(self, run: Run, limit: int, policies: Sequence[Online], whole: Bill) -> None:
        """Play one run by the policy, once for each of its seeds, and add the sums of the results.

        `whole` is the bill of the same run without compaction, with which costs and tokens are compared.
        """
        courses = [policy(run, limit) for policy in policies]
        bills = [bill(run, course) for course in courses]
        each = [pair for course in courses for pair in available(run, course)]
        self.found.append(summed(each))
        self.calls.append((sum(found == needed for found, needed in each), len(each)))
        self.costs.append((sum(one.cost for one in bills), len(bills) * whole.cost))
        sent = sum(sum(one.sizes) for one in bills)
        self.tokens.append((sent, len(bills) * sum(whole.sizes)))
        self.reused.append((sum(sum(one.reused) for one in bills), sent))
        self.over.append(summed(_over(run, one, limit) for one in bills))
        self.compactions.append((sum(course.compactions for course in courses), len(courses)))
        self.extra_calls += sum(course.extra_calls for course in courses)
        self.sizes += [[one.sizes[at] for at in _points(one)] for one in bills if one.sizes]
        self.spent += [_spent(one) for one in bills if one.sizes]

    def figures(self) -> dict[str, Any]:
        """Return the figures of all runs together.

        They are shares between 0 and 1 (costs and tokens relative to no compaction may exceed 1), the number of
        compactions per run, and 95 % bootstrap intervals over the runs.
        """
        whole = sum(uncompacted for _, uncompacted in self.costs)
        return {
            "available": rounded(ratio(self.found)),
            "calls": rounded(ratio(self.calls)),
            "compactions": round(ratio(self.compactions), 2),
            "tokens_sent": rounded(ratio(self.tokens)),
            "prefix_reuse": rounded(ratio(self.reused)),
            "cost": rounded(ratio(self.costs)),
            "over_window": rounded(ratio(self.over)),
            "extra_calls": self.extra_calls,
            "ci95": {
                "available": edges(self.found),
                "calls": edges(self.calls),
                "cost": edges(self.costs),
            },
            "course": {
                "tokens": [round(sum(at) / len(at)) for at in zip(*self.sizes, strict=True)],
                "cost": [rounded(sum(at) / whole) for at in zip(*self.spent, strict=True)],
            },
        }


def _over(run: Run, one: Bill, limit: int) -> Pair:
    unsent = len(run.answers) - len(one.sizes)
    return unsent + sum(size > limit for size in one.sizes), len(run.answers)


def _points(one: Bill) -> list[int]:
    """Return the index of the request at each point of a run; the last point is the last request."""
    return [math.ceil(len(one.sizes) * point / POINTS) - 1 for point in range(1, POINTS + 1)]


def _spent(one: Bill) -> list[int]:
    """Return the cost of all requests up to each point; the summarizer's cost is added at the last point."""
    so_far = list(accumulate(one.costs))
    points = [so_far[at] for at in _points(one)]
    return [*points[:-1], points[-1] + one.extra]


def replayed(
    runs: Sequence[Run],
    policies: Mapping[str, Sequence[Online]],
    windows: Sequence[float],
    *,
    seen: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Replay all recorded runs with each policy and each window, and yield one row of figures for each pair.

    A window is a number of tokens (an int) or a share of a run's own tokens (a float), as `Run.limit` reads it.
    `seen` is called after each run, to show the progress.
    """
    identifiers = sum(len(needed) for run in runs for calls in run.needed.values() for needed in calls)
    requests = sum(len(run.answers) for run in runs)
    wholes = [bill(run, uncompacted(run)) for run in runs]
    about = {"runs": len(runs), "requests": requests, "identifiers": identifiers}
    for window in windows:
        for name, each in policies.items():
            tally = Tally()
            for run, whole in zip(runs, wholes, strict=True):
                tally.add(run, run.limit(window), each, whole)
                seen()
            yield {"policy": name, "window": window, **about, **tally.figures()}
