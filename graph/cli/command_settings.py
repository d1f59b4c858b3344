"""Settings of a command, from its options, the environment and a file."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.loading import load_settings
from langgraph_compaction.nodes.config.presets import PRESETS, Preset

from ..window_text import part_of, share, tokens_or_share

Config = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file with settings, in the format of `presets NAME`. Default: the file that the variable "
        "LANGGRAPH_COMPACTION_CONFIG names. The variables LANGGRAPH_COMPACTION_<SETTING> override the file. Other "
        "options override both."
    ),
]


def _checked_window(value: str | None) -> str | None:
    with usage_errors():
        if value is not None:
            tokens_or_share(value)
    return value


Window = Annotated[
    str | None,
    typer.Option(
        callback=_checked_window,
        metavar="TOKENS|SHARE",
        help="The context window in tokens (32000), or a share of the window in the model's profile (25% or 0.25).",
    ),
]


def window_tokens(window: str | None, *, known: int | None) -> int | None:
    """Return the value of `--window` in tokens; `known` is the window of the model's profile, where there is one.

    Raise a usage error for a share of a window that is not known.
    """
    if window is None:
        return None
    if known is None and isinstance(tokens_or_share(window), float):
        raise typer.BadParameter(
            f"{window} is a share, and the model's own window is not known: give a number of tokens",
            param_hint="--window",
        )
    return part_of(window, known or 0)


def checked_shares(value: str) -> str:
    """Check the value of an option of shares, separated by commas."""
    shares_of(value)
    return value


def shares_of(value: str) -> list[float]:
    """Return shares, separated by commas, as numbers above 0 and up to 1; raise a usage error for anything else."""
    with usage_errors():
        return [share(one.strip()) for one in value.split(",")]


@contextmanager
def usage_errors() -> Generator[None]:
    """Turn a `SettingsError` into a usage error, with which a command exits with 2."""
    try:
        yield
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from error


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
