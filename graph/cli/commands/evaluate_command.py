"""`evaluate`: measures how much of recorded conversations presets and strategies keep.

The results are compared with a random choice of messages and with langchain-core's `trim_messages`.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.presets import PRESETS

from ...lab.evaluation.evaluation_chart import SUFFIXES, write_chart, write_courses
from ...lab.evaluation.long_threads import measured as long_measured
from ...lab.evaluation.long_threads import questions, task_of
from ...lab.evaluation.online import BASELINES as ONLINE_BASELINES
from ...lab.evaluation.online import Online
from ...lab.evaluation.online_scores import replayed
from ...lab.evaluation.policies import BASELINES, Policy, compacted
from ...lab.evaluation.recoverable import RECOVERED
from ...lab.evaluation.scores import SAID, Task, measured, task
from ...lab.evaluation.survival import cut
from ...lab.recordings import Recording, read_recordings
from ...lab.replay.online_runs import run_of, through_the_graph
from ...lab.replay.user_parts import UserParts, load_user_parts
from ...offline_edit import newest
from ...window_text import tokens_or_share
from ..command_settings import checked_shares, shares_of, usage_errors
from ..open_database import open_existing, report_errors
from ..output.online_table import print_online
from ..output.printing import Output, print_lines
from ..output.recall_table import print_recall
from .threads_command import DB_VARIABLE

_LEGEND = (
    "Of the identifiers that calls after the cut need from before it, recall: those that are left; bound: those "
    "left near two of the words that gave them meaning. Calls: calls all of whose identifiers are left. Rules: "
    "constraints left of those put at the top, middle and bottom of the user's words. Precise: constraints among the "
    "put sentences that a digest lists as rules; as many remarks are put as constraints. Used: tokens divided by the "
    "cap. 95 %: bootstrap interval of bound, over runs."
)

_THREAD_TOKENS = 100_000
"""With --recall: number of tokens of other runs in a thread, if there are so many."""
_NEEDED = ("recall", "bound", "calls")
_HEADINGS = ("cap", "policy", "recall", "bound", "95 %", "calls", "rules", "precise", "used", "recov-\nerable")


def _picture(value: Path | None) -> Path | None:
    if value is not None and value.suffix not in SUFFIXES:
        raise typer.BadParameter(f"{value} is none of {', '.join(SUFFIXES)}")
    return value


def _windows(value: str) -> list[float]:
    """Return windows, separated by commas: tokens as ints, shares as floats; raise a usage error for other text."""
    with usage_errors():
        return [tokens_or_share(one.strip()) for one in value.split(",")]


def _windows_given(value: str) -> str:
    _windows(value)
    return value


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
            callback=checked_shares,
            help="Sizes to compact to, as shares of the tokens of the first part, separated by commas.",
        ),
    ] = "0.1,0.25,0.5",
    cut_at: Annotated[
        str,
        typer.Option(
            "--cut",
            callback=checked_shares,
            help="Where to divide a conversation, as shares of its messages, separated by commas.",
        ),
    ] = "0.5",
    online: Annotated[
        bool,
        typer.Option("--online", help="Run whole conversations turn by turn, and measure availability and cost."),
    ] = False,
    auto_recall: Annotated[
        bool | None,
        typer.Option(
            "--auto-recall/--no-auto-recall",
            help="With --online: the value of the setting auto_recall. Default: the value of each preset.",
        ),
    ] = None,
    recall: Annotated[
        bool,
        typer.Option("--recall", help="Measure what `recall` finds in long threads that are built from the files."),
    ] = False,
    window: Annotated[
        str,
        typer.Option(
            callback=_windows_given,
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
        typer.Option(callback=_picture, help="Write a chart to this .svg, .png or .html file."),
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

    The command divides each conversation into two parts, and compacts the first part to the sizes of --budget. It
    then counts the identifiers in the result that the tool calls of the second part need. For comparison, it does the
    same with `trim_messages` and with randomly chosen exchanges.

    With --online, the command does not divide the conversations, but runs each of them through the graph in a small
    window. With --recall, it builds threads of 100,000 tokens, and searches their archives with the messages of the
    users and with the queries of `auto_recall`. The presets have no effect on --recall.

    With --thread, --db defaults to the variable LANGGRAPH_COMPACTION_DATABASE_URL.
    """
    with report_errors():
        if recall and (online or out is not None):
            raise SettingsError("--recall goes with neither --online nor --out: it prints one table")
        if auto_recall is not None and not online:
            raise SettingsError("--auto-recall and --no-auto-recall need --online")
        own = load_user_parts(use) if use else UserParts()
        chosen = _chosen([name.strip() for name in preset.split(",")], own, auto_recall)
        recordings = [one for file in files or () for one in read_recordings(file)]
        recordings += _threads(db or (os.environ.get(DB_VARIABLE) if thread else None), thread or [])
        if not recordings:
            raise SettingsError("name files of conversations, or threads of a database: --db URL --thread ID")
        if recall:
            rows = _recalled(recordings)
        elif online:
            rows = _online(recordings, chosen, own, _windows(window))
        else:
            rows = _measured(_tasks(recordings, shares_of(cut_at)), chosen, own, shares_of(budget))
        if as_json:
            print_lines({**row, "note": SAID} for row in rows)
        else:
            (print_recall if recall else print_online if online else _print)(rows)
        if out is not None:
            draw = write_courses if online else write_chart
            draw(rows, out, f"{rows[0]['runs']} runs, {rows[0]['identifiers']} identifiers")


