"""Compare policies on recorded conversations that are played whole through the graph, turn by turn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langgraph_compaction.nodes import CompactionSettings

from .evaluation.online import BASELINES, Online
from .evaluation.online_scores import replayed
from .recordings import Recording
from .replay.online_runs import run_of, through_the_graph
from .replay.user_parts import UserParts


def compare(
    recordings: Sequence[Recording],
    policies: Mapping[str, CompactionSettings],
    windows: Sequence[float],
    *,
    own: UserParts | None = None,
    seen: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each window and policy; summaries are extracted without a model.

    A window is a number of tokens (an int), or a share of a recording's own tokens (a float), to which its system
    messages and tools are added. Beside the policies, which are settings by name, the rows hold "no compaction",
    "trim_messages" and "random exchanges". `own` holds the functions that settings name, and `seen` is called after
    each recording of a row, to show the progress.

    Figures: `available` (share of the identifiers that calls need and the requests hold), `calls` (share of the calls
    with all of theirs), `compactions` (of a recording), `tokens_sent` and `cost` (both divided by those without
    compaction), `prefix_reuse` (share of the tokens that a cache holds), `over_window` (share of the requests over
    the limit, or never sent), `extra_calls` (of a summarizer), `ci95` (bootstrap intervals over the recordings) and
    `course` (tokens and cost over the requests). Raise `SettingsError` for a window without room for a message.
    """
    parts = own or UserParts()
    ours = {name: (through_the_graph(settings, recordings, parts),) for name, settings in policies.items()}
    every: dict[str, Sequence[Online]] = {**ours, **BASELINES}
    yield from replayed([run_of(one) for one in recordings], every, windows, seen=seen)
