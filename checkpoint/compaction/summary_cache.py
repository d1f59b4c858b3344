"""Paid summaries: each summary is stored before it is used, so that a crash does not lose the summary."""

import sqlalchemy as sa

from ..db import tables
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..usage import Usage
from .attempt import AttemptKey, SummaryRecord

_LISTED = "\x1e"
"""The control character "record separator", which stands before what the model listed."""

_summary, _ledger = tables.summary.c, tables.ledger.c


def write(transaction: Transaction, thread: Thread, compaction_id: str, record: SummaryRecord) -> None:
    """Store the summary of an input; it replaces the compaction's earlier summary of an equal input."""
    lookup = thread.codec.lookup_text(record.input_digest)
    transaction.execute(sa.delete(tables.summary).where(_same(thread.id, compaction_id, lookup)))
    has_list = record.listed or _LISTED in record.text
    text = f"{record.text}{_LISTED}{record.listed}" if has_list else record.text
    transaction.execute(
        sa.insert(tables.summary).values(
            thread=thread.id,
            compaction_id=compaction_id,
            input_digest=lookup,
            text=thread.codec.encode(row_name(compaction_id, lookup), text.encode("utf-8", "surrogatepass")),
            model=record.model,
            **record.usage.named(),
        )
    )


def read(transaction: Transaction, thread: Thread, key: AttemptKey, input_digest: str) -> SummaryRecord | None:
    """Return the newest summary of this input by an attempt with the namespace and level of `key`, or None.

    The attempt that made the summary can have begun with other messages: an attempt that crashed is repeated with the
    messages that arrived since the crash, and a fork has messages of its own. A summary that the gate rejected is not
    returned.
    """
    rejected = sa.func.coalesce(_ledger.verdict, "").like("rejected%")
    attempt = sa.and_(_ledger.thread == _summary.thread, _ledger.compaction_id == _summary.compaction_id)
    lookup = thread.codec.lookup_text(input_digest)
    query = (
        sa.select(tables.summary)
        .join(tables.ledger, attempt)
        .where(_summary.thread == thread.id, _summary.input_digest == lookup)
        .where(_ledger.namespace == key.namespace, _ledger.level == key.level, ~rejected)
        .order_by(_ledger.id.desc())
        .limit(1)
    )
    row = transaction.execute(query).mappings().one_or_none()
    if row is None:
        return None
    body = bytes(row["text"])
    whole = thread.codec.decode(row_name(row["compaction_id"], lookup), body).decode("utf-8", "surrogatepass")
    text, _, listed = whole.rpartition(_LISTED) if _LISTED in whole else (whole, "", "")
    return SummaryRecord(input_digest, text, row["model"], Usage.read(row), listed=listed)


def row_name(compaction_id: str, input_digest: str) -> str:
    """Return the name of a paid summary's row; `RowCodec` binds the row's encoded text to this name."""
    return f"summary {compaction_id} of input {input_digest}"


def _same(thread: int, compaction_id: str, input_digest: str) -> sa.ColumnElement[bool]:
    return sa.and_(
        _summary.thread == thread,
        _summary.compaction_id == compaction_id,
        _summary.input_digest == input_digest,
    )
