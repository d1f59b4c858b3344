"""`auto_recall`: quote what the archive knows about the user's newest message, behind all messages of one request.

The quotation is in the request only: it is never stored, so it is never a rule, a pin or part of a summary. It stands
last, so that a provider's cache keeps everything before it.
"""

from collections.abc import Sequence
from itertools import takewhile

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.checkpoint import CheckpointError
from langgraph_compaction.checkpoint.compaction.original_conversation import is_original
from langgraph_compaction.checkpoint.compaction.search_terms import DEFAULT, query_terms

from ..conversation.message_marks import MARK, is_real_user, marks
from ..events import log
from ..summary.recall_answer import MOST_FOUND, quotation
from .effects import Effects
from .node_context import NodeContext

NAME = "archive-quotation"
"""The id of the message with the quotation."""
LEAST_SCORE = 0.5
"""Least score of the best hit; with one below, nothing is quoted. See `SearchHit.score`."""
SHARE_OF_BEST = 0.25
"""Hits with less than this share of the best score are not quoted."""
_FEW_TERMS = 4
"""With fewer terms, as in "yes, do that", a message is searched together with the answer that it refers to."""
_QUERY_CHARS = 2_000
"""Number of characters at the beginning and at the end of a long message that are searched."""


def quoted_archive(context: NodeContext) -> Effects[HumanMessage | None]:
    """Return the message with the quotation; `None` without `auto_recall`, a new user message, an archive or a hit.

    Where the archive cannot be read, the log says so and the request is sent without a quotation.
    """
    query = newest_words(context.messages) if context.may_quote_archive else ""
    most = context.meter.unscaled(context.sizes.recalled) if query else 0
    if most <= 0:
        return None
    try:
        text = yield from context.query(lambda: _quotation(context, query, most))
    except CheckpointError as error:
        log.warning("The archive could not be searched, and nothing is quoted from it: %s", error)
        return None
    if not text:
        return None
    return HumanMessage(text, id=NAME, additional_kwargs={MARK: {"is_meta": True}})


def newest_words(messages: Sequence[AnyMessage]) -> str:
    """Return the words to search for: those of the newest messages, if a user wrote them; else an empty text.

    If they are few, the words of the answer before them are added.
    """
    newest = list(takewhile(lambda message: isinstance(message, HumanMessage), reversed(messages)))
    said = "\n".join(message.text for message in reversed(newest) if is_real_user(message))
    if not said or marks(messages[-1]).get("refused"):
        return ""
    if len(query_terms(said[:_QUERY_CHARS], [DEFAULT])) < _FEW_TERMS:
        before = messages[-len(newest) - 1 :: -1]
        answer = next((one.text for one in before if isinstance(one, AIMessage) and one.text), "")
        said = f"{said}\n{_ends(answer)}"
    return _ends(said)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _QUERY_CHARS else f"{text[:_QUERY_CHARS]}\n{text[-_QUERY_CHARS:]}"


def _quotation(context: NodeContext, query: str, most: int) -> str:
    shown = {message.id for message in context.messages if is_original(message)}
    hits = context.records.search(context.thread_id or "", query, limit=MOST_FOUND)
    hits = [one for one in hits if is_original(one.message) and one.message.id not in shown]
    best = max((one.score for one in hits), default=0.0)
    if best < LEAST_SCORE:
        return ""
    hits = [one for one in hits if one.score >= SHARE_OF_BEST * best]
    return quotation(hits, query, max_tokens=most - _frame(context), counter=context.counter)


def _frame(context: NodeContext) -> int:
    """Return the tokens that a message takes besides its text."""
    return context.counter.message(HumanMessage("x")) - context.counter.text("x")
