"""These tests check the lines, bands, titles and notes in the charts of `evaluate`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.checkpoint.extras import how_to_install
from langgraph_compaction.graph.lab.evaluation.evaluation_chart import write_chart, write_courses
from langgraph_compaction.nodes import SettingsError

Draw = Callable[..., Any]


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Return a function that writes a chart and returns the figure that matplotlib saved."""
    figures = pytest.importorskip("matplotlib.figure")
    saved: list[Any] = []
    save = figures.Figure.savefig

    def kept(figure: Any, *args: Any, **given: Any) -> None:
        saved.append(figure)
        save(figure, *args, **given)

    monkeypatch.setattr(figures.Figure, "savefig", kept)

    def draw(write: Any, rows: list[dict[str, Any]]) -> Any:
        write(rows, tmp_path / "chart.png", "A title")
        (figure,) = saved
        return figure

    return draw


def row(policy: str, budget: float, bound: float, calls: float) -> dict[str, Any]:
    """Return the figures of a policy, with intervals that extend 0.05 to either side."""
    ci95 = {name: [value - 0.05, value + 0.05] for name, value in (("bound", bound), ("calls", calls))}
    return {"policy": policy, "budget": budget, "bound": bound, "calls": calls, "ci95": ci95}


def lines(axes: Any) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line by the label that the legend shows."""
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [line.get_label() for line in axes.get_lines()] == shown
    return {line.get_label(): _rounded(line.get_xydata()) for line in axes.get_lines()}


def _rounded(points: Any) -> list[tuple[float, float]]:
    return [(round(float(x), 6), round(float(y), 6)) for x, y in points]


def test_retention_is_drawn_against_the_budget_in_percent(drawn: Draw) -> None:
    """Each policy has one line, which begins at the smallest budget; a band shows the confidence interval."""
    rows = [row("ours", 0.5, 0.75, 0.5), row("trim", 0.5, 0.25, 0.125), row("ours", 0.25, 0.5, 0.375)]
    figure = drawn(write_chart, rows)
    bound, calls = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["identifiers with their words", "calls intact"]
    assert lines(bound) == {"ours": [(25, 50), (50, 75)], "trim": [(50, 25)]}
    assert lines(calls) == {"ours": [(25, 37.5), (50, 50)], "trim": [(50, 12.5)]}
    for axes in figure.axes:
        for line, band in zip(axes.get_lines(), axes.collections, strict=True):
            edges = {(x, round(y + side, 6)) for x, y in _rounded(line.get_xydata()) for side in (-5, 5)}
            assert set(_rounded(band.get_paths()[0].vertices)) == edges


def test_a_course_is_drawn_over_the_requests_in_percent(drawn: Draw) -> None:
    """The points of a line have equal distances, and the last point is at the end of the run."""
    course = {"tokens": [10, 40, 20, 30], "cost": [0.1, 0.2, 0.4, 0.8]}
    figure = drawn(write_courses, [{"policy": "ours", "window": 0.4, "course": course}])
    tokens, cost = figure.axes
    assert lines(tokens) == {"ours": [(25, 10), (50, 40), (75, 20), (100, 30)]}
    assert lines(cost) == {"ours": [(25, 0.1), (50, 0.2), (75, 0.4), (100, 0.8)]}


def test_a_chart_without_matplotlib_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to install matplotlib, and which option to omit instead."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError) as caught:
        write_courses([], tmp_path / "chart.svg", "A title")
    said = f"a chart needs matplotlib: {how_to_install('lab')}, or leave out --out"
    assert str(caught.value) == said
