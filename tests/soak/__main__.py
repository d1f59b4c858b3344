"""Play random games until the time is over: `make soak MINUTES=60`, or `python -m tests.soak --minutes 60 --seed 1`.

Each round plays one game on one database with a seed of its own, which is printed. A red round does not end the
soak: it is printed with its traceback, and the exit code is 1. `--first N --rounds 1` repeats the round with seed N,
and `--shrink` looks for the smallest random conversation that is red.
"""

import argparse
import json
import logging
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import ExitStack

from benchmarks.two_writers import database_of
from tests.soak.games import GAMES

SERVERS = {"postgresql": "TEST_POSTGRES_URL", "mariadb": "TEST_MARIADB_URL"}
DATABASES = ("sqlite", *SERVERS)


def play_round(seed: int, tally: Counter[str], *, shrink: bool = False) -> str | None:
    """Play the game of this seed; return the traceback if it is red."""
    database, game = DATABASES[seed % len(DATABASES)], list(GAMES)[seed // len(DATABASES) % len(GAMES)]
    started, before = time.monotonic(), tally.copy()
    with ExitStack() as stack:
        url = stack.enter_context(database_of(database))
        if url is None:
            return None
        try:
            GAMES[game](seed, url, tally, shrink)
        except Exception:  # noqa: BLE001 - whatever is raised is the finding
            red = traceback.format_exc()
        else:
            red = None
    told = ", ".join(f"{name} {count}" for name, count in sorted((tally - before).items()) if ":" not in name)
    print(f"{seed} {database} {game}: {'RED' if red else 'green'}, {time.monotonic() - started:.1f} s, {told}")  # noqa: T201
    if red:
        print(red)  # noqa: T201
    sys.stdout.flush()
    return red


def main() -> None:
    """Play rounds until the time is over, and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=10**9)
    parser.add_argument("--first", type=int, default=0, help="seed of the first round")
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    started, tally, red, seed = time.monotonic(), Counter[str](), list[int](), options.first
    while seed < options.first + options.rounds and time.monotonic() - started < options.minutes * 60:
        if play_round(seed, tally, shrink=options.shrink):
            red.append(seed)
        seed += 1
    result = {
        "minutes": round((time.monotonic() - started) / 60, 1),
        "seeds": [options.first, seed - 1],
        "databases": [name for name in DATABASES if name not in SERVERS or os.environ.get(SERVERS[name])],
        "cases": {name: count for name, count in sorted(tally.items()) if ":" not in name},
        "faults": {
            name.removeprefix("fault: "): count for name, count in sorted(tally.items()) if name.startswith("fault: ")
        },
        "endings": {
            name.removeprefix("ended: "): count for name, count in sorted(tally.items()) if name.startswith("ended: ")
        },
        "red": red,
    }
    print(json.dumps(result, indent=1))  # noqa: T201
    sys.exit(bool(red))


if __name__ == "__main__":
    main()
