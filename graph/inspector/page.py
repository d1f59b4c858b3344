"""Renders a report as one HTML file that needs no network: it contains data, style and script."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph_compaction.nodes.runtime.window_usage import LOOKS, WindowUsage, stored_usages

from .report import Report, read_report
from .thread_data import Saver

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = Path(__file__).parent / "assets"
CAUSES = {
    "input": "With the new input, the request reached the trigger",
    "precheck": "The next request reached the trigger, as checked before the model was called",
    "check": "The conversation reached the trigger after the model's answer",
    "overflow": "The provider refused the request as too long",
    "manual": "It was asked for",
    "command": "It was asked for by a command in the conversation",
    "ahead": "A summary was to be ready before it was needed",
}
"""Why an attempt began, by `trigger` of its row in the ledger."""
_SCRIPTS = ("1_core.js", "2_chart.js", "3_details.js", "4_request.js", "5_transcript.js", "6_page.js")


def page(report: Report, *, follow: str = "", key: str = "") -> str:
    """Return the HTML of a report.

    With `follow`, a path on the server of the page, the page loads newer data from there at intervals, and it can
    change the thread with `key`, which the server asks for.
    """
    from markupsafe import Markup  # noqa: PLC0415 - a dependency of Jinja, of the extra `cli`

    style, script = asset("page.css"), "\n".join(map(asset, _SCRIPTS))
    allowed = {"default-src": "'none'", "style-src": _hash(style), "script-src": _hash(script)}
    allowed |= {"style-src-attr": "'unsafe-inline'"}  # of the bars; no text of a conversation becomes HTML
    allowed |= {"base-uri": "'none'", "form-action": "'none'", "connect-src": "'self'" if follow else "'none'"}
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            data=data(report),
            follow=follow,
            key=key,
            style=Markup(style),  # noqa: S704 - a file of this package
            script=Markup(script),  # noqa: S704 - also a file of this package
            policy="; ".join(f"{name} {where}" for name, where in allowed.items()),
        )
    )


def thread_page(saver: Saver, thread_id: str) -> str:
    """Return the HTML of a thread's report."""
    return page(read_report(saver, thread_id))


def data(report: Report) -> dict[str, Any]:
    """Return what the script of the page draws: the report, causes, and by attempt the bars of its window as HTML."""
    windows = {one["row"]["compaction_id"]: one["window"] for one in report["attempts"] if one["window"]}
    bars = {name: window_bars(stored_usages(window)) for name, window in windows.items()}
    return {**report, "causes": CAUSES, "bars": bars}


def window_bars(usages: Sequence[WindowUsage]) -> str:
    """Return HTML with a bar of each window on one scale, and the tokens of each part; empty without windows."""
    from markupsafe import Markup  # noqa: PLC0415 - as above

    if not usages:
        return ""
    colors = {name: look.color for name, look in LOOKS.items() if any(name in usage.parts for usage in usages)}
    most = max(usage.whole for usage in usages)
    bars = environment().get_template("bars.html.jinja").render(usages=usages, most=most, colors=colors)
    return Markup(bars)  # noqa: S704 - numbers and names of this package


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
