"""Online replay of recorded runs with summaries prepared ahead, and without: availability, cost, unused preparations.

    python benchmarks/ahead.py RECORDING.json [--runs 25] [--window 0.5]

The summarizer writes a digest of what it is shown, so that its text is the same in each replay; its tokens are paid
as those of a model. A preparation takes no time: it is ready when the next input comes, as after a person's pause.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

from langgraph_compaction.graph import create_compacting_agent
from langgraph_compaction.graph.lab.comparison import COUNTER, run_of, through_the_graph
from langgraph_compaction.graph.lab.evaluation.online import Online
from langgraph_compaction.graph.lab.evaluation.online_scores import replayed
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.graph.lab.replay.recorded_run import Player
from langgraph_compaction.graph.lab.replay.user_parts import UserParts
from langgraph_compaction.nodes import CompactionSettings, Reply, SummaryRequest
from langgraph_compaction.nodes.digest.digest import digest

REPLAY = "langgraph_compaction.graph.lab.replay"
TOKENS = 600
"""Most tokens of a summary."""


class Digesting:
    """A summarizer that counts as a model, and writes a digest."""

    name = "digesting"

    def summarize(self, request: SummaryRequest) -> Reply:
        """Return the digest of the messages and of the earlier summary."""
        tokens = min(TOKENS, request.max_tokens or TOKENS)
        text = digest(request.messages, budget=tokens, counter=COUNTER, previous_text=request.earlier).text
        return Reply(
            content=f"<summary>\n{text}\n</summary>",
            input_tokens=sum(map(COUNTER.message, request.messages)) + COUNTER.text(request.earlier or ""),
            output_tokens=COUNTER.text(text),
        )

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Return the same."""
        return self.summarize(request)


class AtOnce(Thread):
    """Prepares before the turn goes on, in place of an OS thread."""

    def start(self) -> None:
        """Do the work."""
        self.run()


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser()
    options.add_argument("recordings", nargs="+")
    options.add_argument("--runs", type=int, default=25)
    options.add_argument("--window", type=float, default=0.5)
    options.add_argument("--presets", nargs="+", default=["selective", "faithful"])
    given = options.parse_args()
    recordings = [one for file in given.recordings for one in read_recordings(Path(file))][: given.runs]
    runs = [run_of(one) for one in recordings]
    print("| | available | cost | compactions a run | calls of the summarizer | prepared | not used |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for preset in given.presets:
        for ahead in (False, True):
            ends = Counter[str]()

            def build(*args: Any, settings: CompactionSettings, on: bool = ahead, **others: Any) -> Any:
                chosen = settings.model_copy(update={"summary_ahead": on})
                return create_compacting_agent(*args, settings=chosen, **others)

            class Counting(Player):
                """Counts how preparations end."""

                def play(self, ends: Counter[str] = ends) -> Any:
                    """Play the recording."""
                    try:
                        return super().play()
                    finally:
                        self.take_stock()
                        ends.update(one.reason for one in self.report.attempts if one.trigger == "ahead")

            with (
                patch(f"{REPLAY}.recorded_run.create_compacting_agent", build),
                patch("langgraph_compaction.graph.lab.comparison.Player", Counting),
                patch("langgraph_compaction.nodes.ahead.preparations.Thread", AtOnce),
            ):
                policy = through_the_graph(
                    CompactionSettings(preset=preset), recordings, UserParts(), summarizer=Digesting()
                )
                policies: dict[str, Sequence[Online]] = {preset: (policy,)}
                (row,) = replayed(runs, policies, [given.window])
            made, name = ends.total(), f"`{preset}`, {'prepared ahead' if ahead else 'not prepared'}"
            unused = f"{1 - ends['swapped'] / made:.0%}" if made else "-"
            print(
                f"| {name} | {row['available']:.1%} | {row['cost']:.3f} | {row['compactions']} "
                f"| {row['extra_calls']} | {made} | {unused} |",
                flush=True,
            )
            print(f"<!-- {dict(ends)} {row['ci95']} -->", flush=True)


if __name__ == "__main__":
    main()
