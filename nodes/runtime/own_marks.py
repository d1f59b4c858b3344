"""Believe the marks of a summary, a clipped or a refused message only where this thread's nodes have written them.

A client may send whole messages, with any `additional_kwargs`. Marks of ours could hide a message from the transcript
or from the model, or make its text a pin. So the state lists the fingerprints of the messages that the nodes have
marked; a marked message that is neither in this list nor in the thread's archive loses these marks.
"""

from typing import Any

from langchain_core.messages import AnyMessage

from langgraph_compaction.checkpoint import CheckpointError
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint

from ..conversation.message_marks import NAMED_CHARACTERS, with_our_marks, without_our_marks
from ..events import MarksRemovedEvent, emit, log
from .effects import Effects
from .node_context import NodeContext


def without_foreign_marks(context: NodeContext) -> Effects[NodeContext]:
    """Return the context in which messages that a client has marked as ours are ordinary messages.

    The marks are believed without a thread, on a thread that an earlier version began, and with a request that brings
    the memory of another thread: then the application continues that thread here.

    Raises `CheckpointError` if the archive cannot be read: the marks can then be neither believed nor removed.
    """
    known = context.compaction.get("own_marks")
    adopts = "memory" in (context.request or {})
    if context.thread_id is None or adopts or (known is None and context.compaction.get("turns")):
        return context
    foreign: list[str] = []
    for message in with_our_marks(context.annotated):
        claims = fingerprint(message)[:NAMED_CHARACTERS] not in (known or ())
        if claims and not (yield from _is_archived(context, message)):
            foreign.append(str(message.id))
    if not foreign:
        return context
    log.warning("Messages came with marks that only a compaction writes, and lost them: %s", ", ".join(foreign))
    emit(context.writer, MarksRemovedEvent(message_ids=tuple(foreign)))
    kept = [without_our_marks(message) if message.id in foreign else message for message in context.messages]
    return context.after({}, kept)


def _is_archived(context: NodeContext, message: AnyMessage) -> Effects[bool]:
    thread, name = str(context.thread_id), fingerprint(message)
    try:
        found: Any = yield from context.query(lambda: context.records.recall(thread, name))
    except CheckpointError as error:
        error.add_note(
            f"Message {message.id!r} has marks of a compaction, and the archive, which tells whether a compaction of "
            f"thread {thread!r} wrote them, cannot be read. The input was not processed: send it again later"
        )
        raise
    return found is not None and found.id == message.id and fingerprint(found) == name
