"""`evaluate`: measures how much of recorded conversations presets and strategies keep.

The results are compared with a random choice of messages and with langchain-core's `trim_messages`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage
from rich.table import Table

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.policies import PRESETS

from ..chart import SUFFIXES
from ..history import transcript_in
from ..lab import Recording, compare, read_recordings
from ..lab.evaluation.evaluation_chart import courses_chart, retention_chart
from ..lab.evaluation.online import BASELINES as ONLINE_BASELINES
from ..lab.evaluation.policies import BASELINES, Policy, compacted
from ..lab.evaluation.scores import SAID, measured
from ..lab.evaluation.survival import Cut, cut
from ..lab.replay.user_parts import UserParts, load_user_parts
from ..offline_edit import newest
from ..window_text import share, tokens_or_share, window_label
from .options import DB_VARIABLE, open_existing
from .output import Output, make_table, print_json, progress

Columns = Mapping[str, Callable[[Mapping[str, Any]], str]]
"""The columns of a table: from heading to a function that returns the cell of a row."""


def _percent(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that shows a share as a percentage; where nothing was needed, there is none."""
    return lambda row: f"{100 * row[name]:.1f}" if row["identifiers"] else ""


def _interval(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: "-".join(f"{100 * edge:.0f}" for edge in row["ci95"][name]) if row["identifiers"] else ""


_RETENTION: Columns = {
    "policy": lambda row: row["policy"],
    "recall": _percent("recall"),
    "bound": _percent("bound"),
    "95 %": _interval("bound"),
    "calls": _percent("calls"),
    "used": lambda row: f"{row['tokens_over_cap']:.2f}" + ("" if row["within_cap"] == 1 else "!"),
    "broken": lambda row: str(row["broken_pairs"] or ""),
}
_RETENTION_LEGEND = (
    "Of the identifiers that calls after the cut need from before it, recall: those that are left; bound: those "
    "left near two of the words that gave them meaning. Calls: calls all of whose identifiers are left. Used: "
    "tokens divided by the cap, and ! where a context is over it. Broken: calls without a result, or results without "
    "a call. 95 %: "
    "bootstrap interval of bound, over runs."
)
_ONLINE: Columns = {
    "policy": lambda row: row["policy"],
    "available": _percent("available"),
    "95 %": _interval("available"),
    "calls": _percent("calls"),
    "times": lambda row: f"{row['compactions']:.1f}",
    "sent": lambda row: f"{row['tokens_sent']:.2f}",
    "reused": lambda row: f"{100 * row['prefix_reuse']:.0f}",
    "cost": lambda row: f"{row['cost']:.2f}",
    "over": lambda row: f"{100 * row['over_window']:.0f}" if row["over_window"] else "",
}
_ONLINE_LEGEND = (
    "Each run is played whole, turn by turn, in a window of tokens, or of the system prompt, the tools and a share "
    "of the rest. Available: of the identifiers in a call's arguments that were said before it, the percentage in "
    "the request that the call answers. Calls: percentage of calls with all their identifiers available. Times: "
    "compactions per run. Sent: tokens of all requests, divided by those without compaction. Reused: percentage of "
    "them in leading messages that equal those of the request before. Cost: divided by that without compaction; a "
    "new token costs 1.25 of the input's price, a reused one 0.1, and a summary nothing, as no model writes it. "
    "Over: percentage of requests over the window or never sent. 95 %: bootstrap interval of available, over runs."
)


def evaluate(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files with recorded conversations, in the formats of `replay`.")
    ] = None,
    *,
    preset: Annotated[
        str,
        typer.Option(
            help=f"Presets, or strategies from --use, separated by commas. The presets are {', '.join(PRESETS)}."
        ),
    ] = "faithful,selective",
    budget: Annotated[
        str,
        typer.Option(
            help="Sizes to compact to, as shares of the tokens of the first part, separated by commas.",
        ),
    ] = "0.1,0.25,0.5",
    online: Annotated[
        bool,
        typer.Option("--online", help="Run whole conversations turn by turn, and measure availability and cost."),
    ] = False,
    window: Annotated[
        str,
        typer.Option(
            metavar="TOKENS|SHARE",
            help="With --online: windows in tokens, or as shares. 50% means the system prompt, the tools, and 50% of "
            "the other tokens.",
        ),
    ] = "50%",
    use: Annotated[
        str | None, typer.Option(help="A Python file that defines the dict STRATEGIES. The file is executed.")
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(
            help="The URL of a database with threads to measure. Without --thread, all its threads are measured."
        ),
    ] = None,
    thread: Annotated[
        list[str] | None, typer.Option(help="A thread in the database. You can repeat this option.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a chart to this .svg, .png or .html file."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON line for each policy and budget (or window). Shares are numbers from 0 to 1.",
        ),
    ] = False,
) -> None:
    """Measure, without a model, which facts of recorded conversations each preset keeps.

    The command divides each conversation in its middle, and compacts the first part to the sizes of --budget. It
    then counts the identifiers in the result that the tool calls of the second part need. For comparison, it does the
    same with `trim_messages` and with randomly chosen exchanges.

    With --online, the command does not divide the conversations, but runs each of them through the graph in a small
    window.

    With --thread, --db defaults to the variable LANGGRAPH_COMPACTION_DATABASE_URL.
    """
    if out is not None and out.suffix not in SUFFIXES:
        raise SettingsError(f"--out: {out} is none of {', '.join(SUFFIXES)}")
    own = load_user_parts(use) if use else UserParts()
    chosen = _chosen([name.strip() for name in preset.split(",")], own)
    windows, budgets = _split("--window", window, tokens_or_share), _split("--budget", budget, share)
    recordings = [recording for file in files or () for recording in read_recordings(file)]
    recordings += _threads(db or (os.environ.get(DB_VARIABLE) if thread else None), thread or [])
    if not recordings:
        raise SettingsError("name files of conversations, or threads of a database: --db URL --thread ID")
    if online:
        with progress("runs", len(recordings) * (len(chosen) + len(ONLINE_BASELINES)) * len(windows)) as show:
            rows = compare(recordings, chosen, windows, own=own, seen=show).rows
    else:
        rows = _measure(_cut(recordings), chosen, own, budgets)
    if as_json:
        print_json({**row, "note": SAID} for row in rows)
    else:
        _print(rows, online=online)
    if out is not None:
        draw = courses_chart if online else retention_chart
        draw(rows, f"{rows[0]['runs']} runs, {rows[0]['identifiers']} identifiers").save(out)


