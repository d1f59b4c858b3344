"""What undoing compactions needs to know of them."""

import time
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from langchain_core.messages import BaseMessage

from ..checkpoints import write_guards
from ..db.database import Database, reads
from ..db.thread_row import Thread
from ..errors import UnknownAttemptError
from ..messages.message_store import MessageStore
from ..messages.sequence_runs import expand
from . import archive, ledger, snapshots, transcript
from .attempt import Before


class Records:
    """A database, and the messages in it."""

    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self.database = database
        self.store = MessageStore(database.keys, now)
        self.erasures = write_guards.Erasures(database, now)

    def open_thread(self, conn: sa.Connection, thread_id: str) -> Thread:
        """Return the thread, created if needed, and hold its lock; ErasedThreadError for a late write of a run."""
        thread, caller = self.store.thread(conn, thread_id), write_guards.current_run()
        self.erasures.check(conn, thread, caller)
        if thread.next_seq or thread.next_checkpoint:  # it was there before this transaction
            self.erasures.wrote(caller, thread_id, thread.id)
        return thread


class Undoing(Records):
    """Reads what compactions began with and took away."""

    @reads
    def before(
        self,
        conn: sa.Connection,
        thread_id: str,
        messages: Sequence[BaseMessage],
        *,
        head: str | None,
        compaction_id: str | None = None,
    ) -> Before:
        """Return what undoing a compaction, the last one by default, and all that build on it would leave.

        `messages` and `head` are the state's. UnknownAttemptError where this state does not rest on it.
        """
        thread = self.store.find(conn, thread_id, lock=False)
        line = [] if thread is None else transcript.chain(ledger.parents(conn, thread.id), head, thread_id)
        wanted = compaction_id or (line[-1] if line else None)
        if thread is None or wanted not in line:
            raise UnknownAttemptError(_nothing_to_undo(thread_id, compaction_id, line))
        undone = line[line.index(wanted) :]
        taken, left = snapshots.of_thread(conn, thread), archive.of_thread(conn, thread)
        known = {row.compaction_id: row for row in ledger.rows(conn, thread, None)}
        found = self.store.get_many(conn, thread, [held[name] for held in (taken, left) for name in undone])
        gone = [found[seq] for name in undone for seq in expand(left[name])]
        dropped = {name for one in undone for name in known[one].dropped}
        clipped = {str(message.id) for message in gone if not transcript.is_summary(message)} - dropped
        began = [[found[seq] for seq in expand(taken[name])] for name in undone]
        after = transcript.restored(messages, began, gone, clipped, undone)
        return Before(messages=after, undone=tuple(undone), head=known[undone[0]].parent_id)

    @reads
    def line(self, conn: sa.Connection, thread_id: str, head: str | None) -> list[str]:
        """Return the commits that a state with this head rests on, oldest first."""
        thread = self.store.find(conn, thread_id, lock=False)
        return [] if thread is None else transcript.chain(ledger.parents(conn, thread.id), head, thread_id)

    @reads
    def began_with(self, conn: sa.Connection, thread_id: str, compaction_id: str) -> list[BaseMessage]:
        """Return the messages that a compaction of a thread began with; UnknownAttemptError where there is none."""
        thread = self.store.find(conn, thread_id, lock=False)
        runs = None if thread is None else snapshots.read(conn, thread, compaction_id)
        if thread is None or runs is None:
            raise UnknownAttemptError(f"thread {thread_id!r} has no snapshot of a compaction {compaction_id!r}")
        return self.store.get(conn, thread, runs)

    @reads
    def taken_by(self, conn: sa.Connection, thread_id: str, compaction_id: str) -> list[BaseMessage]:
        """Return what a compaction took out of view or shortened, in its original form."""
        thread = self.store.find(conn, thread_id, lock=False)
        runs = None if thread is None else archive.of_thread(conn, thread).get(compaction_id)
        return [] if thread is None or runs is None else self.store.get(conn, thread, runs)


def _nothing_to_undo(thread_id: str, compaction_id: str | None, line: Sequence[str]) -> str:
    if compaction_id is None or not line:
        return f"thread {thread_id!r} rests on no compaction: there is nothing to undo"
    return (
        f"the state of thread {thread_id!r} does not rest on compaction {compaction_id!r}: it rests on "
        f"{', '.join(line)}"
    )
