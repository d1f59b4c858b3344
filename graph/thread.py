"""`CompactionThread` has a synchronous and an asynchronous method for each operation on one thread of a graph.

Each operation is one generator in the module of its subject; the two methods here only run this generator.
"""

from dataclasses import dataclass
from typing import Any, Unpack

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.runtime.effects import arun

from .bill import Bill
from .build_dependencies import naming
from .builder import Graph
from .chart import Chart
from .history import (
    Compaction,
    Diff,
    archived,
    attempts,
    bill_of,
    changes_since,
    erased,
    erased_message,
    hits_of,
    recalled_from,
    shown,
    transcript_of,
)
from .pins import Pin, pinned, pins_of, unpinned
from .preview import Preview, previewed_thread
from .recall_tool import Where
from .thread_report import ThreadReport, thread_chart, thread_report
from .thread_state import change_async, change_sync, compacted, handed_over, records_of, run_sync
from .undo import Undone, branched, redone_in, released, undone_in


@dataclass(frozen=True)
class CompactionThread:
    """One thread of a graph: its compactions, and the operations on these compactions.

    `graph` is a compiled graph of `create_compacting_agent` or `create_compaction_graph`, or an agent with
    `CompactionMiddleware`; for any other graph each method raises `TypeError`. `config` names the thread, as
    `{"configurable": {"thread_id": "1"}}`. In a parent of several agents, `channel` says whose view it is about, as
    `CompactionMiddleware(channel=...)` names it; without it, it is that of the first agent.

    Each method has an asynchronous twin (for example `ahistory` for `history`) with the same arguments, result and
    errors. On a running event loop, with an asynchronous checkpointer, only the twins work: the synchronous methods
    raise `CompactionError`.

    Methods that change the thread wait for its running runs, as runs wait for each other, and raise `ThreadBusyError`
    after the config's `turn_wait_s`. `forget` does not wait: it ends the runs.
    """

    graph: Graph
    config: RunnableConfig
    channel: str | None = None

    @property
    def records(self) -> CompactionRecords:
        """Snapshots, summaries, ledger and archive of all threads of the graph."""
        return records_of(self.graph, self._config)

    @property
    def _config(self) -> RunnableConfig:
        return self.config if self.channel is None else naming(self.config, self.channel)

    def history(self) -> list[LedgerRow]:
        """Return every attempt at a compaction, in the order in which they began."""
        return run_sync(self.graph, "ahistory", attempts(self.graph, self._config))

    async def ahistory(self) -> list[LedgerRow]:
        """`history`, asynchronously."""
        return await arun(attempts(self.graph, self._config))

    def bill(self) -> Bill:
        """Return what the thread's calls took so far, in tokens and dollars: the agent's own, and those of summaries.

        The agent's own calls are those that led to the thread's state, those of summaries all in the ledger.
        """
        return run_sync(self.graph, "abill", bill_of(self.graph, self._config))

    async def abill(self) -> Bill:
        """`bill`, asynchronously."""
        return await arun(bill_of(self.graph, self._config))

    def report(self) -> ThreadReport:
        """Return the inspector's page about the thread, which a notebook shows; `.save(path)` writes it to a file.

        Raise `SettingsError` without jinja2 (the extra `cli`).
        """
        return run_sync(self.graph, "areport", thread_report(self.graph, self._config))

    async def areport(self) -> ThreadReport:
        """`report`, asynchronously."""
        return await arun(thread_report(self.graph, self._config))

    def plot(self) -> Chart:
        """Draw the size of each request in tokens, the compactions between them, and what fills the window now.

        Raise `CompactionError` if no request is stored, as with a checkpointer of another package, and
        `SettingsError` without matplotlib (the extra `lab`).
        """
        return run_sync(self.graph, "aplot", thread_chart(self.graph, self._config))

    async def aplot(self) -> Chart:
        """`plot`, asynchronously."""
        return await arun(thread_chart(self.graph, self._config))

    def show(self, compaction_id: str | None = None) -> Compaction:
        """Return one attempt with its messages, by default the last; `UnknownAttemptError` if there is none."""
        return run_sync(self.graph, "ashow", shown(self.graph, self._config, compaction_id))

    async def ashow(self, compaction_id: str | None = None) -> Compaction:
        """`show`, asynchronously."""
        return await arun(shown(self.graph, self._config, compaction_id))

    def diff(self, compaction_id: str | None = None) -> Diff:
        """Compare the conversation that a compaction began with, by default the last, to what the model sees now.

        Raise `UnknownAttemptError` if the ledger does not have the compaction.
        """
        return run_sync(self.graph, "adiff", changes_since(self.graph, self._config, compaction_id))

    async def adiff(self, compaction_id: str | None = None) -> Diff:
        """`diff`, asynchronously."""
        return await arun(changes_since(self.graph, self._config, compaction_id))

    def preview(self, preset: Preset | None = None, *, settings: dict[str, Any] | None = None) -> Preview:
        """Return what a compaction would do now, with the graph's settings, another preset or changed settings.

        Call no model and write nothing. Raise the errors of `CompactionSettings` for invalid settings.
        """
        return run_sync(self.graph, "apreview", previewed_thread(self.graph, self._config, preset, settings))

    async def apreview(self, preset: Preset | None = None, *, settings: dict[str, Any] | None = None) -> Preview:
        """`preview`, asynchronously."""
        return await arun(previewed_thread(self.graph, self._config, preset, settings))

    def undo(self, compaction_id: str | None = None, *, force: bool = False) -> Undone:
        """Undo a compaction, by default the last one, and all compactions that were built on it.

        The beginning of an id is enough if no other compaction of the state has it.

        The model sees the original messages again in place of their summary, and later messages as they are; messages
        that the application has deleted since stay deleted. No model is called and no node runs again.
        The thread is then *held*: while its size is below the limit no automatic compaction starts until `release` or
        a compaction on request.

        Raises `UnknownAttemptError` for a compaction that the thread's state does not build on, `OverLimitError`
        where the result would be over the limit (unless `force`), and `CompactionError` while the thread's turn is
        not over.
        """
        return change_sync(
            self.graph,
            self._config,
            "aundo",
            lambda config: undone_in(self.graph, config, compaction_id, force=force),
        )

    async def aundo(self, compaction_id: str | None = None, *, force: bool = False) -> Undone:
        """`undo`, asynchronously."""
        return await change_async(
            self.graph, self._config, lambda config: undone_in(self.graph, config, compaction_id, force=force)
        )

    def redo(self) -> Undone:
        """Bring back the compactions that the last `undo` has undone; automatic compactions are no longer held off.

        Raises `UnknownAttemptError` if nothing was undone since the last compaction, and `CompactionError` while the
        thread's turn is not over.
        """
        return change_sync(self.graph, self._config, "aredo", lambda config: redone_in(self.graph, config))

    async def aredo(self) -> Undone:
        """`redo`, asynchronously."""
        return await change_async(self.graph, self._config, lambda config: redone_in(self.graph, config))

    def release(self) -> None:
        """Allow automatic compactions again after an `undo`."""
        change_sync(self.graph, self._config, "arelease", lambda config: released(self.graph, config))

    async def arelease(self) -> None:
        """`release`, asynchronously."""
        await change_async(self.graph, self._config, lambda config: released(self.graph, config))

    def branch_from(self, compaction_id: str, *, thread_id: str | None = None) -> RunnableConfig:
        """Create a thread with the messages that a compaction of this thread began with; return the new config.

        Any compaction in the ledger that has a snapshot can be named; this thread's state need not build on the
        compaction. This thread does not change. Raise `UnknownAttemptError` if there is no snapshot, and
        `CompactionError` if the new thread exists already.
        """
        return run_sync(self.graph, "abranch_from", branched(self.graph, self._config, compaction_id, thread_id))

    async def abranch_from(self, compaction_id: str, *, thread_id: str | None = None) -> RunnableConfig:
        """`branch_from`, asynchronously."""
        return await arun(branched(self.graph, self._config, compaction_id, thread_id))

    def recall(self, query: str = "", **wanted: Unpack[Where]) -> str:
        """Return, as text, the archived messages that match a query, or a sentence if none does.

        `query` holds words or identifiers. `handle` is the handle of a message or the id of a compaction, `since`
        and `until` limit the time at which messages were removed (seconds of the wall clock), and `max_tokens` limits
        the answer. Raise `SettingsError` if neither a query nor a handle is given.
        """
        return run_sync(self.graph, "arecall", recalled_from(self.graph, self._config, query, **wanted))

    async def arecall(self, query: str = "", **wanted: Unpack[Where]) -> str:
        """`recall`, asynchronously."""
        return await arun(recalled_from(self.graph, self._config, query, **wanted))

    def search(self, query: str = "", *, in_view: bool = False, **wanted: Unpack[Where]) -> list[SearchHit]:
        """Return what `recall` finds as objects for an interface: message, handle, compaction, time and score.

        With `in_view` the messages that the model sees are searched instead; their score is the share of the query's
        words that they hold, and no compaction and no time is named.
        """
        return run_sync(self.graph, "asearch", hits_of(self.graph, self._config, query, in_view=in_view, **wanted))

    async def asearch(self, query: str = "", *, in_view: bool = False, **wanted: Unpack[Where]) -> list[SearchHit]:
        """`search`, asynchronously."""
        return await arun(hits_of(self.graph, self._config, query, in_view=in_view, **wanted))

    def pin(self, *, message_id: str | None = None, text: str | None = None) -> str:
        """Pin a message of the thread, or a text; return the id of the pinned message.

        A pinned message stays word for word, with its tool block. A text becomes a pinned user message of its own,
        unless one with this text is pinned. Raises `SettingsError` for a message that the thread does not hold, for
        neither or both arguments, and where pins would take more than half of the tokens for messages;
        `CompactionError` while the thread's turn is not over.
        """
        return change_sync(
            self.graph, self._config, "apin", lambda config: pinned(self.graph, config, message_id, text)
        )

    async def apin(self, *, message_id: str | None = None, text: str | None = None) -> str:
        """`pin`, asynchronously."""
        return await change_async(
            self.graph, self._config, lambda config: pinned(self.graph, config, message_id, text)
        )

    def unpin(self, message_id: str | None = None, *, text: str | None = None) -> None:
        """Remove the pin of a message, or of one text that a user pinned with `<Pin>` in any message.

        The message stays in the conversation until a compaction removes it. Raises `SettingsError` for a message or
        text that is not pinned and for neither or both arguments; `CompactionError` while the thread's turn is not
        over, unless the turn ended with an error: it can be resumed then, and its size is checked anew.
        """
        change_sync(self.graph, self._config, "aunpin", lambda config: unpinned(self.graph, config, message_id, text))

    async def aunpin(self, message_id: str | None = None, *, text: str | None = None) -> None:
        """`unpin`, asynchronously."""
        await change_async(self.graph, self._config, lambda config: unpinned(self.graph, config, message_id, text))

    def pins(self) -> list[Pin]:
        """Return all pins, in the order of the thread's messages."""
        return run_sync(self.graph, "apins", pins_of(self.graph, self._config))

    async def apins(self) -> list[Pin]:
        """`pins`, asynchronously."""
        return await arun(pins_of(self.graph, self._config))

    def transcript(self, *, limit: int | None = None, before: str | None = None) -> list[AnyMessage]:
        """Return the whole conversation as it was said, each message with an id, archived messages in their places.

        For a page, `limit` is the largest number of messages, the newest ones before the message with the id
        `before`, or at the end. Raises `SettingsError` for an id that the thread does not have.
        """
        return run_sync(self.graph, "atranscript", transcript_of(self.graph, self._config, limit, before))

    async def atranscript(self, *, limit: int | None = None, before: str | None = None) -> list[AnyMessage]:
        """`transcript`, asynchronously."""
        return await arun(transcript_of(self.graph, self._config, limit, before))

    def archive(self) -> int:
        """Move the messages that the model does not see to the archive in SQL; return how many left the state.

        `transcript` and `recall` still find them; an undo no longer brings them back. The first hidden message stays,
        in the place of the summary, and on a branch that began with hidden messages all stay. Raises
        `CompactionError` while the thread's turn is not over, and where the messages belong to a graph around the
        agent.
        """
        return change_sync(self.graph, self._config, "aarchive", lambda config: archived(self.graph, config))

    async def aarchive(self) -> int:
        """`archive`, asynchronously."""
        return await change_async(self.graph, self._config, lambda config: archived(self.graph, config))

    def compact(self, *, focus: str | None = None, full: bool = False) -> dict[str, Any]:
        """Compact the thread now, whatever its size; return the new state.

        `focus` says what to keep above all; `full` summarizes the whole conversation, including messages that the
        strategies would keep. Raises `CompactionError` while the thread waits for an answer, for example to an
        approval, or for tools: a new run would abandon them.
        """
        return change_sync(
            self.graph, self._config, "acompact", lambda config: compacted(self.graph, config, focus, full=full)
        )

    async def acompact(self, *, focus: str | None = None, full: bool = False) -> dict[str, Any]:
        """`compact`, asynchronously."""
        return await change_async(
            self.graph, self._config, lambda config: compacted(self.graph, config, focus, full=full)
        )

    def handoff(self) -> dict[str, Any]:
        """Return the input for the new thread that a person chose to open instead of compacting this thread.

        The input is `{"messages": header and unanswered round, "compaction_request": {"memory": goal, pins and
        summary}}` and is available until the thread's next input. Raises `CompactionError` if nobody has chosen a new
        thread.
        """
        return run_sync(self.graph, "ahandoff", handed_over(self.graph, self._config))

    async def ahandoff(self) -> dict[str, Any]:
        """`handoff`, asynchronously."""
        return await arun(handed_over(self.graph, self._config))

    def forget(self) -> None:
        """Erase the thread everywhere: its checkpoints, snapshots, summaries, ledger and archive."""
        run_sync(self.graph, "aforget", erased(self.graph, self._config))

    async def aforget(self) -> None:
        """`forget`, asynchronously."""
        await arun(erased(self.graph, self._config))

    def erase(self, message_id: str) -> None:
        """Erase one message of the thread for good, and everything that was made of it.

        The message leaves `messages` and the archive. Snapshots, summaries, ledger and archive of the thread and its
        older checkpoints are erased, so that nothing can be undone; the other messages stay, those from the archive
        come back into the state, and the next request that is too large is compacted anew. The bytes stay in the
        database's files until the saver's `reclaim`. After an error or a crash, a second call finishes the work.
        Raises `SettingsError` for an unknown id, and `CompactionError` while the thread's turn is not over, and
        without a checkpointer of this package.
        """
        change_sync(self.graph, self._config, "aerase", lambda config: erased_message(self.graph, config, message_id))

    async def aerase(self, message_id: str) -> None:
        """`erase`, asynchronously."""
        await change_async(self.graph, self._config, lambda config: erased_message(self.graph, config, message_id))

    def __repr__(self) -> str:
        return f"CompactionThread({self.config!r})"
