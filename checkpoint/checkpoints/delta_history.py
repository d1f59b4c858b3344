"""Reads the history of delta channels, whose values LangGraph rebuilds from pending writes."""

from collections.abc import Iterator, Mapping, Sequence

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from ..db.thread_row import Thread
from ..db.transaction import Transaction
from ..messages import items, references
from ..messages.decode import ValueDecoder
from . import checkpoint_rows
from .checkpoint_rows import CheckpointRow, follow_parents, full_row_name
from .pending_writes import Write

_ROWS_AT_ONCE = 64


def history(
    transaction: Transaction,
    thread: Thread,
    serde: SerializerProtocol,
    place: tuple[str, str | None],
    channels: Sequence[str],
) -> Mapping[str, DeltaChannelHistory]:
    """Return for each channel its first value and the pending writes at a checkpoint's ancestors, oldest first.

    For each channel, the walk along the parents ends at the nearest ancestor that holds a value of the channel; this
    value is the first value. The checkpoint's own pending writes belong to the next step and are left out.
    """
    describe = thread.codec.describe
    target = checkpoint_rows.find(transaction, thread, *place)
    missing = set(channels)
    visited: list[tuple[CheckpointRow, frozenset[str]]] = []
    seeds: dict[str, CheckpointRow] = {}
    for ancestor in _ancestors(transaction, thread, target) if target else ():
        visited.append((ancestor, frozenset(missing)))
        for channel in missing & ancestor.values.keys():
            seeds[channel] = ancestor
            missing.discard(channel)
        if not missing:
            break
    written = checkpoint_rows.written(transaction, thread, [row for row, _ in visited])
    writes: list[Write] = [
        write for row, wanted in reversed(visited) for write in written[row.key] if write.channel in wanted
    ]
    wanted = references.joined([*(write.references for write in writes), *(row.references for row in seeds.values())])
    decoder = ValueDecoder(thread, serde, items.fetch(transaction, thread, wanted))
    found = {channel: DeltaChannelHistory(writes=[]) for channel in channels}
    for write in writes:
        pending: PendingWrite = (write.task, write.channel, decoder.build(write.value, describe(write.row)))
        found[write.channel]["writes"].append(pending)
    for channel, row in seeds.items():
        found[channel]["seed"] = decoder.build(row.values[channel], describe(row.row))
    return found


def _ancestors(transaction: Transaction, thread: Thread, target: CheckpointRow) -> Iterator[CheckpointRow]:
    """Yield the parent of a checkpoint, the parent's parent, and so on, as far as the parents still exist.

    Raise `RowError` if the parents lead in a circle.
    """
    namespace = target.namespace
    held = {target.id: target}

    def parent_of(name: str) -> str | None:
        return held[name].parent

    for name in follow_parents(target.id, parent_of, lambda name: full_row_name(thread, namespace, name)):
        if name not in held:  # most parents were stored right before their children, so read a range of rows at once
            held = {row.id: row for row in checkpoint_rows.up_to(transaction, thread, namespace, name, _ROWS_AT_ONCE)}
        if name not in held:
            return
        if name != target.id:
            yield held[name]
