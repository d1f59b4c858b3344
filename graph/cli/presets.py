"""`presets`: lists the presets, prints one as YAML that is ready to edit, or prints their sizes with a model."""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
import yaml
from rich import box
from rich.table import Table
from rich.text import Text

from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.config.loading import KEY
from langgraph_compaction.nodes.config.policies import PRESETS, Preset
from langgraph_compaction.nodes.config.settings import CompactionSettings, flat
from langgraph_compaction.nodes.config.triggers import (
    Command,
    Count,
    Marker,
    RemainingRatio,
    ReserveTokens,
    Trigger,
    UsedRatio,
    UsedTokens,
)
from langgraph_compaction.nodes.errors import UnknownWindowError
from langgraph_compaction.nodes.runtime.dependencies import told_window

from ..chat_model import named_model
from ..preset_sizes import PresetSizes, preset_sizes
from .options import Window, preset_named, window_tokens
from .output import Output, cells, make_table, print_text

_WIDTH = 100


def presets(
    name: Annotated[str | None, typer.Argument(help="The preset to print as YAML.")] = None,
    *,
    changed: Annotated[
        bool, typer.Option("--changed", help="Print only the settings that differ from the preset selective.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Print the sizes that each preset has with this model. The model is not called."),
    ] = None,
    window: Window = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON line for each preset. With --model or --window, print one list."),
    ] = False,
) -> None:
    """List the presets, or print one preset as YAML with all settings.

    `load_settings(yaml=...)` reads the YAML, and the option --config FILE of other commands reads it from a file.
    These commands and LangGraph's server also read the file that the variable LANGGRAPH_COMPACTION_CONFIG names.
    """
    named = PRESETS if name is None else (preset_named(name),)
    chosen = [CompactionSettings(preset=preset) for preset in named]
    if model is not None or window is not None:
        _print_sizes(_sizes(model, named, window), as_json=as_json)
    elif as_json:
        for settings in chosen:
            print_text(json.dumps(_values(settings, changed=changed), ensure_ascii=False))
    elif name is None:
        console = Output()
        console.print(table(chosen))
        console.print("langgraph-compaction presets NAME prints one as YAML ready to edit.", style="dim")
    else:
        print_text(as_yaml(chosen[0], _values(chosen[0], changed=changed)), end="")


def _sizes(name: str | None, presets: Sequence[Preset], window: str | None) -> list[PresetSizes]:
    """Return the sizes of presets with a model, which is not called and needs no key."""
    model = None if name is None else named_model(name, api_key="none")
    try:
        return preset_sizes(model, presets, window=window_tokens(window, known=told_window(model)))
    except UnknownWindowError as error:
        raise SettingsError(
            f"no context window is known for {name or 'no model'}: check the model's name, or give --window TOKENS"
        ) from error


def _print_sizes(rows: Sequence[PresetSizes], *, as_json: bool) -> None:
    if as_json:
        print_text(json.dumps([row._asdict() for row in rows]))
        return
    found = make_table(left=["preset"], right=PresetSizes._fields[1:])
    for row in rows:
        found.add_row(*cells(*row))
    console = Output()
    console.print(found)
    console.print("Tokens of one request, without system prompt, system messages and tools.", style="dim")


def _values(settings: CompactionSettings, *, changed: bool) -> dict[str, Any]:
    """Return the settings to print by flat names, which always include `preset`."""
    usual, values = flat(CompactionSettings()), flat(settings)
    differing = {name for name, value in values.items() if name == "preset" or value != usual.get(name, usual)}
    return {name: value for name, value in values.items() if name in differing or not changed}


def as_yaml(settings: CompactionSettings, values: Mapping[str, Any]) -> str:
    """Return settings as YAML that `load_settings` reads, each below a comment that explains it.

    The policy's own settings stand after its name. The first lines are a comment that describes the preset.
    """
    own = type(settings.policy).model_fields
    fields = {**CompactionSettings.model_fields, **own}
    first = {name: value for name, value in values.items() if name == "preset" or name in own}
    shared = {name: value for name, value in values.items() if name not in first}
    starts = f"A compaction starts at: {'; '.join(triggers_of(settings))}."
    parts = [*_comment(f"{settings.preset}: {_about(settings)}. {starts}"), f"{KEY}:"]
    for heading, group in (("The policy", first), ("Shared settings", shared)):
        entries = [_entry(name, value, fields[name].description) for name, value in group.items()]
        parts += [textwrap.indent("\n".join([f"# == {heading} ==\n", *entries]), "  ")] if entries else []
    return "\n".join(parts)


def _entry(name: str, value: Any, description: str | None) -> str:
    comment = _comment(" ".join((description or "").split()))
    flow = None if isinstance(value, (dict, list)) else False
    dumped = yaml.safe_dump({name: value}, allow_unicode=True, sort_keys=False, default_flow_style=flow, width=_WIDTH)
    return "\n".join([*comment, dumped])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def plain(name: str) -> str:
    """Return the name of a strategy, a unit or another value in plain words."""
    return name.replace("_", " ")


def table(presets: Iterable[CompactionSettings]) -> Table:
    """Return a table of what starts a compaction and what chooses the messages in each preset, in plain words."""
    found = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), show_lines=True)
    found.add_column("preset", min_width=max(map(len, PRESETS)))
    for heading in ("starts at", "chosen by"):
        found.add_column(heading, no_wrap=True)
    for preset in presets:
        lines = (triggers_of(preset), map(plain, preset.policy.strategies))
        about = Text.assemble((preset.preset, "bold"), ("\n" + _about(preset), "dim"))
        found.add_row(about, *(Text("\n".join(cell)) for cell in lines))
    return found


def _about(settings: CompactionSettings) -> str:
    """Describe a preset, with the window that it uses of a larger one."""
    said, window = " ".join((type(settings.policy).__doc__ or "").split()).rstrip("."), settings.context_window
    return f"{said[0].lower()}{said[1:]}" + (f"; window {window:,} at most" if window else "")


def triggers_of(settings: CompactionSettings) -> list[str]:
    """Describe each trigger of the settings in a few words; return no description if compaction is turned off."""
    if not settings.enabled:
        return []
    counted = [trigger for trigger in settings.triggers if trigger not in settings.token_triggers]
    return [in_words(trigger) for trigger in (*settings.token_triggers, *counted)]


def in_words(trigger: Trigger | UsedTokens) -> str:
    """Return one trigger in a few words."""
    match trigger:
        case UsedRatio():
            return f"{'over ' if trigger.operator == '>' else ''}{trigger.ratio:.0%} used"
        case RemainingRatio():
            return f"{'under ' if trigger.operator == '<' else ''}{trigger.ratio:.0%} left"
        case ReserveTokens() | UsedTokens():
            left = isinstance(trigger, ReserveTokens)
            under = isinstance(trigger, ReserveTokens) and trigger.operator == ">"
            return f"{'under ' if under else ''}{trigger.tokens:,} tokens {'left' if left else 'used'}"
        case Count():
            counted = f"{'over ' if trigger.operator == '>' else ''}{trigger.limit:,} {plain(trigger.unit)}"
            return counted + (", summarizes all" if trigger.full else "")
        case Marker() | Command():
            return f"the {'model writes' if trigger.kind == 'marker' else 'user enters'} {trigger.text}"
        case _:
            return f"own trigger {trigger.name}"
