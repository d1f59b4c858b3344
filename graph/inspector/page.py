"""A report as one HTML file that asks no network: data, style and script stand in it."""

from base64 import b64encode
from hashlib import sha256

from .report import Report
from .templates import asset, environment

_SCRIPTS = ("1_core.js", "2_chart.js", "3_details.js", "4_page.js")


def page(report: Report, *, follow: str = "") -> str:
    """The page of a report; `follow` is the address at which it asks for a newer one, of its own server."""
    from markupsafe import Markup  # noqa: PLC0415 - as Jinja, of which it is a part

    style, script = asset("page.css"), "\n".join(map(asset, _SCRIPTS))
    allowed = {"default-src": "'none'", "style-src": _hash(style), "script-src": _hash(script)}
    allowed |= {"base-uri": "'none'", "form-action": "'none'", "connect-src": "'self'" if follow else "'none'"}
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            follow=follow,
            style=Markup(style),  # noqa: S704 - a file of this package
            script=Markup(script),  # noqa: S704 - the same
            policy="; ".join(f"{name} {where}" for name, where in allowed.items()),
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