def _split(option: str, values: str, read: Callable[[str], float]) -> list[float]:
    """Return the values of an option, which are separated by commas, as numbers."""
    try:
        return [read(value.strip()) for value in values.split(",")]
    except SettingsError as error:
        raise SettingsError(f"{option}: {error}") from None


def _chosen(names: Sequence[str], own: UserParts) -> dict[str, CompactionSettings]:
    """Return the settings of each preset, or the default settings with each strategy of the user, by its name."""
    known = [*PRESETS, *own.strategies]
    for name in names:
        if name not in known:
            raise SettingsError(f"there is no preset or strategy {name!r}; {nearest(name, known)}")
    given = {name: {"preset": name} if name in PRESETS else {"strategies": (name,)} for name in names}
    return {name: CompactionSettings.model_validate(one) for name, one in given.items()}


def _threads(db: str | None, threads: Sequence[str]) -> list[Recording]:
    """Read the whole conversations of the named threads, including their archived messages."""
    if db is None:
        if threads:
            raise SettingsError(f"--thread needs the database that the thread is in: --db URL, or {DB_VARIABLE}")
        return []
    with open_existing(db, *threads) as saver:
        found: list[Recording] = []
        for thread in threads or saver.threads():
            values = newest(saver, thread).checkpoint["channel_values"]
            whole = transcript_in(CompactionRecords(saver.database), thread, values)
            found.append(Recording(name=thread, messages=tuple(whole)))
        return found


def _cut(recordings: Sequence[Recording]) -> list[Cut]:
    """Cut each recorded run in its middle; leave out runs with nothing before the cut."""
    runs = [cut(one.name, cast("Sequence[AnyMessage]", one.messages), 0.5) for one in recordings]
    if not any(run.old for run in runs):
        raise SettingsError("the conversations are too short to be cut: nothing stands before the cut")
    return [run for run in runs if run.old]


def _measure(
    runs: Sequence[Cut], chosen: Mapping[str, CompactionSettings], own: UserParts, budgets: Sequence[float]
) -> list[dict[str, Any]]:
    ours = {name: (compacted(settings, own.strategies),) for name, settings in chosen.items()}
    policies: dict[str, Sequence[Policy]] = {**ours, **BASELINES}
    with progress("contexts", len(runs) * len(policies) * len(budgets)) as show:
        return list(measured(runs, policies, budgets, seen=show))


def _print(rows: Sequence[Mapping[str, Any]], *, online: bool) -> None:
    """Print a table for each window or cap, and what its columns mean."""
    console, key = Output(), "window" if online else "budget"
    for size in dict.fromkeys(row[key] for row in rows):
        own = [row for row in rows if row[key] == size]
        about = (
            "{runs} runs, {requests} requests, {identifiers} identifiers"
            if online
            else ("{runs} runs, {cuts} cuts, {identifiers} identifiers of {later_calls} later calls")
        )
        title = f"window {window_label(size)}" if online else f"cap {size:.0%}"
        console.print(_table(f"{title}: {about.format_map(own[0])}", _ONLINE if online else _RETENTION, own))
    console.print(_ONLINE_LEGEND if online else _RETENTION_LEGEND, style="dim")
    console.print(SAID)


def _table(title: str, columns: Columns, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = make_table(left=["policy"], right=[heading for heading in columns if heading != "policy"], title=title)
    for row in rows:
        table.add_row(*(cell(row) for cell in columns.values()))
    return table
