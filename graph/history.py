"""Read what is stored about a thread (its compactions and their messages, the whole conversation), or erase it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Unpack, cast

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from langgraph_compaction.checkpoint import (
    AsyncSQLAlchemySaver,
    CompactionRecords,
    SQLAlchemySaver,
    UnknownAttemptError,
)
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, LedgerRow
from langgraph_compaction.checkpoint.compaction.ledger import PREPARING
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.compaction.search_index import text_of
from langgraph_compaction.checkpoint.compaction.search_terms import terms
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.nodes import CompactionError, SettingsError
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.view import NO_VIEW
from langgraph_compaction.nodes.runtime.effects import Effects, blocking, either, querying
from langgraph_compaction.nodes.runtime.window_usage import stored_usages
from langgraph_compaction.nodes.state import conversation, messages_in_view, moved, pinned_ids, stored_view
from langgraph_compaction.nodes.summary.recall_answer import MOST_FOUND

from .bill import Bill
from .build_dependencies import dependencies_of, node_of_compaction
from .builder import Graph
from .exclusive_runs import thread_of
from .inspector.page import CAUSES
from .notebook_display import Parts, card
from .recall_tool import Wanted, Where, look_up, recalled
from .thread_state import at_rest, records_of, state_of, written


@dataclass(frozen=True, kw_only=True, repr=False)
class Diff:
    """The differences between two lists of messages; each field is in the order of its conversation."""

    dropped: list[AnyMessage]
    """Messages that only the first list holds."""
    clipped: list[tuple[AnyMessage, AnyMessage]]
    """Messages whose text changed under the same id, as pairs of before and after."""
    summaries: list[AnyMessage]
    """Summaries that only the second list holds."""
    added: list[AnyMessage]
    """Other messages that only the second list holds."""
    kept: int
    """Number of messages that both lists hold unchanged."""

    def __repr__(self) -> str:
        """Return the numbers of messages in one line; the messages can be long."""
        gone = f"{len(self.dropped)} dropped, {len(self.clipped)} clipped"
        return f"<Diff {gone}, {len(self.summaries)} summaries, {len(self.added)} added, {self.kept} kept>"

    def _repr_html_(self) -> str | None:
        gone: Parts = [("left the view", self.dropped), ("shortened", self.clipped)]
        come: Parts = [("summaries", self.summaries), ("added", self.added)]
        return card("Two conversations compared", [("kept as they were", self.kept)], [*gone, *come])


def diff(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> Diff:
    """Compare two conversations message by message, by their ids: what was dropped, clipped, summarized, added."""
    old = {message.id: cast("AnyMessage", message) for message in before}
    new = {message.id: cast("AnyMessage", message) for message in after}
    fresh = [message for name, message in new.items() if name not in old]
    both = [(old[name], message) for name, message in new.items() if name in old]
    clipped = [(earlier, later) for earlier, later in both if earlier != later]
    return Diff(
        dropped=[message for name, message in old.items() if name not in new],
        clipped=clipped,
        summaries=[message for message in fresh if is_summary(message)],
        added=[message for message in fresh if not is_summary(message)],
        kept=len(both) - len(clipped),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Compaction:
    """One attempt at a compaction, with its messages."""

    row: LedgerRow
    """The ledger's row about the attempt."""
    began_with: list[AnyMessage]
    """The conversation with which the attempt began; empty if there is none, as of an attempt that was refused."""
    dropped: list[AnyMessage]
    """Messages that the compaction removed, in their original form."""
    clipped: list[AnyMessage]
    """Messages that the compaction shortened, in their original form."""
    on_this_branch: bool
    """Whether the thread's state builds on this compaction. If not, it was undone or belongs to another branch."""

    def __repr__(self) -> str:
        """Return the ledger's row and the numbers of messages in one line; the messages can be long."""
        counts = f"{len(self.dropped)} dropped, {len(self.clipped)} clipped"
        return f"<Compaction {self.row!r}, {counts}, began with {len(self.began_with)} messages>"

    def _repr_html_(self) -> str | None:
        row = self.row
        why = [("why", why_of(row)), ("reason", f"{row.reason} {row.detail}".strip())]
        sizes = [("tokens before", row.tokens_before), ("tokens after", row.tokens_after)]
        left = f"{len(self.dropped):,} messages left the view, {len(self.clipped):,} were shortened"
        gone = [("what left", left)] if row.is_committed else []
        ends = [*gone, ("strategy", row.strategy), ("cost", cost_of(row))]
        if self.on_this_branch:
            ends.append(("undo", f'thread.undo("{row.compaction_id}"); with force=True beyond the limit'))
        parts = [("left the view", self.dropped), ("shortened", self.clipped), ("in view before", self.began_with)]
        standing = ", not in force" if row.is_committed and not self.on_this_branch else ""
        title = f"Compaction {row.compaction_id}: {row.verdict or 'open'}{standing}"
        usages = stored_usages(row.window)
        return card(title, [*why, *sizes, *ends], parts, row.summary or "", usages)


