"""Large values that are not messages: each value is stored once per thread, under a number."""

from collections.abc import Iterable, Sequence
from functools import cache

import sqlalchemy as sa

from ..db import tables
from ..db.statements import any_of, in_groups
from ..db.thread_row import Thread, note
from ..db.write_recorder import WriteRecorder
from ..errors import RowError
from .message_codec import content_hash

_blob = tables.blob.c


def add(conn: sa.Connection, thread: Thread, values: Sequence[bytes]) -> list[int]:
    """Store the values that are new, and return each value's number.

    The function increases `thread.next_blob`; the caller saves the thread's row.
    """
    if not values:
        return []
    hashes = [thread.codec.lookup_hash(content_hash(value)) for value in values]
    known: dict[bytes, int] = {}
    remembered = thread.known.blobs
    known.update((lookup_hash, remembered[lookup_hash]) for lookup_hash in hashes if lookup_hash in remembered)
    recording = isinstance(conn, WriteRecorder)
    for size, group in in_groups([] if recording else [name for name in hashes if name not in known]):
        rows = conn.execute(_by_hash(size), {"thread": thread.id, **group})
        known.update((bytes(lookup_hash), number) for lookup_hash, number in rows)
    new: list[dict[str, object]] = []
    for value, lookup_hash in zip(values, hashes, strict=True):
        if lookup_hash not in known:
            known[lookup_hash] = number = thread.next_blob
            thread.next_blob += 1
            body = thread.codec.encode(f"blob {number}", value)
            new.append({"thread": thread.id, "number": number, "hash": lookup_hash, "body": body})
    if isinstance(conn, WriteRecorder):
        for row in new:
            conn.insert(tables.blob, row)
    elif new:
        conn.execute(sa.insert(tables.blob), new)
    for lookup_hash in hashes:
        note(remembered, lookup_hash, known[lookup_hash])
    return [known[lookup_hash] for lookup_hash in hashes]


def get(conn: sa.Connection, thread: Thread, numbers: Iterable[int]) -> dict[int, bytes]:
    """Return values by their numbers; raise `RowError`, naming the row, if a row is missing or damaged."""
    wanted = sorted(set(numbers))
    found: dict[int, bytes] = {}
    for size, group in in_groups(wanted):
        rows = conn.execute(_by_number(size), {"thread": thread.id, **group})
        found.update((number, thread.codec.decode(f"blob {number}", bytes(body))) for number, body in rows)
    for number in wanted:
        if number not in found:
            raise RowError(f"{thread.codec.describe(f'blob {number}')} is missing")
    return found


_OURS = _blob.thread == sa.bindparam("thread")


@cache
def _by_hash(size: int) -> sa.Select[bytes, int]:
    return sa.select(_blob.hash, _blob.number).where(_OURS, any_of(_blob.hash, size))


@cache
def _by_number(size: int) -> sa.Select[int, bytes]:
    return sa.select(_blob.number, _blob.body).where(_OURS, any_of(_blob.number, size))
