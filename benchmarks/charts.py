"""Draws the results of the benchmarks as SVG files for the pages, each for light and for dark ones.

    python -m benchmarks.charts

Reads benchmarks/results, and writes docs/charts.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from benchmarks.chart_theme import THEMES, Draw, Theme, name_rows, note, render, text_on
from langgraph_compaction.graph.lab.demo.investigation import WINDOW
from tests.kept_results import ROOT, read

FOLDER = ROOT / "docs" / "charts"

Row = dict[str, Any]


CONTEXTS = {
    "langmem: digest, 10% kept": "langmem, our digest",
    "faithful": "ours, faithful",
    "selective": "ours, selective",
    "langchain: digest, 10% kept": "LangChain, our digest",
    "deepagents: digest, 10% kept": "deepagents, our digest",
    "langmem: newest sentences, 50% kept": "langmem",
    "langchain: newest sentences, 50% kept": "LangChain",
    "deepagents: newest sentences, 50% kept": "deepagents",
    "random exchanges": "random exchanges",
    "langchain: context editing": "LangChain, editing",
    "trim_messages": "trim_messages",
}
"""The measured contexts, as the chart names them."""
CODING = {
    "faithful": "ours, faithful",
    "selective": "ours, selective",
    "langmem: digest": "langmem, our digest",
    "langchain: digest": "LangChain, our digest",
    "deepagents: digest": "deepagents, our digest",
    "langmem: newest sentences": "langmem",
    "langchain: newest sentences": "LangChain",
    "deepagents: newest sentences": "deepagents",
    "random exchanges": "random exchanges",
    "trim_messages": "trim_messages",
}
"""Those of the coding runs."""
OVER = 1.05
"""The tokens of a context, divided by its cap, from which on a star says that it is larger."""
OURS = {"ours, faithful", "ours, selective"}


def survival(figure: Figure, theme: Theme) -> None:
    """Draw what is left of identifiers and of the user's rules, at a quarter and at half of the tokens."""
    rows = [row for row in read("retention")["rows"] if row["data"] == "tau-bench-airline"]
    identifiers, rules = figure.subplots(2, 1, sharex=True)
    identifiers.set_title("identifiers that later calls need")
    _draw_shares(identifiers, rows, CONTEXTS, theme, budgets=(0.25, 0.5), key="bound")
    rules.set_title("rules in the middle of the conversation")
    _draw_shares(rules, rows, CONTEXTS, theme, budgets=(0.25, 0.5), key="rules middle")
    rules.set_xlabel(
        "still there, %, with 95 % interval: at a quarter\nof the tokens (color), at half of them (gray);\n"
        "* the context has more tokens than that"
    )


def coding(figure: Figure, theme: Theme) -> None:
    """Draw what is left of the identifiers that later commands of coding runs need, at a quarter and at a tenth."""
    axes = figure.subplots()
    _draw_shares(axes, read("coding_runs")["rows"], CODING, theme, budgets=(0.25, 0.1), key="bound")
    axes.set_xlabel(
        "identifiers still there, %, with 95 % interval:\nat a quarter of 25,600 tokens (color), at a tenth (gray)"
    )


def _draw_shares(
    axes: Axes, rows: Sequence[Row], names: Mapping[str, str], theme: Theme, *, budgets: tuple[float, float], key: str
) -> None:
    """Draw a row for each context, with two dots: at the first budget in its color, at the second in gray."""
    by = {(names[row["policy"]], row["budget"]): row for row in rows if row["policy"] in names}
    for at, name in enumerate(names.values()):
        color = theme.ours if name in OURS else theme.others
        text: list[str] = []
        for budget, drawn, shift in zip(budgets, (color, theme.muted), (-0.16, 0.16), strict=True):
            row = by[name, budget]
            share = 100 * (row["rules"][key.removeprefix("rules ")] if key.startswith("rules") else row[key])
            axes.plot([100 * edge for edge in row["ci95"][key]], [at + shift] * 2, color=drawn, linewidth=1.6)
            axes.plot([share], [at + shift], "o", color=drawn, markersize=5)
            text.append(f"{share:.0f}{'*' if row['tokens_over_cap'] > OVER else ''}")
        note(axes, at, " / ".join(text), fontsize=9)
    name_rows(axes, list(names.values()), OURS, theme)
    axes.grid(axis="x")
    axes.set_xlim(0, 101)


