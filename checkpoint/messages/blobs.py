"""Large values that are not messages: each value is stored once per thread, under a number."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

import sqlalchemy as sa

from ..db import tables
from ..db.statements import any_of, in_groups, insert_new
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
    remembered = thread.known.blobs
    known = {lookup_hash: remembered[lookup_hash] for lookup_hash in hashes if lookup_hash in remembered}
    new = {name: value for name, value in zip(hashes, values, strict=True) if name not in known}
    # a single value, the usual case, need not be looked up: the insert tells whether the value is new
    if len(new) > 1 and not isinstance(conn, WriteRecorder):
        known.update(_numbers(conn, thread, list(new)))
        new = {name: value for name, value in new.items() if name not in known}
    known.update(_insert(conn, thread, new))
    for lookup_hash in hashes:
        note(remembered, lookup_hash, known[lookup_hash])
    return [known[lookup_hash] for lookup_hash in hashes]


def _numbers(conn: sa.Connection, thread: Thread, hashes: Sequence[bytes]) -> dict[bytes, int]:
    """Return the numbers of the stored values by lookup hash."""
    found: dict[bytes, int] = {}
    for size, group in in_groups(hashes):
        rows = conn.execute(_by_hash(size), {"thread": thread.id, **group})
        found.update((bytes(lookup_hash), number) for lookup_hash, number in rows)
    return found


def _insert(conn: sa.Connection, thread: Thread, new: Mapping[bytes, bytes]) -> dict[bytes, int]:
    """Store values, and return their numbers by lookup hash.

    Nothing is stored if there is only one value and the thread already has it: then its number is returned.
    """
    numbers = {lookup_hash: thread.next_blob + at for at, lookup_hash in enumerate(new)}
    rows = [
        {
            "thread": thread.id,
            "number": numbers[name],
            "hash": name,
            "body": thread.codec.encode(f"blob {numbers[name]}", value),
        }
        for name, value in new.items()
    ]
    if len(rows) == 1 or isinstance(conn, WriteRecorder):
        if not all(insert_new(conn, tables.blob, row) for row in rows):
            if found := _numbers(conn, thread, list(new)):
                return found
            name = thread.codec.describe(f"blob {thread.next_blob}")
            raise RowError(f"{name} exists, but the thread's row counts fewer blobs")
    elif rows:
        conn.execute(sa.insert(tables.blob), rows)
    thread.next_blob += len(rows)
    return numbers


def get(
    conn: sa.Connection, thread: Thread, numbers: Iterable[int], stored: Mapping[int, bytes] = MappingProxyType({})
) -> dict[int, bytes]:
    """Return values by their numbers; raise `RowError`, naming the row, if a row is missing or damaged.

    Rows whose bodies are in `stored`, by number, are not read again.
    """
    wanted = sorted(set(numbers))
    bodies = {number: stored[number] for number in wanted if number in stored}
    for size, group in in_groups([number for number in wanted if number not in bodies]):
        bodies.update(conn.execute(_by_number(size), {"thread": thread.id, **group}).all())
    for number in wanted:
        if number not in bodies:
            raise RowError(f"{thread.codec.describe(f'blob {number}')} is missing")
    return {number: thread.codec.decode(f"blob {number}", bytes(body)) for number, body in bodies.items()}


_OURS = _blob.thread == sa.bindparam("thread")


@cache
def _by_hash(size: int) -> sa.Select[bytes, int]:
    return sa.select(_blob.hash, _blob.number).where(_OURS, any_of(_blob.hash, size))


@cache
def _by_number(size: int) -> sa.Select[int, bytes]:
    return sa.select(_blob.number, _blob.body).where(_OURS, any_of(_blob.number, size))
