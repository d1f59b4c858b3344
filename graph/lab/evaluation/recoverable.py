"""What a context has lost and one `recall` brings back, and how many it takes: an archive in memory, really asked.

The archive holds every message before the cut, more than what left the view of any policy: its search has to tell
more of them apart. An identifier counts as recoverable where one answer of at most 1,000 tokens holds it, its
headlines aside. Tried are, in this order, at most two handles of single messages that the context shows within 200
characters of text with two of the words that stood within 80 characters of the identifier, and the queries of
`questions`, at most five. The handle of a compaction, which stands for the whole thread, is never tried. By chance is
what the queries of another run bring back: of a short conversation an answer holds a good part whatever is asked.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.nodes.summary.recall_answer import answer

from ...recall_tool import MAX_TOKENS, Wanted, look_up
from .policies import COUNTER
from .recall_questions import Need, needs, queries
from .survival import Cut, around, holds, related, text_of, words_of

RECOVERED = (
    "Recoverable: of the identifiers that a context has lost, those that one recall of at most 1,000 tokens brings "
    "back, asked in at most four words that the agent knows when it needs them, or by a handle beside related text; "
    "at most seven are tried. By chance: what the questions of another run bring back."
)
"""What stands under a table with these figures."""

BESIDE = 200
"""Characters within which a handle stands beside text."""
MOST_HANDLES = 2

_COMPACTION = "0" * 16
_HANDLES = re.compile(r"\[recall: ([0-9a-f, ]+)\]")
_HEADLINE = re.compile(r"^\[[0-9a-f]{12} .*\]$", re.MULTILINE)


class Lost(NamedTuple):
    """An identifier that a context has lost, and what is asked for it."""

    token: str
    asked: tuple[Wanted, ...]


class Archive:
    """What stood before the cuts of runs, each run in a thread of its own, and the answers that were given."""

    def __init__(self, database: Database) -> None:
        """Use an open database, with its tables, that nothing else is kept in."""
        self.records = CompactionRecords(database)
        self._needs: dict[str, dict[str, Need]] = {}
        self._answers: dict[tuple[str, Wanted], str] = {}

    def lost(self, run: Cut, context: Sequence[BaseMessage], tokens: Sequence[str]) -> list[Lost]:
        """What is asked for each of these identifiers, by an agent that has this context."""
        found = self._needs_of(run)
        return [Lost(token, tuple(_tries(run, context, found[token]))) for token in tokens]

    def calls(self, run: Cut, lost: Lost) -> int | None:
        """How many recalls it takes to have the identifier back from the run's archive; `None` where none does."""
        for place, wanted in enumerate(lost.asked, 1):
            if not holds(wanted.query, lost.token) and holds(self._answer(run, wanted), lost.token):
                return place
        return None

    def _answer(self, run: Cut, wanted: Wanted) -> str:
        thread = self._thread(run)
        if (thread, wanted) not in self._answers:
            found = look_up(self.records, thread, wanted)
            text = answer(found, wanted.query, max_tokens=MAX_TOKENS, counter=COUNTER)
            self._answers[thread, wanted] = _HEADLINE.sub("", text)
        return self._answers[thread, wanted]

    def _needs_of(self, run: Cut) -> dict[str, Need]:
        return self._needs[self._thread(run)]

    def _thread(self, run: Cut) -> str:
        """The thread of a run; what stood before its cut is archived when it is first asked for."""
        if run.digest not in self._needs:
            self._needs[run.digest] = needs(run)
            self.records.archive(run.digest, "", _COMPACTION, run.old, now=0.0)
        return run.digest


def _tries(run: Cut, context: Sequence[BaseMessage], need: Need) -> Iterator[Wanted]:
    original = set[str]().union(*map(words_of, around(run.text, need.token)))
    yield from list(_handles(text_of(context), original))[:MOST_HANDLES]
    for query in queries(need, context):
        yield Wanted(query=query)


def _handles(context: str, original: set[str]) -> Iterator[Wanted]:
    """The handles that a context shows beside text with words that the identifier stood beside."""
    for shown in _HANDLES.finditer(context):
        near = context[max(0, shown.start() - BESIDE) : shown.start()] + context[shown.end() : shown.end() + BESIDE]
        if related(near, original):
            yield from (Wanted(handle=name) for name in shown[1].split(", ") if not _COMPACTION.startswith(name))
