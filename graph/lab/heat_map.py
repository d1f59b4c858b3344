"""The rows of a comparison as a map of policies and windows: a chart, and a table in HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph_compaction.nodes import SettingsError

from ..chart import Chart, empty_figure
from ..inspector.page import environment
from ..window_text import window_label

Row = Mapping[str, Any]
Rows = Sequence[Row]

FIGURES: Mapping[str, tuple[str, str]] = {
    "available": ("of the needed identifiers", "Greens"),
    "calls": ("with all of their identifiers", "Greens"),
    "cost": ("without compaction: 100%", "Oranges"),
    "tokens_sent": ("without compaction: 100%", "Oranges"),
    "prefix_reuse": ("tokens that a cache holds", "Greens"),
    "over_window": ("requests, or never sent", "Oranges"),
}
"""The figures that can be drawn, all of them shares: their headings and colors."""
_TABLE = """\
<table style="border-collapse:collapse;font-family:system-ui,sans-serif">
<caption style="text-align:left;padding:4px 0;white-space:nowrap">\
available identifiers, and cost without compaction = 1.00; \
runs: {{ rows[0].runs }}, identifiers: {{ rows[0].identifiers }}</caption>
<thead><tr><td></td>{% for window in windows %}
<th scope="col" style="text-align:center;padding:2px 10px">{{ label(window) }}</th>{% endfor %}</tr></thead>
<tbody>{% for policy, cells in policies %}
<tr><th scope="row" style="text-align:left;font-weight:normal;padding:2px 10px">{{ policy }}</th>\
{% for row in cells %}
<td style="text-align:center;padding:2px 10px;background:rgba(84,162,75,{{ "%.2f" | format(row.available * 0.6) }})">\
{{ "%.0f" | format(100 * row.available) }}&nbsp;%<br><small>cost {{ "%.2f" | format(row.cost) }}</small></td>\
{% endfor %}</tr>{% endfor %}</tbody>
</table>
"""


def heat_map(rows: Rows, figures: Sequence[str]) -> Chart:
    """Draw a map for each of the figures, without the windows in which all rows have the same figures.

    Raise `SettingsError` for a figure that is none of `FIGURES`, and without matplotlib.
    """
    if unknown := set(figures) - FIGURES.keys():
        raise SettingsError(f"there is no map of {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    windows = _windows(rows)
    shown = [window for window in windows if _differ(_column(rows, window), figures)] or windows
    lines = _lines(rows, shown)
    figure = empty_figure(1.6 + max(1.8, 0.45 * len(shown)) * len(figures), 1.2 + 0.33 * len(lines))
    axes = figure.subplots(1, len(figures), sharey=True, squeeze=False)[0]
    for part, name in zip(axes, figures, strict=True):
        _draw(part, name, lines)
        part.set_xticks(range(len(shown)), [_tick(window) for window in shown], fontsize=8)
    if same := [window_label(window) for window in windows if window not in shown]:
        figure.supxlabel(f"the same for all in: {', '.join(same)}", fontsize=8)
    return Chart(figure)


def html_table(rows: Rows) -> str:
    """Return a table with `available`, as a shade too, and `cost`; every text in it is escaped."""
    windows = _windows(rows)
    template = environment().from_string(_TABLE)
    return template.render(rows=rows, windows=windows, policies=_lines(rows, windows).items(), label=window_label)


def _draw(axes: Any, name: str, lines: Mapping[str, Rows]) -> None:
    heading, colors = FIGURES[name]
    values = [[row[name] for row in cells] for cells in lines.values()]
    axes.imshow(values, cmap=colors, aspect="auto", alpha=0.5)
    axes.set_title(f"{name}\n{heading}", fontsize=8)
    axes.set_xlabel("window", fontsize=8)
    axes.set_yticks(range(len(lines)), list(lines), fontsize=9)
    for line, held in enumerate(values):
        for column, value in enumerate(held):
            axes.text(column, line, f"{value:.0%}", ha="center", va="center", fontsize=8)


def _tick(window: float) -> str:
    return window_label(window).removesuffix(" tokens")


def _windows(rows: Rows) -> list[float]:
    return list(dict.fromkeys(row["window"] for row in rows))


def _column(rows: Rows, window: float) -> list[Row]:
    return [row for row in rows if row["window"] == window]


def _lines(rows: Rows, windows: Sequence[float]) -> dict[str, list[Row]]:
    """Return the rows of each policy in these windows."""
    found = dict[str, list[Row]]()
    for window in windows:
        for row in _column(rows, window):
            found.setdefault(row["policy"], []).append(row)
    return found


def _differ(rows: Rows, figures: Sequence[str]) -> bool:
    return len({tuple(row[name] for name in figures) for row in rows}) > 1
