"""`undo`, `release`, `branch` and `forget`: undo a compaction, branch before it, or erase a thread."""

from collections.abc import Generator
from contextlib import contextmanager
from time import time
from typing import Annotated, Any, cast
from uuid import uuid4

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

from ...control_characters import in_line
from ...exclusive_runs import stored_turn
from ...offline_edit import at_rest, newest, rewrite
from ...undo import OverLimitError
from ..find_compaction import Named, find_compaction
from ..open_database import open_existing
from ..output.printing import Output, print_lines
from .threads_command import AsJson, Db, Thread

Wait = Annotated[
    float, typer.Option("--wait", min=0, help="How many seconds to wait if another run works on the thread.")
]


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
    wait: Wait = 60.0,
    as_json: AsJson = False,
) -> None:
    """Undo a compaction and all later compactions, and restore the removed messages.

    Afterwards, the thread is compacted automatically only if a request is over the limit. `release`, or a compaction
    that you ask for, ends this state.
    """
    with _idle(db, thread, wait) as saver:
        found = at_rest(newest(saver, thread))
        values = found.checkpoint["channel_values"]
        channel: dict[str, Any] = values["compaction"]
        records = CompactionRecords(saver.database)
        named = None if compaction in (None, "last") else find_compaction(records, thread, compaction).compaction_id
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
        changed = {"messages": replace(messages_after(before)).value, "compaction": after}
        rewrite(saver, found, changed)
        tell_ledger(records, thread, values, before, meter=meter, after=tokens, now=time())
    told = {
        "thread_id": thread,
        "undone": list(before.undone),
        "messages": len(before.messages),
        "tokens_about": tokens,
        "trigger": sizes.get("trigger"),
        "limit": limit,
    }
    beside = "" if limit is None else f" (trigger {sizes['trigger']:,}, limit {limit:,})"
    _tell(
        told,
        f"undone: {', '.join(before.undone)}. {len(before.messages)} messages are in view, about {tokens:,} tokens"
        f"{beside}. Automatic compactions pause until `release {thread}`.",
        as_json=as_json,
    )


def release(thread: Thread, *, db: Db, wait: Wait = 60.0, as_json: AsJson = False) -> None:
    """Allow automatic compactions of a thread again, after an undo."""
    with _idle(db, thread, wait) as saver:
        found = at_rest(newest(saver, thread))
        channel: dict[str, Any] = found.checkpoint["channel_values"]["compaction"]
        rewrite(saver, found, {"compaction": {**channel, "held": False}})
    _tell(
        {"thread_id": thread, "held": False}, f"Automatic compactions of {thread} are allowed again.", as_json=as_json
    )


def branch(
    thread: Thread,
    compaction: Named,
    *,
    db: Db,
    name: Annotated[str | None, typer.Option("--as", help="The id of the new thread. Default: a random id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a new thread from the messages before a compaction."""
    new = name or str(uuid4())
    with open_existing(db, thread) as saver:
        if new in saver.threads():
            raise SettingsError(f"there is a thread {new!r} already: give another one by --as")
        values = newest(saver, thread).checkpoint["channel_values"]
        records = CompactionRecords(saver.database)
        found = find_compaction(records, thread, compaction).compaction_id
        messages = records.began_with(thread, found)
        _begin(saver, new, {"messages": messages, "memory": values.get("memory") or {}})
    _tell(
        {"thread_id": new, "from": thread, "messages": len(messages)},
        f"thread {new} stands where compaction {found} of {thread} began: {len(messages)} messages.",
        as_json=as_json,
    )


def _begin(saver: SQLAlchemySaver, thread: str, values: dict[str, Any]) -> None:
    own = marked_by_us(values["messages"])
    channels = {**values, "compaction": {"v": STATE_VERSION, "step": "end", "route": "end", "own_marks": own}}
    versions: ChannelVersions = {channel: saver.get_next_version(None, None) for channel in channels}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = channels, versions.copy()
    place = {"thread_id": thread, "checkpoint_ns": ""}
    metadata: Any = {"source": "update", "step": 0, "parents": {}}
    saver.put({"configurable": place}, checkpoint, metadata, versions)


def forget(
    thread: Thread,
    *,
    db: Db,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase all data of a thread."""
    with open_existing(db, thread) as saver:
        if not yes:
            typer.confirm(f"Erase all of thread {in_line(thread)}? It cannot be undone.", abort=True, err=True)
        saver.delete_thread(thread)
        saver.reclaim()
    _tell({"thread_id": thread, "forgotten": True}, f"nothing of {thread} is left.", as_json=as_json)


@contextmanager
def _idle(db: str, thread: str, wait: float) -> Generator[SQLAlchemySaver]:
    """Open an existing database as long as no run works on the thread."""
    with open_existing(db, thread) as saver:
        leases = CompactionRecords(saver.database).run_leases
        with stored_turn(leases, thread, wait, "--wait"):
            yield saver


def _tell(told: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_lines([told])
    else:
        Output().print(sentence, soft_wrap=True)
