"""`CompactionThread` has a synchronous and an asynchronous method for each operation on one thread of a graph.

Each operation is one generator in the module of its subject; the two methods here only run this generator.
"""

from dataclasses import dataclass
from typing import Any, Unpack

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.runtime.effects import arun, is_long

from .builder import Graph
from .embedding import as_mapping, rendered
from .history import Compaction, Diff, attempts, changes_since, erased, recalled_from, shown, transcript_of
from .pins import Pin, pinned, pins_of, unpinned
from .preview import Preview, previewed_thread
from .recall_tool import Where
from .thread_state import change_async, change_sync, compacted, handed_over, records_of, run_sync
from .undo import Undone, branched, released, undone_in


@dataclass(frozen=True)
class CompactionThread:
    """One thread of a graph: its compactions, and the operations on these compactions.

    `graph` is a compiled graph of `create_compacting_agent` or `create_compaction_graph`, or an agent with
    `CompactionMiddleware`; for any other graph each method raises `TypeError`. `config` names the thread, as
    `{"configurable": {"thread_id": "1"}}`.

    Each method has an asynchronous twin (for example `ahistory` for `history`) with the same arguments, result and
    errors. On a running event loop, with an asynchronous checkpointer, only the twins work: the synchronous methods
    raise `CompactionError`.

    Methods that change the thread wait for its running runs, as runs wait for each other, and raise `ThreadBusyError`
    after the config's `turn_wait_s`. `forget` does not wait: it ends the runs.
    """

    graph: Graph
    config: RunnableConfig

    @property
    def records(self) -> CompactionRecords:
        """Snapshots, summaries, ledger and archive of all threads of the graph."""
        return records_of(self.graph)

    def history(self) -> list[LedgerRow]:
        """Return every attempt at a compaction, in the order in which they began."""
        return run_sync(self.graph, "ahistory", attempts(self.graph, self.config))

    async def ahistory(self) -> list[LedgerRow]:
        """`history`, asynchronously."""
        return await arun(attempts(self.graph, self.config))

    def show(self, compaction_id: str) -> Compaction:
        """Return one attempt with its messages; raise `UnknownAttemptError` if the ledger does not have it."""
        return run_sync(self.graph, "ashow", shown(self.graph, self.config, compaction_id))

    async def ashow(self, compaction_id: str) -> Compaction:
        """`show`, asynchronously."""
        return await arun(shown(self.graph, self.config, compaction_id))

    def diff(self, compaction_id: str) -> Diff:
        """Compare the conversation that a compaction began with to the messages that the model sees now.

        Raise `UnknownAttemptError` if the ledger does not have the compaction.
        """
        return run_sync(self.graph, "adiff", changes_since(self.graph, self.config, compaction_id))

    async def adiff(self, compaction_id: str) -> Diff:
        """`diff`, asynchronously."""
        return await arun(changes_since(self.graph, self.config, compaction_id))

    def preview(self, preset: Preset | None = None, *, settings: dict[str, Any] | None = None) -> Preview:
        """Return what a compaction would do now, with the graph's settings, another preset or changed settings.

        Call no model and write nothing. Raise the errors of `CompactionSettings` for invalid settings.
        """
        return run_sync(self.graph, "apreview", previewed_thread(self.graph, self.config, preset, settings))

    async def apreview(self, preset: Preset | None = None, *, settings: dict[str, Any] | None = None) -> Preview:
        """`preview`, asynchronously."""
        return await arun(previewed_thread(self.graph, self.config, preset, settings))

    def undo(self, compaction_id: str | None = None, *, force: bool = False) -> Undone:
        """Undo a compaction, by default the last one, and all compactions that were built on it.

        The beginning of an id is enough if no other compaction of the state has it.

        The original messages return to the place of their summary, later messages follow unchanged, and messages
        that the application has deleted after the compaction stay deleted; no model is called and no node runs again.
        The thread is then *held*: while its size is below the limit no automatic compaction starts until `release` or
        a compaction on request. If the redaction hook has `store=True`, the messages return redacted.

        Raises `UnknownAttemptError` for a compaction that the thread's state does not build on, `OverLimitError`
        where the result would be over the limit (unless `force`), and `CompactionError` while the thread's turn is
        not over.
        """
        return change_sync(
            self.graph, self.config, "aundo", lambda config: undone_in(self.graph, config, compaction_id, force=force)
        )

    async def aundo(self, compaction_id: str | None = None, *, force: bool = False) -> Undone:
        """`undo`, asynchronously."""
        return await change_async(
            self.graph, self.config, lambda config: undone_in(self.graph, config, compaction_id, force=force)
        )

    def release(self) -> None:
        """Allow automatic compactions again after an `undo`."""
        change_sync(self.graph, self.config, "arelease", lambda config: released(self.graph, config))

    async def arelease(self) -> None:
        """`release`, asynchronously."""
        await change_async(self.graph, self.config, lambda config: released(self.graph, config))

    def branch_from(self, compaction_id: str, *, thread_id: str | None = None) -> RunnableConfig:
        """Create a thread with the messages that a compaction of this thread began with; return the new config.

        Any compaction in the ledger that has a snapshot can be named; this thread's state need not build on the
        compaction. This thread does not change. Raise `UnknownAttemptError` if there is no snapshot, and
        `CompactionError` if the new thread exists already.
        """
        return run_sync(self.graph, "abranch_from", branched(self.graph, self.config, compaction_id, thread_id))

    async def abranch_from(self, compaction_id: str, *, thread_id: str | None = None) -> RunnableConfig:
        """`branch_from`, asynchronously."""
        return await arun(branched(self.graph, self.config, compaction_id, thread_id))

    def recall(self, query: str = "", **wanted: Unpack[Where]) -> str:
        """Return, as text, the archived messages that match a query, or a sentence if none does.

        `query` holds words or identifiers. `handle` is the handle of a message or the id of a compaction, `since`
        and `until` limit the time at which messages were removed (seconds of the wall clock), and `max_tokens` limits
        the answer. Raise `SettingsError` if neither a query nor a handle is given.
        """
        return run_sync(self.graph, "arecall", recalled_from(self.graph, self.config, query, **wanted))

    async def arecall(self, query: str = "", **wanted: Unpack[Where]) -> str:
        """`recall`, asynchronously."""
        return await arun(recalled_from(self.graph, self.config, query, **wanted))

    def render(self, state: Any) -> list[AnyMessage]:
        """Return the request for a model that a parent graph calls itself, beside the node that `as_node` made.

        `state` is the parent's state: a dictionary, a model of pydantic or a dataclass. The request is that of
        `nodes.render`, and with automatic recall a last message that quotes the archive, for this request
        only: do not add it to the state.
        """
        return run_sync(self.graph, "arender", rendered(self.graph, self.config, as_mapping(state)))

    async def arender(self, state: Any) -> list[AnyMessage]:
        """`render`, asynchronously."""
        known = as_mapping(state)
        return await arun(rendered(self.graph, self.config, known), off_loop=is_long(known["messages"]))

    def pin(self, *, message_id: str | None = None, text: str | None = None) -> str:
        """Pin a message of the thread, or a text; return the id of the pinned message.

        A pinned message stays word for word, with its tool block. A text becomes a pinned user message of its own.
        Raises `SettingsError` for a message that the thread does not hold, for neither or both arguments, and where
        pins would take more than half of the tokens for messages; `CompactionError` while the thread's turn is not
        over.
        """
        return change_sync(
            self.graph, self.config, "apin", lambda config: pinned(self.graph, config, message_id, text)
        )

    async def apin(self, *, message_id: str | None = None, text: str | None = None) -> str:
        """`pin`, asynchronously."""
        return await change_async(
            self.graph, self.config, lambda config: pinned(self.graph, config, message_id, text)
        )

    def unpin(self, message_id: str | None = None, *, text: str | None = None) -> None:
        """Remove the pin of a message, or of one text that a user pinned with `<Pin>` in any message.

        The message stays in the conversation until a compaction removes it. Raises `SettingsError` for a message or
        text that is not pinned and for neither or both arguments; `CompactionError` while the thread's turn is not
        over, unless the turn ended with an error: it can be resumed then, and its size is checked anew.
        """
        change_sync(self.graph, self.config, "aunpin", lambda config: unpinned(self.graph, config, message_id, text))

    async def aunpin(self, message_id: str | None = None, *, text: str | None = None) -> None:
        """`unpin`, asynchronously."""
        await change_async(self.graph, self.config, lambda config: unpinned(self.graph, config, message_id, text))

    def pins(self) -> list[Pin]:
        """Return all pins, in the order of the thread's messages."""
        return run_sync(self.graph, "apins", pins_of(self.graph, self.config))

    async def apins(self) -> list[Pin]:
        """`pins`, asynchronously."""
        return await arun(pins_of(self.graph, self.config))

    def transcript(self, *, namespace: str | None = None) -> list[AnyMessage]:
        """Return the whole conversation: archived and current messages, in order and without summaries.

        In a parent graph, `namespace` names the node that `as_node` made; by default the only one that there is.
        Raises `CompactionError` for a parent with `persist="subgraph"`, whose state does not hold its compactions.
        """
        return run_sync(self.graph, "atranscript", transcript_of(self.graph, self.config, namespace))

    async def atranscript(self, *, namespace: str | None = None) -> list[AnyMessage]:
        """`transcript`, asynchronously."""
        return await arun(transcript_of(self.graph, self.config, namespace))

    def compact(self, *, focus: str | None = None, full: bool = False) -> dict[str, Any]:
        """Compact the thread now, whatever its size; return the new state.

        `focus` says what to keep above all; `full` summarizes the whole conversation, including messages that the
        strategies would keep. Raises `CompactionError` while the thread waits for an answer, for example to an
        approval, or for tools: a new run would abandon them.
        """
        return change_sync(
            self.graph, self.config, "acompact", lambda config: compacted(self.graph, config, focus, full=full)
        )

    async def acompact(self, *, focus: str | None = None, full: bool = False) -> dict[str, Any]:
        """`compact`, asynchronously."""
        return await change_async(
            self.graph, self.config, lambda config: compacted(self.graph, config, focus, full=full)
        )

    def handoff(self) -> dict[str, Any]:
        """Return the input for the new thread that a person chose to open instead of compacting this thread.

        The input is `{"messages": header, summary and unanswered round, "compaction_request": {"memory": goal and
        pins}}` and is available until the thread's next input. Raises `CompactionError` if nobody has chosen a new
        thread.
        """
        return run_sync(self.graph, "ahandoff", handed_over(self.graph, self.config))

    async def ahandoff(self) -> dict[str, Any]:
        """`handoff`, asynchronously."""
        return await arun(handed_over(self.graph, self.config))

    def forget(self) -> None:
        """Erase the thread everywhere: its checkpoints, snapshots, summaries, ledger and archive."""
        run_sync(self.graph, "aforget", erased(self.graph, self.config))

    async def aforget(self) -> None:
        """`forget`, asynchronously."""
        await arun(erased(self.graph, self.config))

    def __repr__(self) -> str:
        return f"CompactionThread({self.config!r})"
