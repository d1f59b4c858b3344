"""Measures how many of the identifiers that a context has lost `recall` finds again in an archive in memory.

The archive holds every message before the cut. No policy removes that many messages, so an agent would search a
smaller archive and find more. An identifier is recoverable if one answer of at most 1,000 tokens contains it; the
line above each message in an answer, which shows the handle, does not count. At most two handles are tried first:
handles of single messages that the context shows within 200 characters of two words that were within 80 characters of
the identifier. Then follow the queries of `recall_questions`, at most five. The handle of a compaction, which stands
for the whole thread, is never tried. The figure "by chance" uses the queries of another run, because an answer holds
much of a short conversation whatever the query is.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.patterns import MULTILINE, Pattern
from langgraph_compaction.nodes.summary.recall_answer import answer

from ...recall_tool import MAX_TOKENS, Wanted, look_up
from .policies import COUNTER
from .recall_questions import Need, needs, queries
from .survival import Cut, around, holds, related, text_of, words_of

RECOVERED = (
    "Recoverable: of the identifiers that a context has lost, those that one recall of at most 1,000 tokens finds, "
    "by a query of at most four words that the agent knows at that time, or by a handle near related text; at most "
    "seven are tried. By chance: those that the queries of another run find."
)
"""The text that explains the columns "recoverable" and "by chance" below a table."""

BESIDE = 200
"""Number of characters on either side of a handle that are searched for related words."""
MOST_HANDLES = 2

_COMPACTION = "0" * 16
_HANDLES = Pattern(r"\[recall: ([0-9a-f, ]++)\]")
_HEADLINE = Pattern(r"^\[[0-9a-f]{12} [^\]\n]*+\]$", MULTILINE)


class Lost(NamedTuple):
    """An identifier that a context has lost, and the searches by which an agent tries to find it, in order."""

    token: str
    asked: tuple[Wanted, ...]


class Archive:
    """An archive of the messages before the cuts of runs, one thread per run, with a cache of the answers."""

    def __init__(self, database: Database) -> None:
        """Take an open database whose tables exist and are empty."""
        self.records = CompactionRecords(database)
        self._needs: dict[str, dict[str, Need]] = {}
        self._answers: dict[tuple[str, Wanted], str] = {}

    def lost(self, run: Cut, context: Sequence[BaseMessage], tokens: Sequence[str]) -> list[Lost]:
        """Return, for each lost identifier in `tokens`, the searches that an agent with this context would try."""
        found = self._needs_of(run)
        return [Lost(token, tuple(_tries(run, context, found[token]))) for token in tokens]

    def calls(self, run: Cut, lost: Lost) -> int | None:
        """Return how many searches of the archive it takes to find the identifier; `None` if no search finds it."""
        for place, wanted in enumerate(lost.asked, 1):
            if not holds(wanted.query, lost.token) and holds(self._answer(run, wanted), lost.token):
                return place
        return None

    def _answer(self, run: Cut, wanted: Wanted) -> str:
        thread = self._thread(run)
        if (thread, wanted) not in self._answers:
            found = look_up(self.records, thread, wanted)
            text = answer(found, wanted.query, max_tokens=MAX_TOKENS, counter=COUNTER)
            self._answers[thread, wanted] = without_headlines(text)
        return self._answers[thread, wanted]

    def _needs_of(self, run: Cut) -> dict[str, Need]:
        return self._needs[self._thread(run)]

    def _thread(self, run: Cut) -> str:
        """Return the conversation thread of a run; the first call archives the messages before the run's cut."""
        if run.digest not in self._needs:
            self._needs[run.digest] = needs(run)
            self.records.archive(run.digest, "", _COMPACTION, run.old, now=0.0)
        return run.digest


def without_headlines(text: str) -> str:
    """Return an answer of `recall` without the lines above its messages, which show handles."""
    return _HEADLINE.sub("", text)


def _tries(run: Cut, context: Sequence[BaseMessage], need: Need) -> Iterator[Wanted]:
    original = set[str]().union(*map(words_of, around(run.text, need.token)))
    yield from list(_handles(text_of(context), original))[:MOST_HANDLES]
    for query in queries(need, context):
        yield Wanted(query=query)


def _handles(context: str, original: set[str]) -> Iterator[Wanted]:
    """Yield the handles that the context shows near words from the identifier's original surroundings."""
    for shown in _HANDLES.finditer(context):
        near = context[max(0, shown.start() - BESIDE) : shown.start()] + context[shown.end() : shown.end() + BESIDE]
        if related(near, original):
            yield from (Wanted(handle=name) for name in shown[1].split(", ") if not _COMPACTION.startswith(name))
