"""The files that pages are made of, and what fills them in."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = Path(__file__).parent / "assets"


@cache
def environment() -> "Environment":
    """Jinja with escaping on for every template, and an error for a name that is not there."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - only who renders waits for it

    return Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """The text of a file that stands beside."""
    return _ASSETS.joinpath(name).read_text(encoding="utf-8")
