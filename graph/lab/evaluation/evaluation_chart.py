"""Charts of an evaluation: retention against the budget, or tokens and cost over the requests of a run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...chart import Chart, empty_figure
from ...window_text import window_label
from .scores import SAID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN = {"bound": "identifiers with their words", "calls": "calls intact"}
"""Figures of `scores.measured` that are drawn against the budget: the heading of each, by its key in a row."""
COURSES = {"tokens": "tokens of a request, mean of the runs", "cost": "cost so far / whole cost without compaction"}
"""Figures of `online_scores.replayed` that are drawn over the requests of a run: heading by key in `course`."""


def retention_chart(rows: Sequence[Mapping[str, Any]], title: str) -> Chart:
    """Draw the rows that `scores.measured` yields, with their confidence intervals: a line for each policy.

    Where there is one budget, a dot stands for each policy. Raise `SettingsError` if matplotlib is missing.
    """
    figure, budgets = _figure(title), {row["budget"] for row in rows}
    for axes, (name, heading) in zip(figure.subplots(1, len(DRAWN)), DRAWN.items(), strict=True):
        if len(budgets) == 1:
            _draw_dots(axes, rows, name)
        else:
            _draw_lines(axes, rows, name)
        axes.set_title(heading)
    return Chart(figure)


def _draw_dots(axes: "Axes", rows: Sequence[Mapping[str, Any]], name: str) -> None:
    for row in rows:
        share, (low, high) = 100 * row[name], (100 * edge for edge in row["ci95"][name])
        axes.errorbar(
            share, row["policy"], xerr=[[max(0, share - low)], [max(0, high - share)]], marker="o", capsize=3
        )
    axes.set(xlabel=f"still there at a budget of {rows[0]['budget']:.0%} of the tokens, %", xlim=(0, 102))
    axes.invert_yaxis()


def _draw_lines(axes: "Axes", rows: Sequence[Mapping[str, Any]], name: str) -> None:
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = sorted((row for row in rows if row["policy"] == policy), key=lambda row: row["budget"])
        budgets = [100 * row["budget"] for row in own]
        (line,) = axes.plot(budgets, [100 * row[name] for row in own], marker="o", label=policy)
        low, high = ([100 * row["ci95"][name][edge] for row in own] for edge in (0, 1))
        axes.fill_between(budgets, low, high, alpha=0.15, color=line.get_color())
    axes.set(xlabel="budget, % of the tokens", ylabel="still there, %", ylim=(0, 102))
    axes.legend(fontsize=8)


def courses_chart(rows: Sequence[Mapping[str, Any]], title: str) -> Chart:
    """Draw the rows that `online_scores.replayed` yields: a line per policy and window, over the requests of a run.

    Raise `SettingsError` if matplotlib is missing.
    """
    figure, windows = _figure(title), {row["window"] for row in rows}
    for axes, (name, heading) in zip(figure.subplots(1, len(COURSES)), COURSES.items(), strict=True):
        for row in rows:
            course = row["course"][name]
            points = [100 * (at + 1) / len(course) for at in range(len(course))]
            label = row["policy"] if len(windows) == 1 else f"{row['policy']}, {window_label(row['window'])}"
            axes.plot(points, course, label=label)
        axes.set(title=heading, xlabel="requests of a run, %", xlim=(0, 100))
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    return Chart(figure)


def _figure(title: str) -> "Figure":
    figure = empty_figure(11, 5)
    figure.suptitle(title)
    figure.text(0.5, -0.04, SAID, ha="center", fontsize=8)
    return figure
