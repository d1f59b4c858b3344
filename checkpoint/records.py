"""All that the compaction graph keeps: snapshots, summaries, the ledger and the archive, behind one door."""

from collections.abc import Sequence
from typing import Unpack

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from .compaction import archive, ledger, snapshots, summary_cache, transcript
from .compaction.archive_search import Searching
from .compaction.attempt import AttemptKey, LedgerRow, Outcome, SummaryRecord
from .compaction.ledger import Opening
from .compaction.undo_queries import Undoing
from .db import leases
from .db.database import reads, writes
from .maintenance import retention
from .messages.sequence_runs import expand


class CompactionRecords(Undoing, Searching):
    """One transaction a method, from any thread; every write may be repeated without changing anything more.

    Synchronous: asynchronous callers use `asyncio.to_thread`. The thread's row is locked first, always.
    """

    @writes
    def begin(
        self,
        conn: sa.Connection,
        key: AttemptKey,
        messages: Sequence[BaseMessage],
        *,
        now: float,
        **opening: Unpack[Opening],
    ) -> None:
        """Write the snapshot, then the open ledger row; LeaseError where the thread is leased to another writer.

        A key that was begun before stays as it is, its snapshot too, except that an abandoned row is opened
        again. `Opening` names the rest: parent_id, checkpoint_id, epoch, trigger, strategy, tokens_before and
        counter.
        """
        thread = self.open_thread(conn, key.thread_id)
        leases.check(thread, self.store.threads.now())
        fresh = snapshots.read(conn, thread, key.compaction_id) is None
        if fresh:
            runs = self.store.put(conn, thread, messages)
            snapshots.write(conn, thread, key.compaction_id, runs, now=now)
        ledger.begin(conn, thread, key, opening, now=now, fresh=fresh)

    @reads
    def snapshot(self, conn: sa.Connection, key: AttemptKey) -> list[BaseMessage] | None:
        """Return the messages an attempt began with, byte for byte, or None where it was never begun."""
        thread = self.store.find(conn, key.thread_id, lock=False)
        runs = None if thread is None else snapshots.read(conn, thread, key.compaction_id)
        return None if thread is None or runs is None else self.store.get(conn, thread, runs)

    @writes
    def record_summary(self, conn: sa.Connection, key: AttemptKey, record: SummaryRecord) -> None:
        """Keep a summary that was paid for, before it is used."""
        summary_cache.write(conn, self.open_thread(conn, key.thread_id), key.compaction_id, record)

    @reads
    def find_summary(self, conn: sa.Connection, key: AttemptKey, *, input_digest: str) -> SummaryRecord | None:
        """Return the summary recorded for the same input and level, unless the gate rejected it; or None."""
        thread = self.store.find(conn, key.thread_id, lock=False)
        return None if thread is None else summary_cache.read(conn, thread, key, input_digest)

    @writes
    def commit(
        self, conn: sa.Connection, key: AttemptKey, outcome: Outcome, *, archived: Sequence[BaseMessage]
    ) -> None:
        """Archive what leaves the view and write the verdict, both or neither."""
        thread = self.open_thread(conn, key.thread_id)
        runs = self.store.put(conn, thread, archived)
        archive.write(conn, thread, key.namespace, key.compaction_id, runs, now=outcome.now)
        ledger.close(conn, thread, key, outcome)

    @writes
    def close(self, conn: sa.Connection, key: AttemptKey, outcome: Outcome) -> None:
        """Write the verdict, over an earlier one too; UnknownAttemptError where there was no attempt."""
        ledger.close(conn, self.open_thread(conn, key.thread_id), key, outcome)

    @writes
    def note(
        self,
        conn: sa.Connection,
        key: AttemptKey,
        outcome: Outcome,
        **opening: Unpack[Opening],
    ) -> None:
        """Write a ledger row for what never began (refused, declined, deferred_cooldown, noop).

        A closed attempt with a snapshot under the same key is not touched; `begin` opens a noted row.
        """
        ledger.note(conn, self.open_thread(conn, key.thread_id), key, opening, outcome)

    @writes
    def archive(
        self,
        conn: sa.Connection,
        thread_id: str,
        namespace: str,
        compaction_id: str,
        messages: Sequence[BaseMessage],
        *,
        now: float,
    ) -> None:
        """Archive messages without a snapshot, as a refused one."""
        thread = self.open_thread(conn, thread_id)
        runs = self.store.put(conn, thread, messages)
        archive.write(conn, thread, namespace, compaction_id, runs, now=now)

    @writes
    def abandon_open(
        self, conn: sa.Connection, thread_id: str, namespace: str, *, keep: AttemptKey | None, now: float
    ) -> int:
        """Give every open row, but `keep`, the verdict "abandoned"; return how many there were."""
        thread = self.store.find(conn, thread_id)
        return 0 if thread is None else ledger.abandon(conn, thread.id, namespace, keep=keep, now=now)

    @reads
    def history(self, conn: sa.Connection, thread_id: str, namespace: str | None = None) -> list[LedgerRow]:
        """Return a thread's attempts in the order in which they began."""
        thread = self.store.find(conn, thread_id, lock=False)
        return [] if thread is None else ledger.rows(conn, thread, namespace)

    def recall(self, thread_id: str, handle: str) -> BaseMessage | None:
        """Return the message of this thread's archive with this handle (12 to 32 hex characters), or None."""
        found = self.by_handle(thread_id, handle, compactions=False)
        return found[0].message if found else None

    @reads
    def transcript(
        self,
        conn: sa.Connection,
        thread_id: str,
        namespace: str,
        messages: Sequence[BaseMessage],
        *,
        head: str | None,
    ) -> list[BaseMessage]:
        """Return the whole conversation that `messages`, the state now, is the view of.

        `head` is the compaction_id of the state's last commit. See `transcript.join` for what is in it.
        """
        thread = self.store.find(conn, thread_id, lock=False)
        if thread is None:
            return transcript.join(messages, (), (), ())
        line = transcript.chain(ledger.parents(conn, thread.id), head, thread_id)
        taken = snapshots.of_thread(conn, thread)
        left = archive.of_thread(conn, thread, namespace)
        before = [taken[name] for name in line if name in taken]
        archived = [left[name] for name in line if name in left]
        refused = [runs for name, runs in left.items() if name not in taken]
        found = self.store.get_many(conn, thread, [*before, *archived, *refused])
        return transcript.join(
            messages,
            [[found[seq] for seq in expand(runs)] for runs in before],
            [found[seq] for runs in archived for seq in expand(runs)],
            [found[seq] for runs in refused for seq in expand(runs)],
        )

    @writes
    def forget(self, conn: sa.Connection, thread_id: str) -> None:
        """Erase every row of the thread: checkpoints, messages, snapshots, summaries, ledger, archive."""
        thread = self.store.find(conn, thread_id)
        if thread is not None:
            retention.erase(conn, thread, self.store.threads.now())

    @reads
    def threads(self, conn: sa.Connection) -> list[str]:
        """Return the ids of all threads, in the order in which they were first seen."""
        return retention.names(conn)
