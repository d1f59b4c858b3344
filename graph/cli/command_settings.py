"""Settings of a command, from its options, the environment and a file."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.loading import load_settings
from langgraph_compaction.nodes.config.presets import PRESETS, Preset

Config = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file of settings, as `presets NAME` prints; by default the one that LANGGRAPH_COMPACTION_CONFIG "
        "names. Variables LANGGRAPH_COMPACTION_<SETTING> override the file, and other options override both."
    ),
]


def preset_named(name: str) -> Preset:
    """Return the preset with this name; raise a usage error that suggests the nearest name if there is none."""
    if name not in PRESETS:
        raise typer.BadParameter(f"there is no preset {name!r}; {nearest(name, PRESETS)}")
    return name


def known_preset(name: str | None) -> str | None:
    """Check the value of an option that names a preset."""
    return None if name is None else preset_named(name)


def command_settings(config: Path | None, **options: Any) -> CompactionSettings:
    """Return the settings of options, environment and file, in this order of precedence.

    An option that is `None` was not given. Without `config` the file is the one that the environment names. Raise
    `SettingsError` for a wrong setting; the error names the file and key, or the variable.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return load_settings(yaml=config, env=os.environ, **given)
