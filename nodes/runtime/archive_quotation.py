"""Automatic recall: quote what the archive knows about the user's newest message, behind all messages of one request.

The quotation is in the request only: it is never stored, so it is never a rule, a pin or part of a summary. It stands
last, so that a provider's cache keeps everything before it.
"""

from collections.abc import Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import islice, takewhile
from typing import NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.checkpoint import CheckpointError, CompactionRecords
from langgraph_compaction.checkpoint.compaction.original_conversation import is_original
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.compaction.search_index import text_of
from langgraph_compaction.checkpoint.compaction.search_terms import (
    DEFAULT,
    identifier_terms,
    query_terms,
    terms,
    tokens,
)

from ..conversation.message_marks import MARK, is_real_user, marks
from ..conversation.tokens import TokenCounter, call_texts
from ..events import log
from ..summary.quotation import Passage, new_passages, quotation
from ..text.identifiers import identifiers
from .effects import Effects
from .node_context import NodeContext

NAME = "archive-quotation"
"""The id of the message with the quotation."""
LEAST_SCORE = 0.5
"""Least score of the best hit; with one below, nothing is quoted. See `SearchHit.score`."""
_ASKED_SCORE = 2.0
"""Least score of the best hit for what a message says that is not in view, so that the message asks for the archive:
that of an identifier or of a few rare words."""
_ANSWERS = 2
"""Number of messages found for what a message asks that come before all others."""
_ASKED_TOKENS = 200
"""Maximum number of tokens of a quotation that is asked for, but worth less than `_LEAST_WORTH`."""
_LEAST_WORTH = 7.0
"""Least worth of the `_BEST_PIECES` best pieces together for which the archive is quoted unasked: several identifiers
that are not in view, in messages that are found nearly as well as the best."""
_BEST_PIECES = 3
MOST_COMPARED = 32
"""Maximum number of found messages whose passages are compared."""
_ENOUGH = 4
"""Number of different terms from which on a message says what it is about."""
_EARLIER = 2
"""Number of earlier messages of the user whose words are searched too."""
_CALLS = 8
"""Number of newest calls whose identifiers are searched too: the values that the agent works with."""
_CONTEXT_CHARS = 2_000
"""Number of characters of each call, and of each message before the newest ones, that are read for the search."""
_QUERY_CHARS = 2_000
"""Number of characters at the beginning and at the end of a long message that are searched."""


def quoted_archive(context: NodeContext) -> Effects[HumanMessage | None]:
    """Return the message with the quotation; `None` without a new user message, an archive or a hit.

    Where the archive cannot be read, the log says so and the request is sent without a quotation.
    """
    wanted = context.epoch > 0 and bool(_newest(context.messages)[0])
    most = context.meter.unscaled(context.sizes.recalled) if wanted else 0
    if most <= 0:
        return None
    try:
        text = yield from context.query(lambda: _quotation(context, most))
    except CheckpointError as error:
        log.warning("The archive could not be searched, and nothing is quoted from it: %s", error)
        return None
    if not text:
        return None
    return HumanMessage(text, id=NAME, additional_kwargs={MARK: {"is_meta": True}})


class ArchiveMatch(NamedTuple):
    """What a search for the newest messages found."""

    query: str = ""
    hits: Sequence[SearchHit] = ()
    is_asked: bool = False
    """Whether a message asks for something in the archive that is not in view."""


def found_for(records: CompactionRecords, thread: str, messages: Sequence[AnyMessage]) -> ArchiveMatch:
    """Return the query for the newest messages, if a user wrote them, and the archived messages to quote.

    What they say and the messages before do not must itself be about something in the archive, if it has `_ENOUGH`
    terms or an identifier. A shorter one such as "yes, do that" says nothing alone. Both are then searched with what
    they refer to (see `_context`).
    """
    said, before = _newest(messages)
    if not said:
        return ArchiveMatch()
    others = [*before, *(one for one in messages[len(before) :] if not is_real_user(one))]  # such as a summary
    lacking, direct = _not_in(others, said), list[SearchHit]()
    speaks = len(query_terms(lacking, [DEFAULT])) >= _ENOUGH or bool(identifier_terms(lacking))
    if speaks and _best(direct := records.search(thread, lacking, limit=_ANSWERS)) < LEAST_SCORE:
        return ArchiveMatch(said)
    is_asked = _best(direct) >= _ASKED_SCORE
    query = query_for(messages)
    shown = {message.id for message in messages if is_original(message)}
    found = records.search(thread, query, limit=MOST_COMPARED, follow=True)
    hits = [one for one in (_first(direct, found) if is_asked else found) if one.message.id not in shown]
    hits = [one for one in hits if is_original(one.message)]
    return ArchiveMatch(query, hits if _best(hits) >= LEAST_SCORE else (), is_asked)


