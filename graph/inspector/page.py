"""Renders a report as one HTML file that needs no network: it contains data, style and script."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from langgraph_compaction.nodes.runtime.window_usage import LOOKS

from .report import Report

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = Path(__file__).parent / "assets"
COLORS = {name: look.color for name, look in LOOKS.items()}
_SCRIPTS = ("1_core.js", "2_chart.js", "3_details.js", "4_page.js")


def page(report: Report, *, follow: str = "") -> str:
    """Return the HTML of a report.

    With `follow`, a path on the server of the page, the page loads newer data from there at intervals.
    """
    from markupsafe import Markup  # noqa: PLC0415 - a dependency of Jinja, of the extra `cli`

    style, script = asset("page.css"), "\n".join(map(asset, _SCRIPTS))
    allowed = {"default-src": "'none'", "style-src": _hash(style), "script-src": _hash(script)}
    allowed |= {"base-uri": "'none'", "form-action": "'none'", "connect-src": "'self'" if follow else "'none'"}
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            colors=COLORS,
            follow=follow,
            style=Markup(style),  # noqa: S704 - a file of this package
            script=Markup(script),  # noqa: S704 - also a file of this package
            policy="; ".join(f"{name} {where}" for name, where in allowed.items()),
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def environment() -> "Environment":
    """Return a Jinja environment that escapes every value, and raises for an undefined name."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - of the extra `cli`, and slow to import

    return Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return _ASSETS.joinpath(name).read_text(encoding="utf-8")