def why_of(row: LedgerRow) -> str:
    """Return why an attempt began, with the size of the request, and trigger and limit if they are stored."""
    sizes = "".join(f"; trigger {one.trigger:,}, limit {one.limit:,}" for one in stored_usages(row.window)[:1])
    return f"{CAUSES.get(row.trigger, f'the trigger {row.trigger} fired')}: {row.tokens_before:,} tokens{sizes}"


def cost_of(row: LedgerRow) -> str:
    """Return what an attempt took: the calls for its summary, their tokens and price, and the time."""
    took, calls = row.usage, "no call for a summary"
    if row.trigger == PREPARING:
        calls = "in the bill of the compaction that uses it"
    if took.calls:
        cached = f" ({took.cache_read_tokens:,} cached)" if took.cache_read_tokens else ""
        price = "price not known" if took.cost is None else f"${took.cost:.3g}"
        tokens = f"{took.input_tokens:,} tokens in{cached}, {took.output_tokens:,} out"
        tokens = tokens if took.input_tokens or took.output_tokens else "tokens not reported"
        calls = f"calls for the summary: {took.calls}, {tokens}, {price}"
    return calls if row.duration_s is None else f"{calls}; {row.duration_s:.2f} s"


def bill_of(graph: Graph, config: RunnableConfig) -> Effects[Bill]:
    """Return what the calls of a thread took."""
    state = yield from state_of(graph, config)
    return Bill.of(state.values, (yield from attempts(graph, config)))


def attempts(graph: Graph, config: RunnableConfig) -> Effects[list[LedgerRow]]:
    """Return every attempt at a compaction of a thread, in the order in which they began."""
    records = records_of(graph, config)
    return (yield from querying(records, lambda: records.history(thread_of(config))))


def is_attempt(row: LedgerRow) -> bool:
    """Whether a row of the ledger is an attempt at a compaction: neither a preparation nor an undo."""
    return row.trigger != PREPARING and row.verdict not in ("undone", "redone")


def shown(graph: Graph, config: RunnableConfig, compaction_id: str | None) -> Effects[Compaction]:
    """Return one attempt of a thread with its messages, by default the last; `UnknownAttemptError` without one."""
    rows, thread = (yield from attempts(graph, config)), thread_of(config)
    named = [row for row in rows if row.compaction_id == compaction_id or (compaction_id is None and is_attempt(row))]
    if not named:
        which = "" if compaction_id is None else f" {compaction_id!r}: see history"
        raise UnknownAttemptError(f"the ledger of thread {thread!r} has no compaction{which}")
    found = named[-1]
    state = yield from state_of(graph, config)
    head = (state.values.get("compaction") or {}).get("head")
    records = records_of(graph, config)
    return (yield from querying(records, lambda: _with_messages(records, found, head)))


def changes_since(graph: Graph, config: RunnableConfig, compaction_id: str | None) -> Effects[Diff]:
    """Compare the messages that a compaction began with to the messages that the model sees now."""
    found = (yield from shown(graph, config, compaction_id)).row
    state, records = (yield from state_of(graph, config)), records_of(graph, config)
    began = yield from querying(records, lambda: records.began_with(found.thread_id, found.compaction_id))
    return diff(began, messages_in_view(state.values))


def _with_messages(records: CompactionRecords, found: LedgerRow, head: str | None) -> Compaction:
    thread, name = found.thread_id, found.compaction_id
    dropped, clipped = parted(found, cast("list[AnyMessage]", records.taken_by(thread, name)))
    key = AttemptKey(thread, found.namespace, found.base_fingerprint, found.level, found.attempt)
    return Compaction(
        row=found,
        began_with=cast("list[AnyMessage]", records.snapshot(key) or []),
        dropped=dropped,
        clipped=clipped,
        on_this_branch=name in records.line(thread, head),
    )


def parted(row: LedgerRow, taken: Sequence[AnyMessage]) -> tuple[list[AnyMessage], list[AnyMessage]]:
    """Split the messages that a compaction archived into those that it removed and those that it only shortened."""
    gone = set(row.dropped)
    left = [message.id in gone or is_summary(message) for message in taken]
    return list(compress(taken, left)), [message for message, away in zip(taken, left, strict=True) if not away]


def erased(graph: Graph, config: RunnableConfig) -> Effects[None]:
    """Erase a thread everywhere: its checkpoints, snapshots, summaries, ledger and archive."""
    thread, saver = thread_of(config), graph.checkpointer
    if saver is not None and not isinstance(saver, bool):
        yield from either(lambda: saver.delete_thread(thread), lambda: saver.adelete_thread(thread))
    records = records_of(graph, config)
    yield from querying(records, lambda: records.forget(thread))


