"""`show`: what an attempt at a compaction did, the difference that it made, or what a compaction would do now."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from shlex import quote
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage, BaseMessage
from rich.text import Text

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.settings import effective
from langgraph_compaction.nodes.conversation.tokens import joined_texts, tiktoken_counter
from langgraph_compaction.nodes.runtime.dependencies import window_of
from langgraph_compaction.nodes.runtime.engine import Call
from langgraph_compaction.nodes.runtime.window_usage import stored_usages
from langgraph_compaction.nodes.state import messages_in_view
from langgraph_compaction.nodes.summary.fallback_chain import fallback_chain_of
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer

from ..history import cost_of, is_attempt, parted, why_of
from ..offline_edit import newest
from ..preview import call_on, previewed
from .options import (
    AsJson,
    Attempt,
    Config,
    Db,
    PresetName,
    Thread,
    Window,
    ended_as,
    find_attempt,
    open_existing,
    settings_of,
    told_reason,
    undone_by,
    url_of,
    window_tokens,
)
from .output import (
    Output,
    format_time,
    message_data,
    print_json,
    print_line,
    print_messages,
    words,
)
from .size_chart import print_window

SUMMARY_LINES = 20
"""How many lines of a summary are shown without `--whole`."""
_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def show(
    thread: Thread,
    compaction: Attempt = "last",
    *,
    db: Db,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print the whole text of each message and of the summary.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print a diff of the messages before the compaction and the messages now.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what a compaction would do now, and change nothing.")
    ] = False,
    preset: PresetName = None,
    window: Window = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what an attempt at a compaction did, or what a compaction would do now.

    With --preview, the options --preset, --window and --config say with which settings. The command calls no model:
    the sizes of the system prompt and of the tools are those of the last request, and the size of the summary is an
    estimate.
    """
    if preview:
        with open_existing(db, thread) as saver:
            known = _last_window(CompactionRecords(saver.database).history(thread))
            settings = settings_of(config, preset=preset, context_window=window_tokens(window, known=known))
            if settings.context_window is None and known:
                settings = effective(settings, {"context_window": known})
            _preview(saver, thread, _settings(settings), whole=whole, as_json=as_json)
        return
    with open_existing(db, thread) as saver:
        records = CompactionRecords(saver.database)
        row = find_attempt(records, thread, compaction)
        if diff:
            now = messages_in_view(newest(saver, thread).checkpoint["channel_values"])
            _diff(row, records.began_with(thread, row.compaction_id), now, as_json=as_json)
            return
        taken, rows, url = records.taken_by(thread, row.compaction_id), records.history(thread), url_of(saver)
    left, clipped = parted(row, cast("list[AnyMessage]", taken))
    if as_json:
        print_json([{**asdict(row), "left": message_data(left), "clipped": message_data(clipped)}])
        return
    for line in _head(row, rows, len(left), len(clipped), url):
        print_line(line)
    print_window(Output(), stored_usages(row.window))
    print_messages("left the view", left, whole=whole)
    print_messages("shortened", clipped, whole=whole)
    if row.summary:
        Output().print(Text("\nsummary", "bold"))
        lines = row.summary.splitlines()
        print_line("\n".join(lines if whole else lines[:SUMMARY_LINES]))
        if len(lines) > SUMMARY_LINES and not whole:
            print_line(f"[... {len(lines):,} lines: --whole]")


