"""Reads a thread from SQL in one transaction: its checkpoints, its compactions, and each message once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import sqlalchemy as sa
from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.checkpoint.serde.types import ERROR

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints.checkpoint_rows import (
    CheckpointRow,
    all_of,
    follow_parents,
    row_name,
    written,
)
from langgraph_compaction.checkpoint.checkpoints.pending_writes import Write
from langgraph_compaction.checkpoint.compaction import original_conversation as joining
from langgraph_compaction.checkpoint.compaction.archive import of_thread as archived_of
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.compaction.ledger import rows
from langgraph_compaction.checkpoint.compaction.snapshots import of_thread as snapshots_of
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.db.transaction import Transaction
from langgraph_compaction.checkpoint.messages.decode import ValueDecoder
from langgraph_compaction.checkpoint.messages.items import fetch
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint
from langgraph_compaction.checkpoint.messages.references import joined
from langgraph_compaction.checkpoint.messages.sequence_runs import Runs, covering, expand, runs_of
from langgraph_compaction.nodes.conversation.bound_history import holds_compaction
from langgraph_compaction.nodes.conversation.view import View, name_of, read_view, seen
from langgraph_compaction.nodes.errors import MessageRefusedError, RequestError
from langgraph_compaction.nodes.state import pinned_ids

_MODEL = "~__pregel_pull, model"
"""The path by which LangGraph names the node `model` in the pending writes of a checkpoint."""
_NOT_SENT = tuple(f"{kind.__name__}(" for kind in (MessageRefusedError, RequestError))
"""Beginnings of stored errors after which no request was sent: LangGraph stores the `repr` of an exception."""


_DIGITS = 12
"""Number of hexadecimal digits of a fingerprint from which a form's number is made; JavaScript has room for 13."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointData:
    """A checkpoint of the thread's root namespace; checkpoints of subgraphs are not read."""

    id: str
    parent: str | None
    written_at: str
    """Time of the checkpoint in ISO 8601."""
    source: str
    """LangGraph's word for the origin of the checkpoint: `input`, `loop`, `update` or `fork`."""
    said: Runs
    """Numbers of the messages in the state; empty if the channel holds no list of messages."""
    view: View | None
    compaction: Mapping[str, Any]
    failed: bool = False
    """Whether a call of the model failed at this checkpoint, so that its request has no answer."""


@dataclass(frozen=True, kw_only=True)
class ThreadData:
    """Everything that a database stores of a thread; messages are named by their sequence numbers."""

    thread_id: str
    checkpoints: Sequence[CheckpointData] = ()
    """The checkpoints of all branches, in the order in which they were written."""
    attempts: Sequence[LedgerRow] = ()
    snapshots: Mapping[str, Runs] = field(default_factory=dict[str, Runs])
    """The messages in the state when an attempt began, by the attempt's id."""
    archived: Mapping[str, Runs] = field(default_factory=dict[str, Runs])
    """Originals of the messages that an attempt removed or shortened, by the attempt's id."""
    numbers: "Numbers" = field(default_factory=lambda: Numbers({}))

    @property
    def messages(self) -> Mapping[int, BaseMessage]:
        """The messages by number, with the forms in which views and requests that were asked for show them."""
        return self.numbers.messages

    def seen(self, checkpoint: CheckpointData) -> Runs:
        """Return the numbers of the messages that the model sees at a checkpoint."""
        return self.numbers.seen(checkpoint.said, checkpoint.view, pinned_ids({"compaction": checkpoint.compaction}))

    @cached_property
    def line(self) -> Sequence[CheckpointData]:
        """The newest checkpoint and its ancestors, oldest first."""
        known = {checkpoint.id: checkpoint for checkpoint in self.checkpoints}
        newest = self.checkpoints[-1].id if self.checkpoints else None
        named = follow_parents(
            newest,
            lambda name: known[name].parent if name in known else None,
            lambda name: f"{row_name('', name)} of thread {self.thread_id!r}",
        )
        return [known[name] for name in named if name in known][::-1]

    @cached_property
    def in_view(self) -> Sequence[int]:
        """Sequence numbers of the messages that the model sees."""
        return list(expand(self.seen(self.line[-1]))) if self.line else []

    @cached_property
    def in_force(self) -> Sequence[str]:
        """Ids of the compactions that led to the newest state, oldest first."""
        parents = {row.compaction_id: row.parent_id for row in self.attempts}
        return joining.chain(parents, self.line[-1].compaction.get("head"), self.thread_id) if self.line else []

    @cached_property
    def commits(self) -> Mapping[str, CheckpointData]:
        """The checkpoint that each compaction wrote, by the compaction's id, unless the checkpoint was erased."""
        found: dict[str, CheckpointData] = {}
        for checkpoint in self.checkpoints:
            if head := checkpoint.compaction.get("head"):
                found.setdefault(head, checkpoint)
        return found

    @cached_property
    def transcript(self) -> Sequence[int]:
        """Sequence numbers of the whole conversation in order: every message in its original form, no summaries."""
        newest = self.line[-1] if self.line else None
        said = newest.said if newest else ()
        if not newest or not self.in_force or (newest.view is not None and not newest.view.get("moved")):
            return list(expand(said))
        left = [self.messages[seq] for seq in expand(said)]
        found = joining.join(left, self.in_force, self.snapshots, self.archived, self.messages)
        return list(expand(self.numbers.runs(cast("list[AnyMessage]", found))))


