"""`undo`: undoes a compaction, ends the pause after an undo, or starts a new thread from before a compaction."""

from collections.abc import Generator
from contextlib import contextmanager
from time import time
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.base import ChannelVersions, CheckpointTuple, empty_checkpoint

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.runtime.undo_request import (
    Undoing,
    after_undo,
    channel_after,
    exceeds,
    over_limit,
    redoing,
    tell_ledger,
    undoing,
)

from ..exclusive_runs import stored_turn
from ..offline_edit import at_rest, newest, rewrite, stored_meter
from ..undo import OverLimitError, branch_of
from .options import AsJson, Db, Thread, find_attempt, open_existing, undone_by
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
    redo: Annotated[bool, typer.Option("--redo", help="Bring back what the last undo has undone.")] = False,
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
    """Undo a compaction and all later ones: the model sees the messages again.

    Afterwards, the thread is compacted automatically only if a request is over the limit. --release, or a compaction
    that you ask for, ends this state.
    """
    if sum((release, redo, branch is not None)) > 1:
        raise SettingsError("--redo, --release and --branch are different things: give one of them")
    if branch is not None:
        with open_existing(db, thread) as saver:
            told, sentence = _branch(saver, thread, compaction or "last", branch)
    else:
        with _idle(db, thread, wait) as saver:
            if redo:
                told, sentence = redo_thread(saver, thread)
            elif release:
                told, sentence = release_thread(saver, thread)
            else:
                told, sentence = _undo(saver, thread, compaction, force=force)
    tell(told, sentence, as_json=as_json)


@contextmanager
def _idle(db: str, thread: str, wait: float) -> Generator[SQLAlchemySaver]:
    """Open an existing database as long as no run works on the thread."""
    with open_existing(db, thread) as saver:
        leases = CompactionRecords(saver.database).run_leases
        with stored_turn(leases, thread, wait, "--wait"):
            yield saver


def _undo(saver: SQLAlchemySaver, thread: str, compaction: str | None, *, force: bool) -> tuple[dict[str, Any], str]:
    try:
        told, sentence = undo_thread(saver, thread, compaction, force=force)
    except OverLimitError as error:
        raise OverLimitError(f"{error}. --force undoes it all the same") from error
    over = exceeds(told["tokens_about"], told["limit"])
    return told, sentence if over else f"{sentence} `undo {thread} --release` allows them again."


def undo_thread(
    saver: SQLAlchemySaver, thread: str, compaction: str | None, *, force: bool
) -> tuple[dict[str, Any], str]:
    """Undo a compaction of a thread on which no run works; return what was done as data and as a sentence."""
    found = at_rest(newest(saver, thread))
    values = found.checkpoint["channel_values"]
    records = CompactionRecords(saver.database)
    row = None if compaction in (None, "last") else find_attempt(records, thread, compaction)
    if row is not None and not row.is_committed:
        raise SettingsError(
            f"{compaction} is no compaction that took effect, but {row.verdict or 'open'}: see `history`"
        )
    try:
        undo = undoing(records, thread, values, None if row is None else row.compaction_id)
    except UnknownAttemptError as error:
        rows = records.history(thread)
        if row is None or (by := undone_by(rows).get(row.compaction_id)) is None:
            raise
        again = f"; `undo {thread} --redo` brings it back" if by == len(rows) else ""
        raise UnknownAttemptError(f"compaction {compaction} is undone already, by no. {by}{again}") from error
    tokens = _write(saver, thread, found, undo, force=force)
    sizes: dict[str, int] = values["compaction"].get("sizes") or {}
    limit = sizes.get("limit")
    told = {"thread_id": thread, "undone": list(undo.compactions), "messages": len(undo.messages)}
    beside = "" if limit is None else f" (trigger {sizes['trigger']:,}, limit {limit:,})"
    counted = f"{len(undo.messages)} messages are in view, about {tokens:,} tokens{beside}"
    sentence = f"undone: {', '.join(undo.compactions)}. {counted}; {after_undo(tokens, limit)}."
    return {**told, "tokens_about": tokens, "trigger": sizes.get("trigger"), "limit": limit}, sentence


def redo_thread(saver: SQLAlchemySaver, thread: str) -> tuple[dict[str, Any], str]:
    """Bring back what the last undo has undone, likewise."""
    found = at_rest(newest(saver, thread))
    redo = redoing(found.checkpoint["channel_values"])
    tokens = _write(saver, thread, found, redo, force=True)
    sentence = f"done again: {redo.head}. {len(redo.messages)} messages are in view, about {tokens:,} tokens."
    return {
        "thread_id": thread,
        "redone": redo.head,
        "messages": len(redo.messages),
        "tokens_about": tokens,
    }, sentence


def _write(saver: SQLAlchemySaver, thread: str, found: CheckpointTuple, change: Undoing, *, force: bool) -> int:
    """Write an undo or a redo into the newest checkpoint and the ledger; return the tokens of the next request."""
    values, place = found.checkpoint["channel_values"], found.checkpoint["id"]
    channel: dict[str, Any] = values["compaction"]
    meter, limit = stored_meter(channel), (channel.get("sizes") or {}).get("limit")
    tokens = meter.request(change.messages)
    if exceeds(tokens, limit) and not force:
        raise OverLimitError(over_limit(change, tokens, limit))
    known = channel_after(change, channel, tokens=tokens, limit=limit)
    rewrite(saver, found, {"compaction_view": change.view, "compaction": {**channel, **known}})
    records = CompactionRecords(saver.database)
    tell_ledger(records, thread, values, change, meter=meter, after=tokens, now=time(), checkpoint_id=place)
    return tokens


def release_thread(saver: SQLAlchemySaver, thread: str) -> tuple[dict[str, Any], str]:
    """Allow automatic compactions again, likewise."""
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
    channels = branch_of(values, cast("list[AnyMessage]", records.began_with(thread, name)))
    messages = channels["messages"]
    versions: ChannelVersions = {channel: saver.get_next_version(None, None) for channel in channels}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = channels, versions.copy()
    metadata: Any = {"source": "update", "step": 0, "parents": {}}
    saver.put({"configurable": {"thread_id": new, "checkpoint_ns": ""}}, checkpoint, metadata, versions)
    sentence = f"thread {new} stands where compaction {name} of {thread} began: {len(messages)} messages."
    return {"thread_id": new, "from": thread, "messages": len(messages)}, sentence
