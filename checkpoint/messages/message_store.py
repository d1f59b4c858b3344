"""The messages of a thread for the records of compactions: stored once, read by runs of sequence numbers."""

from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import BaseMessage

from ..db.row_codec import HASH_PREFIX_BYTES
from ..db.thread_row import Thread, Threads
from ..db.transaction import Transaction
from ..errors import MessageError
from . import items
from .decode import ValueDecoder
from .message_codec import content_hash, stored_bytes
from .references import References
from .sequence_runs import Runs, covering, expand, runs_of
from .strict_serde import StrictSerializer

_AT_ONCE = 512


class MessageStore:
    """Stores and reads messages in the transactions of a database; opens none."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self._serde = StrictSerializer()

    def put(self, transaction: Transaction, thread: Thread, messages: Sequence[BaseMessage]) -> Runs:
        """Store the messages that are new, and return the sequence numbers of all the messages as runs, in order.

        Raise `MessageError`, before anything is written, for a message that has no id or a value that could not be
        read again.
        """
        for message in messages:
            if not message.id:
                raise MessageError(f"a {message.type} message has no id; every message needs one before it is stored")
        bodies = [stored_bytes(message) for message in messages]
        if thread.seqs is None:
            thread.seqs = items.read_hashes(transaction, thread)
        batch = items.Batch(thread)
        runs = runs_of([batch.add_message(body) for body in bodies])
        if batch.items:
            items.insert(transaction, batch.items)
            # the numbers that are new are not in `seqs`, which other transactions of this process may share
            thread.next_seq, thread.seqs = batch.next_seq, {**thread.seqs, **batch.seqs}
            items.pack_old(transaction, thread)
            self.threads.save(transaction, thread)
        return runs

    def get(self, transaction: Transaction, thread: Thread, runs: Runs) -> list[BaseMessage]:
        """Return the messages with the sequence numbers in `runs`; raise `RowError` for a missing or damaged row."""
        found = self.get_many(transaction, thread, [runs])
        return [found[seq] for seq in expand(runs)]

    def get_many(
        self,
        transaction: Transaction,
        thread: Thread,
        many: Iterable[Runs],
        known: dict[int, BaseMessage] | None = None,
    ) -> dict[int, BaseMessage]:
        """Return by number each message whose sequence number is in any of the runs, once.

        Messages in `known` are not read again.
        """
        found = dict(known or {})
        missing = runs_of([seq for seq in expand(covering(many)) if seq not in found])
        data = items.fetch(transaction, thread, References(missing))
        decoder = ValueDecoder(thread, self._serde, data, found)
        decoder.get(missing)
        return decoder.messages

    def each(self, transaction: Transaction, thread: Thread, runs: Runs) -> Iterator[tuple[int, BaseMessage]]:
        """Yield (sequence number, message) of each message in sorted runs; only some are in memory at a time.

        Raise `RowError`, naming the row, if a row is missing or damaged.
        """
        seqs = list(expand(runs))
        for at in range(0, len(seqs), _AT_ONCE):
            part = seqs[at : at + _AT_ONCE]
            found = self.get_many(transaction, thread, [runs_of(part)])
            yield from ((seq, found[seq]) for seq in part)

    def find_by_hash(self, transaction: Transaction, thread: Thread, start: bytes) -> list[int]:
        """Return the sequence numbers of messages whose hash starts with `start` (at least 6 bytes), newest first."""
        prefix = thread.codec.lookup_prefix(start[:HASH_PREFIX_BYTES])
        found = items.read_hashes(transaction, thread)
        seqs = sorted((seq for one, seq in found.items() if seq >= 0 and one.startswith(prefix)), reverse=True)
        if len(start) == HASH_PREFIX_BYTES or not seqs:
            return seqs
        data = items.fetch(transaction, thread, References(covering(((seq, 1),) for seq in seqs)))
        return [seq for seq in seqs if content_hash(data[seq]).startswith(start)]
