"""The ledger: one row for each compaction attempt. Every writer of the ledger holds the lock of the thread's row."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypedDict

import sqlalchemy as sa

from ..db import tables
from ..db.columns import printable
from ..db.row_codec import expect_types, intact
from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..errors import UnknownAttemptError
from ..usage import FREE
from . import snapshots
from .attempt import AttemptKey, LedgerRow, Outcome

_ledger = tables.ledger.c
ABANDONED = "abandoned"
PREPARING = "ahead"
"""The trigger of the rows of summaries that are prepared in the background."""
PREPARED = "prepared"
"""The verdict of these rows, where there is a summary."""
READY, SWAPPED = "ready", "swapped"
"""The reasons beside this verdict: not used; used by a commit."""
_BOUND = ("namespace", "level", "attempt", "parent_id", "checkpoint_id", "epoch")
"""Columns to which a row's encoded content is bound: they name the compaction and checkpoint on which it builds."""


class Opening(TypedDict):
    """The facts about an attempt when it begins."""

    parent_id: str | None
    """compaction_id of the committed compaction on which the attempt builds, or None."""
    checkpoint_id: str | None
    epoch: int
    trigger: str
    strategy: str
    tokens_before: int
    counter: str


def begin(
    transaction: Transaction, thread: Thread, key: AttemptKey, opening: Opening, *, now: float, fresh: bool
) -> None:
    """Insert the attempt's row without a verdict, which marks the attempt as open.

    If the row exists, it is opened again if the attempt was abandoned, or if `fresh` is True: then the attempt has no
    snapshot, so `note` wrote the row and the attempt itself has not begun before. Any other row is left as it is.
    """
    found = _find(transaction, thread.id, key.compaction_id)
    if found is None:
        _insert(transaction, thread, key, opening, started_at=now)
    elif fresh or found["verdict"] == ABANDONED:
        values = {**opening, "verdict": None, "reason": "", "detail": "", "started_at": now, "ended_at": None}
        _update(transaction, thread, key.compaction_id, found, values)


def close(transaction: Transaction, thread: Thread, key: AttemptKey, outcome: Outcome) -> None:
    """Write the verdict, also over an earlier verdict; raise `UnknownAttemptError` if the attempt has no row."""
    found = _find(transaction, thread.id, key.compaction_id)
    if found is None:
        raise UnknownAttemptError(
            f"attempt {key.compaction_id} of thread {key.thread_id!r} is not in the ledger: "
            "call `begin` or `note` first"
        )
    _update(transaction, thread, key.compaction_id, found, _ending(outcome))


def note(transaction: Transaction, thread: Thread, key: AttemptKey, opening: Opening, outcome: Outcome) -> None:
    """Write the row, with its verdict, of an attempt that never began (for example because a person declined it).

    If an attempt with this key has begun (it has a snapshot) and has a verdict, its row is left as it is.
    """
    found = _find(transaction, thread.id, key.compaction_id)
    if found is None:
        _insert(transaction, thread, key, opening, started_at=outcome.now, **_ending(outcome))
    elif found["verdict"] is None or snapshots.read(transaction, thread, key.compaction_id) is None:
        close(transaction, thread, key, outcome)


def abandon(transaction: Transaction, thread: int, namespace: str, *, keep: AttemptKey | None, now: float) -> int:
    """Close every open row of the namespace, except the row of `keep`, as abandoned; return how many rows changed."""
    still_open = sa.and_(_ledger.thread == thread, _ledger.namespace == namespace, _ledger.verdict.is_(None))
    if keep is not None:
        still_open &= _ledger.compaction_id != keep.compaction_id
    done = transaction.execute(sa.update(tables.ledger).where(still_open).values(verdict=ABANDONED, ended_at=now))
    return done.rowcount


def settle(transaction: Transaction, thread: Thread, compaction_id: str, *, verdict: str, reason: str) -> None:
    """Write what became of a prepared summary. The cost of one that was used is in the row of the compaction."""
    values: dict[str, Any] = {"verdict": verdict, "reason": reason}
    if reason == SWAPPED:
        values |= FREE.named("summary_")
    same = sa.and_(_ledger.thread == thread.id, _ledger.compaction_id == compaction_id)
    transaction.execute(sa.update(tables.ledger).where(same).values(values))


def rows(transaction: Transaction, thread: Thread, namespace: str | None) -> list[LedgerRow]:
    """Return a thread's attempts in one namespace or (None) in all, in the order in which their rows were added."""
    query = sa.select(tables.ledger).where(_ledger.thread == thread.id).order_by(_ledger.id)
    if namespace is not None:
        query = query.where(_ledger.namespace == namespace)
    return [_row(thread, dict(row)) for row in transaction.execute(query).mappings()]