SYSTEMS = {
    "langchain": "LangChain",
    "langchain, tuned": "LangChain, tuned",
    "deepagents": "deepagents",
    "langmem": "langmem",
    "ours": "ours",
    "ours in deepagents": "ours in deepagents",
}
FAULTS = {
    "nothing fails": "nothing fails",
    "the summarizer raises, every time (F1)": "summarizer raises",
    "the summarizer's key is wrong (F16)": "… its key is wrong",
    "the summarizer answers 429 once (F16)": "… answers 429 once",
    "the summarizer answers 429 every time (F16)": "… answers 429 always",
    "the summary is empty (F2)": "summary is empty",
    "the summary is only thinking (F2)": "… only thinking",
    "the summary is a refusal (F2)": "… a refusal",
    "the summary is a tool call (F2)": "… a tool call",
    "the summary is cut off (F2)": "… cut off",
    "the summary goes on with the chat (F4)": "… goes on with the chat",
    "the summary is longer than all it replaces (F3)": "… too long to help",
    "every summary repeats its input (F25)": "… repeats its input",
    "every summary is 40,000 tokens (F10)": "… has 40,000 tokens",
    "the user gave rules, the summarizer forgets them (F24)": "… forgets the rules",
    "three windows of history at once (F5)": "three windows of history",
    "one result is larger than the window (F7)": "huge tool result",
    "one question is larger than the window (F7)": "huge question",
    "the window is not known (F20)": "window not known",
}
"""The scenarios of the chart, as it names them: all kinds of failure of a summarizer, and where others do better."""


def faults(figure: Figure, theme: Theme) -> None:
    """Draw the facts in the last request of each system under each fault, and mark where a turn got no answer."""
    rows = read("faults")["rows"]
    by = {(row["scenario"], row["system"]): row for row in rows}
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    lines = [(name, [by[scenario, system] for system in SYSTEMS]) for scenario, name in FAULTS.items()]
    lines.append((f"all {len(scenarios)} scenarios", [_sum(rows, system) for system in SYSTEMS]))
    axes = figure.subplots()
    shares = [[row["needles"] / row["needles_of"] if row["turns"] else 0 for row in cells] for _, cells in lines]
    colors = LinearSegmentedColormap.from_list("kept", [theme.none, theme.ours])
    axes.pcolormesh(shares, cmap=colors, vmin=0, vmax=1, edgecolors=theme.grid, linewidth=0.6)
    for at, (_, cells) in enumerate(lines):
        for column, row in enumerate(cells):
            color = text_on(colors(shares[at][column]))
            axes.text(column + 0.5, at + 0.5, _cell(row), ha="center", va="center", fontsize=9, color=color)
    axes.set_yticks([at + 0.5 for at in range(len(lines))], [name for name, _ in lines])
    axes.set_ylim(len(lines), 0)
    axes.xaxis.tick_top()
    axes.set_xticks([column + 0.5 for column in range(len(SYSTEMS))], list(SYSTEMS.values()))
    for label in axes.get_xticklabels():
        color = theme.ours if label.get_text().startswith("ours") else theme.text
        label.set(rotation=50, rotation_mode="anchor", ha="left", va="center", color=color)
    axes.set_xlabel(
        "planted facts in the last request, %\n× some turns got no answer\n– not built, or does not apply"
    )
    axes.spines[:].set_visible(False)


