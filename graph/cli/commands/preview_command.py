"""`preview`: what a compaction of a thread would do, without doing it."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.runtime.dependencies import window_of
from langgraph_compaction.nodes.runtime.engine import Call
from langgraph_compaction.nodes.state import with_ids
from langgraph_compaction.nodes.summary.fallback_chain import fallback_chain_of
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer

from ...offline_edit import newest
from ...preview import Preview, call_on, previewed
from ..command_settings import Config, Window, command_settings, known_preset, window_tokens
from ..open_database import open_existing
from ..output.printing import Output, print_lines, words
from .show_command import line_of, plain
from .threads_command import AsJson, Db, Thread


def preview(
    thread: Thread,
    *,
    db: Db,
    preset: Annotated[
        str | None, typer.Option(callback=known_preset, help="The preset. `presets` lists all presets.")
    ] = None,
    window: Window = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what a compaction would do now, and change nothing.

    The command calls no model. The sizes of the system prompt and of the tools are those of the last request, and the
    size of the summary is an estimate.
    """
    with open_existing(db, thread) as saver:
        settings = _settings(preset, window, config)
        values: dict[str, Any] = newest(saver, thread).checkpoint["channel_values"]
        call = _call(settings, values)
        seen = previewed(call, with_ids(values["messages"]), fallback_chain_of(DigestSummarizer())[0])
    if as_json:
        print_lines([{"thread_id": thread, **_sizes(call), **_as_dict(seen)}])
        return
    console = Output()
    console.print(_headline(seen, call), soft_wrap=True)
    for title, messages in (
        ("would leave the view", seen.dropped),
        ("would be shortened", [old for old, _ in seen.clipped]),
    ):
        if messages:
            console.print(Text(f"\n{title}: {len(messages)} messages", "bold"))
        for message in messages:
            console.print(line_of(message, whole=False), soft_wrap=True)


def _settings(preset: str | None, window: str | None, config: Path | None) -> CompactionSettings:
    settings = command_settings(config, preset=preset, context_window=window_tokens(window, known=None))
    if settings.context_window is None:
        raise typer.BadParameter(
            "no window is known here: say how many tokens the model accepts", param_hint="--window"
        )
    return settings


def _call(settings: CompactionSettings, values: Mapping[str, Any]) -> Call:
    compaction = values["compaction"]
    usage: Mapping[str, Any] = compaction.get("usage") or {}
    # a commit removes the usage, and stores the size of system prompt and tools
    fixed = (usage or compaction.get("sizes") or {}).get("fixed", 0)
    counter = tiktoken_counter(usage.get("model"))
    return call_on(values, settings, counter=counter, overhead=fixed, window=window_of(settings, None))


def _sizes(call: Call) -> dict[str, int]:
    return {"window": call.sizes.window, "limit": call.sizes.limit, "trigger": call.sizes.trigger}


def _as_dict(seen: Preview) -> dict[str, Any]:
    figures = {one.name: getattr(seen, one.name) for one in fields(seen)}
    return {**figures, "dropped": plain(seen.dropped), "clipped": plain([old for old, _ in seen.clipped])}


def _headline(seen: Preview, call: Call) -> Text:
    sizes = f"(trigger {call.sizes.trigger:,}, limit {call.sizes.limit:,})"
    if seen.reason:
        return words(f"nothing would be done: {seen.reason}; the request holds {seen.tokens_before:,} tokens {sizes}")
    summary = "a summary" if seen.summary else "no summary"
    return words(
        f"{seen.strategy}, {summary}: {seen.tokens_before:,} -> about {seen.tokens_after_about:,} tokens {sizes}"
    )
