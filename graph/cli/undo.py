"""`undo`: undoes a compaction, ends the pause after an undo, or starts a new thread from before a compaction."""

from collections.abc import Generator
from contextlib import contextmanager
from time import time
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.base import ChannelVersions, empty_checkpoint

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.conversation.message_marks import marked_by_us
from langgraph_compaction.nodes.conversation.request import meter_of_thread
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.runtime.undo_request import messages_after, tell_ledger, undone
from langgraph_compaction.nodes.state import STATE_VERSION, replace

from ..exclusive_runs import stored_turn
from ..offline_edit import at_rest, newest, rewrite
from ..undo import OverLimitError
from .options import AsJson, Db, Thread, find_attempt, open_existing
from .output import tell


def undo(
    thread: Thread,
    compaction: Annotated[
        str | None,
        typer.Argument(
            metavar="[COMPACTION]",
            help="The number of the compaction in `history`, its id, or the beginning of its id. Default: the last "
            "compaction that is not undone.",
        ),
    ] = None,
    *,
    db: Db,
    force: Annotated[
        bool, typer.Option("--force", help="Undo even if the next request is then over the limit.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Undo nothing, and allow automatic compactions again after an undo.")
    ] = False,
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="NEW",
            help="Undo nothing, and start a thread with the id NEW from the messages before the compaction.",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="How many seconds to wait if another run works on the thread.")
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Undo a compaction and all later compactions, and restore the removed messages.

    Afterwards, the thread is compacted automatically only if a request is over the limit. --release, or a compaction
    that you ask for, ends this state.
    """
    if release and branch is not None:
        raise SettingsError("--release and --branch are two things: give one of them")
    if branch is not None:
        with open_existing(db, thread) as saver:
            told, sentence = _branch(saver, thread, compaction or "last", branch)
    else:
        with _idle(db, thread, wait) as saver:
            told, sentence = _release(saver, thread) if release else _undo(saver, thread, compaction, force=force)
    tell(told, sentence, as_json=as_json)


@contextmanager
def _idle(db: str, thread: str, wait: float) -> Generator[SQLAlchemySaver]:
    """Open an existing database as long as no run works on the thread."""
    with open_existing(db, thread) as saver:
        leases = CompactionRecords(saver.database).run_leases
        with stored_turn(leases, thread, wait, "--wait"):
            yield saver


def _undo(saver: SQLAlchemySaver, thread: str, compaction: str | None, *, force: bool) -> tuple[dict[str, Any], str]:
    found = at_rest(newest(saver, thread))
    values = found.checkpoint["channel_values"]
    channel: dict[str, Any] = values["compaction"]
    records = CompactionRecords(saver.database)
    named = None if compaction in (None, "last") else find_attempt(records, thread, compaction).compaction_id
    before = records.before(thread, values["messages"], head=channel.get("head"), compaction_id=named)
    sizes: dict[str, int] = channel.get("sizes") or {}
    meter = meter_of_thread(channel, tiktoken_counter(), 0)
    tokens, limit = meter.request(cast("list[AnyMessage]", before.messages)), sizes.get("limit")
    if limit is not None and tokens > limit and not force:
        raise OverLimitError(
            f"with compaction {before.undone[0]} undone, the messages would have about {tokens:,} tokens and the "
            f"limit was {limit:,}: the next turn would compact again at once. --force undoes it all the same"
        )
    own = marked_by_us(before.messages)
    known = undone(before, values, settings=CompactionSettings(), meter=meter)
    after = {**channel, **known, "own_marks": own}
    rewrite(saver, found, {"messages": replace(messages_after(before)).value, "compaction": after})
    tell_ledger(records, thread, values, before, meter=meter, after=tokens, now=time())
    told = {"thread_id": thread, "undone": list(before.undone), "messages": len(before.messages)}
    beside = "" if limit is None else f" (trigger {sizes['trigger']:,}, limit {limit:,})"
    sentence = (
        f"undone: {', '.join(before.undone)}. {len(before.messages)} messages are in view, about {tokens:,} tokens"
        f"{beside}. Automatic compactions pause until `undo {thread} --release`."
    )
    return {**told, "tokens_about": tokens, "trigger": sizes.get("trigger"), "limit": limit}, sentence


def _release(saver: SQLAlchemySaver, thread: str) -> tuple[dict[str, Any], str]:
    found = at_rest(newest(saver, thread))
    channel: dict[str, Any] = found.checkpoint["channel_values"]["compaction"]
    rewrite(saver, found, {"compaction": {**channel, "held": False}})
    return {"thread_id": thread, "held": False}, f"Automatic compactions of {thread} are allowed again."


def _branch(saver: SQLAlchemySaver, thread: str, compaction: str, new: str) -> tuple[dict[str, Any], str]:
    if new in saver.threads():
        raise SettingsError(f"there is a thread {new!r} already: give another id by --branch")
    values = newest(saver, thread).checkpoint["channel_values"]
    records = CompactionRecords(saver.database)
    name = find_attempt(records, thread, compaction).compaction_id
    messages = records.began_with(thread, name)
    start = {"v": STATE_VERSION, "step": "end", "route": "end", "own_marks": marked_by_us(messages)}
    channels = {"messages": messages, "memory": values.get("memory") or {}, "compaction": start}
    versions: ChannelVersions = {channel: saver.get_next_version(None, None) for channel in channels}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = channels, versions.copy()
    metadata: Any = {"source": "update", "step": 0, "parents": {}}
    saver.put({"configurable": {"thread_id": new, "checkpoint_ns": ""}}, checkpoint, metadata, versions)
    sentence = f"thread {new} stands where compaction {name} of {thread} began: {len(messages)} messages."
    return {"thread_id": new, "from": thread, "messages": len(messages)}, sentence