def _first(direct: Sequence[SearchHit], found: Sequence[SearchHit]) -> list[SearchHit]:
    """Return the messages found for what a message asks before all others; the best one has the best score of all."""
    ahead = max(1.0, _best(found) / _best(direct))
    raised = [replace(one, score=one.score * ahead) for one in direct]
    known = {one.handle for one in raised}
    return [*raised, *(one for one in found if one.handle not in known)]


def _not_in(before: Sequence[AnyMessage], said: str) -> str:
    view = "\n".join(map(text_of, before)).casefold()
    return " ".join(word for word in tokens(said) if not all(term in view for term in terms(word)))


def passages_for(
    messages: Sequence[AnyMessage], query: str, found: Sequence[SearchHit], *, max_tokens: int, counter: TokenCounter
) -> list[Passage]:
    """Return the passages of found messages that add the most to the messages, for a quotation of `max_tokens`."""
    if not found:
        return []
    view = "\n".join(text_of(message) for message in messages)
    return new_passages(found, query, view, max_tokens=max_tokens, counter=counter)


def query_for(messages: Sequence[AnyMessage]) -> str:
    """Return the newest messages and what they refer to (see `_context`); empty if no user wrote them."""
    said, before = _newest(messages)
    return "\n".join([said, *_context(before)]) if said else ""


def _best(hits: Sequence[SearchHit]) -> float:
    return max((one.score for one in hits), default=0.0)


def _newest(messages: Sequence[AnyMessage]) -> tuple[str, Sequence[AnyMessage]]:
    """Return what users have said since the last answer, and the messages before; an empty text if they have not."""
    newest = list(takewhile(lambda message: isinstance(message, HumanMessage), reversed(messages)))
    said = [message.text for message in reversed(newest) if is_real_user(message)]
    if not said or marks(messages[-1]).get("refused"):
        return "", messages
    return _ends("\n".join(said)), messages[: len(messages) - len(newest)]


def _context(before: Sequence[AnyMessage]) -> list[str]:
    """Return what a message may refer to: the last answer, the user's messages before it, and identifiers.

    The identifiers are those in the newest calls: the values that the agent works with.
    """
    answers = [message for message in reversed(before) if isinstance(message, AIMessage)]
    texts = [
        *islice((one.text for one in answers if one.text), 1),
        *islice((one.text for one in reversed(before) if is_real_user(one)), _EARLIER),
    ]
    calls = islice((call for one in answers for call in reversed(call_texts(one))), _CALLS)
    named = dict.fromkeys(name for call in calls for name in identifiers(call[:_CONTEXT_CHARS]))
    return [text[:_CONTEXT_CHARS] for text in (*texts, " ".join(named)) if text]


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _QUERY_CHARS else f"{text[:_QUERY_CHARS]}\n{text[-_QUERY_CHARS:]}"


def _quotation(context: NodeContext, most: int) -> str:
    found = found_for(context.records, context.thread_id or "", context.messages)
    most -= _frame(context)

    def passages(max_tokens: int) -> list[Passage]:
        counter = context.counter
        return passages_for(context.messages, found.query, found.hits, max_tokens=max_tokens, counter=counter)

    best = passages(most)
    if sum(nlargest(_BEST_PIECES, (worth for passage in best for worth in passage.worths))) >= _LEAST_WORTH:
        return quotation(best)
    return quotation(passages(min(most, _ASKED_TOKENS))) if found.is_asked else ""


def _frame(context: NodeContext) -> int:
    """Return the tokens that a message takes besides its text."""
    return context.counter.message(HumanMessage("x")) - context.counter.text("x")
