"""The looks of the charts: one column that a telephone shows too, each drawn for a light and for a dark page."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 5.0
"""Inches, which are 480 pixels of a page; a telephone of 390 pixels shows texts at three quarters of their size."""


@dataclass(frozen=True)
class Theme:
    """The colors of a page: its texts, what is less important, and who is who."""

    name: str
    text: str
    muted: str
    grid: str
    ours: str
    others: str
    delta: str
    bad: str
    none: str
    """The color of a cell with nothing in it; it goes over into `ours`."""


LIGHT = Theme("light", "#1f2328", "#59636e", "#d1d9e0", "#0969da", "#bc4c00", "#8250df", "#cf222e", "#eef1f4")
DARK = Theme("dark", "#f0f6fc", "#9198a1", "#3d444d", "#4493f8", "#f0883e", "#ab7df8", "#ff7b72", "#22272e")
THEMES = (LIGHT, DARK)

_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
"""More than two decimals, which no screen shows."""

Draw = Callable[[Figure, Theme], None]
"""Draws a chart into an empty figure."""


def render(draw: Draw, height: float, theme: Theme) -> str:
    """Return a chart as SVG; the same figures always give the same text."""
    with mpl.rc_context(_settings(theme)):
        figure, text = Figure(figsize=(WIDTH, height), layout="constrained"), StringIO()
        draw(figure, theme)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    short = _DECIMALS.sub(r"\1", text.getvalue())
    return "\n".join(line.rstrip() for line in short.splitlines()) + "\n"


def _settings(theme: Theme) -> Mapping[str, Any]:
    return {
        "svg.hashsalt": "langgraph-compaction",
        "svg.fonttype": "none",  # texts stay texts, and the file small
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # matplotlib brings the first
        "font.size": 10,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.edgecolor": theme.grid,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.6,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), theme.text),
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
    }


def name_rows(axes: Axes, names: list[str], ours: set[str], theme: Theme) -> None:
    """Write a name beside each row, from the top down; ours in our color."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    for label, name in zip(axes.get_yticklabels(), names, strict=True):
        label.set(color=theme.ours if name in ours else theme.text)


def text_on(color: tuple[float, float, float, float]) -> str:
    """Return the color of a text that can be read on this color."""
    red, green, blue, _ = color
    return DARK.none if 0.299 * red + 0.587 * green + 0.114 * blue > 0.48 else DARK.text


def note(axes: Axes, row: float, text: str, **options: Any) -> None:
    """Write a text at the right of a row, outside of the axes."""
    axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", **options)
