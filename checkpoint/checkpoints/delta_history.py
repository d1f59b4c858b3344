"""The history of channels whose value stands in no checkpoint, but follows from what was written (`DeltaChannel`)."""

from collections.abc import Iterator, Mapping, Sequence

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite

from ..messages.decode import Reading
from . import checkpoint_rows
from .checkpoint_rows import CheckpointRow, follow_parents, full_row_name
from .pending_writes import Write

_A_PAGE = 64


def history(
    reading: Reading, namespace: str, checkpoint_id: str | None, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """Return per channel what the ancestors of a checkpoint wrote, oldest first, and the value they started from.

    A walk along the parents ends, for each channel, at the nearest one that holds its value. The checkpoint's own
    writes belong to the step after it and are left out.
    """
    conn, thread = reading.conn, reading.thread
    target = checkpoint_rows.find(conn, thread, namespace, checkpoint_id)
    missing = set(channels)
    line: list[tuple[CheckpointRow, frozenset[str]]] = []
    seeds: dict[str, CheckpointRow] = {}
    for ancestor in ancestors(reading, target) if target else ():
        line.append((ancestor, frozenset(missing)))
        for channel in missing & ancestor.values.keys():
            seeds[channel] = ancestor
            missing.discard(channel)
        if not missing:
            break
    written = checkpoint_rows.written(conn, thread, [one for one, _ in line])
    ours = [(one, _of(written[one.key], asked)) for one, asked in reversed(line)]
    for _, writes in ours:
        for write in writes:
            reading.expect(thread.codec.describe(write.row), [write.node])
    for channel, one in seeds.items():
        reading.expect(thread.codec.describe(one.row), [one.values[channel]])
    reading.fetch()
    found = {channel: DeltaChannelHistory(writes=[]) for channel in channels}
    for _, writes in ours:
        for write in writes:
            value: PendingWrite = (
                write.task,
                write.channel,
                reading.build(write.node, thread.codec.describe(write.row)),
            )
            found[write.channel]["writes"].append(value)
    for channel, one in seeds.items():
        found[channel]["seed"] = reading.build(one.values[channel], thread.codec.describe(one.row))
    return found


def ancestors(reading: Reading, target: CheckpointRow) -> Iterator[CheckpointRow]:
    """Yield the parent of a checkpoint, its parent, and so on; a parent that is gone ends the walk.

    RowError where the parents lead in a circle.
    """
    conn, thread, namespace = reading.conn, reading.thread, target.namespace
    held = {target.id: target}

    def parent_of(name: str) -> str | None:
        return held[name].parent

    for name in follow_parents(target.id, parent_of, lambda name: full_row_name(thread, namespace, name)):
        if name not in held:  # parents mostly stand right before their children: read a stretch at once
            held = {one.id: one for one in checkpoint_rows.up_to(conn, thread, namespace, name, _A_PAGE)}
        if name not in held:
            return
        if name != target.id:
            yield held[name]


def _of(writes: Sequence[Write], channels: frozenset[str]) -> list[Write]:
    return [write for write in writes if write.channel in channels]
