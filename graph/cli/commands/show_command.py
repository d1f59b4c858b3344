"""`show`, `diff` and `transcript`: what a compaction did, and the whole conversation."""

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage, BaseMessage
from rich.text import Text

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)
from langgraph_compaction.nodes.conversation.tokens import joined_texts

from ...history import parted
from ...offline_edit import newest
from ..find_compaction import Named, find_compaction
from ..open_database import open_existing
from ..output.printing import Output, print_lines, words
from .threads_command import AsJson, Db, Thread, format_time

_SHOWN = 200
"""Maximum number of characters of a message that a list shows."""


def show(
    thread: Thread,
    compaction: Named,
    *,
    db: Db,
    whole: Annotated[bool, typer.Option("--whole", help="Print the whole text of each message.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one attempt: sizes, summary, and the removed and shortened messages."""
    with open_existing(db, thread) as saver:
        records = CompactionRecords(saver.database)
        row = find_compaction(records, thread, compaction)
        taken = records.taken_by(thread, row.compaction_id)
    left, clipped = parted(row, cast("list[AnyMessage]", taken))
    if as_json:
        print_lines([{**asdict(row), "left": plain(left), "clipped": plain(clipped)}])
        return
    console = Output()
    console.print(_headline(row), soft_wrap=True)
    if row.summary:
        console.print(Text("\nsummary", "bold"))
        console.print(words(row.summary), soft_wrap=True)
    for title, messages in (("left the view", left), ("shortened", clipped)):
        if messages:
            console.print(Text(f"\n{title}: {len(messages)} messages", "bold"))
        for message in messages:
            console.print(line_of(message, whole=whole), soft_wrap=True)


def _is_digest(row: LedgerRow) -> bool:
    """Return whether the attempt's summary is a digest, for which nobody is called."""
    return row.strategy.endswith("+digest")


def _headline(row: LedgerRow) -> Text:
    after = "" if row.tokens_after is None else f" -> {row.tokens_after:,}"
    times = "call" if row.summary_calls == 1 else "calls"
    calls = f", {row.summary_calls} {times} of the summarizer" if row.summary_calls and not _is_digest(row) else ""
    reason = f" ({row.reason}{': ' + row.detail if row.detail else ''})" if row.reason else ""
    strategy = f"{row.strategy}, " if row.strategy else ""  # a refused or declined attempt has none
    return words(
        f"{format_time(row.started_at)}  {row.verdict or 'open'}{reason}  {strategy}trigger {row.trigger}: "
        f"{row.tokens_before:,}{after} tokens{calls}"
    )


def diff(thread: Thread, compaction: Named, *, db: Db, as_json: AsJson = False) -> None:
    """Show a diff of the messages before a compaction and the messages now."""
    with open_existing(db, thread) as saver:
        records = CompactionRecords(saver.database)
        found = find_compaction(records, thread, compaction).compaction_id
        before = records.began_with(thread, found)
        now = newest(saver, thread).checkpoint["channel_values"]["messages"]
    lines = list(difflib.unified_diff(_lines(before), _lines(now), f"before {found}", "now", lineterm=""))
    if as_json:
        print_lines([{"thread_id": thread, "compaction_id": found, "lines": lines}])
        return
    console = Output()
    if not lines:
        console.print("There are no differences.")
    for line in lines:
        console.print(words(line, {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")), soft_wrap=True)


def transcript(thread: Thread, *, db: Db, as_json: AsJson = False) -> None:
    """Print all messages of a conversation in order, also the removed messages."""
    with open_existing(db, thread) as saver:
        values = newest(saver, thread).checkpoint["channel_values"]
        head = values["compaction"].get("head")
        found = CompactionRecords(saver.database).transcript(thread, "", values["messages"], head=head)
    if as_json:
        print_lines(plain(found))
        return
    console = Output()
    for message in found:
        console.print(line_of(message, whole=True), soft_wrap=True)


def _lines(messages: list[BaseMessage]) -> list[str]:
    return [f"{message.type}: {line}" for message in messages for line in _text(message).splitlines() or [""]]


def _text(message: BaseMessage) -> str:
    return joined_texts(message)


def line_of(message: BaseMessage, *, whole: bool) -> Text:
    """Format a message for a list: handle, role and text; unless `whole`, only the beginning of the text."""
    text = _text(message)
    short = (
        text if whole or len(text) <= _SHOWN else f"{' '.join(text[:_SHOWN].split())} [... {len(text):,} characters]"
    )
    return Text.assemble((f"{handle(message)} {message.type:>6} ", "dim"), words(short))


def plain(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages as plain data, each with its handle."""
    return [{"handle": handle(message), **message.model_dump(mode="json")} for message in messages]
