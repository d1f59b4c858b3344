"""A checkpoint as the database holds it: its values are nodes, and no message is touched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import ormsgpack

from ..db.thread_row import Thread
from ..errors import intact
from ..messages.row_bodies import expect_types, unpacked
from .pending_writes import Write

_OPTION = ormsgpack.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A checkpoint; `values` are nodes by channel, `metadata` and `rest` are (type, bytes)."""

    namespace: str
    number: int
    id: str
    parent: str | None
    run: str | None
    v: int
    ts: str
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: list[str] | None
    values: dict[str, Any]
    metadata: tuple[str, bytes]
    rest: tuple[str, bytes] | None
    writes: tuple[Write, ...] | None = None
    """What its tasks wrote, where that stands in the same row; None where each task has a row."""

    @property
    def row(self) -> str:
        """The row's name within its thread."""
        return row_name(self.namespace, self.id)

    @property
    def place(self) -> tuple[str, str]:
        """Its namespace and id."""
        return self.namespace, self.id

    @property
    def content(self) -> list[Any]:
        """What of it is not needed to find it, for msgpack."""
        return [
            *(self.v, self.ts, self.versions, self.seen, self.updated),
            *(self.values, self.metadata, self.rest),
        ]

    @classmethod
    def of(cls, content: Sequence[Any], **found: Any) -> Self:
        """Build a checkpoint from its `content` and what it is found by; a TypeError or ValueError for no such."""
        v, ts, versions, seen, updated, values, metadata, rest = content
        expect_types((v, int), (ts, str), (versions, dict), (seen, dict), (values, dict))
        expect_types(*((held, dict) for held in seen.values()))
        return cls(
            v=v,
            ts=ts,
            versions=versions,
            seen=seen,
            updated=updated if updated is None else list(updated),
            values=values,
            metadata=_pair(metadata),
            rest=rest and _pair(rest),
            **found,
        )

    def at(self, number: int) -> Self:
        """Return the same checkpoint under the number of one whose place it takes."""
        return replace(self, number=number)

    def closed(self, thread: Thread) -> bytes:
        """Return the body of its own row."""
        data = ormsgpack.packb(self.content, option=_OPTION)
        return thread.seal.close(self.row, data, beside=beside(self.number, self.parent, self.run))


def opened(thread: Thread, row: Mapping[Any, Any]) -> Stored:
    """Read a checkpoint's own row; RowError names one that is damaged."""
    name = row_name(row["namespace"], row["id"])
    found = {key: row[key] for key in ("namespace", "number", "id", "parent", "run")}
    with intact(thread.seal.name(name)):
        bound = beside(row["number"], row["parent"], row["run"])
        return Stored.of(unpacked(thread, name, bytes(row["body"]), bound), **found)


def row_name(namespace: str, checkpoint_id: str) -> str:
    """Return a checkpoint row's name within its thread."""
    return f"checkpoint {checkpoint_id} in {namespace!r}"


def named_row(thread: Thread, namespace: str, checkpoint_id: str) -> str:
    """Return a checkpoint row's name with the id that its thread has for the application."""
    return f"{row_name(namespace, checkpoint_id)} of thread {thread.thread_id!r}"


def beside(number: int, parent: str | None, run: str | None) -> str:
    """Return what a checkpoint's body is bound to besides its name."""
    return f"{number} {parent} {run}"


def _pair(typed: Any) -> tuple[str, bytes]:
    kind, data = typed
    expect_types((kind, str), (data, bytes))
    return kind, data
