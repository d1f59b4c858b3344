"""Everything that the compaction graph stores: snapshots, paid summaries, the ledger and the archive."""

import time
from collections.abc import Callable, Sequence
from typing import Unpack

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from .checkpoints.write_guards import ErasureGuard, current_run
from .compaction import archive, ledger, original_conversation, recall_search, snapshots, summary_cache
from .compaction.attempt import AttemptKey, Before, LedgerRow, Outcome, SummaryRecord
from .compaction.ledger import Opening
from .compaction.recall_search import SPEAKERS, SearchHit
from .compaction.search_index import INDEXES
from .db import tables
from .db.database import Database, reads, writes
from .db.run_leases import StoredRunLeases
from .db.thread_row import Thread, Threads, check_lease
from .db.transaction import Transaction
from .errors import UnknownAttemptError
from .maintenance import retention
from .messages.message_store import MessageStore


class CompactionRecords:
    """The records of compactions in one database. Each method is one transaction; any OS thread may call it.

    The methods are synchronous; asynchronous callers use `asyncio.to_thread`. A writing method that runs
    twice has the same effect as one that runs once. Every writing method first locks the conversation thread's row.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self.database = database
        self.store = MessageStore(Threads(database.keys, now, database.known_threads))
        self.erasures = ErasureGuard(database, now)
        self.run_leases = StoredRunLeases(database, now)

    @writes
    def begin(
        self,
        transaction: Transaction,
        key: AttemptKey,
        messages: Sequence[BaseMessage],
        *,
        now: float,
        **opening: Unpack[Opening],
    ) -> None:
        """Write the snapshot, then the open ledger row; raise LeaseError if another writer holds the thread's lease.

        If the attempt was begun before, its ledger row and its snapshot stay unchanged, except that an abandoned row
        is opened again. `Opening` declares the other arguments.
        """
        thread = self._lock(transaction, key.thread_id)
        check_lease(thread, self.store.threads.now())
        fresh = snapshots.read(transaction, thread, key.compaction_id) is None
        if fresh:
            runs = self.store.put(transaction, thread, messages)
            snapshots.write(transaction, thread, key.compaction_id, runs, now=now)
        ledger.begin(transaction, thread, key, opening, now=now, fresh=fresh)

    @reads
    def snapshot(self, transaction: Transaction, key: AttemptKey) -> list[BaseMessage] | None:
        """Return the messages with which an attempt began, byte for byte; None if the attempt never began."""
        thread = self.store.threads.find(transaction, key.thread_id, lock=False)
        runs = None if thread is None else snapshots.read(transaction, thread, key.compaction_id)
        return None if thread is None or runs is None else self.store.get(transaction, thread, runs)

    @writes
    def record_summary(self, transaction: Transaction, key: AttemptKey, record: SummaryRecord) -> None:
        """Store a summary that was paid for, before the compaction uses the summary."""
        summary_cache.write(transaction, self._lock(transaction, key.thread_id), key.compaction_id, record)

    @reads
    def find_summary(self, transaction: Transaction, key: AttemptKey, *, input_digest: str) -> SummaryRecord | None:
        """Return the stored summary of the same input and level; None if there is none or the gate rejected it."""
        thread = self.store.threads.find(transaction, key.thread_id, lock=False)
        return None if thread is None else summary_cache.read(transaction, thread, key, input_digest)

    @writes
    def settle_preparation(
        self, transaction: Transaction, thread_id: str, compaction_id: str, *, verdict: str, reason: str
    ) -> None:
        """Write into the ledger why a prepared summary is not used."""
        ledger.settle(transaction, self._lock(transaction, thread_id), compaction_id, verdict=verdict, reason=reason)

    @writes
    def commit(
        self,
        transaction: Transaction,
        key: AttemptKey,
        outcome: Outcome,
        *,
        archived: Sequence[BaseMessage],
        used: str | None = None,
    ) -> None:
        """Archive the messages that the compaction removes and write its verdict, both or neither.

        `used` is the id of the preparation whose summary the compaction uses, or None.
        """
        thread = self._lock(transaction, key.thread_id)
        if used is not None:
            ledger.settle(transaction, thread, used, verdict=ledger.PREPARED, reason=ledger.SWAPPED)
        runs = self.store.put(transaction, thread, archived)
        archive.write(transaction, thread, key.namespace, key.compaction_id, runs, now=outcome.now)
        ledger.close(transaction, thread, key, outcome)

    @writes
    def close(self, transaction: Transaction, key: AttemptKey, outcome: Outcome) -> None:
        """Write the verdict, also over an earlier verdict; raise UnknownAttemptError if the attempt never began."""
        ledger.close(transaction, self._lock(transaction, key.thread_id), key, outcome)

    @writes
    def note(
        self,
        transaction: Transaction,
        key: AttemptKey,
        outcome: Outcome,
        **opening: Unpack[Opening],
    ) -> None:
        """Write a ledger row for an attempt that never began (refused, declined, deferred_cooldown, noop).

        If an attempt with the same key has begun and ended, its row is left as it is. If the attempt begins later,
        `begin` opens the row that this method wrote.
        """
        ledger.note(transaction, self._lock(transaction, key.thread_id), key, opening, outcome)

    @writes
    def archive(
        self,
        transaction: Transaction,
        thread_id: str,
        namespace: str,
        compaction_id: str,
        messages: Sequence[BaseMessage],
        *,
        now: float,
    ) -> None:
        """Archive messages without a snapshot, for example a refused message."""
        thread = self._lock(transaction, thread_id)
        runs = self.store.put(transaction, thread, messages)
        archive.write(transaction, thread, namespace, compaction_id, runs, now=now)

    @writes
    def abandon_open(
        self, transaction: Transaction, thread_id: str, namespace: str, *, keep: AttemptKey | None, now: float
    ) -> int:
        """Give every open ledger row except `keep` the verdict "abandoned"; return how many rows changed."""
        thread = self.store.threads.find(transaction, thread_id)
        return 0 if thread is None else ledger.abandon(transaction, thread.id, namespace, keep=keep, now=now)

    @reads
    def history(self, transaction: Transaction, thread_id: str, namespace: str | None = None) -> list[LedgerRow]:
        """Return a thread's attempts in the order in which they began."""
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        return [] if thread is None else ledger.rows(transaction, thread, namespace)

    @reads
    def search(
        self,
        transaction: Transaction,
        thread_id: str,
        query: str,
        *,
        limit: int = 5,
        compaction_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        speaker: str | None = None,
        follow: bool = False,
    ) -> list[SearchHit]:
        """Return the archived messages of a thread that contain words of a query or stand beside them, best first.

        `compaction_id` restricts the search to one compaction, `since` and `until` (Unix seconds) to a time, and
        `speaker` to the messages of "user", "assistant" or "tool"; any other speaker raises `ValueError`. With
        `follow`, rare identifiers in the best messages are searched too. The first search of a thread reads its whole
        archive into an index in memory, later ones read what was archived since.
        """
        if speaker is not None and speaker not in SPEAKERS:
            raise ValueError(f"speaker={speaker!r} is none of {', '.join(map(repr, SPEAKERS))}")
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        scope = recall_search.Scope(compaction_id, since, until, speaker)
        if thread is None:  # another process may have erased it
            INDEXES.drop(transaction.conn.engine.pool, thread_id)
            return []
        return recall_search.search_archive(
            transaction, self.store, thread, query, limit=limit, scope=scope, follow=follow
        )

    @reads
    def by_handle(
        self, transaction: Transaction, thread_id: str, handle: str, *, compactions: bool = True
    ) -> list[SearchHit]:
        """Return the archived message with this handle (12 to 32 hexadecimal characters); [] for any other text.

        With `compactions`, a handle may also be the id of a compaction, or at least its first 12 characters: then the
        method returns all messages that this compaction archived, in their order.
        """
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        if thread is None:
            return []
        return recall_search.find_by_handle(transaction, self.store, thread, handle, compactions=compactions)

    def recall(self, thread_id: str, handle: str) -> BaseMessage | None:
        """Return the archived message of a thread with this handle (12 to 32 hex characters), or None."""
        found = self.by_handle(thread_id, handle, compactions=False)
        return found[0].message if found else None

    @reads
    def transcript(
        self,
        transaction: Transaction,
        thread_id: str,
        namespace: str,
        messages: Sequence[BaseMessage],
        *,
        head: str | None,
    ) -> list[BaseMessage]:
        """Return the whole conversation of which the model now sees `messages`; see `original_conversation.join`.

        `head` is the compaction_id of the state's last commit.
        """
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        if thread is None:
            return original_conversation.join(messages, (), {}, {}, {})
        line = _chain(transaction, thread, head)
        began, entries = snapshots.of_thread(transaction, thread), archive.entries(transaction, thread)
        original_conversation.check_complete(line, began, {one.compaction_id for one in entries}, thread_id)
        archived = {one.compaction_id: one.runs for one in entries if one.namespace == namespace}
        wanted = [began[name] for name in line if name in began]
        wanted += [runs for name, runs in archived.items() if name in line or name not in began]
        found = self.store.get_many(transaction, thread, wanted)
        return original_conversation.join(messages, line, began, archived, found)

    @reads
    def before(
        self, transaction: Transaction, thread_id: str, *, head: str | None, compaction_id: str | None = None
    ) -> Before:
        """Return what the model saw before one compaction, and all later compactions that are built on it.

        By default this is the last compaction; `compaction_id` is an id or the beginning of one. `head` is the
        compaction_id of the state's last commit. Raise UnknownAttemptError if the state does not contain the
        compaction, or if several of the state's ids begin so.
        """
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        line = [] if thread is None else _chain(transaction, thread, head)
        named = [name for name in line if name.startswith(compaction_id)] if compaction_id else line[-1:]
        runs = snapshots.read(transaction, thread, named[0]) if thread is not None and len(named) == 1 else None
        if thread is None or runs is None:
            raise UnknownAttemptError(_nothing_to_undo(thread_id, compaction_id, line))
        undone = line[line.index(named[0]) :]
        return Before(
            messages=self.store.get(transaction, thread, runs),
            undone=tuple(undone),
            head=ledger.parents(transaction, thread)[undone[0]],
        )

    @reads
    def line(self, transaction: Transaction, thread_id: str, head: str | None) -> list[str]:
        """Return the compaction_ids of all commits that a state contains, oldest first.

        `head` is the compaction_id of the state's last commit.
        """
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        return [] if thread is None else _chain(transaction, thread, head)

    @reads
    def began_with(self, transaction: Transaction, thread_id: str, compaction_id: str) -> list[BaseMessage]:
        """Return the messages with which a compaction began; raise UnknownAttemptError if it has no snapshot."""
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        runs = None if thread is None else snapshots.read(transaction, thread, compaction_id)
        if thread is None or runs is None:
            raise UnknownAttemptError(f"thread {thread_id!r} has no snapshot of a compaction {compaction_id!r}")
        return self.store.get(transaction, thread, runs)

    @reads
    def taken_by(self, transaction: Transaction, thread_id: str, compaction_id: str) -> list[BaseMessage]:
        """Return the messages that a compaction removed or shortened, in their original form."""
        thread = self.store.threads.find(transaction, thread_id, lock=False)
        runs = None if thread is None else archive.of_thread(transaction, thread).get(compaction_id)
        return [] if thread is None or runs is None else self.store.get(transaction, thread, runs)

    def forget(self, thread_id: str) -> None:
        """Erase every row of the thread: checkpoints, messages, snapshots, summaries, ledger, archive."""
        self._forget(thread_id)
        INDEXES.drop(self.database.engine.pool, thread_id)

    @writes
    def _forget(self, transaction: Transaction, thread_id: str) -> None:
        thread = self.store.threads.find(transaction, thread_id)
        if thread is not None:
            retention.erase(transaction, thread, self.store.threads.now())

    def forget_compactions(self, thread_id: str) -> None:
        """Erase snapshots, summaries, ledger and archive of a thread; its checkpoints in the same database stay."""
        self._forget_compactions(thread_id)
        INDEXES.drop(self.database.engine.pool, thread_id)

    @writes
    def _forget_compactions(self, transaction: Transaction, thread_id: str) -> None:
        thread = self._lock(transaction, thread_id)
        for table in (tables.snapshot, tables.summary, tables.ledger, tables.archive):
            transaction.execute(sa.delete(table).where(table.c.thread == thread.id))

    @reads
    def threads(self, transaction: Transaction) -> list[str]:
        """Return the ids of all threads, in the order in which they were created."""
        return retention.names(transaction)

    def _lock(self, transaction: Transaction, thread_id: str) -> Thread:
        """Return the locked thread, created if needed; raise ErasedThreadError if it was erased during the run."""
        thread, run = self.store.threads.lock(transaction, thread_id), current_run()
        self.erasures.check(lambda: transaction, thread, run)
        # a row that was already used keeps its key even if this transaction is rolled back, so it can be noted now
        if thread.next_seq or thread.next_checkpoint:
            self.erasures.note_run_write(run, thread_id, thread.id)
        return thread


def _chain(transaction: Transaction, thread: Thread, head: str | None) -> list[str]:
    """Return the compactions on which `head` builds, oldest first; see `original_conversation.chain`."""
    return original_conversation.chain(
        ledger.parents(transaction, thread),
        head,
        thread.thread_id,
        stored=lambda: {*snapshots.of_thread(transaction, thread), *archive.of_thread(transaction, thread)},
    )


def _nothing_to_undo(thread_id: str, compaction_id: str | None, line: Sequence[str]) -> str:
    if compaction_id is None or not line:
        return (
            f"there is nothing to undo in thread {thread_id!r}: no compaction was committed, all were undone, or a "
            "message was erased"
        )
    return (
        f"no compaction of the state of thread {thread_id!r} has the id {compaction_id!r}, or several ids begin so: "
        f"the ids are {', '.join(line)}"
    )
