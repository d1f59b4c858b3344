"""Measures what stays of rules and of their corrections over several compactions, in a window of real size.

    python benchmarks/own_words.py [--window TOKENS] [--preset NAME]

Recorded runs follow each other in one conversation. Into its first messages six rules of one of twelve languages are
planted, or three rules with a later correction of each. The conversation is compacted whenever it has to be, with the
digest, and beside a model that forgets nearly all. Prints how many sentences stand word for word after 1, 4 and 8
compactions, and of how many corrections the stale form stands alone.
"""

import argparse
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage
from planted_corrections import REVISIONS
from planted_rules import RULES
from what_survives import DATA

from langgraph_compaction.graph import CompactionSettings, compact_messages
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes import Reply, SummaryRequest
from langgraph_compaction.nodes.text.identifiers import identifiers

LANGUAGES = ("en", "zh", "ja", "ko", "ru", "de", "es", "fr", "pt", "it", "ar", "tr")
SEEN = (1, 4, 8)
PLANTED_WITHIN = 14
"""The rules and corrections are planted into so many of the first rounds."""

Rounds = list[list[AnyMessage]]


class Forgetful:
    """A summarizer that keeps a few identifiers and no sentence."""

    name = "forgetful"

    def summarize(self, request: SummaryRequest) -> Reply:
        """Name every third identifier."""
        named = list(dict.fromkeys(identifiers(request.conversation)))[::3][:40]
        return Reply(content=f"<summary>The user asked about reservations: {' '.join(named)}.</summary>")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Do the same."""
        return self.summarize(request)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--preset", default="faithful")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    settings = CompactionSettings.model_validate({"preset": options.preset})
    summarizers: dict[str, Any] = {"digest": "digest", "beside a forgetful model": Forgetful()}
    for name, summarizer in summarizers.items():
        kept, asked, pairs = Counter[int](), Counter[int](), {number: Counter[str]() for number in SEEN}
        for seed, language in enumerate(LANGUAGES):
            for number, text in _played(RULES[language], seed, options.window, settings, summarizer):
                kept[number] += sum(rule in text for rule in RULES[language])
                asked[number] += len(RULES[language])
        for first in range(0, len(REVISIONS), 3):
            group = [(one.rule, one.firm if first % 2 else one.soft) for one in REVISIONS[first : first + 3]]
            planted = [*(rule for rule, _ in group), *(correction for _, correction in group)]
            for number, text in _played(planted, 100 + first, options.window, settings, summarizer):
                pairs[number].update(_form(rule in text, correction in text) for rule, correction in group)
        for number in SEEN:
            print(f"{name}, after {number}: rules {kept[number]}/{asked[number]}; {dict(pairs[number])}")


def _form(stale: bool, correction: bool) -> str:
    forms = {
        (True, False): "stale alone",
        (True, True): "both",
        (False, True): "corrected",
        (False, False): "neither",
    }
    return forms[stale, correction]


def _played(
    planted: Sequence[str], seed: int, window: int, settings: CompactionSettings, summarizer: Any
) -> Iterator[tuple[int, str]]:
    """Yield the number of each compaction in `SEEN`, and the text of the context after it."""
    context, number = list[AnyMessage](), 0
    for place, turn in enumerate(_conversation(planted, seed)):
        context += [message.model_copy(update={"id": f"{place}-{at}"}) for at, message in enumerate(turn)]
        done = compact_messages(
            context, max_tokens=window, settings=settings, force=False, summarizer=summarizer, return_result=True
        )
        if done.new_token_count < done.original_token_count:
            context, number = list(done.new_messages), number + 1
            if number in SEEN:
                yield number, " ".join(" ".join(message.text for message in context).split())
            if number == max(SEEN):
                return


def _conversation(planted: Sequence[str], seed: int) -> Rounds:
    draw = random.Random(seed)  # noqa: S311 - no secret; the seed repeats the draw
    runs = [
        [m for m in cast("list[AnyMessage]", run.messages) if m.type != "system"] for run in read_recordings(DATA)
    ]
    draw.shuffle(runs)
    rounds: Rounds = []
    for message in (message for run in runs * 3 for message in run):
        if isinstance(message, HumanMessage) or not rounds:
            rounds.append([])
        rounds[-1].append(message)
    for at, sentence in zip(sorted(draw.sample(range(1, PLANTED_WITHIN), len(planted))), planted, strict=True):
        first, *rest = rounds[at]
        said = f"{first.text} {sentence}" if draw.random() < 1 / 2 else f"{sentence} {first.text}"
        rounds[at] = [first.model_copy(update={"content": said}), *rest]
    return rounds


if __name__ == "__main__":
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    main()
