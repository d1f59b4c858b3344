"""Retention against budget as a picture: one line a policy, with its interval as a band."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from langgraph_compaction.nodes import SettingsError

from .scores import SAID

DRAWN = {"bound": "identifiers with their words", "calls": "calls intact"}
"""The figures that are drawn, each with its heading."""
SUFFIXES = (".svg", ".png", ".html")


def write_chart(rows: Sequence[dict[str, Any]], path: Path, title: str) -> None:
    """Draw the rows of `measured`; `SettingsError` where matplotlib is missing or the file cannot be written."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - only a chart needs it
    except ImportError as error:
        raise SettingsError("a chart needs matplotlib: pip install matplotlib, or leave --chart out") from error
    figure = Figure(figsize=(11, 5), layout="constrained")
    figure.suptitle(title)
    figure.text(0.5, -0.04, SAID, ha="center", fontsize=8)
    for axes, (name, heading) in zip(figure.subplots(1, len(DRAWN)), DRAWN.items(), strict=True):
        for policy in dict.fromkeys(row["policy"] for row in rows):
            own = sorted((row for row in rows if row["policy"] == policy), key=lambda row: row["budget"])
            budgets = [100 * row["budget"] for row in own]
            (line,) = axes.plot(budgets, [100 * row[name] for row in own], marker="o", label=policy)
            low, high = ([100 * row["ci95"][name][edge] for row in own] for edge in (0, 1))
            axes.fill_between(budgets, low, high, alpha=0.15, color=line.get_color())
        axes.set(title=heading, xlabel="budget, % of the tokens", ylabel="still there, %", ylim=(0, 102))
        axes.legend(fontsize=8)
    try:
        if path.suffix == ".html":
            text = StringIO()
            figure.savefig(text, format="svg", bbox_inches="tight")
            path.write_text(f"<!doctype html><meta charset=utf-8>{text.getvalue()}", encoding="utf-8")
        else:
            figure.savefig(path, bbox_inches="tight")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror})") from error