def transcript_of(
    graph: Graph, config: RunnableConfig, limit: int | None, before: str | None
) -> Effects[list[AnyMessage]]:
    """Return what was said, or a page of it; what has moved to the archive stands in its place."""
    if limit is not None and limit < 1:
        raise SettingsError(f"limit={limit} leaves nothing: give the number of messages of a page")
    values = (yield from state_of(graph, config)).values
    records, thread, place = records_of(graph, config), thread_of(config), node_of_compaction(graph)
    said = yield from querying(records, lambda: transcript_in(records, thread, values, place))
    end = len(said) if before is None else next((at for at, one in enumerate(said) if one.id == before), None)
    if end is None:
        raise SettingsError(f"before={before!r} is the id of no message of this thread")
    return said[0 if limit is None else max(end - limit, 0) : end]


def transcript_in(
    records: CompactionRecords, thread: str, values: Mapping[str, Any], namespace: str = ""
) -> list[AnyMessage]:
    """Return what was said on a thread with this state, also what has moved to the archive."""
    said, view = conversation(values), stored_view(values)
    head = (values.get("compaction") or {}).get("head")
    if not head or (view is not None and not view.get("moved")):
        return said
    # without a view, an earlier version has removed messages
    return cast("list[AnyMessage]", records.transcript(thread, namespace, said, head=head))


def erased_message(graph: Graph, config: RunnableConfig, message_id: str) -> Effects[None]:
    """Erase one message of a thread at rest from state, older checkpoints and all that was made of it.

    The state names the message until all of it is erased, so that a later call can finish what an error has ended.
    """
    state, dependencies, saver = (
        (yield from at_rest(graph, config)),
        dependencies_of(graph, config),
        graph.checkpointer,
    )
    if not isinstance(saver, SQLAlchemySaver | AsyncSQLAlchemySaver) or not dependencies.owns_list:
        raise CompactionError(
            "one message can be erased where a checkpointer of this package keeps the thread of an agent that is no "
            "node of another graph: elsewhere older checkpoints would keep it"
        )
    records, thread = dependencies.records, thread_of(config)
    said = yield from querying(records, lambda: transcript_in(records, thread, state.values))
    begun = (state.values.get("compaction") or {}).get("erasing") == message_id
    if not begun and all(message.id != message_id for message in said):
        raise SettingsError(f"the thread holds no message {message_id!r}: transcript() shows ids")
    rest = [message for message in said if message.id != message_id]
    pins = [name for name in pinned_ids(state.values) if name != message_id]
    made: dict[str, Any] = {
        "head": None,
        "goal": "",
        "usage": None,
        "draft": None,
        "handoff": None,
        "last": {},
        "held": False,
        "erasing": message_id,
    }
    update = {
        "messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *rest],
        "compaction_view": NO_VIEW,
        "compaction": {**made, "pins": pins},
    }
    yield from written(graph, config, update)
    yield from querying(records, lambda: records.forget_compactions(thread))
    yield from either(lambda: saver.prune([thread], archive="drop"), lambda: saver.aprune([thread], archive="drop"))
    yield from written(graph, config, {"compaction": {"erasing": None}})


def archived(graph: Graph, config: RunnableConfig) -> Effects[int]:
    """Move the hidden messages of a thread at rest to the archive; return how many left the state."""
    state, dependencies = (yield from at_rest(graph, config)), dependencies_of(graph, config)
    if not dependencies.owns_list:
        raise CompactionError(
            "the messages belong to the graph around the compaction: only an agent that is no node of another graph "
            "can move them"
        )
    view = stored_view(state.values)
    update = moved(conversation(state.values), view, keep=0) if view else {}
    if "messages" in update:
        yield from written(graph, config, update)
    return len(update.get("messages", ()))


def hits_of(
    graph: Graph, config: RunnableConfig, query: str, *, in_view: bool, **wanted: Unpack[Where]
) -> Effects[list[SearchHit]]:
    """Return the messages of a thread that match a query, the best first: archived ones, or those in view."""
    records, thread = records_of(graph, config), thread_of(config)
    if in_view:
        seen = messages_in_view((yield from state_of(graph, config)).values)
        return (yield from blocking(lambda: _hits_in_view(seen, query)))
    look = Wanted(query=query, **wanted)
    return (yield from querying(records, lambda: look_up(records, thread, look)))


def _hits_in_view(messages: Sequence[AnyMessage], query: str) -> list[SearchHit]:
    """Return the messages that hold words of the query; the score is the share of its words."""
    asked = set(terms(query))
    shares = [(len(asked & set(terms(text_of(message)))) / max(len(asked), 1), message) for message in messages]
    found = sorted((one for one in shares if one[0]), key=lambda one: -one[0])[:MOST_FOUND]
    return [
        SearchHit(message=message, handle=handle(message), compaction_id="", archived_at=0.0, score=share)
        for share, message in found
    ]


def recalled_from(graph: Graph, config: RunnableConfig, query: str, **wanted: Unpack[Where]) -> Effects[str]:
    """Return, as text, the archived messages of a thread that match a query, or a sentence if none does."""
    dependencies = dependencies_of(graph, config)
    counter = dependencies.counter_for(dependencies.facts.name)
    return (yield from recalled(dependencies.records, thread_of(config), Wanted(query=query, **wanted), counter))