def _sum(rows: Sequence[Row], system: str) -> Row:
    names = ("needles", "needles_of", "answered", "turns")
    return {name: sum(row[name] for row in rows if row["system"] == system) for name in names}


def _cell(row: Row) -> str:
    if not row["turns"]:
        return "–"
    return f"{100 * row['needles'] / row['needles_of']:.0f}{'×' if row['answered'] < row['turns'] else ''}"


SAVERS: Mapping[str, tuple[str, str]] = {
    "SqliteSaver": ("others", "-"),
    "PostgresSaver": ("others", "--"),
    "SqliteSaver, DeltaChannel(50)": ("delta", "-"),
    "PostgresSaver, DeltaChannel(50)": ("delta", "--"),
    "SQLAlchemySaver, SQLite": ("ours", "-"),
    "SQLAlchemySaver, PostgreSQL": ("ours", "--"),
    "SQLAlchemySaver, MariaDB": ("ours", ":"),
}
"""The color and the line of each saver; ours is `SQLAlchemySaver`."""
CALLS = {
    "bytes": "stored, MB",
    "put_last_ms": "put, ms",
    "get_ms": "get_state, ms",
    "history20_ms": "newest 20 states, ms",
}


def savers(figure: Figure, theme: Theme) -> None:
    """Draw what each saver stores and how long its calls take, by the length of the thread."""
    rows = read("checkpoints")["rows"]
    for axes, (field, title) in zip(figure.subplots(2, 2, sharex=True).flat, CALLS.items(), strict=True):
        for saver, (color, style) in SAVERS.items():
            own = sorted((row for row in rows if row["saver"] == saver), key=lambda row: row["turns"])
            values = [row[field] / (1e6 if field == "bytes" else 1) for row in own]
            axes.loglog(
                [row["turns"] for row in own],
                values,
                color=getattr(theme, color),
                linestyle=style,
                marker="o",
                markersize=2.5,
                label=saver.replace("SQLAlchemySaver", "ours").replace("Channel(50)", ""),
            )
        axes.set_title(title, fontsize=9.5)
        axes.grid(visible=True)
        axes.set_xticks([10, 100, 1_000], ["10", "100", "1,000"])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axes in figure.axes[2:]:
        axes.set_xlabel("turns of the thread")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=2, fontsize=9, frameon=False, columnspacing=1)


WAITS = {
    "ours, LangGraph server": "ours, server",
    "ours, `selective`": "ours, selective",
    "ours, middleware": "ours, middleware",
    "ours, SQLite": "ours, SQLite",
    "ours, PostgreSQL": "ours, PostgreSQL",
    "ours, `faithful`": "ours, faithful",
    "langmem": "langmem",
    "LangChain's `SummarizationMiddleware`": "LangChain",
    "deepagents": "deepagents",
    "ours, `summary_ahead=False`": "ours, not prepared",
}


def waiting(figure: Figure, theme: Theme) -> None:
    """Draw how much longer each turn with a compaction takes, relative to the time that the summarizer needs."""
    found, axes = read("wait"), figure.subplots()
    ours = {name for name in WAITS.values() if name.startswith("ours")}
    for at, (key, name) in enumerate(WAITS.items()):
        waits = [100 * added / found["summary_s"] for added in found[key]["added_s"]]
        color = theme.ours if name in ours else theme.others
        axes.plot([min(waits), max(waits)], [at, at], color=color, linewidth=1.6)
        axes.plot(waits, [at] * len(waits), "o", color=color, markersize=4, alpha=0.35, markeredgewidth=0)
        note(axes, at, f"{median(waits):.1f} / {max(waits):.1f}", fontsize=9)
    name_rows(axes, list(WAITS.values()), ours, theme)
    axes.set_xlim(-2, 106)
    axes.grid(axis="x")
    axes.set_xlabel(
        f"added wait of a compacting turn, % of the {found['summary_s']:g} s\n"
        "that a summary takes; at the right median / longest"
    )


