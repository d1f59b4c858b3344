"""The places at which each turn is killed: all of the plain turn, and of other turns those that only they have.

In a default run, places of the plain turn that leave the same files as the place before are skipped.
"""

from collections.abc import Iterator

from tests.full import FULL

SQL = {
    "selective_compaction": ("begin", "abandon_open"),
    "summarize": ("record_summary",),
    "commit": ("commit",),
    "rollback": ("close",),
}
"""What the nodes write, in order."""


def around(name: str, *moments: str) -> Iterator[str]:
    """Return the places around one operation."""
    return (f"{name}:{moment}" for moment in moments)


def along(*nodes: str) -> Iterator[str]:
    """Return every place of a run through these nodes."""
    yield from around("put input", "before", "after")
    for node, following in zip(("", *nodes), (*nodes, "end"), strict=True):
        if node:
            yield f"{node}:enter"
            for write in SQL.get(node, ()):
                yield from around(f"sql {write}", "before", "inside", "after")
            yield f"{node}:leave"
        yield from around(f"writes to {following}", "before", "after")
        yield from around(f"put to {following}", "before", "after")


def leaves_the_same(place: str) -> bool:
    """Whether a kill here leaves the same files as a kill at the place before, as nothing was written in between."""
    if place.endswith(":before"):
        return not place.startswith("put ")
    return place.endswith(":enter") or place == "sql abandon_open:inside"


PLAIN = tuple(along("token_check", "selective_compaction", "summarize", "commit", "model"))
"""Every place of the plain turn."""

PLACES: dict[str, tuple[str, ...]] = {
    "precheck": PLAIN if FULL else tuple(p for p in PLAIN if not leaves_the_same(p)),
    "check": (
        "model:leave",
        "put to selective_compaction:after",
        *around("sql begin", "after"),
        *around("sql record_summary", "after"),
        *around("sql commit", "after"),
        "put to end:after",
    ),
    "tools": (*around("put to tools", "before", "after"), "put to token_check:after#2", "sql commit:after"),
    "second": ("sql begin:after", "sql record_summary:after", "sql commit:after", "commit:leave"),
    "failing": (
        "summarize:leave",
        *around("sql close", "inside", "after"),
        "put to model:after",
        "sql begin:after#2",
        "summarize:leave#2",
        "sql commit:after",
    ),
    "hard": ("sql close:after", "put to selective_compaction:after#2", "sql begin:after#2", "sql commit:after"),
    "manual": (
        "put to token_check:after",
        "put to selective_compaction:after",
        "sql begin:after",
        "sql commit:after",
    ),
    "confirmed": ("confirm:leave", "put to selective_compaction:after", "sql commit:after"),
    "refused": ("sql archive:after", "sql note:after", "token_check:leave", "put to end:after"),
}

KILLS = [(scenario, place) for scenario, places in PLACES.items() for place in places]
