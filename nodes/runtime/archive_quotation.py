"""`auto_recall`: quote what the archive knows about the user's newest message, behind all messages of one request.

The quotation is in the request only: it is never stored, so it is never a rule, a pin or part of a summary. It stands
last, so that a provider's cache keeps everything before it.
"""

from collections.abc import Sequence
from itertools import islice, takewhile

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.checkpoint import CheckpointError, CompactionRecords
from langgraph_compaction.checkpoint.compaction.original_conversation import is_original
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.compaction.search_terms import DEFAULT, query_terms

from ..conversation.message_marks import MARK, is_real_user, marks
from ..conversation.tokens import call_texts
from ..events import log
from ..summary.recall_answer import MOST_FOUND, quotation
from ..text.identifiers import identifiers
from .effects import Effects
from .node_context import NodeContext

NAME = "archive-quotation"
"""The id of the message with the quotation."""
LEAST_SCORE = 0.5
"""Least score of the best hit; with one below, nothing is quoted. See `SearchHit.score`."""
SHARE_OF_BEST = 0.2
"""Hits with less than this share of the best score are not quoted."""
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
    """Return the message with the quotation; `None` without `auto_recall`, a new user message, an archive or a hit.

    Where the archive cannot be read, the log says so and the request is sent without a quotation.
    """
    wanted = context.may_quote_archive and bool(_newest(context.messages)[0])
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


def found_for(records: CompactionRecords, thread: str, messages: Sequence[AnyMessage]) -> tuple[str, list[SearchHit]]:
    """Return the query for the newest messages, if a user wrote them, and the archived messages to quote.

    A message of `_ENOUGH` terms or more must itself be about something in the archive. A shorter one such as "yes, do
    that" says nothing alone. Both are then searched with what they refer to (see `_context`).
    """
    said, _ = _newest(messages)
    if not said:
        return "", []
    if len(query_terms(said, [DEFAULT])) >= _ENOUGH and _best(records.search(thread, said, limit=1)) < LEAST_SCORE:
        return said, []
    query = query_for(messages)
    shown = {message.id for message in messages if is_original(message)}
    hits = records.search(thread, query, limit=MOST_FOUND, follow=True)
    hits = [one for one in hits if is_original(one.message) and one.message.id not in shown]
    best = _best(hits)
    return query, [one for one in hits if best >= LEAST_SCORE and one.score >= SHARE_OF_BEST * best]


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
    query, hits = found_for(context.records, context.thread_id or "", context.messages)
    return quotation(hits, query, max_tokens=most - _frame(context), counter=context.counter) if hits else ""


def _frame(context: NodeContext) -> int:
    """Return the tokens that a message takes besides its text."""
    return context.counter.message(HumanMessage("x")) - context.counter.text("x")