def _head(row: LedgerRow, rows: Sequence[LedgerRow], left: int, clipped: int, url: str) -> Iterator[str]:
    """Yield lines: which attempt it is, how it ended, why it began, what left, what it cost, and how to undo it."""
    number, undone = next(at for at, one in enumerate(rows, 1) if one.id == row.id), undone_by(rows)
    detail = f": {row.detail}" if row.detail and is_attempt(row) else ""
    reason = f" ({told}{detail})" if (told := told_reason(row, rows)) else ""
    strategy = f"  {row.strategy}" if row.strategy else ""  # a refused or declined attempt has none
    ended = f"{ended_as(row, undone)}{reason}{strategy}"
    yield f"no. {number}  {row.compaction_id}  {format_time(row.started_at)}  {ended}"
    yield f"why   {why_of(row)}"
    sizes = "" if row.tokens_after is None else f"{row.tokens_before:,} -> {row.tokens_after:,} tokens"
    if row.is_committed:
        yield f"left  {left:,} messages left the view, {clipped:,} were shortened; {sizes}"
    elif not is_attempt(row):
        yield f"size  {sizes}"
    yield f"cost  {cost_of(row)}"
    command = f"langgraph-compaction undo {quote(row.thread_id)}"
    if undone.get(row.compaction_id) == len(rows):
        yield f"redo  {command} --redo --db {url}"
    elif row.is_committed and row.compaction_id not in undone:
        yield f"undo  {command} {number} --db {url}"


def _diff(row: LedgerRow, before: Sequence[BaseMessage], now: Sequence[BaseMessage], *, as_json: bool) -> None:
    name = row.compaction_id
    lines = list(difflib.unified_diff(_lines(before), _lines(now), f"before {name}", "now", lineterm=""))
    if as_json:
        print_json([{"thread_id": row.thread_id, "compaction_id": name, "lines": lines}])
        return
    console = Output()
    for line in lines or ["There are no differences."]:
        console.print(words(line, _COLORS.get(line[:1], "")), soft_wrap=True)


def _lines(messages: Sequence[BaseMessage]) -> list[str]:
    return [f"{one.type}: {line}" for one in messages for line in joined_texts(one).splitlines() or [""]]


def _last_window(rows: Sequence[LedgerRow]) -> int | None:
    """Return the tokens of the model's window at the last attempt that stored it."""
    return next((row.window[0]["window"] for row in reversed(rows) if row.window), None)


def _settings(settings: CompactionSettings) -> CompactionSettings:
    if settings.context_window is None:
        raise SettingsError("no window is known here: say how many tokens the model accepts, by --window TOKENS")
    return settings


def _preview(
    saver: SQLAlchemySaver, thread: str, settings: CompactionSettings, *, whole: bool, as_json: bool
) -> None:
    values: dict[str, Any] = newest(saver, thread).checkpoint["channel_values"]
    call = _call(settings, values)
    seen = previewed(call, messages_in_view(values), fallback_chain_of(DigestSummarizer())[0])
    clipped = [old for old, _ in seen.clipped]
    if as_json:
        figures = {one.name: getattr(seen, one.name) for one in fields(seen)}
        known = {"window": call.sizes.window, "limit": call.sizes.limit, "trigger": call.sizes.trigger}
        messages = {"dropped": message_data(seen.dropped), "clipped": message_data(clipped)}
        usages = [asdict(usage) for usage in seen.usages]
        print_json([{"thread_id": thread, **known, **figures, "usages": usages, **messages}])
        return
    sizes = f"(trigger {call.sizes.trigger:,}, limit {call.sizes.limit:,})"
    if seen.reason:
        told = f"nothing would be done: {seen.reason}; the request holds {seen.tokens_before:,} tokens {sizes}"
    else:
        summary = "a summary" if seen.summary else "no summary"
        after = f"{seen.tokens_before:,} -> about {seen.tokens_after_about:,} tokens {sizes}"
        told = f"{seen.strategy}, {summary}: {after}"
    print_line(told)
    print_window(Output(), seen.usages)
    print_messages("would leave the view", seen.dropped, whole=whole)
    print_messages("would be shortened", clipped, whole=whole)


def _call(settings: CompactionSettings, values: Mapping[str, Any]) -> Call:
    compaction = values["compaction"]
    usage: Mapping[str, Any] = compaction.get("usage") or {}
    # a commit removes the usage, and stores the size of system prompt and tools
    fixed = (usage or compaction.get("sizes") or {}).get("fixed", 0)
    counter = tiktoken_counter(usage.get("model"))
    return call_on(values, settings, counter=counter, overhead=fixed, window=window_of(settings, None))