def open_attempts(transaction: Transaction, thread: int) -> list[str]:
    """Return the compaction_ids of the attempts that have no verdict yet."""
    query = sa.select(_ledger.compaction_id).where(_ledger.thread == thread, _ledger.verdict.is_(None))
    return list(transaction.execute(query).scalars())


def row_name(compaction_id: str) -> str:
    """Return the name of an attempt's ledger row; `RowCodec` binds the row's encoded texts to this name."""
    return f"ledger row {compaction_id}"


def parents(transaction: Transaction, thread: Thread) -> dict[str, str | None]:
    """Return the parent_id of each attempt of the thread, by compaction_id; raise `RowError` for a changed row."""
    query = sa.select(_ledger.compaction_id, _ledger.content, *(_ledger[name] for name in _BOUND))
    found: dict[str, str | None] = {}
    for row in transaction.execute(query.where(_ledger.thread == thread.id)).mappings():
        _decode_content(thread, row["compaction_id"], row)
        found[row["compaction_id"]] = row["parent_id"]
    return found


def _find(transaction: Transaction, thread: int, compaction_id: str) -> sa.RowMapping | None:
    query = sa.select(_ledger.id, _ledger.verdict, _ledger.content, *(_ledger[name] for name in _BOUND))
    found = transaction.execute(query.where(_ledger.thread == thread, _ledger.compaction_id == compaction_id))
    return found.mappings().one_or_none()


def _insert(transaction: Transaction, thread: Thread, key: AttemptKey, opening: Opening, **rest: Any) -> None:
    own = {field: value for field, value in asdict(key).items() if field != "thread_id"}
    values = {"reason": "", **own, **opening, **rest}
    texts = _take_content(values, {"base_fingerprint": "", "detail": "", "summary": None})
    content = encode_content(thread, key.compaction_id, texts, values)
    row = {"thread": thread.id, "compaction_id": key.compaction_id, **values, "content": content}
    transaction.execute(sa.insert(tables.ledger).values(row))


def _update(
    transaction: Transaction, thread: Thread, name: str, found: sa.RowMapping, values: dict[str, Any]
) -> None:
    content = _take_content(values, _decode_content(thread, name, found))
    row = {**values, "content": encode_content(thread, name, content, {**found, **values})}
    transaction.execute(sa.update(tables.ledger).where(_ledger.id == found["id"]).values(row))


def _take_content(values: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Remove from `values` the texts that can quote the conversation, and return these texts to be stored encoded."""
    taken = {field: values.pop(field, held) for field, held in before.items()}
    return {field: None if text is None else printable(text) for field, text in taken.items()}


def encode_content(thread: Thread, compaction_id: str, content: dict[str, Any], columns: Mapping[str, Any]) -> bytes:
    """Encode the column `content` of a row, which holds the base fingerprint, the detail and the summary.

    The result is bound to those of the other `columns` that `bound_columns` reads.
    """
    name = row_name(compaction_id)
    return thread.codec.encode(name, json.dumps(content).encode(), bound=bound_columns(columns))


def bound_columns(columns: Mapping[Any, Any]) -> str:
    """Return the columns of a row to which its content is bound, as a text."""
    return json.dumps([columns[name] for name in _BOUND])


def _decode_content(thread: Thread, compaction_id: str, columns: Mapping[Any, Any]) -> dict[str, Any]:
    name, body = row_name(compaction_id), bytes(columns["content"])
    content: dict[str, Any] = json.loads(thread.codec.decode(name, body, bound=bound_columns(columns)))
    return content


def _ending(outcome: Outcome) -> dict[str, Any]:
    known = {field: value for field, value in asdict(outcome).items() if value is not None}
    known["ended_at"] = known.pop("now")
    if outcome.usage is not None:
        del known["usage"]
        known |= outcome.usage.named("summary_")
    window = known.pop("window", None)
    if window or "seen" in known:
        known["seen"] = json.dumps({**known.get("seen", {}), **({"window": window} if window else {})})
    return known


def _row(thread: Thread, columns: dict[str, Any]) -> LedgerRow:
    del columns["thread"]
    seen = columns.pop("seen")
    name = columns["compaction_id"]
    content = _decode_content(thread, name, columns)
    del columns["content"]
    found = _decode_seen(thread, name, seen)
    window = found.pop("window", None) if found else None
    return LedgerRow(**columns, **content, thread_id=thread.thread_id, seen=found or None, window=window)


def _decode_seen(thread: Thread, compaction_id: str, seen: str | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    with intact(thread.codec.describe(row_name(compaction_id))):
        found: dict[str, Any] = json.loads(seen)
        expect_types((found, dict))
    return found