def _chosen(names: Sequence[str], own: UserParts, auto_recall: bool | None) -> dict[str, CompactionSettings]:
    """Return the settings of each preset or strategy to measure."""
    known = [*PRESETS, *own.strategies]
    for name in names:
        if name not in known:
            raise SettingsError(f"there is no preset or strategy {name!r}; {nearest(name, known)}")
    return {name: _settings(name, auto_recall) for name in names}


def _settings(name: str, auto_recall: bool | None) -> CompactionSettings:
    """Return a preset's settings, or the default settings with the strategy that the user chose."""
    given: dict[str, Any] = {"preset": name} if name in PRESETS else {"strategies": (name,)}
    if auto_recall is not None:
        given["auto_recall"] = auto_recall
    return CompactionSettings.model_validate(given)


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
            head = (values.get("compaction") or {}).get("head")
            whole = CompactionRecords(saver.database).transcript(thread, "", values["messages"], head=head)
            found.append(Recording(name=thread, messages=tuple(whole)))
        return found


def _tasks(recordings: Sequence[Recording], shares: Sequence[float]) -> list[Task]:
    """Cut each recorded run after each of these shares of its messages; leave out cuts before the first message."""
    runs = [
        cut(one.name, cast("Sequence[AnyMessage]", one.messages), share) for one in recordings for share in shares
    ]
    tasks = [task(run, seed) for seed, run in enumerate(runs) if run.old]
    if not tasks:
        raise SettingsError("the conversations are too short to be cut: nothing stands before the cut")
    return tasks


def _measured(
    tasks: Sequence[Task], chosen: Mapping[str, CompactionSettings], own: UserParts, budgets: Sequence[float]
) -> list[dict[str, Any]]:
    ours = {name: (compacted(settings, own.strategies),) for name, settings in chosen.items()}
    policies: dict[str, Sequence[Policy]] = {**ours, **BASELINES}
    with _progress("contexts", len(tasks) * len(policies) * len(budgets)) as seen:
        return list(measured(tasks, policies, budgets, seen=seen))


def _online(
    recordings: Sequence[Recording],
    chosen: Mapping[str, CompactionSettings],
    own: UserParts,
    windows: Sequence[float],
) -> list[dict[str, Any]]:
    ours = {name: (through_the_graph(settings, recordings, own),) for name, settings in chosen.items()}
    policies: dict[str, Sequence[Online]] = {**ours, **ONLINE_BASELINES}
    runs = [run_of(one) for one in recordings]
    with _progress("runs", len(runs) * len(policies) * len(windows)) as seen:
        return list(replayed(runs, policies, windows, seen=seen))


def _recalled(recordings: Sequence[Recording]) -> list[dict[str, Any]]:
    """Search threads that hold a run among the other runs, up to 100,000 tokens of them."""
    runs = [(task_of(one), one) for one in recordings]
    total = sum(1 for name, one in runs for _ in questions(one, name))
    if not total:
        raise SettingsError(
            "nothing to look for: no call in the conversations needs an identifier that is older than two rounds"
        )
    with Database.open("memory") as database, _progress("questions", total) as seen:
        database.setup()
        records = CompactionRecords(database)
        return long_measured(records, runs, tokens=_THREAD_TOKENS, most=total, seen=seen)


@contextmanager
def _progress(name: str, total: int) -> Generator[Callable[[], None]]:
    """Show a progress bar on a terminal; yield the function to call after each of `total` steps."""
    console = Output(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=total)
        yield lambda: progress.advance(bar)


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    first = rows[0]
    table = Table(
        box=box.SIMPLE,
        padding=0,
        show_edge=False,
        title=f"{first['runs']} runs, {first['cuts']} cuts, {first['identifiers']} identifiers of "
        f"{first['later_calls']} later calls",
    )
    recoverable = any(row.get("recoverable") is not None for row in rows)
    for heading in _HEADINGS if recoverable else _HEADINGS[:-1]:
        table.add_column(heading, justify="left" if heading == "policy" else "right", no_wrap=True)
    for place, row in enumerate(rows):
        following = rows[place + 1]["budget"] if place + 1 < len(rows) else None
        low, high = row["ci95"]["bound"]
        recall, bound, calls = (_percent(row[name] if row["identifiers"] else None) for name in _NEEDED)
        table.add_row(
            f"{row['budget']:.0%}",
            row["policy"],
            recall,
            bound,
            f"{100 * low:.0f}-{100 * high:.0f}" if bound else "",
            calls,
            "/".join(f"{100 * share:.0f}" for share in row["rules"].values()),
            _percent(row["precision"]),
            f"{row['tokens_over_cap']:.2f}" + ("" if row["within_cap"] == 1 else "!"),
            *([_with_chance(row)] if recoverable else []),
            end_section=following != row["budget"],
        )
    console = Output()
    console.print(table)
    for row in rows:
        if row["within_cap"] < 1 or row["broken_pairs"]:
            flaws = f"{100 - 100 * row['within_cap']:.1f} % over the cap, {row['broken_pairs']} pairs broken"
            console.print(f"{row['policy']} at {row['budget']:.0%}: {flaws}", style="red")
    console.print(_LEGEND, style="dim")
    if recoverable:
        console.print(f"{RECOVERED} In the table: the one / the other, in %.", style="dim")
    console.print(SAID)


def _with_chance(row: Mapping[str, Any]) -> str:
    shares = (row.get(name) for name in ("recoverable", "recoverable_by_chance"))
    return "/".join(f"{100 * share:.0f}" for share in shares if share is not None)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"
