"""The games of the soak. Each plays a number of cases drawn from a seed, counts them, and raises where one is red."""

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks import acknowledged_inputs
from langgraph_compaction.checkpoint import Database
from langgraph_compaction.nodes.config.policies import PRESETS
from langgraph_compaction.nodes.testing import BAD_REPLIES
from tests.faults.cases import Case, cases
from tests.faults.playing import play
from tests.kill.random_kills import kill_a_run, kill_a_saver
from tests.kill.recovery import calm_runs
from tests.kill.scenarios import TEMPLATES
from tests.kill.scenarios import play as play_template
from tests.kill.sight import Around
from tests.kill.world import World

CONVERSATIONS = 40
KILLED_RUNS = 4
KILLED_SAVERS = 6
INPUTS = 64

Game = Callable[[int, str, Counter[str], bool], None]


def conversations(number: int, url: str, tally: Counter[str], shrink: bool) -> None:
    """Random histories, presets, settings; faults of model, summarizer, records and saver; another writer."""
    found = Counter[str]()
    with Database.open(url) as database:
        database.setup()

        @seed(number)
        @settings(
            max_examples=CONVERSATIONS,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(cases(wide=True))
        def every(case: Case) -> None:
            found["conversations"] += 1
            defects = play(case, found, database)
            assert not defects, defects

        try:
            every()
        finally:
            named = {"conversations"}
            tally.update({n if n in named or ":" in n else f"ended: {n}": count for n, count in found.items()})


@cache
def _templates() -> tuple[dict[str, World], Around, tempfile.TemporaryDirectory[str]]:
    """Return the conversations before the crucial turn, and their folder, which is deleted at the end."""
    folder = tempfile.TemporaryDirectory()
    place = Path(folder.name)
    templates = {name: play_template(place / name, turns) for name, turns in TEMPLATES.items()}
    (place / "calm").mkdir()
    return templates, calm_runs(templates, place / "calm"), folder


def killed_runs(number: int, _url: str, tally: Counter[str], _shrink: bool) -> None:
    """Kill runs that compact, at random places, and their recoveries; the databases are SQLite files."""
    templates, around, _ = _templates()
    for n in range(KILLED_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            found = kill_a_run(f"{number}-{n}", templates, around, Path(folder))
        tally["killed runs"] += 1
        tally.update({f"fault: {name}": count for name, count in found.items()})


def killed_savers(number: int, url: str, tally: Counter[str], _shrink: bool) -> None:
    """Kill a process that uses the saver, at random moments."""
    found = kill_a_saver(str(number), url, KILLED_SAVERS)
    tally["killed savers"] += found.total()
    tally.update({f"fault: {name}": count for name, count in found.items()})


def writers(number: int, url: str, tally: Counter[str], _shrink: bool) -> None:
    """Several writers on one thread that compacts often: presets, kills, cut connections, failing summarizers."""
    chance = random.Random(number)  # noqa: S311 - reproducible, not secret
    kind = url.partition(":")[0].partition("+")[0]
    saver = chance.choice(["ours", "ours", "SqliteSaver"]) if kind == "sqlite" else "ours"
    by: Any = chance.choice(["processes", "processes", "threads", *(["tasks"] if saver == "ours" else [])])
    harms = {
        "processes": ["none", "kills", *([] if kind == "sqlite" else ["cuts"])],
        "threads": ["none"],
        "tasks": ["none", "cancels"],
    }
    summary = chance.choice(["good", "good", *BAD_REPLIES])
    plan = acknowledged_inputs.Plan(
        saver=saver,
        database=kind,
        writers=by,
        count=chance.choice([2, 4, 8]),
        harm=chance.choice(harms[by]),
        inputs=INPUTS,
        settings={
            "preset": chance.choice(PRESETS),
            "context_window": chance.choice([1_500, 3_000, 128_000]),
            "require_confirmation": False,
        },
        **({} if summary == "good" else {"summary": BAD_REPLIES[summary]}),
    )
    row = acknowledged_inputs.play(plan, url, number)
    tally["inputs of several writers"] += plan.inputs
    tally["acknowledged inputs"] += row.acknowledged
    tally[f"fault: writers, {plan.harm}"] += row.harmed
    tally[f"fault: writers, summarizer: {summary}"] += summary != "good"
    tally["ended: attempts of several writers"] += row.compacted
    assert (row.lost, row.unanswered, row.disordered) == (0, 0, 0), f"{plan}: {row}"


GAMES: dict[str, Game] = {
    "conversations": conversations,
    "writers": writers,
    "more conversations": conversations,
    "killed runs": killed_runs,
    "killed savers": killed_savers,
}
