"""The charts of the pages show the kept results."""

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
from benchmarks.chart_theme import THEMES, render
from benchmarks.charts import CHARTS, FOLDER

ROOT = Path(__file__).parents[1]
PAGES = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/benchmarks.md"))


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_says_what_the_results_say(name: str) -> None:
    """Run `make charts` after a change. Texts are compared: another version of matplotlib draws other lines."""
    for theme in THEMES:
        kept = (FOLDER / f"{name}.{theme.name}.svg").read_text(encoding="utf-8")
        assert texts(render(*CHARTS[name], theme)) == texts(kept)
        assert len(kept) < 60_000
        assert f'charts/{name}.{theme.name}.svg"' in PAGES


def test_the_same_results_give_the_same_file() -> None:
    """So that drawing again changes nothing."""
    for theme in THEMES:
        assert render(*CHARTS["bill"], theme) == render(*CHARTS["bill"], theme)


def texts(svg: str) -> list[str]:
    """Return all texts of a picture."""
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg)
