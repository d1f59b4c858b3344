"""Large values that are not messages, each stored once per thread, under numbers of their own."""

from collections.abc import Iterable, Sequence
from functools import cache

import sqlalchemy as sa

from ..db import tables
from ..db.statements import any_of, in_groups
from ..db.thread_row import Thread
from ..errors import RowError
from .message_codec import content_hash

_blob = tables.blob.c


def add(conn: sa.Connection, thread: Thread, values: Sequence[bytes]) -> list[int]:
    """Store what is not yet there and return each value's number. The thread's counters are not saved yet."""
    if not values:
        return []
    hashes = [thread.codec.lookup_hash(content_hash(value)) for value in values]
    known: dict[bytes, int] = {}
    for size, group in in_groups(hashes):
        rows = conn.execute(_by_hash(size), {"thread": thread.id, **group})
        known.update((bytes(name), number) for name, number in rows)
    fresh: list[dict[str, object]] = []
    for value, name in zip(values, hashes, strict=True):
        if name not in known:
            known[name] = number = thread.next_blob
            thread.next_blob += 1
            body = thread.codec.encode(f"blob {number}", value)
            fresh.append({"thread": thread.id, "number": number, "hash": name, "body": body})
    if fresh:
        conn.execute(sa.insert(tables.blob), fresh)
    return [known[name] for name in hashes]


def get(conn: sa.Connection, thread: Thread, numbers: Iterable[int]) -> dict[int, bytes]:
    """Return the values by their numbers; RowError names one that is missing or damaged."""
    wanted = sorted(set(numbers))
    found: dict[int, bytes] = {}
    for size, group in in_groups(wanted):
        rows = conn.execute(_by_number(size), {"thread": thread.id, **group})
        found.update((number, thread.codec.decode(f"blob {number}", bytes(body))) for number, body in rows)
    for number in wanted:
        if number not in found:
            raise RowError(f"{thread.codec.describe(f'blob {number}')} is missing")
    return found


@cache
def _by_hash(size: int) -> sa.Select[bytes, int]:
    return sa.select(_blob.hash, _blob.number).where(_OURS, any_of(_blob.hash, size))


@cache
def _by_number(size: int) -> sa.Select[int, bytes]:
    return sa.select(_blob.number, _blob.body).where(_OURS, any_of(_blob.number, size))


_OURS = _blob.thread == sa.bindparam("thread")
