"""What a notebook shows of a whole thread: the inspector's page, and a chart of the requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from langchain_core.runnables import RunnableConfig

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver
from langgraph_compaction.checkpoint.extras import how_to_install
from langgraph_compaction.nodes import CompactionError, SettingsError
from langgraph_compaction.nodes.runtime.effects import Effects, blocking
from langgraph_compaction.nodes.runtime.window_usage import LOOKS, WindowUsage

from .build_dependencies import dependencies_of
from .builder import Graph
from .chart import Chart, empty_figure
from .exclusive_runs import check_thread, thread_of
from .inspector.page import page
from .inspector.report import Attempt, Report, report_of
from .inspector.thread_data import read
from .preview import previewed_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME = (
    '<iframe title="compactions of a thread" sandbox="allow-scripts" srcdoc="{page}" '
    'style="width:100%;height:640px;border:1px solid #8886;border-radius:8px"></iframe>'
)
"""Scripts of the page have an origin of their own: they cannot reach the notebook."""


@dataclass(frozen=True, repr=False)
class ThreadReport:
    """The inspector's page about a thread, as it was when the report was made. A notebook shows it in a frame."""

    data: Report
    """What `langgraph-compaction inspect --json` prints."""
    html: str = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Write the page to a file, which needs no network; raise `SettingsError` if it cannot be written."""
        try:
            Path(path).write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"{path} cannot be written ({error.strerror})") from error

    def __repr__(self) -> str:
        """Return the numbers of requests, attempts and messages; the page can be long."""
        counts = f"{len(self.data['requests'])} requests, {len(self.data['attempts'])} attempts"
        return f"<ThreadReport {counts}, {len(self.data['transcript'])} messages>"

    def _repr_html_(self) -> str:
        return _FRAME.format(page=escape(self.html))


def thread_report(graph: Graph, config: RunnableConfig) -> Effects[ThreadReport]:
    """Return the inspector's page about a thread; raise `SettingsError` without jinja2."""
    data = yield from _data_of(graph, config)
    try:
        return ThreadReport(data, (yield from blocking(lambda: page(data))))
    except ImportError as error:
        raise SettingsError(f"a report needs {error.name}: {how_to_install('cli')}") from error


def thread_chart(graph: Graph, config: RunnableConfig) -> Effects[Chart]:
    """Return a chart of a thread's requests and attempts, and of what fills the window now.

    Raise `CompactionError` if no request is stored, and `SettingsError` without matplotlib.
    """
    data = yield from _data_of(graph, config)
    if not data["requests"]:
        raise CompactionError(
            "no request of this thread is stored: the graph's checkpointer has to be ours, such as SQLAlchemySaver()"
        )
    preview = yield from previewed_thread(graph, config, None, None)
    return (yield from blocking(lambda: _chart(data, preview.usages[0])))


def _data_of(graph: Graph, config: RunnableConfig) -> Effects[Report]:
    check_thread(graph, config)
    dependencies = dependencies_of(graph, config)
    saver = graph.checkpointer
    stored = saver if isinstance(saver, SQLAlchemySaver | AsyncSQLAlchemySaver) else None
    ours = SQLAlchemySaver(dependencies.records.database, serde=stored.serde if stored else None)
    counter = dependencies.counter_for(dependencies.facts.name)
    return (yield from blocking(lambda: report_of(read(ours, thread_of(config)), counter)))


def _chart(data: Report, usage: WindowUsage) -> Chart:
    figure = empty_figure(7.2, 3.8)
    requests, window = figure.subplots(2, 1, height_ratios=(5, 1))
    _draw_requests(requests, data)
    _draw_window(window, usage)
    return Chart(figure)


def _draw_requests(axes: "Axes", data: Report) -> None:
    requests, commits = data["requests"], [one for one in data["attempts"] if one["kind"] == "committed"]
    undone = [one for one in data["attempts"] if one["kind"] == "undone" and one["row"]["verdict"] != "undone"]
    numbers = range(1, len(requests) + 1)
    axes.plot(numbers, [one["tokens"] for one in requests], marker=".", label="request")
    lines: tuple[tuple[Literal["limit", "trigger"], str], ...] = (("limit", "tab:red"), ("trigger", "tab:orange"))
    for name, color in lines:
        sizes = [size for one in requests if (size := one[name]) is not None]
        if len(sizes) == len(requests):
            axes.step(numbers, sizes, where="mid", color=color, linestyle="--", linewidth=1, label=name)
    for one in commits:
        _draw_fall(axes, one)
    _mark(axes, commits, "v", "tab:green", "compaction")
    _mark(axes, undone, "v", "tab:purple", "undone compaction")
    _mark(axes, [one for one in data["attempts"] if one["kind"] == "failed"], "x", "tab:red", "failed compaction")
    axes.set(xlabel="request", ylabel="tokens", title="Tokens of each request")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(fontsize=8, loc="lower right", ncols=4)


def _draw_fall(axes: "Axes", one: Attempt) -> None:
    at, after = one["at"] + 0.5, one["row"]["tokens_after"]
    axes.annotate(
        "", (at, after), (at, one["row"]["tokens_before"]), arrowprops={"arrowstyle": "->", "color": "tab:green"}
    )


def _mark(axes: "Axes", attempts: Sequence[Attempt], marker: str, color: str, label: str) -> None:
    if attempts:
        places = [one["at"] + 0.5 for one in attempts]
        sizes = [one["row"]["tokens_before"] for one in attempts]
        axes.scatter(places, sizes, marker=marker, color=color, label=label, zorder=3)


def _draw_window(axes: "Axes", usage: WindowUsage) -> None:
    left = 0
    for name, tokens in usage.parts.items():
        axes.barh([0], [tokens], left=left, color=LOOKS[name].color, label=f"{name} {tokens:,}")
        left += tokens
    axes.axvline(usage.trigger, color="tab:orange", linestyle="--", linewidth=1)
    axes.set(
        xlim=(0, usage.whole), yticks=[], title=f"The window now: {usage.tokens:,} tokens of at most {usage.limit:,}"
    )
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.5), ncols=4, frameon=False)
