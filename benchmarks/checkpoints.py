"""How checkpoints grow: bytes and times of savers, each in a process of its own, interleaved turn by turn.

    python benchmarks/checkpoints.py [--quick | --full] [--whole-history TURNS] [--saver PART_OF_A_NAME ...]

Every saver runs the same agent on the same messages (4 a turn, about 1 kB each, `durability="sync"`) in a new
database of its own. As an application has one saver, each has a process, forked from one that has opened none; they
work one at a time, in an order that is drawn anew each turn, so that a noisy machine is noisy for all. In the end
each runs eight conversations at once, on threads of its process.
PostgreSQL and MariaDB are those of TEST_POSTGRES_URL and TEST_MARIADB_URL; without them their savers are left out.

By default savers that write whole lists stop at 300 turns, and the whole history of others than ours is read up to
100 turns. `--full` takes all to 1,000 turns and reads it at 300 (18 GB of disk, about an hour). `--quick` stops
at 30 turns and writes no file. Else writes benchmarks/results/checkpoints.json.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ratios import CONVERSATIONS, SAID, SHORT_TURNS, Row, print_report, ratios
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from saver_processes import Remote, running, warm_up
from savers import VARIABLES, Kind, chosen, payload, settings
from workload import PER_TURN

RESULTS = Path(__file__).parent / "results" / "checkpoints.json"
THREAD = "grown"
FIRST, LAST = range(25, 60), range(975, 1_010)
"""Turns from 100 to 240 messages, and from 3,900 to 4,040."""

FORKS, FEW_FORKS = 128, 16
"""Rollbacks and compactions by whose number the bytes are divided: of ours so many take a few pages only."""

GIGABYTE = 10**9
WHOLE_LIST_BYTES, MEMORY_BYTES = 16_000, 9_000
"""Of disk, by all savers together that write whole lists; of memory, by InMemorySaver: per turn squared."""


@dataclass(frozen=True)
class Plan:
    """What a run measures."""

    turns: tuple[int, ...]
    whole_list_turns: int
    whole_history: int
    short_rounds: int
    long: bool
    gets: int = 31
    histories: int = 9
    at_once_rounds: int = 3
    at_once_turns: int = 10

    def limit(self, kind: Kind) -> int:
        """Turns after which a saver stops."""
        return self.turns[-1] if kind.ours or kind.delta else min(self.turns[-1], self.whole_list_turns)

    @property
    def disk(self) -> int:
        """Bytes of disk that all need at most."""
        return GIGABYTE + WHOLE_LIST_BYTES * self.whole_list_turns**2 + self.long * 2 * GIGABYTE


QUICK = Plan(turns=(10, 30), whole_list_turns=30, whole_history=30, short_rounds=5, long=False, at_once_turns=5)
DEFAULT = Plan(turns=(10, 100, 300, 1_000), whole_list_turns=300, whole_history=100, short_rounds=40, long=True)
FULL = Plan(turns=(10, 100, 300, 1_000), whole_list_turns=1_000, whole_history=300, short_rounds=40, long=True)

Item = TypeVar("Item")


class Bench:
    """A run: the contenders' rows, and a bar that says how far it is."""

    def __init__(self, plan: Plan, kinds: Sequence[Kind], servers: dict[str, str], progress: Progress) -> None:
        self.plan = plan
        self.kinds = kinds
        self.servers = servers
        self.progress = progress
        self.draw = random.Random(0)  # noqa: S311 - the same order on every run

    def short_threads(self, folder: Path) -> dict[str, float]:
        """Seconds of the turns of a new 10-turn thread, the median of some, in a database that has a few."""
        seconds: dict[str, list[float]] = defaultdict(list)
        with (
            running(self.kinds, folder, self.servers) as contenders,
            self._task("threads of 10 turns", self.plan.short_rounds) as step,
        ):
            for number in range(self.plan.short_rounds):
                thread = f"short-{number}"
                sums: dict[str, float] = defaultdict(float)
                for turn in range(SHORT_TURNS):
                    for one in self._shuffled(contenders):
                        sums[one.kind.name] += one.turn(thread, turn)
                for name, total in sums.items():
                    seconds[name].append(total)
                step(1)
        return {name: statistics.median(values) for name, values in seconds.items()}

    def growth(self, folder: Path) -> list[Row]:
        """One thread of each saver, measured at the plan's numbers of turns."""
        rows: list[Row] = []
        walls: dict[str, float] = defaultdict(float)
        total = sum(self.plan.limit(kind) for kind in self.kinds)
        with running(self.kinds, folder, self.servers) as contenders, self._task("one thread, turns", total) as step:
            for turn in range(self.plan.turns[-1]):
                active = [one for one in contenders if turn < self.plan.limit(one.kind)]
                for one in self._shuffled(active):
                    walls[one.kind.name] += one.turn(THREAD, turn)
                step(len(active))
                if (turns := turn + 1) in self.plan.turns:
                    rows += self._measured(active, turns, walls)
        return rows

    def long_threads(self, folder: Path) -> list[Row]:
        """A thread of 3,900 messages and one of 100 beside it, both grown by 140 messages."""
        turn_times: dict[str, list[float]] = defaultdict(list)
        with (
            running(self.kinds, folder, self.servers) as contenders,
            self._task("long threads, turns", len(LAST)) as step,
        ):
            for one in contenders:
                one.seed("first", FIRST.start)
                one.seed("last", LAST.start)
            for first, last in zip(FIRST, LAST, strict=True):
                for one in self._shuffled(contenders):
                    for thread, turn in self._shuffled((("first", first), ("last", last))):
                        seconds = one.turn(thread, turn)
                        if thread == "last":
                            turn_times[one.kind.name].append(seconds)
                step(1)
            gets = self._medians(contenders, lambda one: one.get_state("last"), self.plan.gets)
            histories = self._medians(contenders, lambda one: one.history("last", 20), self.plan.histories)
            return [
                {
                    "saver": (name := one.kind.name),
                    "messages": LAST.stop * PER_TURN,
                    "put_first_ms": _milliseconds(one.put_times("first", FIRST)),
                    "put_last_ms": _milliseconds(one.put_times("last", LAST)),
                    "get_ms": _milliseconds([gets[name]]),
                    "history20_ms": _milliseconds([histories[name]]),
                    "turn_ms": _milliseconds(turn_times[name]),
                }
                for one in contenders
            ]

    def conversations_at_once(self, folder: Path) -> list[Row]:
        """New conversations on threads of one process, of one saver after the other; the median of some rounds."""
        rates: dict[str, list[float]] = defaultdict(list)
        rounds, turns = self.plan.at_once_rounds, self.plan.at_once_turns
        with (
            running(self.kinds, folder, self.servers) as contenders,
            self._task(f"{CONVERSATIONS} conversations at once", rounds) as step,
        ):
            for number in range(rounds):
                for one in self._shuffled(contenders):
                    rates[one.kind.name].append(one.at_once(f"at-once-{number}", CONVERSATIONS, turns))
                step(1)
        return [
            {
                "saver": kind.name,
                "conversations": CONVERSATIONS,
                "turns": turns,
                "turns_per_s": round(statistics.median(rates[kind.name]), 1),
            }
            for kind in self.kinds
        ]

    def _measured(self, contenders: Sequence[Remote], turns: int, walls: dict[str, float]) -> list[Row]:
        self.progress.update(self.task, description=f"one thread, reading at {turns} turns", refresh=True)
        gets = self._medians(contenders, lambda one: one.get_state(THREAD), self.plan.gets)
        newest = self._medians(contenders, lambda one: one.history(THREAD, 20), self.plan.histories)
        ours = [one for one in contenders if one.kind.ours]
        theirs = [one for one in contenders if not one.kind.ours and turns <= self.plan.whole_history]
        alls = self._medians(theirs, lambda one: one.history(THREAD), 1)  # up to a minute each
        alls |= self._medians(ours, lambda one: one.history(THREAD), self.plan.histories)
        last = range(turns - min(len(LAST), turns // 2), turns)
        rows = [
            {
                "saver": (name := one.kind.name),
                "turns": turns,
                "bytes": one.size().held,
                "payload_bytes": payload(turns),
                "put_first_ms": _milliseconds(one.put_times(THREAD, FIRST)) if turns >= FIRST.stop else None,
                "put_last_ms": _milliseconds(one.put_times(THREAD, last)),
                "get_ms": _milliseconds([gets[name]]),
                "history20_ms": _milliseconds([newest[name]]),
                "history_all_s": round(alls[name], 3) if name in alls else None,
                "wall_s": round(walls[name], 3),
                **(_added(one) if turns == self.plan.limit(one.kind) else {}),
            }
            for one in contenders
        ]
        self.progress.update(self.task, description="one thread, turns", refresh=True)
        return rows

    def _medians(
        self, contenders: Sequence[Remote], measure: Callable[[Remote], float], rounds: int
    ) -> dict[str, float]:
        """Seconds by name, the median of rounds in which every contender has one go."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for _ in range(rounds):
            for one in self._shuffled(contenders):
                seconds[one.kind.name].append(measure(one))
        return {name: statistics.median(values) for name, values in seconds.items()}

    def _shuffled(self, items: Sequence[Item]) -> list[Item]:
        return self.draw.sample(list(items), len(items))

    @contextmanager
    def _task(self, name: str, total: int) -> Generator[Callable[[int], None]]:
        self.task = self.progress.add_task(name, total=total)
        self.progress.refresh()

        def step(number: int) -> None:
            self.progress.update(self.task, advance=number, refresh=True)

        yield step


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    plan = QUICK if arguments.quick else FULL if arguments.full else DEFAULT
    if arguments.whole_history is not None:
        plan = replace(plan, whole_history=arguments.whole_history)
    servers = {name: url for name, variable in VARIABLES.items() if (url := os.environ.get(variable))}
    kinds = chosen(arguments.saver, servers)
    warm_up(servers)
    console = Console(width=150)
    with tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder, _progress(console) as progress:
        _enough_space(plan, kinds, Path(folder))
        bench = Bench(plan, kinds, servers, progress)
        walls = bench.short_threads(Path(folder))
        rows = bench.growth(Path(folder))
        long = bench.long_threads(Path(folder)) if plan.long else []
        concurrent = bench.conversations_at_once(Path(folder))
    for row in rows:
        if row["turns"] == SHORT_TURNS:
            row["wall_s"] = round(walls[row["saver"]], 3)
    found = ratios(rows, long, concurrent)
    print_report(console, rows, long, concurrent, found)
    console.print(SAID)
    if not arguments.quick:
        report = {"note": SAID, "settings": settings(servers), "rows": rows, "long_threads": long}
        report |= {"concurrent": concurrent, "ratios": found}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How checkpoints grow, saver beside saver.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="30 turns at most, in a minute; writes no file")
    size.add_argument("--full", action="store_true", help="1,000 turns of all: 18 GB of disk, about an hour")
    parser.add_argument(
        "--whole-history", type=int, metavar="TURNS", help="read the others' whole history up to here"
    )
    parser.add_argument("--saver", action="append", metavar="PART", help="only savers with this in their name")
    return parser.parse_args()


def _enough_space(plan: Plan, kinds: Sequence[Kind], folder: Path) -> None:
    """Refuse a run that would fill the disk or the memory."""
    whole = any(not kind.ours and not kind.delta for kind in kinds)
    needed, free = plan.disk if whole else GIGABYTE, shutil.disk_usage(folder).free
    if needed > free:
        sys.exit(f"{needed / GIGABYTE:.0f} GB of disk are needed in {folder.parent}, {free / GIGABYTE:.0f} are free")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    in_memory = MEMORY_BYTES * plan.whole_list_turns**2
    if any(kind.database == "memory" for kind in kinds) and in_memory > memory / 2:
        sys.exit(f"InMemorySaver takes {in_memory / GIGABYTE:.0f} GB of {memory / GIGABYTE:.0f}; choose by --saver")


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, auto_refresh=False)  # whoever forks has no other thread


def _added(one: Remote) -> Row:
    """Bytes that a rollback to one of the newest snapshots adds, and a compaction of it."""
    rollback, compacted = one.added(THREAD, FORKS if one.kind.ours else FEW_FORKS)
    return {"rollback_bytes": rollback, "compaction_bytes": compacted}


def _milliseconds(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds) * 1_000, 3)


if __name__ == "__main__":
    main()
