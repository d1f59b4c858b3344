"""Which places of which turn are killed at: all of them for the plain one, those of its own for every other."""

from collections.abc import Iterator

SQL = {
    "selective_compaction": ("begin", "abandon_open"),
    "summarize": ("record_summary",),
    "commit": ("commit",),
    "rollback": ("close",),
}
"""What the nodes write, in order."""


def around(name: str, *moments: str) -> Iterator[str]:
    """The places of one thing."""
    return (f"{name}:{moment}" for moment in moments)


def along(*nodes: str) -> Iterator[str]:
    """Every place of a run from its input through these nodes."""
    yield from around("put input", "before", "after")
    for node, following in zip(("", *nodes), (*nodes, "end"), strict=True):
        if node:
            yield f"{node}:enter"
            for write in SQL.get(node, ()):
                yield from around(f"sql {write}", "before", "inside", "after")
            yield f"{node}:leave"
        yield from around(f"writes to {following}", "before", "after")
        yield from around(f"put to {following}", "before", "after")


def steps(*nodes: str) -> Iterator[str]:
    """After each node's body, and after its checkpoint."""
    for node, following in zip(nodes, (*nodes[1:], "end"), strict=True):
        yield f"{node}:leave"
        yield f"put to {following}:after"


PLAIN = tuple(along("token_check", "selective_compaction", "summarize", "commit", "model"))

PLACES: dict[str, tuple[str, ...]] = {
    "precheck": PLAIN,
    "check": (
        *steps("model", "selective_compaction", "summarize", "commit"),
        *around("sql begin", "after"),
        *around("sql record_summary", "after"),
        *around("sql commit", "inside", "after"),
    ),
    "tools": (
        *around("put to tools", "before", "after"),
        *around("put to token_check", "before#2", "after#2"),
        *around("sql begin", "after"),
        "summarize:leave",
        *around("sql commit", "after"),
    ),
    "second": ("sql begin:after", "summarize:enter", "sql record_summary:after", "sql commit:after", "commit:leave"),
    "failing": (
        *steps("summarize", "rollback"),
        *around("sql close", "before", "inside", "after"),
        "put to model:after",
        "sql begin:after#2",
        "summarize:leave#2",
        "sql commit:after",
    ),
    "hard": (
        *around("sql close", "before", "after"),
        "put to selective_compaction:after#2",
        "sql begin:after#2",
        "put to commit:after",
        "sql commit:after",
    ),
    "manual": (
        "put to token_check:after",
        "put to selective_compaction:after",
        "sql begin:after",
        "sql commit:after",
    ),
    "confirmed": ("confirm:enter", "confirm:leave", "put to selective_compaction:after", "sql commit:after"),
    "refused": (*around("sql archive", "before", "after"), "sql note:after", "token_check:leave", "put to end:after"),
}

KILLS = [(scenario, place) for scenario, places in PLACES.items() for place in places]
