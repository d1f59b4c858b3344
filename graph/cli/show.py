"""`show`: what an attempt at a compaction did, the difference that it made, or what a compaction would do now."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any, cast

import typer
from langchain_core.messages import AnyMessage, BaseMessage
from rich.text import Text

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import LedgerRow
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.conversation.tokens import joined_texts, tiktoken_counter
from langgraph_compaction.nodes.runtime.dependencies import window_of
from langgraph_compaction.nodes.runtime.engine import Call
from langgraph_compaction.nodes.runtime.window_usage import stored_usages
from langgraph_compaction.nodes.state import messages_in_view
from langgraph_compaction.nodes.summary.fallback_chain import fallback_chain_of
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer

from ..history import parted
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
    find_attempt,
    open_existing,
    settings_of,
    window_tokens,
)
from .output import (
    Output,
    dollars,
    format_time,
    message_data,
    print_json,
    print_line,
    print_messages,
    tokens_spent,
    words,
)
from .size_chart import print_window

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def show(
    thread: Thread,
    compaction: Attempt = "last",
    *,
    db: Db,
    whole: Annotated[bool, typer.Option("--whole", help="Print the whole text of each message.")] = False,
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
        settings = _settings(settings_of(config, preset=preset, context_window=window_tokens(window, known=None)))
        with open_existing(db, thread) as saver:
            _preview(saver, thread, settings, whole=whole, as_json=as_json)
        return
    with open_existing(db, thread) as saver:
        records = CompactionRecords(saver.database)
        row = find_attempt(records, thread, compaction)
        if diff:
            now = messages_in_view(newest(saver, thread).checkpoint["channel_values"])
            _diff(row, records.began_with(thread, row.compaction_id), now, as_json=as_json)
            return
        taken = records.taken_by(thread, row.compaction_id)
    left, clipped = parted(row, cast("list[AnyMessage]", taken))
    if as_json:
        print_json([{**asdict(row), "left": message_data(left), "clipped": message_data(clipped)}])
        return
    print_line(_headline(row))
    print_window(Output(), stored_usages(row.window))
    print_messages("left the view", left, whole=whole)
    print_messages("shortened", clipped, whole=whole)
    if row.summary:
        Output().print(Text("\nsummary", "bold"))
        print_line(row.summary)


def _headline(row: LedgerRow) -> str:
    after = "" if row.tokens_after is None else f" -> {row.tokens_after:,}"
    is_digest = row.strategy.endswith("+digest")  # for which nobody is called
    times = "call" if row.summary_calls == 1 else "calls"
    calls = f", {row.summary_calls} {times} of the summarizer" if row.summary_calls and not is_digest else ""
    spent = ", ".join(filter(None, (tokens_spent(row.usage), dollars(row.summary_cost))))
    calls += f" ({spent})" if calls and spent else ""
    reason = f" ({row.reason}{': ' + row.detail if row.detail else ''})" if row.reason else ""
    sizes = "".join(f" (trigger {one.trigger:,}, limit {one.limit:,})" for one in stored_usages(row.window)[:1])
    strategy = f"{row.strategy}, " if row.strategy else ""  # a refused or declined attempt has none
    return (
        f"{format_time(row.started_at)}  {row.verdict or 'open'}{reason}  {strategy}trigger {row.trigger}: "
        f"{row.tokens_before:,}{after} tokens{sizes}{calls}"
    )


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