def bill(figure: Figure, theme: Theme) -> None:
    """Draw what 400 turns cost in three windows, and which share of the user's rules the last request shows."""
    rows = read("bill")
    windows = sorted({row["window"] for row in rows})
    by = {window: sorted((r for r in rows if r["window"] == window), key=_cost) for window in windows}
    heights = [len(by[window]) for window in windows]
    panels = figure.subplots(len(windows), 1, sharex=True, height_ratios=heights)
    for axes, window in zip(panels, windows, strict=True):
        names = [_biller(row["system"]) for row in by[window]]
        ours = {name for name, row in zip(names, by[window], strict=True) if row["system"].startswith(("s", "f"))}
        for at, (name, row) in enumerate(zip(names, by[window], strict=True)):
            color = theme.ours if name in ours else theme.muted if row["system"] == "none" else theme.others
            axes.barh(at, _cost(row), color=color, height=0.62)
            note(axes, at, f"${_cost(row):.2f}, {row['rules_in_last_request'] / row['turns']:.0%}", fontsize=9)
        name_rows(axes, names, ours, theme)
        axes.set_title(f"window of {window:,} tokens", fontsize=9.5)
        axes.grid(axis="x")
    axes.set_xlabel("dollars of 400 turns (claude-sonnet-4-6);\nthen the share of the 400 rules in the last request")


def _cost(row: Row) -> float:
    return float(row["claude-sonnet-4-6"])


def _biller(system: str) -> str:
    """Return a system's name for the chart; ours with the trigger in thousands of tokens."""
    if system == "none":
        return "no compaction"
    shorter = re.sub(r", trigger_tokens=(\d+)000$", r", from \1k", system)
    return f"ours, {shorter}" if system.startswith(("selective", "faithful")) else shorter


def course(figure: Figure, theme: Theme) -> None:
    """Draw what the model gets beside all that was said, request by request, in the demonstration."""
    rows: list[Row] = read("course")
    requests, said, sent = ([row[name] for row in rows] for name in ("request", "said", "sent"))
    axes = figure.subplots()
    axes.plot(requests, said, color=theme.muted, linewidth=2)
    axes.plot(requests, sent, color=theme.ours, linewidth=1.6)
    axes.fill_between(requests, sent, color=theme.ours, alpha=0.15, linewidth=0)
    axes.axhline(WINDOW, color=theme.bad, linewidth=1, linestyle="--")
    axes.text(
        0.6 * requests[-1], 0.72 * said[-1], "the chat:\nstays whole", color=theme.muted, ha="right", weight="bold"
    )
    axes.text(22, WINDOW * 1.15, f"the window: {WINDOW:,}", color=theme.bad, fontsize=9)
    axes.text(requests[-1], WINDOW * 1.25, "what the model gets", color=theme.ours, ha="right", weight="bold")
    axes.set_yticks(range(0, 350_001, 50_000), [f"{tokens:,}" for tokens in range(0, 350_001, 50_000)])
    axes.set(xlabel="request", title="tokens", xlim=(1, requests[-1]), ylim=(0, 350_000))
    axes.grid(axis="y")


CHARTS: Mapping[str, tuple[Draw, float]] = {
    "course": (course, 3.0),
    "survival": (survival, 7.4),
    "coding": (coding, 3.9),
    "faults": (faults, 6.6),
    "savers": (savers, 5.6),
    "waiting": (waiting, 3.7),
    "bill": (bill, 5.2),
}
"""What draws each chart, and its height in inches, by its name."""


def main() -> None:
    """Write all charts."""
    FOLDER.mkdir(exist_ok=True)
    for name, (draw, height) in CHARTS.items():
        for theme in THEMES:
            path = FOLDER / f"{name}.{theme.name}.svg"
            path.write_text(render(draw, height, theme), encoding="utf-8")
            print(f"{path.relative_to(ROOT)}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