Saver = SQLAlchemySaver | AsyncSQLAlchemySaver
"""Either saver of this package; both are read synchronously."""


def read(saver: Saver, thread_id: str) -> ThreadData:
    """Read a thread; return data without checkpoints if the thread does not exist.

    Raise `RowError`, naming the row, if a row is missing or damaged. Only the channels `messages`, `compaction` and
    `compaction_view` are read: other channels may hold values of classes that this process cannot load.
    """

    def work(transaction: Transaction) -> ThreadData:
        thread = saver.store.threads.find(transaction, thread_id, lock=False)
        if thread is None:
            return ThreadData(thread_id=thread_id)
        stored = [one for one in all_of(transaction, thread) if not one.namespace]
        writes = written(transaction, thread, stored)
        errors = {one.key: [write for write in writes[one.key] if _is_models_error(write)] for one in stored}
        raised = (error.references for found in errors.values() for error in found)
        wanted = joined([*(one.references for one in stored), *raised])
        reading = ValueDecoder(thread, saver.serde, fetch(transaction, thread, wanted))
        said = {one.key: _said(reading, one) for one in stored}
        snapshots, archived = snapshots_of(transaction, thread), archived_of(transaction, thread)
        reading.get(covering(said.values()))
        beside = [*snapshots.values(), *archived.values()]
        messages = saver.store.get_many(transaction, thread, beside, reading.messages)
        return ThreadData(
            thread_id=thread_id,
            checkpoints=[_checkpoint(reading, one, said[one.key], errors[one.key]) for one in stored],
            attempts=rows(transaction, thread, None),
            snapshots=snapshots,
            archived=archived,
            numbers=Numbers(messages),
        )

    return saver.database.run_read(work)


def stamp(saver: Saver, thread_id: str) -> str:
    """Return, by one cheap query, a text that changes whenever a checkpoint or a ledger row is written."""
    ledger, thread = tables.ledger.c, tables.thread.c
    own = ledger.thread == thread.id
    attempts = sa.select(sa.func.count(), sa.func.count(ledger.ended_at), sa.func.max(ledger.ended_at)).where(own)
    query = sa.select(
        thread.next_checkpoint,
        thread.next_seq,
        *(attempts.with_only_columns(column).scalar_subquery() for column in attempts.selected_columns),
    ).where(thread.thread_id == thread_id)
    found = saver.database.run_read(lambda transaction: transaction.execute(query).one_or_none())
    return "-".join(map(str, found or ()))


def _is_models_error(write: Write) -> bool:
    return write.channel == ERROR and write.path == _MODEL


class Numbers:
    """The messages of a thread by number: the stored ones, and the forms in which views and requests show others.

    A form has a negative number, which its content alone decides, so that it stays when the thread goes on.
    """

    def __init__(self, messages: Mapping[int, BaseMessage]) -> None:
        self.messages = dict(messages)
        self._stored = {id(message): seq for seq, message in self.messages.items()}
        stored = cast("Iterable[AnyMessage]", messages.values())
        self._names = {id(message): name_of(message) for message in stored}
        self._read_in_part = any(map(holds_compaction, stored))

    def runs(self, messages: Iterable[AnyMessage]) -> Runs:
        """Return the numbers of messages; one that is none of the stored objects is a form."""
        return runs_of(
            found if (found := self._stored.get(id(message))) is not None else self._of_form(message)
            for message in messages
        )

    def seen(self, said: Runs, view: View | None, pins: Collection[str]) -> Runs:
        """Return the numbers of the messages that the model sees of a conversation."""
        if not view and not self._read_in_part:
            return said
        conversation = cast("list[AnyMessage]", [self.messages[seq] for seq in expand(said)])
        return self.runs(seen(conversation, view, pins, name=self._name_of))

    def _name_of(self, message: AnyMessage) -> bytes:
        return self._names.get(id(message)) or name_of(message)

    def _of_form(self, message: AnyMessage) -> int:
        number = -1 - int(fingerprint(message)[:_DIGITS], base=16)
        self.messages.setdefault(number, message)
        return number


def _said(reading: ValueDecoder, one: CheckpointRow) -> Runs:
    """Return the numbers of the messages in the channel `messages`."""
    row = reading.thread.codec.describe(one.row)
    return (reading.runs(one.values["messages"], row) if "messages" in one.values else None) or ()


def _checkpoint(reading: ValueDecoder, one: CheckpointRow, said: Runs, errors: Sequence[Write]) -> CheckpointData:
    row = reading.thread.codec.describe(one.row)

    def built(channel: str) -> Mapping[str, Any]:
        value = reading.build(one.values[channel], row) if channel in one.values else None
        return value if isinstance(value, dict) else {}

    about, compaction = reading.build_typed(one.metadata, row), built("compaction")
    raised = (str(reading.build(error.value, reading.thread.codec.describe(error.row))) for error in errors)
    return CheckpointData(
        id=one.id,
        parent=one.parent,
        written_at=one.ts,
        source=str(about.get("source", "")),
        said=said,
        view=read_view(built("compaction_view") or None),
        compaction=compaction,
        failed=any(not error.startswith(_NOT_SENT) for error in raised),
    )
