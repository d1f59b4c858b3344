"""`presets`: what the presets are, and each as YAML ready to edit."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
import yaml
from rich import box
from rich.table import Table
from rich.text import Text

from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.loading import KEY
from langgraph_compaction.nodes.config.presets import PRESETS, Preset
from langgraph_compaction.nodes.config.settings import CompactionSettings

from ..output.printing import Output, print_text
from ..output.trigger_words import triggers_of

ABOUT: Mapping[Preset, str] = {
    "selective": "drops old tool blocks, keeps 12 rounds, always summarizes the rest (S0)",
    "typed_rules": "a rule for each type of message; a summary only where that is not enough (S1)",
    "progressive": "strategies in turn by the kind of task, lightest first; a full summary last (S2)",
    "progressive_chart": "as progressive, in the order of its flow chart",
    "progressive_pseudocode": "as progressive, in the order of its pseudo-code",
    "layered_defence": "summarizes everything, in three layers of defence (S3)",
    "recent_rounds": "keeps the newest rounds, summarizes the rest, and asks before (S4)",
    "reserve_tokens": "keeps the newest tokens and a reserve for the answer",
    "faithful": "keeps what later turns need: facts, rules, requests, and as many newest messages as are worth it",
}
"""What each preset is."""

_WIDTH = 100


def settings_of(name: str) -> CompactionSettings:
    """A preset by its name; a usage error that suggests the nearest for a name that is none."""
    if name not in PRESETS:
        raise typer.BadParameter(f"there is no preset {name!r}; {nearest(name, PRESETS)}")
    return CompactionSettings(preset=name)


def presets(
    name: Annotated[str | None, typer.Argument(help="A preset, to print it as YAML ready to edit.")] = None,
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from selective.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a preset with its settings.")] = False,
) -> None:
    """List the presets, or print one as YAML with every setting and what it means.

    `load_settings(yaml=...)`, `replay --config FILE` and, in the environment of LangGraph's server,
    LANGGRAPH_COMPACTION_CONFIG read what is printed.
    """
    named = PRESETS if name is None else (settings_of(name).preset,)
    chosen = [settings_of(one) for one in named]
    if as_json:
        for one in chosen:
            print_text(_json(one, changed=changed))
    elif name is None:
        console = Output()
        console.print(table(chosen))
        console.print("langgraph-compaction presets NAME prints one as YAML ready to edit.", style="dim")
    else:
        print_text(as_yaml(chosen[0], _fields(chosen[0], changed=changed)), end="")


def _json(settings: CompactionSettings, *, changed: bool) -> str:
    return settings.model_dump_json(include=set(_fields(settings, changed=changed)))


def _fields(settings: CompactionSettings, *, changed: bool) -> list[str]:
    """The settings to print; `preset` is always one."""
    usual = CompactionSettings()
    names = ["preset", *(name for name in CompactionSettings.model_fields if name != "preset")]
    return [n for n in names if n == "preset" or not changed or getattr(settings, n) != getattr(usual, n)]


def as_yaml(settings: CompactionSettings, names: Iterable[str]) -> str:
    """These settings under the key, each below what it means; `load_settings` reads it back."""
    plain = settings.model_dump(mode="json")
    parts = [f"{KEY}:", *(textwrap.indent(_entry(name, plain[name]), "  ") for name in names)]
    return "\n".join(parts)


def _entry(name: str, value: Any) -> str:
    meaning = " ".join((CompactionSettings.model_fields[name].description or "").split())
    comment = textwrap.wrap(meaning, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    flow = None if isinstance(value, (dict, list)) else False
    dumped = yaml.safe_dump({name: value}, allow_unicode=True, sort_keys=False, default_flow_style=flow, width=_WIDTH)
    return "\n".join([*comment, dumped])


def table(presets: Iterable[CompactionSettings]) -> Table:
    """A row for each preset: what starts it, where in a turn that is asked, and what it does. It fits 80 columns."""
    found = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, show_lines=True)
    found.add_column("preset", min_width=max(map(len, PRESETS)))
    found.add_column("triggers", width=16)
    for heading in ("hooks", "strategies", "summary"):
        found.add_column(heading, no_wrap=True)
    for one in presets:
        lines = (triggers_of(one), one.hooks, one.strategies, [one.summary_mode])
        cells = (Text("\n".join(cell)) for cell in lines)
        found.add_row(Text.assemble((one.preset, "bold"), ("\n" + _about(one), "dim")), *cells)
    return found


def _about(settings: CompactionSettings) -> str:
    """What it is, and the window where the model does not say its own."""
    known = settings.context_window or settings.fallback_window
    return ABOUT[settings.preset] + (f"; window {known:,} if the model says none" if known else "")
